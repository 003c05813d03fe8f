"""Memory that requests take before and while they are served, over all connections: queued.max.request.bytes.

Counted are requests that do not come in one piece, those that are held on their connection, and those in progress that are longer than
`bounds.SMALL_BYTES`; the others lie in a buffer that all connections share. A Produce that only waits for replication counts no more, as
in Kafka: its records are in the log, and nothing else keeps them. Kafka's broker stops reading from all clients when its pool is empty.
Here only a connection that needs more has to wait, in a queue: small requests go on, among them the fetches of followers, for which the
produces wait that hold the memory. The first in the queue may go beyond the bound until it is answered, so none waits for ever, and what
is taken is at most the bound and one request; a slow sender does not stay there (`slow_senders`).
"""

from __future__ import annotations

from typing import Final, Protocol

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.live import Current

_LONGEST_REQUESTS: Final = 4
"""-1 sets the bound to so many times socket.request.max.bytes, where Kafka has none."""


class Taker(Protocol):
    """The reading side of a connection, which takes memory."""

    def memory_is_back(self) -> bool:
        """Read on if there is enough memory; False if there is not."""


class RequestMemory:
    """Bytes that the requests of all connections take, and the queue of connections that need more."""

    def __init__(self, config: Current[BrokerConfig]) -> None:
        given = config.current.queued_max_request_bytes
        self.max_bytes = given if given > 0 else _LONGEST_REQUESTS * config.current.socket_request_max_bytes
        self._queue: dict[Taker, None] = {}
        self.is_awaited = False
        """True while a connection waits in the queue: only then is `change` to be called when memory is given back."""
        self.used_bytes = 0
        self.waits = 0
        """Number of times that a connection had to wait, for metrics."""

    @property
    def is_short(self) -> bool:
        """True if no memory is left."""
        return self.used_bytes >= self.max_bytes

    def grants(self, taker: Taker, size: int) -> bool:
        """True if `taker` may have `size` bytes more. If not, its `memory_is_back` is called later."""
        if self.used_bytes + size <= self.max_bytes:
            return True
        if taker not in self._queue:
            self._queue[taker] = None
            self.is_awaited = True
            self.waits += next(iter(self._queue)) is not taker
        return next(iter(self._queue)) is taker

    def change(self, difference: int) -> None:
        """Count `difference` bytes more, or less."""
        self.used_bytes += difference
        if difference < 0 and self._queue:
            self._resume_waiting()

    def leave(self, taker: Taker) -> None:
        """Take a connection out of the queue: it has all that it needed, or is lost."""
        if taker in self._queue:
            del self._queue[taker]
            self.is_awaited = bool(self._queue)
            self._resume_waiting()

    def _resume_waiting(self) -> None:
        for each in tuple(self._queue):
            if each in self._queue and not each.memory_is_back():
                return
