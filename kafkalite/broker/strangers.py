"""Those who are not authenticated yet: how many there may be, and how much of the event loop they get.

There is one of their steps, a token of SASL or the beginning of a TLS handshake, in each turn of the loop, and few of them are read from
(`stranger_reads`), so a flood of logins makes logins slow and nothing else. Beyond kafkalite.max.unauthenticated.connections somebody
gives way: the oldest of an address that has more than the newcomer's; among equals the oldest of all, if it has been there for a while,
else the newcomer. So a crowd that comes back after a failure is let in one after the other, and nobody is sent away just before the end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from kafkalite.broker.stranger_reads import StrangerReads
from kafkalite.portions import Portions

PATIENCE_S: Final = 1.0
"""How long one who is not authenticated is not asked to make room for another of its kind."""


class Stranger(Protocol):
    """A connection that is not authenticated."""

    @property
    def peer_host(self) -> str: ...

    def close(self) -> None: ...


class Strangers:
    """See the module. `most()` may be there; `now_s` is monotonic; those who gave way are counted in `outcomes`."""

    def __init__(self, most: Callable[[], int], now_s: Callable[[], float], outcomes: Counter[str]) -> None:
        self._most, self._now_s, self._outcomes = most, now_s, outcomes
        self._since_s: dict[Stranger, float] = {}
        """Oldest first."""
        self._per_host: Counter[str] = Counter()
        self._turns = Portions()
        self.reads = StrangerReads()

    def turn(self) -> asyncio.Future[None]:
        """To be awaited before a step."""
        return self._turns.turn()

    def add(self, stranger: Stranger) -> None:
        """One more; it, or another, may be closed for that."""
        victim = self._victim(stranger) if len(self._since_s) >= self._most() else None
        self._since_s[stranger] = self._now_s()
        self._per_host[stranger.peer_host] += 1
        if victim is not None:
            self._outcomes["displaced"] += 1
            self.remove(victim)
            victim.close()

    def remove(self, stranger: Stranger) -> None:
        """It is authenticated, or gone."""
        if self._since_s.pop(stranger, None) is not None:
            self._per_host[stranger.peer_host] -= 1
            if not self._per_host[stranger.peer_host]:
                del self._per_host[stranger.peer_host]

    def _victim(self, newcomer: Stranger) -> Stranger:
        busiest, count = self._per_host.most_common(1)[0]
        if self._per_host[newcomer.peer_host] + 1 < count:
            return next(each for each in self._since_s if each.peer_host == busiest)
        oldest, since_s = next(iter(self._since_s.items()))
        return oldest if self._now_s() - since_s > PATIENCE_S else newcomer
