"""Descriptors of a simulated process, and a poll that says which of its connections have something to read, as epoll does.

A descriptor is the lowest that is free, as in a real process, so whoever remembers one for too long meets another connection. A poll has
the parts of epoll that the broker uses: an interest that is armed once (EPOLLONESHOT), errors that ends of connections make
(EEXIST, ENOENT), and a descriptor of its own that the event loop watches for as long as something is ready.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

IS_READABLE: Final = 0x001
_FIRST_DESCRIPTOR: Final = 1 << 30
"""Above all that a real process has, so that code that hands one to the system gets EBADF, and no socket of the process that simulates."""


class Source(Protocol):
    """A connection, as a poll sees it."""

    def has_news(self) -> bool:
        """True if a read would not have to wait."""


class Descriptors:
    """The open descriptors of one process, and the polls that watch them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.polls: list[SimulatedPoll] = []
        self._sources: dict[int, Source | None] = {}
        self._free: list[int] = []
        self._next = _FIRST_DESCRIPTOR

    def open(self, source: Source | None) -> int:
        """Return the descriptor of a new connection, or of a poll (None)."""
        if self._free:
            descriptor = heapq.heappop(self._free)
        else:
            descriptor, self._next = self._next, self._next + 1
        self._sources[descriptor] = source
        return descriptor

    def close(self, descriptor: int) -> None:
        """Free the descriptor. Polls forget it, as the kernel has it."""
        if self._sources.pop(descriptor, self) is not self:
            heapq.heappush(self._free, descriptor)
            for poll in self.polls:
                poll.interests.pop(descriptor, None)

    def has_news(self, descriptor: int) -> bool:
        """True if the connection of this descriptor could be read from."""
        source = self._sources.get(descriptor)
        return source is not None and source.has_news()

    def notify(self) -> None:
        """Let each poll check its connections, of which one was written to or ended."""
        for poll in self.polls:
            poll.notify()


class SimulatedPoll:
    """A simulated epoll of one process. `on_ready` is what the loop calls; its owner sets it by `add_reader`."""

    def __init__(self, descriptors: Descriptors) -> None:
        self.interests: dict[int, int] = {}
        """By descriptor; 0 for one that is not armed."""
        self.on_ready: Callable[[], object] | None = None
        self._descriptors = descriptors
        self._descriptor = descriptors.open(None)
        self._is_scheduled = False
        descriptors.polls.append(self)

    def fileno(self) -> int:
        return self._descriptor

    def register(self, fd: int, eventmask: int) -> None:
        """Add a descriptor. FileExistsError when it is registered already."""
        if fd in self.interests:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self.interests[fd] = eventmask
        self.notify()

    def modify(self, fd: int, eventmask: int) -> None:
        """Arm a descriptor again. FileNotFoundError when it is not registered."""
        if fd not in self.interests:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self.interests[fd] = eventmask
        self.notify()

    def unregister(self, fd: int) -> None:
        """Remove a descriptor. FileNotFoundError when it is not registered."""
        if self.interests.pop(fd, None) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]:
        """Return up to `maxevents` descriptors that are ready, the longest armed first, and disarm them. Never waits."""
        chosen = self._ready()[:maxevents]
        for descriptor in chosen:
            del self.interests[descriptor]
            self.interests[descriptor] = 0  # behind the others
        return [(descriptor, IS_READABLE) for descriptor in chosen]

    def close(self) -> None:
        self.on_ready = None
        self._descriptors.polls.remove(self)
        self._descriptors.close(self._descriptor)

    def notify(self) -> None:
        """Schedule a call of `on_ready` if something is ready, and again for as long as something is."""
        if self.on_ready is not None and not self._is_scheduled and self._ready():
            self._is_scheduled = True
            self._descriptors.loop.call_soon(self._call)

    def _ready(self) -> list[int]:
        has_news = self._descriptors.has_news
        return [each for each, interest in self.interests.items() if interest & IS_READABLE and has_news(each)]

    def _call(self) -> None:
        self._is_scheduled = False
        if self.on_ready is not None and self._ready():
            self.on_ready()
            self.notify()


@dataclass(frozen=True, slots=True)
class SimulatedSocket:
    """The socket of a transport, which has nothing but a descriptor."""

    descriptor: int

    def fileno(self) -> int:
        return self.descriptor
