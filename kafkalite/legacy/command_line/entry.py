"""The start and end of a Kafka-compatible tool: its arguments, its exit status, and what the user sees of an error."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Callable, Sequence

from kafkalite.legacy.command_line.failures import TerseError, ToolError
from kafkalite.standard_streams import standard_streams

_INTERRUPTED = 130


def run_tool(tool: Callable[[Sequence[str]], int], arguments: Sequence[str] | None, prefix: str = "") -> int:
    """Return the exit status of `tool`. Errors are printed behind `prefix`, with their classes, which stand for Java's stack traces.

    A reader of stdout that went away changes nothing, as in Java: the tool does its work and ends with its own status. Words that are
    not UTF-8 are read as Java reads them, with U+FFFD.
    """
    with standard_streams(outlives_reader=True):
        return _status(tool, arguments, prefix)


def _status(tool: Callable[[Sequence[str]], int], arguments: Sequence[str] | None, prefix: str) -> int:
    gc.disable()  # a tenth of the time of a short command; those that run on call `runs_long`
    atexit.register(gc.freeze)  # another tenth: memory that goes with the process need not be searched for garbage
    try:
        words = sys.argv[1:] if arguments is None else arguments
        status = tool([each.encode(errors="surrogateescape").decode(errors="replace") for each in words])
        sys.stdout.flush()
        return status
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except ToolError as problem:
        sys.stdout.flush()
        print_failure(problem, prefix)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED


def runs_long() -> None:
    """Turn garbage collection on again, for work that may take long."""
    gc.enable()


def log(level: str, message: str, logger: str, thrown: object = None) -> None:
    """Print a line on stderr as Kafka's tools log it. `logger` is the name of the Java class, `thrown` follows on lines of its own."""
    from datetime import datetime

    now = datetime.now()
    print(f"[{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}] {level} {message} ({logger})", file=sys.stderr)
    if thrown is not None:
        print(thrown, file=sys.stderr)


def print_failure(problem: ToolError, prefix: str = "") -> None:
    """Print an error on stderr."""
    shown = problem.of_future()
    print(f"{prefix}{'null' if shown.message is None else shown.message}", file=sys.stderr)
    if not isinstance(shown, TerseError):
        print(shown, file=sys.stderr)
        if shown.cause is not None:
            print(f"Caused by: {shown.cause}", file=sys.stderr)
