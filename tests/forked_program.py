"""A program in a forked child: it ends as an interpreter ends, which only is not taken apart, since that costs more than most commands."""

from __future__ import annotations

import atexit
import io
import os
import random
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn


def become(name: str, arguments: Sequence[str], folder: str, streams: Sequence[int]) -> None:
    """Streams, arguments and working directory of its own; `streams` are the descriptors of stdin, stdout and stderr."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8")
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), encoding="utf-8", write_through=True)
    os.chdir(folder)
    random.seed()  # else every call draws what the others drew
    sys.argv = [name, *arguments]


def end_with(main: Callable[[], object]) -> NoReturn:
    """Run it, and end with its status; a traceback is printed."""
    status = _status_of(main)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = status or 120  # as the interpreter has it
    os._exit(status)


def _status_of(main: Callable[[], object]) -> int:
    try:
        left: object = main()
    except SystemExit as leaving:
        left = leaving.code
    except BaseException:
        traceback.print_exc()
        return 1
    if left is None or isinstance(left, int):
        return int(left or 0) & 0xFF
    print(left, file=sys.stderr)
    return 1
