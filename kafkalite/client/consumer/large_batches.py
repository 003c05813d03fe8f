"""Batches that would hold the event loop are opened by another thread, one at a time: a few hundred bytes may stand for 100 MiB.

`FetchBuffer` opens what becomes at most `fetch_buffer.AT_ONCE_BYTES` by itself and names what would become more as `deferred`. Until
that is open its partition has nothing to read, as if the batch had not arrived yet; other partitions go on. The thread works without
the interpreter's lock or holds it for some milliseconds at a time (`protocol/record_batches/compression`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kafkalite.client.consumer.fetch_buffer import Chunk, FetchBuffer, OpenedBatch


class LargeBatches:
    """`buffer` has batches to be opened; `on_open()` is called when a batch can be read, or cannot and says so when it is its turn."""

    def __init__(self, buffer: FetchBuffer, on_open: Callable[[], None]) -> None:
        self._buffer, self._on_open = buffer, on_open
        self._opening: asyncio.Future[OpenedBatch] | None = None

    def open_deferred(self) -> None:
        """Begin to open what the buffer has deferred, unless another batch is being opened."""
        chunk = self._buffer.deferred
        if chunk is not None and self._opening is None:
            self._opening = asyncio.get_running_loop().run_in_executor(None, chunk.open_deferred)
            self._opening.add_done_callback(lambda done: self._finish_opening(chunk, done))

    def _finish_opening(self, chunk: Chunk, done: asyncio.Future[OpenedBatch]) -> None:
        self._opening = None
        if self._buffer.deferred is chunk:
            self._buffer.deferred = None
        if not done.cancelled():
            problem = done.exception()
            chunk.finish_opening(done.result() if problem is None else problem)
            self._on_open()

    async def close(self) -> None:
        """Wait for the thread, which cannot be stopped."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
