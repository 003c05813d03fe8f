"""Lines of stdin as they come, without stopping the event loop: a terminal or `tail -f` may be silent for long."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

_READ_BYTES = 64 * 1024
_WAITING_READS = 4


async def stdin_lines() -> AsyncIterator[bytes]:
    """Each line without its line end; the last one may lack it.

    A thread reads, a few chunks ahead at most. It is a daemon, since nothing ends a read from a terminal.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_READS)
    source: Any = sys.stdin.buffer

    def read() -> None:
        data = b"begin"
        while data:
            data = source.read1(_READ_BYTES)
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
