"""Standard streams that are closed (cron, supervisors), on a full disk, or with a reader that went away.

- A descriptor below 3 that is closed is opened on /dev/null before anything else is opened: a socket or a log would get its number, and
  libuv aborts the process (SIGABRT) when it is asked to close such a socket.
- Data that stdout does not take is an `OutputError`, which ends the program with one line on stderr and a status that is not 0.
- A reader of stdout that went away (`| head`) ends the program with status 0, or, for programs that finish their work as Java does, drops
  what is written from then on.
- What stderr does not take is dropped: there is no place left to say so.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

_STDOUT = 1
_STDERR = 2


class OutputError(Exception):
    """Raised when stdout does not take what is written to it. The message says so."""


class ReaderLeft(Exception):
    """Raised when the reader of stdout went away."""


@contextmanager
def standard_streams(*, outlives_reader: bool = False) -> Iterator[None]:
    """Run a program with standard streams that are open, and with stdout flushed at its end.

    With `outlives_reader` a reader of stdout that went away does not end the program: see `is_reader_gone`. Raises SystemExit when
    stdout could not be written.
    """
    prepare_streams(outlives_reader=outlives_reader)
    try:
        yield
        sys.stdout.flush()
    except (OutputError, ReaderLeft) as problem:
        _exit_after(problem, 0)
    except SystemExit as ended:
        try:
            sys.stdout.flush()
        except (OutputError, ReaderLeft) as problem:
            _exit_after(problem, ended.code)
        raise


def _exit_after(problem: OutputError | ReaderLeft, status: str | int | None) -> NoReturn:
    if isinstance(problem, OutputError):
        print(f"Error: {problem}", file=sys.stderr)
        status = status or 1
    raise SystemExit(status) from None


def prepare_streams(*, outlives_reader: bool = False) -> None:
    """Open what is closed and watch what is written. Streams that a test or a host program put in place are left alone."""
    open_missing_descriptors()
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _watch_stream(sys.stdout, _STDOUT, outlives_reader=outlives_reader)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _watch_stream(sys.stderr, _STDERR, outlives_reader=True)


def open_missing_descriptors() -> None:
    """Open /dev/null for each of the descriptors 0, 1 and 2 that is closed; children inherit it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == number:
                os.set_inheritable(number, True)
            else:
                os.dup2(opened, number)
                os.close(opened)


def is_reader_gone() -> bool:
    """True if the reader of stdout went away, and what is written is dropped."""
    watched = _raw(sys.stdout)
    return watched is not None and watched.is_reader_gone


def tolerate_lost_output() -> None:
    """Drop output that stdout does not take, for a server whose work does not end with that."""
    watched = _raw(sys.stdout)
    if watched is not None:
        watched.tolerates_loss = True


class _WatchedFile(io.FileIO):
    """A standard descriptor whose failures have exceptions of their own, so that they are not taken for those of another file or socket."""

    def __init__(self, descriptor: int, *, outlives_reader: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.name = "<stdout>" if descriptor == _STDOUT else "<stderr>"
        self.tolerates_loss = descriptor == _STDERR
        self.is_reader_gone = False
        self._outlives_reader = outlives_reader
        self._has_failed = False

    def write(self, data: Any, /) -> int:
        if not memoryview(data).nbytes:
            return 0  # by which click finds out what kind of stream this is
        try:
            return super().write(data)
        except BlockingIOError:
            raise
        except OSError as problem:
            is_repeated = self._has_failed
            self._has_failed = not self.tolerates_loss
            if isinstance(problem, BrokenPipeError):
                self.is_reader_gone = True
                if not self._outlives_reader and not self.tolerates_loss and not is_repeated:
                    raise ReaderLeft from None
            elif not self.tolerates_loss and not is_repeated:
                reason = problem.strerror or str(problem)
                raise OutputError(f"cannot write to standard output: {reason}") from None
            return memoryview(data).nbytes  # dropped


def _watch_stream(stream: TextIO | None, descriptor: int, *, outlives_reader: bool) -> TextIO:
    file = _WatchedFile(descriptor, outlives_reader=outlives_reader)
    if not isinstance(stream, io.TextIOWrapper):  # it was closed
        return io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", errors="backslashreplace")
    stream.flush()
    is_unbuffered = isinstance(stream.buffer, io.RawIOBase)
    return io.TextIOWrapper(
        file if is_unbuffered else io.BufferedWriter(file),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _raw(stream: TextIO | None) -> _WatchedFile | None:
    """Return the watched file behind a stream; None for another stream."""
    buffer = getattr(stream, "buffer", None)
    file = getattr(buffer, "raw", buffer)
    return file if isinstance(file, _WatchedFile) else None
