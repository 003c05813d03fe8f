"""Closes connections whose request has begun and does not arrive: kafkalite.request.receive.timeout.ms.

A request may take that time and, for its length, as much as it takes at 32 KiB a second. Time in which the broker itself does not read is
not counted. A late sender is checked twice before it is closed, so that a broker that was stopped for a while first reads what has arrived.
Connections on which no request has begun are left to connections.max.idle.ms.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.live import Current

LEAST_BYTES_PER_SECOND: Final = 32 * 1024
_CHECKS: Final = 6
"""Checks in the time that a request has."""
_LONGEST_PAUSE_S: Final = 10.0


class Sender(Protocol):
    """A connection on which a request has begun."""

    def is_late(self, now_s: float, timeout_s: float) -> bool:
        """True if all of the request should have arrived."""

    def end_as_slow(self, now_s: float) -> None:
        """Close the connection."""


class SlowSenders:
    """The connections of all listeners on which a request is arriving. Costs nothing while all requests come in one piece."""

    def __init__(self, config: Current[BrokerConfig]) -> None:
        self._config = config
        self._sending: dict[Sender, bool] = {}
        """By connection, whether it was late already at the last check."""
        self._check_timer: asyncio.TimerHandle | None = None

    def watch(self, sender: Sender) -> None:
        """Check a connection on which a request has begun that is not all there."""
        self._sending[sender] = False
        if self._check_timer is None:
            self._schedule_check()

    def forget(self, sender: Sender) -> None:
        """Check a connection no more: the request is all there, or the connection is lost."""
        self._sending.pop(sender, None)

    def close(self) -> None:
        """Check no connection any more."""
        self._sending.clear()
        if self._check_timer is not None:
            self._check_timer.cancel()

    def _schedule_check(self) -> None:
        pause_s = min(_LONGEST_PAUSE_S, self._timeout_s / _CHECKS)
        self._check_timer = asyncio.get_running_loop().call_later(pause_s, self._check_senders)

    @property
    def _timeout_s(self) -> float:
        return self._config.current.kafkalite_request_receive_timeout_ms / 1000

    def _check_senders(self) -> None:
        self._check_timer = None
        now_s, timeout_s = asyncio.get_running_loop().time(), self._timeout_s
        for each, was_late in tuple(self._sending.items()):
            late = each.is_late(now_s, timeout_s)
            if late and was_late:
                del self._sending[each]
                each.end_as_slow(now_s)
            else:
                self._sending[each] = late
        if self._sending:
            self._schedule_check()
