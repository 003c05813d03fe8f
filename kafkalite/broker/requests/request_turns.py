"""In which turn of the loop a request begins: whatever is readable is read in one turn, but a thousand long requests are not served in one.

Requests of up to `TINY_BYTES` begin at once. Of longer ones so many begin in a turn as name about `TURN_UNITS` things, and the others wait
as they came, in three lines: Produce, requests that are short enough to be served in one go, and long ones, of which one begins in a turn,
and none while `LONG_WORKS` are being served in portions. So what is decoded, and half served, is that of a few requests, and a client with
a small request does not wait behind those with large ones. Within a line each host has its turn, however many connections it has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import IntEnum
from typing import Final, NamedTuple

from kafkalite.broker.requests.request_context import ClientConnection
from kafkalite.portions import Portions

TINY_BYTES: Final = 1024
LONG_BYTES: Final = 4096
"""A longer request may name more than is looked at in one go."""
TURN_UNITS: Final = 4096
"""Things that may be named take 4 bytes at least, so that is 16 KiB of requests, and some 20 ms. What was named in the turns before counts
until it is half of that, so that the loop is seldom asked to say when a turn ends."""
_HALF_OF_TURN: Final = TURN_UNITS // 2
LONG_WORKS: Final = 8


class Line(IntEnum):
    """Of requests that wait, in the order in which one of each begins."""

    PRODUCE = 0
    SHORT = 1
    LONG = 2


class _Waiting(NamedTuple):
    future: asyncio.Future[None]
    connection: ClientConnection
    units: int


class RequestTurns:
    """The requests that wait for a turn of the event loop, in three lines; one object for all connections of a broker."""

    def __init__(self, portions: Portions) -> None:
        self._portions = portions
        self.left = TURN_UNITS
        """Units that are left for requests that begin in this turn; each takes its own from here."""
        self.are_waiting = False
        self._lines: tuple[dict[str, deque[_Waiting]], ...] = ({}, {}, {})
        """By host."""
        self._turn_is_due = False
        self.waits = 0
        """Requests that did not begin in the turn in which they came, for metrics and tests."""

    def charge(self, units: int) -> None:
        """Count the things that a request names which did not wait."""
        self.left -= units
        if self.left <= _HALF_OF_TURN and not self._turn_is_due:
            self._have_a_turn()

    def begin(self, line: Line, units: int, connection: ClientConnection) -> asyncio.Future[None] | None:
        """Return None if the request may begin; else a future for when it may, which is charged with about so many units."""
        if not self._lines[line] and self._has_room(line):
            return None
        self.waits += 1
        self.are_waiting = True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines[line].setdefault(connection.peer_host, deque()).append(_Waiting(future, connection, units))
        if not self._turn_is_due:
            self._have_a_turn()
        return future

    def _has_room(self, line: Line) -> bool:
        if line is Line.LONG and self._portions.works >= LONG_WORKS:
            return False
        return self.left > 0

    def _have_a_turn(self) -> None:
        self._turn_is_due = True
        asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        self.left = TURN_UNITS
        lines = [line for line in Line if self._lines[line] and self._has_room(line)]
        while lines and self.left > 0:
            for line in tuple(lines):
                self._begin_next(self._lines[line])
                if line is Line.LONG or not self._lines[line]:
                    lines.remove(line)
        self.are_waiting = any(self._lines)
        if self.are_waiting:
            self._have_a_turn()

    def _begin_next(self, hosts: dict[str, deque[_Waiting]]) -> None:
        """Begin the next request of the host whose turn it is; requests of closed connections cost nothing."""
        while hosts:
            host = next(iter(hosts))
            waiting = hosts.pop(host)
            each = waiting.popleft()
            if waiting:
                hosts[host] = waiting
            if not each.future.done():
                each.future.set_result(None)
                if not each.connection.closed:
                    self.left -= each.units
                    return
