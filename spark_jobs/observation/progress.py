"""How far a run's reading is: offsets read, rate and time left, on a terminal as a line that changes, in a log as a line now and then.

What is said is pure (`describe_progress`); a thread of the driver says it while Spark works.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO

TERMINAL_INTERVAL_S: Final = 1.0
LOG_INTERVAL_S: Final = 30.0
OFFSETS: Final = "offsets"
_ERASE_LINE: Final = "\r\x1b[2K"
_STOP_S: Final = 5.0


def describe_progress(what: str, total: int, done: int, kept: int, elapsed_s: float, unit: str = OFFSETS) -> str:
    """Return a line about `done` of `total` offsets; `kept` of them were read by an earlier run, and not in the time elapsed."""
    share = f"{100 * done // total} %" if total else "100 %"
    line = f"{what}: {done:,} of {total:,} {unit} ({share})"
    rate = (done - kept) / elapsed_s if elapsed_s > 0 else 0.0
    if rate <= 0:
        return line
    return f"{line}, {rate:,.0f}/s, about {describe_duration((total - done) / rate)} left"


def describe_end(what: str, read: int, elapsed_s: float, unit: str = OFFSETS) -> str:
    """Return a line about reading that has ended."""
    rate = f", {read / elapsed_s:,.0f}/s" if elapsed_s > 0 else ""
    return f"{what}: {read:,} {unit} read in {describe_duration(elapsed_s)}{rate}"


def describe_duration(seconds: float) -> str:
    """Return a time with its two largest units, such as "3 min 7 s"."""
    left = round(seconds)
    if left < 60:
        return f"{left} s"
    if left < 3600:
        return f"{left // 60} min {left % 60} s"
    hours, minutes = divmod(round(left / 60), 60)
    return f"{hours} h {minutes} min"


class Course:
    """The course of one reading: how many offsets (or of another `unit`) of `total` are done, `kept` of them by an earlier run."""

    def __init__(self, what: str, total: int, kept: int = 0, unit: str = OFFSETS) -> None:
        self.what, self.total, self.kept, self.unit = what, total, kept, unit
        self._done = kept
        self._look: Callable[[], int] | None = None

    @property
    def done(self) -> int:
        """The offsets of all that is done, and of what is at work."""
        look = self._look
        return min(self._done + (look() if look is not None else 0), self.total)

    def add_done(self, offsets: int) -> None:
        """Count a part that is done."""
        self._done += offsets

    @contextmanager
    def reading(self, look: Callable[[], int]) -> Iterator[None]:
        """Count what `look` returns, from any thread, for the part that the block reads; `add_done` counts it afterwards."""
        self._look = look
        try:
            yield
        finally:
            self._look = None


@dataclass(frozen=True, slots=True)
class ProgressBoard:
    """Where progress is told: a line each `interval_s` by `tell`, or on a terminal one line that changes. None tells nothing."""

    tell: Callable[[str], None] | None = None
    terminal: TextIO | None = None
    interval_s: float = LOG_INTERVAL_S
    clock_s: Callable[[], float] = time.monotonic

    @contextmanager
    def watch(self, course: Course) -> Iterator[None]:
        """Tell of a reading while the block runs, and of its rate at the end if it took longer than the interval."""
        if self.tell is None:
            yield
            return
        begun_s, ended = self.clock_s(), threading.Event()
        telling = threading.Thread(target=self._tell_until, args=(course, begun_s, ended), name="progress", daemon=True)
        telling.start()
        try:
            yield
        finally:
            ended.set()
            telling.join(_STOP_S)
            if self.terminal is not None:
                self._write(_ERASE_LINE)
        elapsed_s = self.clock_s() - begun_s
        if elapsed_s >= LOG_INTERVAL_S:
            self.tell(describe_end(course.what, course.done - course.kept, elapsed_s, course.unit))

    def _tell_until(self, course: Course, begun_s: float, ended: threading.Event) -> None:
        while not ended.wait(self.interval_s):
            elapsed_s = self.clock_s() - begun_s
            line = describe_progress(course.what, course.total, course.done, course.kept, elapsed_s, course.unit)
            if self.terminal is not None:
                self._write(_ERASE_LINE + line)
            elif self.tell is not None:
                self.tell(line)

    def _write(self, text: str) -> None:
        if self.terminal is not None:
            self.terminal.write(text)
            self.terminal.flush()


def open_board(tell: Callable[[str], None], stream: TextIO | None = None) -> ProgressBoard:
    """Return the board for a program whose notes go to `stream`, by default stderr."""
    stream = stream if stream is not None else sys.stderr
    if stream.isatty():
        return ProgressBoard(tell, stream, TERMINAL_INTERVAL_S)
    return ProgressBoard(tell)
