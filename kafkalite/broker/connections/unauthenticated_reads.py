"""Reads from connections that are not authenticated, from few of them in each turn of the event loop.

A loop reads from every connection that has something to read, so a thousand clients that send at the same time hold it for 50 ms. Here it
reads from an unauthenticated connection only when it is its turn: an epoll of these connections' own, which the loop watches as if it were
one socket, tells which have something, and `AT_ONCE` of those are read from. Linux has them stand in line. What an event loop does between
two polls differs, so a read takes place in either of the two turns that it is given, or in both.

Where there is no epoll, the loop reads from these connections as from all others.
"""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Final, Protocol

AT_ONCE: Final = 2
"""Connections that are read from in two turns of the loop. A read takes 20 to 60 µs, with the task or the line of log that follows."""

READ_BYTES: Final = 1024
"""Bytes that are received at once from a connection that is not authenticated."""


_IS_READABLE: Final = 0x001
_ONCE: Final = 1 << 30
"""EPOLLIN and EPOLLONESHOT."""


class Poll(Protocol):
    """Tells which descriptors have something to read: `select.epoll`, or what stands for it in a simulation."""

    def fileno(self) -> int: ...

    def register(self, fd: int, eventmask: int) -> None: ...

    def modify(self, fd: int, eventmask: int) -> None: ...

    def unregister(self, fd: int) -> None: ...

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]: ...

    def close(self) -> None: ...


_EPOLL: Final[Callable[[], Poll] | None] = select.epoll if sys.platform == "linux" else None


class Readable(Protocol):
    """A source whose reading can be paused: a transport, or an `UnauthenticatedRead` that takes its place."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class UnauthenticatedRead:
    """One connection, which is read from in turns. `pause_reading` and `resume_reading` say whether it wants any.

    Once it is authenticated they are those of its transport.
    """

    def __init__(self, reads: UnauthenticatedReads, transport: asyncio.Transport, descriptor: int) -> None:
        self._reads, self.transport, self.descriptor = reads, transport, descriptor
        self.above: Readable | None = None
        """The encrypted transport, once its handshake is over and the connection is still unauthenticated."""
        self.is_wanted = True
        self.is_over = False

    def pause_reading(self) -> None:
        self._want(False)

    def resume_reading(self) -> None:
        self._want(True)

    def _want(self, is_wanted: bool) -> None:
        above = self.above or (self.transport if self.is_over else None)
        if above is not None:
            (above.resume_reading if is_wanted else above.pause_reading)()
        elif not is_wanted:
            self.transport.pause_reading()  # it may be its turn
        if is_wanted != self.is_wanted:
            self.is_wanted = is_wanted
            self._reads.arm(self)

    def end_turns(self) -> None:
        """Read as from any other connection: it is authenticated, or lost."""
        if not self.is_over:
            self.is_over = True
            self._reads.forget(self)
            if self.is_wanted or self.above is not None:
                self.transport.resume_reading()


class UnauthenticatedReads:
    """Reads from all unauthenticated connections in turns. Without `make_poll` the event loop reads from them as from all others."""

    def __init__(self, make_poll: Callable[[], Poll] | None = _EPOLL) -> None:
        self._make_poll = make_poll
        self._of: dict[int, UnauthenticatedRead] = {}
        """Connections by the descriptors of their sockets."""
        self._ready: Poll | None = None
        """The epoll, once there was a connection."""
        self._reading: list[UnauthenticatedRead] = []

    @property
    def count(self) -> int:
        """Return the number of connections that are read from in turns."""
        return len(self._of)

    def add(self, transport: asyncio.Transport) -> UnauthenticatedRead:
        """Read from a new connection in turns only. An encrypted one goes on as the one below it was read during its handshake."""
        underlying = transport.get_extra_info("socket")
        descriptor = -1 if underlying is None else underlying.fileno()
        is_encrypted = transport.get_extra_info("sslcontext") is not None
        if is_encrypted and descriptor in self._of:
            self._of[descriptor].above = transport
            return self._of[descriptor]
        read = UnauthenticatedRead(self, transport, descriptor)
        if is_encrypted or descriptor < 0 or self._make_poll is None:
            read.is_over = True
        else:
            self._of[descriptor] = read
            asyncio.get_running_loop().call_soon(self._register, read)  # uvloop begins to read after connection_made
        return read

    def _register(self, read: UnauthenticatedRead) -> None:
        if read.is_over or read.transport.is_closing():
            return
        if self._ready is None:
            if self._make_poll is None:
                return
            self._ready = self._make_poll()
            loop = asyncio.get_running_loop()
            # In a context of its own, so that the first connection's is not kept.
            Context().run(loop.add_reader, self._ready.fileno(), self._read_ready)
        read.transport.pause_reading()
        with suppress(FileExistsError):
            self._ready.register(read.descriptor, 0)
        self.arm(read)

    def arm(self, read: UnauthenticatedRead) -> None:
        """Register the connection for one event of the epoll: that it has something to read."""
        if self._ready is not None and not read.is_over:
            with suppress(OSError):  # it is not registered yet, or closed
                self._ready.modify(read.descriptor, (_IS_READABLE if read.is_wanted else 0) | _ONCE)

    def forget(self, read: UnauthenticatedRead) -> None:
        """Read from a connection in turns no more."""
        if self._of.get(read.descriptor) is not read:
            return
        del self._of[read.descriptor]
        if self._ready is not None:
            with suppress(OSError):
                self._ready.unregister(read.descriptor)

    def close(self) -> None:
        """Close the epoll."""
        if self._ready is not None:
            asyncio.get_running_loop().remove_reader(self._ready.fileno())
            self._ready.close()
            self._ready = None

    def _read_ready(self) -> None:
        if self._reading or self._ready is None:
            return
        for descriptor, _ in self._ready.poll(0, AT_ONCE):
            if (read := self._of.get(descriptor)) is not None:
                self._reading.append(read)
                read.transport.resume_reading()
        if self._reading:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._end_turns)

    def _end_turns(self) -> None:
        reading, self._reading = self._reading, []
        for read in reading:
            if not read.is_over:
                read.transport.pause_reading()
                self.arm(read)
        self._read_ready()
