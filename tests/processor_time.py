"""What a run of the tests costs in processor time, file by file: `--cpu-by-file` prints the dearest 20.

The time of this process and of all below it is read whenever the tests of a file have ended: what several files share (a cluster, a
session of Spark) is charged to each for what it does meanwhile. It is read from /proc, so only on Linux.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

LINES: Final = 20
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu-by-file", action="store_true", help=f"print the {LINES} files that cost most processor time"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cpu-by-file"):
        config.pluginmanager.register(_ProcessorTime(), "processor-time")


def processor_s(root: int) -> float:
    """Seconds, of user and system, that a process and its descendants took, with those that have ended and were waited for.

    What lost its parent is not found any more.
    """
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        pid = int(entry.name)
        seconds[pid] = sum(map(int, fields[11:15])) / _TICKS_PER_S
        children.setdefault(int(fields[1]), []).append(pid)
    total, open_ends = 0.0, [root]
    while open_ends:
        pid = open_ends.pop()
        total += seconds.get(pid, 0.0)
        open_ends += children.get(pid, [])
    return total


def worked_s(pid: int) -> float:
    """Seconds of one process alone, ended threads included, by its clock (clock_getcpuclockid): to the nanosecond."""
    return time.clock_gettime((~pid << 3) | 2)


class _ProcessorTime:
    """Sums by file; a worker of xdist hands its sums to the process that prints."""

    def __init__(self) -> None:
        self._by_file: Counter[str] = Counter()
        self._known_s = 0.0

    def _charge(self, to: str) -> None:
        now_s = processor_s(os.getpid())
        # Less than before, when a descendant lost its parent.
        self._by_file[to] += max(now_s - self._known_s, 0.0)
        self._known_s = now_s

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        self._charge("(imports and collection)")
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        outcome = yield
        if nextitem is None or nextitem.path != item.path:
            self._charge(item.nodeid.partition("::")[0])
        return outcome

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["processor_s_by_file"] = dict(self._by_file)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._by_file.update(getattr(node, "workeroutput", {}).get("processor_s_by_file", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"{LINES} dearest files, of {self._by_file.total():.0f} s of processor time")
        for file, seconds in self._by_file.most_common(LINES):
            terminalreporter.line(f"{seconds:8.1f}s {file}")
