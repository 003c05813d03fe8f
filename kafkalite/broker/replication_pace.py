"""When followers get records under load: all of a broker in one turn, and the later, the more producers wait.

Followers that are answered as soon as there is a record fetch one or two at a time, and what a fetch costs both brokers is that of five
small requests. With few processors these fetches then hold up the very requests that wait for them. Answered together every few
milliseconds, they bring what came meanwhile, and commit it for all producers at once (DESIGN.md has the figures).
"""

from __future__ import annotations

from typing import Final

_AT_ONCE: Final = 1
"""A single request is answered as fast as it can be: it may be all that its producer has under way."""
_MS_FOR_EACH: Final = 0.6
_INTERVAL_MAX_MS: Final = 5.0


class ReplicationPace:
    """One for all partitions of a broker. `waiting` is how many small requests with acks=all wait for replicas."""

    __slots__ = ("_answered_ms", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self._answered_ms = float("-inf")

    def delay_ms(self, now_ms: float) -> float:
        """How long from now a follower waits for its records; 0 when it gets them at once. Whatever wait there is counts from the
        last answer, so a follower that comes after a pause has none."""
        if self.waiting <= _AT_ONCE:
            return 0.0
        interval_ms = min((self.waiting - _AT_ONCE) * _MS_FOR_EACH, _INTERVAL_MAX_MS)
        return max(0.0, self._answered_ms + interval_ms - now_ms)

    def answered(self, now_ms: float) -> None:
        """A follower got records."""
        self._answered_ms = now_ms
