"""Lines of stdin, read without blocking the event loop: a terminal or `tail -f` may be silent for long."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

_READ_BYTES = 64 * 1024
_WAITING_READS = 4


class InputError(Exception):
    """Raised when stdin cannot be read. The message says why."""


async def stdin_lines() -> AsyncIterator[bytes]:
    """Yield each line without its line end; the last one may lack it. Raises InputError after the lines that could be read.

    A thread reads, a few chunks ahead at most. It is a daemon, since nothing ends a read from a terminal.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_READS)
    source: Any = sys.stdin.buffer
    failures: list[OSError] = []

    def read() -> None:
        data = b"begin"
        while data:
            try:
                data = source.read1(_READ_BYTES)
            except OSError as problem:
                failures.append(problem)
                data = b""
            putting = chunks.put(data)
            try:
                asyncio.run_coroutine_threadsafe(putting, loop).result()
            except (RuntimeError, concurrent.futures.CancelledError):
                putting.close()
                return  # the command has ended

    threading.Thread(target=read, name="kafkalite-stdin", daemon=True).start()
    rest = b""
    while data := await chunks.get():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest
    if failures:
        raise InputError(f"cannot read standard input: {failures[0].strerror}")
