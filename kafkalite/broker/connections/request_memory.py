"""Memory that requests take before and while they are served, over all connections: queued.max.request.bytes.

Counted are requests that do not come in one piece, those that wait their turn on their connection, and those in progress that are longer
than `bounds.SMALL_BYTES`; the others lie in a buffer that all connections share. A Produce that only waits for replication counts no
more, as in Kafka: its records are in the log, and nothing else keeps them. Kafka's broker stops reading from everybody when its
pool is empty. Here only who would take more has to wait, in a line: small requests go on, among them the fetches of followers, for which
the produces wait that hold the memory. The first in the line may go beyond the bound until it is answered, so nobody waits for ever, and
what is taken is at most the bound and one request; who sends slowly does not stay there (`slow_senders`).
"""

from __future__ import annotations

from typing import Final, Protocol

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.live import Current

_LONGEST_REQUESTS: Final = 4
"""-1 sets the bound to so many times socket.request.max.bytes, where Kafka has none."""


class Taker(Protocol):
    """Who takes memory: a connection."""

    def memory_is_back(self) -> bool:
        """Go on, if there is enough; False when there is not."""


class RequestMemory:
    """See the module."""

    def __init__(self, config: Current[BrokerConfig]) -> None:
        given = config.current.queued_max_request_bytes
        self.max_bytes = given if given > 0 else _LONGEST_REQUESTS * config.current.socket_request_max_bytes
        self._line: dict[Taker, None] = {}
        self.is_awaited = False
        """Is anybody in the line? Only then does who gives back have to say so."""
        self.used_bytes = 0
        self.waits = 0
        """How often a connection had to wait, for metrics."""

    @property
    def is_short(self) -> bool:
        """Is as much taken as there is?"""
        return self.used_bytes >= self.max_bytes

    def grants(self, taker: Taker, size: int) -> bool:
        """May `taker` have `size` bytes more? If not, its `memory_is_back` is called later."""
        if self.used_bytes + size <= self.max_bytes:
            return True
        if taker not in self._line:
            self._line[taker] = None
            self.is_awaited = True
            self.waits += next(iter(self._line)) is not taker
        return next(iter(self._line)) is taker

    def change(self, difference: int) -> None:
        """So much more is taken than before, or less."""
        self.used_bytes += difference
        if difference < 0 and self._line:
            self._go_on()

    def leave(self, taker: Taker) -> None:
        """It has all that it wanted, or has gone."""
        if taker in self._line:
            del self._line[taker]
            self.is_awaited = bool(self._line)
            self._go_on()

    def _go_on(self) -> None:
        for each in tuple(self._line):
            if each in self._line and not each.memory_is_back():
                return
