"""Responses that clients do not read, over all connections: kafkalite.unread.response.max.bytes.

Kafka sends records from the page cache, so a client that does not read costs it nothing. Here up to two MiB of them are in memory for
each connection, of messages before record batches up to fetch.max.bytes, and all of other responses.
What is unread is known only to each connection, so all that is written is counted, and all connections are checked when that may exceed the
bound. Beyond it

- a fetch is answered with `SHORT_BYTES`, or one batch, so a client that reads goes on, a little slower;
- a client that has not read at 32 KiB a second for kafkalite.response.read.timeout.ms is closed;
- beyond twice the bound those that have read least for longest are closed at once, until less is unread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

from kafkalite.broker.connections.slow_senders import LEAST_BYTES_PER_SECOND
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.keys import INT_MAX
from kafkalite.config.live import Current

SHORT_BYTES: Final = 1024 * 1024
"""Bytes of records in a response beyond the bound."""
_CHECK_INTERVAL_S: Final = 1.0
_LEAST_PART: Final = 64
"""At the bound all connections are checked after each 64th part of it is written."""


class Reader(Protocol):
    """A connection, whose client reads."""

    @property
    def unread_bytes(self) -> int:
        """Return the bytes that were written and that the socket has not taken."""

    @property
    def written_bytes(self) -> int:
        """Return the bytes that were written since the connection was opened."""

    def end_as_unread(self, unread_s: float, total_bytes: int) -> None:
        """Close the connection; on all connections `total_bytes` are unread."""


class _Mark(NamedTuple):
    """Since when a client has been slow, what it had read then, and what was written at the last check."""

    since_s: float
    read_bytes: int
    written_bytes: int


class UnreadResponses:
    """The unread responses of `readers`. A writer takes what it writes from `headroom_bytes`, and calls `check_readers` below 0."""

    def __init__(self, config: Current[BrokerConfig], readers: Collection[Reader]) -> None:
        self._config, self._readers = config, readers
        self._slow: dict[Reader, _Mark] = {}
        self._check_timer: asyncio.TimerHandle | None = None
        self.headroom_bytes = 0
        self.response_bytes_max = INT_MAX
        """Bytes of records that a response may have now."""

    @property
    def total_bytes(self) -> int:
        """Return the bytes that are unread now."""
        return sum([each.unread_bytes for each in self._readers])

    def check_readers(self) -> None:
        """Check all connections, and close those that must be."""
        config, now_s = self._config.current, asyncio.get_running_loop().time()
        bound = config.kafkalite_unread_response_max_bytes
        total = self.total_bytes
        if total <= bound:
            self._slow.clear()
            self.response_bytes_max = INT_MAX
        else:
            self.response_bytes_max = SHORT_BYTES
            self._mark_slow_readers(now_s)
            total = self._close_slow_readers(now_s, config.kafkalite_response_read_timeout_ms / 1000, total, 2 * bound)
            if self._check_timer is None:
                self._check_timer = asyncio.get_running_loop().call_later(_CHECK_INTERVAL_S, self._check_again)
        self.headroom_bytes = max(bound - total, bound // _LEAST_PART)

    def close(self) -> None:
        """Check no more."""
        if self._check_timer is not None:
            self._check_timer.cancel()

    def _check_again(self) -> None:
        self._check_timer = None
        self.check_readers()

    def _mark_slow_readers(self, now_s: float) -> None:
        """Note the slow readers: they have read neither all that was there at the last check, nor enough since they were noted first."""
        slow: dict[Reader, _Mark] = {}
        for each in self._readers:
            unread_bytes, written_bytes = each.unread_bytes, each.written_bytes
            if unread_bytes:
                read_bytes = written_bytes - unread_bytes
                since_s, first_bytes, last_bytes = self._slow.get(each, (now_s, read_bytes, written_bytes))
                if read_bytes >= last_bytes or read_bytes - first_bytes > LEAST_BYTES_PER_SECOND * (now_s - since_s):
                    since_s, first_bytes = now_s, read_bytes
                slow[each] = _Mark(since_s, first_bytes, written_bytes)
        self._slow = slow

    def _close_slow_readers(self, now_s: float, timeout_s: float, total: int, most: int) -> int:
        """Close the readers that must be, and return what is unread then."""
        for each, mark in sorted(self._slow.items(), key=lambda item: (item[1].since_s, -item[0].unread_bytes)):
            if total <= most and now_s - mark.since_s < timeout_s:
                break
            left = total - each.unread_bytes
            each.end_as_unread(now_s - mark.since_s, total)
            del self._slow[each]
            total = left
        return total
