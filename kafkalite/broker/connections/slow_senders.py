"""Ends connections whose request has begun and does not arrive: kafkalite.request.receive.timeout.ms.

A request may take that time and, for what it claims to be long, as much as it takes at 32 KiB a second. Time in which the broker itself
does not read is not counted. Who is late is looked at twice, so that a broker that was stopped for a while first reads what has
arrived. Connections on which nothing has begun are none of this: connections.max.idle.ms.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.live import Current

LEAST_BYTES_PER_SECOND: Final = 32 * 1024
_LOOKS: Final = 6
"""In the time that a request has."""
_LONGEST_PAUSE_S: Final = 10.0


class Sender(Protocol):
    """A connection on which a request has begun."""

    def is_late(self, now_s: float, timeout_s: float) -> bool:
        """Should all of the request have arrived?"""

    def end_as_slow(self, now_s: float) -> None:
        """Close the connection."""


class SlowSenders:
    """See the module. Costs nothing while all requests come in one piece."""

    def __init__(self, config: Current[BrokerConfig]) -> None:
        self._config = config
        self._sending: dict[Sender, bool] = {}
        """Who has begun, and whether it was late already when it was looked at."""
        self._look_due: asyncio.TimerHandle | None = None

    def begun(self, sender: Sender) -> None:
        """A request has begun, and is not all there."""
        self._sending[sender] = False
        if self._look_due is None:
            self._look_later()

    def ended(self, sender: Sender) -> None:
        """It is all there, or its connection has gone."""
        self._sending.pop(sender, None)

    def close(self) -> None:
        """Look no more."""
        self._sending.clear()
        if self._look_due is not None:
            self._look_due.cancel()

    def _look_later(self) -> None:
        pause_s = min(_LONGEST_PAUSE_S, self._timeout_s / _LOOKS)
        self._look_due = asyncio.get_running_loop().call_later(pause_s, self._look)

    @property
    def _timeout_s(self) -> float:
        return self._config.current.kafkalite_request_receive_timeout_ms / 1000

    def _look(self) -> None:
        self._look_due = None
        now_s, timeout_s = asyncio.get_running_loop().time(), self._timeout_s
        for each, was_late in tuple(self._sending.items()):
            late = each.is_late(now_s, timeout_s)
            if late and was_late:
                del self._sending[each]
                each.end_as_slow(now_s)
            else:
                self._sending[each] = late
        if self._sending:
            self._look_later()
