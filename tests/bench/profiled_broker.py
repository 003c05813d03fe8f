"""A broker under cProfile: `python -m tests.bench.profiled_broker FOLDER --config PROPERTIES`, and what it spent its time on.

At SIGUSR2 it writes what its main thread, the event loop, did since its start or the signal before, to `FOLDER/<pid>-<n>.pstats`. The
threads of the ZooKeeper client are not in it; `other_threads_s` says what all of them took.
"""

from __future__ import annotations

import cProfile
import io
import itertools
import os
import pstats
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.cli.main import main
from kafkalite.local.broker_process import BrokerProcess, wait_until

_TIMEOUT_S: Final = 120.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """Seconds in a function itself, and with what it calls."""

    function: str
    calls: int
    own_s: float
    together_s: float


def command(folder: Path) -> tuple[str, ...]:
    """Return the command of a broker, to which the path of its properties file is appended."""
    return (sys.executable, "-m", "tests.bench.profiled_broker", str(folder), "--config")


class Profiles:
    """The profiles of brokers that run by `command(folder)`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: dict[int, itertools.count[int]] = {}
        self._others_s: dict[int, float] = {}

    def take(self, broker: BrokerProcess, most: int = 15) -> tuple[list[Spent], float]:
        """Return the functions in which a broker spent most time of its own since the last call, and the seconds of its other threads."""
        pid = broker.pid
        path = self._folder / f"{pid}-{next(self._taken.setdefault(pid, itertools.count(1)))}.pstats"
        os.kill(pid, signal.SIGUSR2)
        wait_until(path.exists, f"a profile of broker {broker.id}", _TIMEOUT_S)
        before_s, self._others_s[pid] = self._others_s.get(pid, 0.0), other_threads_s(pid)
        return most_expensive(pstats.Stats(str(path), stream=io.StringIO()), most), self._others_s[pid] - before_s


def most_expensive(stats: pstats.Stats, most: int) -> list[Spent]:
    """Return the functions with most time of their own, the most expensive one first."""
    found = [
        Spent(_name_of(*place), calls, own_s, together_s)
        for place, (_, calls, own_s, together_s, _) in stats.stats.items()  # type: ignore[attr-defined]
    ]
    return sorted(found, key=lambda each: -each.own_s)[:most]


def _name_of(file: str, line: int, function: str) -> str:
    """Return a function as `kafkalite/broker/app.py:12 start`; built-in ones have no file."""
    parts = Path(file).parts
    roots = [place for place, part in enumerate(parts) if part in ("kafkalite", "zk", "site-packages")]
    return f"{'/'.join(parts[roots[-1] :])}:{line} {function}" if roots else function


def other_threads_s(pid: int) -> float:
    """Return the processor time of all threads of a process that live, but for the main one."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if int(task.name) != pid:
            total += sum(map(int, (task / "stat").read_text().rpartition(")")[2].split()[11:13]))
    return total / _TICKS_PER_S


def profile(folder: Path) -> None:
    """Begin to profile this thread, until the process ends."""
    profiler, numbers = cProfile.Profile(), itertools.count(1)

    def write(*_: object) -> None:
        profiler.disable()
        path = folder / f"{os.getpid()}-{next(numbers)}.pstats"
        profiler.dump_stats(path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
        profiler.clear()
        profiler.enable()

    signal.signal(signal.SIGUSR2, write)
    profiler.enable()


def run(arguments: Sequence[str]) -> None:
    profile(Path(arguments[0]))
    sys.argv[1:] = ["broker", *arguments[1:]]
    main()


if __name__ == "__main__":
    run(sys.argv[1:])
