"""The largest memory that each process below a program ever had, by what it is: VmHWM of /proc, looked at several times a second."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DRIVER: Final = "driver"
JVM: Final = "JVM"
WORKER: Final = "Python worker"
OTHER: Final = "other"
_INTERVAL_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Process:
    """A process as /proc has it."""

    pid: int
    parent: int
    command: tuple[str, ...]
    peak_bytes: int


@dataclass(slots=True)
class Peaks:
    """By role: the largest peak of one process, and how many processes had that role."""

    peak_bytes: dict[str, int] = field(default_factory=dict)
    pids: dict[str, set[int]] = field(default_factory=dict)

    def add(self, role: str, process: Process) -> None:
        """Note a process as it is now."""
        self.peak_bytes[role] = max(process.peak_bytes, self.peak_bytes.get(role, 0))
        self.pids.setdefault(role, set()).add(process.pid)


def read_process(pid: int, proc: Path = Path("/proc")) -> Process | None:
    """Return a process; None when it has ended or is a zombie."""
    try:
        status = (proc / str(pid) / "status").read_text()
        command = (proc / str(pid) / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
    except OSError:
        return None
    found = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "VmHWM" not in found:
        return None
    return Process(pid, int(found["PPid"]), tuple(command), int(found["VmHWM"].split()[0]) * 1024)


def read_processes(proc: Path = Path("/proc")) -> list[Process]:
    """Return all processes."""
    numbers = [int(each.name) for each in proc.iterdir() if each.name.isdigit()]
    return [found for pid in numbers if (found := read_process(pid, proc)) is not None]


def find_tree(processes: Iterable[Process], root: int) -> list[Process]:
    """Return the process `root`, if it is there, and all below it."""
    by_parent: dict[int, list[Process]] = {}
    found = []
    for each in processes:
        by_parent.setdefault(each.parent, []).append(each)
        if each.pid == root:
            found.append(each)
    waiting = [root]
    while waiting:
        children = by_parent.get(waiting.pop(), [])
        found += children
        waiting += [each.pid for each in children]
    return found


def role_of(process: Process, root: int) -> str:
    """Return what a process of a Spark program is."""
    if process.pid == root:
        return DRIVER
    if Path(process.command[0]).name == "java":
        return JVM
    return WORKER if any("pyspark" in word for word in process.command) else OTHER


def reset_peak(pid: int) -> bool:
    """Reset the peak resident memory of a process (VmHWM); return False where the system refuses."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return False
    return True


@contextmanager
def watch_memory(root: int, others: Mapping[str, int]) -> Iterator[Peaks]:
    """Watch a program and all below it, and `others` by their roles, while the block runs."""
    peaks, ended = Peaks(), threading.Event()

    def look() -> None:
        processes = read_processes()
        for each in find_tree(processes, root):
            peaks.add(role_of(each, root), each)
        by_pid = {each.pid: each for each in processes}
        for role, pid in others.items():
            if pid in by_pid:
                peaks.add(role, by_pid[pid])

    def look_until() -> None:
        while not ended.wait(_INTERVAL_S):
            with contextlib.suppress(OSError):
                look()

    watching = threading.Thread(target=look_until, name="memory")
    watching.start()
    try:
        yield peaks
    finally:
        ended.set()
        watching.join()
        look()
