"""The log of a broker's process: one line for one event, and only so many of them that a stranger cannot fill a disk.

Clients, other brokers and znodes decide how often a line is written and what stands in it. So, for every logger:

- Of lines of one kind (the text of the call, before its arguments) about one subject (its first argument: a peer, a path, a group),
  `LINES_OF_SUBJECT` are written in a window of `WINDOW_S`; of one kind in all, `LINES_OF_KIND`. A line with a traceback counts as
  `TRACEBACK_LINES`. What is left out is counted, and the count told when the window is over.
- What is not printable in a line (newlines, escapes of terminals) is escaped, and a line longer than `CHARACTERS_MAX` cut; the lines of
  tracebacks are indented. So nobody writes lines in our name.

Lines for debugging and the trace of state changes are asked for by operators and caused by the controller: they are not limited in number.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Final, NamedTuple, TextIO

WINDOW_S: Final = 60.0
LINES_OF_SUBJECT: Final = 20
LINES_OF_KIND: Final = 500
TRACEBACK_LINES: Final = 10
CHARACTERS_MAX: Final = 4_000

_KINDS_MAX: Final = 1_000
_SUBJECT_CHARACTERS: Final = 200
_FORMAT: Final = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
_UNLIMITED: Final = "kafkalite.state_change"


class LeftOut(NamedTuple):
    """Lines that were not written: how many, and one of them."""

    lines: int
    example: str


@dataclass(slots=True)
class _Lines:
    """The lines of one kind or subject in a window."""

    written: int = 0
    left_out: int = 0
    example: str = ""


class LineLimit:
    """Decides which lines are written. Time comes with the lines. Pure."""

    def __init__(self) -> None:
        self._end_s = 0.0
        self._kinds: dict[str, _Lines] = {}
        self._subjects: dict[tuple[str, str], _Lines] = {}

    def admits(self, record: logging.LogRecord) -> bool:
        """True if this line is to be written; it is counted in either case."""
        kind = record.msg if isinstance(record.msg, str) and len(record.msg) <= _SUBJECT_CHARACTERS else ""
        if kind not in self._kinds and len(self._kinds) >= _KINDS_MAX:
            kind = ""
        of_kind = self._kinds.setdefault(kind, _Lines())
        cost = TRACEBACK_LINES if record.exc_info else 1
        if of_kind.written + cost > LINES_OF_KIND:
            return _leave_out(of_kind, record)
        # At most LINES_OF_KIND subjects of a kind are known by name, because each has written a line.
        of_subject = self._subjects.setdefault((kind, _subject(record)), _Lines())
        if of_subject.written + cost > LINES_OF_SUBJECT:
            return _leave_out(of_subject, record)
        of_kind.written += cost
        of_subject.written += cost
        return True

    def next_window(self, now_s: float) -> list[LeftOut]:
        """Return what was left out in the window that has ended, nothing while it has not."""
        if now_s < self._end_s:
            return []
        self._end_s = now_s + WINDOW_S
        counted = [*self._subjects.values(), *self._kinds.values()]
        self._subjects, self._kinds = {}, {}
        return [LeftOut(each.left_out, each.example) for each in counted if each.left_out]


def _leave_out(lines: _Lines, record: logging.LogRecord) -> bool:
    lines.left_out += 1
    if not lines.example:
        lines.example = one_line(record.getMessage())[:_SUBJECT_CHARACTERS]
    return False


def _subject(record: logging.LogRecord) -> str:
    return str(record.args[0])[:_SUBJECT_CHARACTERS] if isinstance(record.args, tuple) and record.args else ""


def one_line(text: str) -> str:
    """Return the text with all that is not printable escaped as Python does it, cut after CHARACTERS_MAX."""
    if len(text) > CHARACTERS_MAX:
        text = f"{text[:CHARACTERS_MAX]}… ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class _Formatter(logging.Formatter):
    """Lines and tracebacks as the module says; the seconds of their times are written once, for there are thousands of lines at a start."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)
        self._second, self._second_text = -1, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        second = int(record.created)
        if second != self._second:
            self._second, self._second_text = second, time.strftime(self.default_time_format, time.localtime(second))
        return f"{self._second_text},{int(record.msecs):03d}"

    def formatMessage(self, record: logging.LogRecord) -> str:
        return f"[{record.asctime}] {record.levelname} {one_line(record.message)} ({record.name})"

    def formatException(self, ei: object) -> str:
        trace = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(f"  {one_line(line)}" for line in trace.splitlines())


class BrokerLog(logging.StreamHandler[TextIO]):
    """Writes to `stream` what the module says. Records are handed in by any thread, one at a time (`logging.Handler.handle`)."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(_Formatter())
        self._limit = LineLimit()

    def emit(self, record: logging.LogRecord) -> None:
        self._write_left_out(record.created)
        if record.levelno < logging.INFO or record.name == _UNLIMITED or self._limit.admits(record):
            super().emit(record)

    def write_left_out(self, now_s: float) -> None:
        """Write what was left out if a window is over at this time of the system; to be called while no lines come too."""
        self.acquire()
        try:
            self._write_left_out(now_s)
        finally:
            self.release()

    def _write_left_out(self, now_s: float) -> None:
        for lines, example in self._limit.next_window(now_s):
            message, arguments = "%d more lines like this one within %d s were left out: %s", (lines, WINDOW_S, example)
            super().emit(logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, arguments, None))
