"""The checks of `kafkalite doctor` on this machine: Java, compiled code, files, clock, disk. `judge_…` are pure."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from kafkalite.cli.doctor.findings import Finding, judge_space, ok, problem, skip_check, warning

JAVA_FOR_ZOOKEEPER: Final = 11
"""The oldest version that current releases of ZooKeeper run with; 17 is the one that we install."""
ENOUGH_FILES: Final = 65_536
_FILES_OF_A_CLIENT: Final = 1024
_FILE_REMEDY: Final = "ulimit -n 100000 in the broker's shell, LimitNOFILE=100000 in its systemd unit"
_JAVA_TIMEOUT_S: Final = 20
_TIME_ERROR: Final = 5
"""Result of adjtimex(2) when nothing synchronises the kernel's clock."""


def check_host(directory: Path) -> Iterator[Finding]:
    """Return the findings about this machine that do not depend on a broker's settings."""
    from kafkalite.protocol.record_batches import record_code

    yield judge_java(*java_version())
    yield judge_record_code(record_code.IS_COMPILED, has_been_declined=bool(os.environ.get(record_code.VARIABLE)))
    yield judge_open_files(resource.getrlimit(resource.RLIMIT_NOFILE), _FILES_OF_A_CLIENT)
    yield judge_clock(clock_is_kept())
    usage = shutil.disk_usage(directory)
    yield judge_space("disk", str(directory), usage.free, usage.total)


def java_version(run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> tuple[str | None, int]:
    """Return the `java` that ZooKeeper would be run with, and its major version; None without one, 0 when it is unknown."""
    from zk.servers.server_classes import MissingRequirementError, find_java

    try:
        program = find_java()
        told = run([program, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S)
    except MissingRequirementError:
        return None, 0
    except (OSError, subprocess.SubprocessError):
        return program, 0
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return program, int(match[1]) if match else 0


def judge_java(program: str | None, version: int) -> Finding:
    from zk.servers.java_remedy import java_remedy

    remedy = f"only ZooKeeper needs it; to run one here: {java_remedy()}"
    if program is None:
        return warning("java", "there is no java", remedy)
    if version == 0:
        return warning("java", f"{program} does not tell its version", remedy)
    if version < JAVA_FOR_ZOOKEEPER:
        return warning("java", f"{program} is Java {version}, too old for ZooKeeper", remedy)
    return ok("java", f"Java {version} ({program})")


def judge_record_code(is_compiled: bool, *, has_been_declined: bool) -> Finding:
    """Check that records are read and written by compiled code, which an installation without a C compiler lacks."""
    if is_compiled:
        return ok("records", "compiled code reads and writes them")
    slow = "Python reads and writes them, which takes ten times as long"
    if has_been_declined:
        return warning("records", f"{slow}, as KAFKALITE_PURE_PYTHON says", "unset KAFKALITE_PURE_PYTHON")
    remedy = "install a wheel for this machine, or a C compiler and Python's headers and then kafkalite again"
    return warning("records", slow, remedy)


def judge_open_files(limits: tuple[int, int], needed: int) -> Finding:
    """Check the soft and hard limit of open files, -1 for none, against the needs of a broker on this machine."""
    soft, hard = limits
    if soft == resource.RLIM_INFINITY:
        return ok("open files", "no limit")
    found = f"the limit is {soft}" + (f" (it may be raised to {hard})" if hard > soft else "")
    if soft < needed:
        return problem("open files", f"{found}, and {needed} are needed", _FILE_REMEDY)
    if soft < ENOUGH_FILES:
        return warning(
            "open files", f"{found}, little for a broker: each segment and each connection takes some", _FILE_REMEDY
        )
    return ok("open files", found)


def clock_is_kept() -> bool | None:
    """True if NTP, PTP or the hypervisor synchronises the kernel's clock; None when the kernel does not say."""
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (AttributeError, OSError):
        return None
    state = adjtimex(ctypes.create_string_buffer(256))  # more than any struct timex; all zero: only ask
    return None if state < 0 else state != _TIME_ERROR


def judge_clock(kept: bool | None) -> Finding:
    if kept is None:
        return skip_check("clock", "this system does not say whether its clock is kept right")
    if kept:
        return ok("clock", "it is kept right by a time service")
    return warning(
        "clock",
        "no time service keeps it right",
        "install one, such as chrony: timestamps and retention by time follow the brokers' clocks",
    )


def are_loopback(addresses: Sequence[str]) -> bool:
    """True if there are addresses, and only this machine reaches them."""
    return bool(addresses) and all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in addresses)


def nearest_existing(path: Path) -> Path:
    """Return the directory itself, or the nearest one above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists())


def is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK | os.X_OK)
