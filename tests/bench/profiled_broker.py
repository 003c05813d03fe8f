"""A broker under cProfile: `python -m tests.bench.profiled_broker FOLDER --config PROPERTIES`, and what it spent its time on.

At SIGUSR2 it writes what its main thread, the event loop, did since its start or the signal before, to `FOLDER/<pid>-<n>.pstats`, and which
objects it has to the `.json` beside it, after a collection of all garbage. The threads of the ZooKeeper client are not in the profile;
`other_threads_s` says what all of them took.
"""

from __future__ import annotations

import cProfile
import gc
import io
import itertools
import json
import os
import pstats
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkalite.cli.main import main
from kafkalite.local.broker_process import BrokerProcess, wait_until

_TIMEOUT_S: Final = 120.0
_MOST: Final = 15
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """Seconds in a function itself, and with what it calls."""

    function: str
    calls: int
    own_s: float
    together_s: float


@dataclass(frozen=True)
class Profile:
    """What a broker did since the profile before, and what it has."""

    functions: list[Spent]
    """Those with most time of their own, the most expensive one first."""

    other_threads_s: float
    garbage: int
    """Objects that were nothing but garbage, in cycles."""

    objects: int
    """Objects that the garbage collector knows: containers, and instances without slots."""

    types: dict[str, int]
    """The most frequent ones among them."""


def command(folder: Path) -> tuple[str, ...]:
    """Return the command of a broker, to which the path of its properties file is appended."""
    return (sys.executable, "-m", "tests.bench.profiled_broker", str(folder), "--config")


class Profiles:
    """The profiles of brokers that run by `command(folder)`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken: dict[int, int] = {}
        self._others_s: dict[int, float] = {}

    def take(self, broker: BrokerProcess) -> Profile:
        """Let a broker write its profile, and return it. Raises BrokerDied, TimeoutError."""
        pid = broker.pid
        self._taken[pid] = number = self._taken.get(pid, 0) + 1
        path = self._folder / f"{pid}-{number}.pstats"
        os.kill(pid, signal.SIGUSR2)
        wait_until(path.exists, f"a profile of broker {broker.id}", _TIMEOUT_S)
        before_s, self._others_s[pid] = self._others_s.get(pid, 0.0), other_threads_s(pid)
        functions = most_expensive(pstats.Stats(str(path), stream=io.StringIO()), _MOST)
        return Profile(functions, self._others_s[pid] - before_s, **json.loads(path.with_suffix(".json").read_text()))


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


def known_objects() -> dict[str, Any]:
    """Collect all garbage, and return how much it was and what is left."""
    garbage = gc.collect()
    types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    return {"garbage": garbage, "objects": types.total(), "types": dict(types.most_common(_MOST))}


def profile(folder: Path) -> None:
    """Begin to profile this thread, until the process ends."""
    profiler, numbers = cProfile.Profile(), itertools.count(1)

    def write(*_: object) -> None:
        profiler.disable()
        path = folder / f"{os.getpid()}-{next(numbers)}.pstats"
        path.with_suffix(".json").write_text(json.dumps(known_objects()))
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
