"""Connections that are not authenticated yet: how many there may be, and how much of the event loop they get.

In each turn of the loop one of their steps is done, a token of SASL or a part of a TLS handshake, and after some ms of them none for as
long as they took: they have at most half of the loop's time, whatever kind of key makes their steps long, and a quarter while more than
fifty wait. Addresses take turns, so a crowd from one does not keep the others waiting. Few of the connections are read from at a time
(`unauthenticated_reads`). So a flood of logins makes logins slow and nothing else.

Beyond kafkalite.max.unauthenticated.connections one is closed: the oldest of an address that has more than the newcomer's; among equals the
oldest of all, if it has been there for a while, else the newcomer. So a crowd that comes back after a failure is let in one after the
other, and none is closed just before its login is complete.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol

from kafkalite.broker.connections.unauthenticated_reads import UnauthenticatedReads

PATIENCE_S: Final = 1.0
"""Age up to which a connection is not closed to make room for another."""
_LONGEST_REST_S: Final = 0.02
"""A step that seems to have taken longer was interrupted by other processes."""
_CROWD: Final = 50
"""Steps that wait beyond which logins may be slower."""
_REST_IN_A_CROWD: Final = 3
"""Rest after a step then, as a multiple of the time it took."""
_LEAST_REST_S: Final = 0.001
"""Event loops know no shorter time."""


class UnauthenticatedConnection(Protocol):
    """A connection that has begun, and is closed to make room for another."""

    @property
    def peer_host(self) -> str: ...

    def close(self) -> None: ...


class UnauthenticatedConnections:
    """The connections of all listeners that are not authenticated, and the queue of their steps.

    There may be `most()` of them; `now_s` is monotonic; those that are closed for others are counted in `outcomes`.
    """

    def __init__(
        self,
        most: Callable[[], int],
        now_s: Callable[[], float],
        outcomes: Counter[str],
        reads: UnauthenticatedReads | None = None,
    ) -> None:
        self._most, self._now_s, self._outcomes = most, now_s, outcomes
        self._since_s: dict[UnauthenticatedConnection, float] = {}
        """Time at which each connection was accepted, oldest first."""
        self._per_host: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Steps that wait, by address; the first address is the next."""
        self._waiting_count = 0
        self._is_under_way = False
        self._began_s = self._ended_s = self._next_s = 0.0
        """Beginning and end of the last step, and the earliest beginning of the next one."""
        self._owed_s = 0.0
        """Rest that is still owed to the event loop."""
        self.reads = reads or UnauthenticatedReads()

    def wait_for_turn(self, host: str = "") -> asyncio.Future[None]:
        """Return a future that is done when a step of a connection from this address may be done."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(host, deque()).append(future)
        self._waiting_count += 1
        if not self._is_under_way:
            self._is_under_way = True
            loop.call_soon(self._start_turn)
        return future

    def _start_turn(self) -> None:
        loop, rest_s = asyncio.get_running_loop(), self._next_s - self._now_s()
        if not self._waiting:
            self._is_under_way = False
        elif rest_s > 0:
            loop.call_later(rest_s, self._end_rest)
        else:  # the loop does these three one after the other: the step is what the future has done
            loop.call_soon(self._begin_step)
            self._end_wait()
            loop.call_soon(self._end_step)

    def _end_wait(self) -> None:
        """Complete the wait of the first step at the next address, if it still waits."""
        host = next(iter(self._waiting))
        queue = self._waiting.pop(host)
        while queue and queue[0].done():
            queue.popleft()
            self._waiting_count -= 1
        if queue:
            queue.popleft().set_result(None)
            self._waiting_count -= 1
        if queue:
            self._waiting[host] = queue

    def _begin_step(self) -> None:
        self._began_s = self._now_s()
        self._owed_s = max(0.0, self._owed_s - (self._began_s - self._ended_s))

    def _end_step(self) -> None:
        self._ended_s = self._now_s()
        rest = _REST_IN_A_CROWD if self._waiting_count > _CROWD else 1
        self._owed_s += min(self._ended_s - self._began_s, _LONGEST_REST_S) * rest
        if self._owed_s >= _LEAST_REST_S:
            self._next_s = self._ended_s + self._owed_s
        self._start_turn()

    def _end_rest(self) -> None:
        self._next_s = 0.0
        self._start_turn()

    def add(self, connection: UnauthenticatedConnection) -> None:
        """Count one more connection; it, or another, is closed if there are too many."""
        victim = self._choose_victim(connection) if len(self._since_s) >= self._most() else None
        self._since_s[connection] = self._now_s()
        self._per_host[connection.peer_host] += 1
        if victim is not None:
            self._outcomes["displaced"] += 1
            self.remove(victim)
            victim.close()

    def remove(self, connection: UnauthenticatedConnection) -> None:
        """Count a connection no more: it is authenticated, or closed."""
        if self._since_s.pop(connection, None) is not None:
            self._per_host[connection.peer_host] -= 1
            if not self._per_host[connection.peer_host]:
                del self._per_host[connection.peer_host]

    def _choose_victim(self, newcomer: UnauthenticatedConnection) -> UnauthenticatedConnection:
        busiest, count = self._per_host.most_common(1)[0]
        if self._per_host[newcomer.peer_host] + 1 < count:
            return next(each for each in self._since_s if each.peer_host == busiest)
        oldest, since_s = next(iter(self._since_s.items()))
        return oldest if self._now_s() - since_s > PATIENCE_S else newcomer
