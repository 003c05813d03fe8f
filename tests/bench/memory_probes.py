"""What is read of a broker's memory: of ours by a signal, of Apache Kafka by the tools of its Java machine; and the system's limits."""

from __future__ import annotations

import itertools
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Final, Protocol

import click

from kafkalite.local.broker_process import BrokerProcess
from tests.bench.memory_figures import Limits, Weight, parse_histogram
from tests.bench.weighed_broker import ask_weight

_TIMEOUT_S: Final = 600.0
_SYSTEM_MAX: Final = Path("/proc/sys/fs/nr_open")
_MAPS_MAX: Final = Path("/proc/sys/vm/max_map_count")


class Scale(Protocol):
    """Something that weighs one broker. Raises BrokerDied, TimeoutError."""

    def weigh(self) -> Weight: ...


class OurScale:
    """Weighs a broker that runs by `weighed_broker.command(folder)`, after a collection of all garbage."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker, self._folder = broker, folder
        self._numbers = itertools.count(1)

    def weigh(self) -> Weight:
        found = ask_weight(self._broker, self._folder, next(self._numbers))
        return Weight(found["resident"], found["live"], found["types"])


class JavaScale:
    """Weighs a broker on a Java machine: the objects that are left by a full collection, and what is in RAM then."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker

    def weigh(self) -> Weight:
        self._run("GC.run")
        live, types = parse_histogram(self._run("GC.class_histogram"))
        return Weight(self._broker.resident_bytes(), live, types)

    def _run(self, command: str) -> str:
        """Return what the Java machine answers. Raises RuntimeError with what it says instead."""
        done = subprocess.run(
            [find_jcmd(), str(self._broker.pid), command], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        if done.returncode:
            raise RuntimeError(f"jcmd {command} failed with status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout


def find_jcmd() -> str:
    """Return the path of jcmd. Raises ClickException where there is none."""
    found = shutil.which("jcmd")
    if found is None:
        raise click.ClickException("jcmd is not installed; it comes with a JDK (openjdk-17-jdk-headless)")
    return found


def raise_limits() -> Limits:
    """Raise this process's limit of file descriptors, which brokers inherit, as far as the system allows; return the limits then."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (int(_SYSTEM_MAX.read_text()), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            break
        except (ValueError, OSError):  # only root may raise the hard limit
            continue
    return Limits(resource.getrlimit(resource.RLIMIT_NOFILE)[0], int(_MAPS_MAX.read_text()))
