"""Pace of appends of single records with acks=all under load: those of all connections together, later the more producers wait.

Followers that are answered as soon as there is a record fetch one or two at a time, and what a fetch costs both brokers is that of five
small requests. With few processors these fetches then hold up the very requests that wait for them. Appended together every few
milliseconds, records are one write, one fetch of each follower, and are committed for all producers at once. Where appends come later than
they should, processors are short, and the interval grows by as much (figures: deploy/docs/pages/decisions/produce-fast-path.md).
"""

from __future__ import annotations

from typing import Final

_AT_ONCE: Final = 1
"""Waiting requests that delay nothing: a single one may be all that its producer has in flight."""
_MS_FOR_EACH: Final = 0.6
_INTERVAL_MAX_MS: Final = 3.0
_LATENESS_MAX_MS: Final = 3.0
_LATENESS_WEIGHT: Final = 1 / 8
"""Of the last append in the mean of all, so that a single long turn of the event loop changes little."""


class AppendPace:
    """The pace of all partitions of a broker. `waiting` is the number of such requests that wait for replicas."""

    __slots__ = ("_is_awaited", "_lateness_ms", "_next_ms", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self._next_ms = float("-inf")
        self._is_awaited = False
        self._lateness_ms = 0.0

    def delay_ms(self, now_ms: float) -> float:
        """Return for how long a request waits before it is appended."""
        delay_ms = max(0.0, self._next_ms - now_ms)
        self._is_awaited = self._is_awaited or delay_ms > 0
        return delay_ms

    def note_append(self, now_ms: float) -> None:
        """Set when the next append may be, after one whose requests are counted in `waiting`."""
        if self._is_awaited:
            lateness_ms = min(max(0.0, now_ms - self._next_ms), _LATENESS_MAX_MS)
            self._lateness_ms += (lateness_ms - self._lateness_ms) * _LATENESS_WEIGHT
            self._is_awaited = False
        longest_ms = _INTERVAL_MAX_MS + self._lateness_ms
        self._next_ms = now_ms + min(max(0, self.waiting - _AT_ONCE) * _MS_FOR_EACH, longest_ms)
