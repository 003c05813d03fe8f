"""Reading on one connection: paused while a bound is reached, and counted in the memory that requests of all connections take.

Nothing is read while the order of the connection's requests says so (`request_order`), while there is no memory for the request that is
arriving (`request_memory`), and while requests are held and no memory is left at all.
"""

from __future__ import annotations

import asyncio

from kafkalite.broker.connections.request_memory import RequestMemory
from kafkalite.broker.connections.request_order import Phase, RequestOrder
from kafkalite.broker.connections.slow_senders import LEAST_BYTES_PER_SECOND
from kafkalite.broker.connections.unauthenticated_reads import Readable
from kafkalite.net.connection import receive_buffers
from kafkalite.net.frames import FrameReader
from kafkalite.protocol.bounds import SMALL_BYTES

_CLOSED = Phase.CLOSED


class FlowControl:
    """Owns the frames of one connection, and decides by them and by `order` whether more is read.

    A frame may have `max_frame_bytes`; so much is received at once until the frames are widened: `first_bytes`.
    """

    __slots__ = (
        "_counted_bytes",
        "_is_reading",
        "_loop",
        "_memory",
        "_order",
        "_paused_s",
        "_readable",
        "_transport",
        "arriving_since_s",
        "frames",
    )

    def __init__(
        self,
        order: RequestOrder,
        memory: RequestMemory,
        loop: asyncio.AbstractEventLoop,
        max_frame_bytes: int,
        first_bytes: int,
    ) -> None:
        self._order, self._memory, self._loop = order, memory, loop
        self.frames = FrameReader(receive_buffers(loop), max_frame_bytes, self._may_allocate, first_bytes)
        self._counted_bytes = 0
        """Counted in the memory of all connections: what arrives, what is held, what is in progress."""
        self._transport: asyncio.Transport | None = None
        self._readable: Readable | None = None
        self._is_reading = True
        self.arriving_since_s: float | None = None
        """Beginning of the request that is arriving, plus the time in which nothing was read; None while none has begun."""
        self._paused_s = 0.0

    def open(self, transport: asyncio.Transport, readable: Readable) -> None:
        """Pause and resume `readable` from now on: the transport, or what reads from an unauthenticated connection in turns."""
        self._transport, self._readable = transport, readable

    def close(self) -> None:
        """Give back all memory."""
        self._transport = self._readable = None
        self._memory.leave(self)
        self._memory.change(-self._counted_bytes)
        self._counted_bytes = 0
        self.frames.release()

    def read_to_end(self) -> None:
        """Read on whatever the bounds are, because the connection ends: TLS waits for what its client says of the end."""
        if self._readable is not None:
            self._readable.resume_reading()

    def update(self) -> None:
        """Count the memory, and pause or resume reading, after anything that may have changed either."""
        transport, readable, order = self._transport, self._readable, self._order
        if transport is None or readable is None or order.phase is _CLOSED or transport.is_closing():
            return
        bytes_now = self.frames.buffered_bytes + order.held_bytes + order.in_progress_bytes
        if bytes_now != self._counted_bytes:
            memory, difference = self._memory, bytes_now - self._counted_bytes
            self._counted_bytes = bytes_now
            if difference < 0 and memory.is_awaited:
                if not bytes_now:
                    memory.leave(self)
                memory.change(difference)
            else:
                memory.used_bytes += difference
        wanted = order.may_read() and not self.frames.stalled and not (order.held and self._memory.is_short)
        if wanted != self._is_reading:
            self._is_reading = wanted
            if wanted:
                if self.arriving_since_s is not None:
                    self.arriving_since_s += self._loop.time() - self._paused_s
                readable.resume_reading()
            else:
                self._paused_s = self._loop.time()
                readable.pause_reading()

    def _may_allocate(self, size: int) -> bool:
        return size <= SMALL_BYTES or self._memory.grants(self, size)

    def memory_is_back(self) -> bool:
        """Read on, where memory was missing; False if it still is."""
        if self.frames.stalled and self._order.phase is not _CLOSED:
            if not self.frames.go_on():
                return False
            self.update()
        return True

    def is_late(self, now_s: float, timeout_s: float) -> bool:
        """True if all of the request that is arriving should be there, and it is read."""
        if self.arriving_since_s is None or not self._is_reading:
            return False
        return now_s - self.arriving_since_s > timeout_s + self.frames.arriving[1] / LEAST_BYTES_PER_SECOND
