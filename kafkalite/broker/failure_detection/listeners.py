"""Tries whether the listeners of a broker still accept connections."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from enum import Enum

from kafkalite.types import Endpoint


class Trial(Enum):
    """What became of an attempt to connect."""

    ACCEPTED = "accepted"
    """By the system of the other host: a process that is stopped accepts, too, until its backlog is full."""
    REFUSED = "refused"
    """A process that is stopped, or whose backlog is full, does not refuse; nor does an address that cannot be reached."""
    UNANSWERED = "unanswered"


async def try_listeners(endpoints: Iterable[Endpoint], timeout_s: float) -> list[Trial]:
    """Try to connect to all listeners at once; a connection that comes about is closed at once."""
    return await asyncio.gather(*(_try(each, timeout_s) for each in endpoints))


def all_refused(trials: Collection[Trial]) -> bool:
    """True if there were listeners, and each of them refused a connection."""
    return bool(trials) and all(each is Trial.REFUSED for each in trials)


async def _try(endpoint: Endpoint, timeout_s: float) -> Trial:
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, endpoint.host, endpoint.port
            )
    except ConnectionRefusedError:
        return Trial.REFUSED
    except (
        OSError,
        ValueError,
        OverflowError,
    ):  # TimeoutError is an OSError; brokers tell addresses, which may be anything
        return Trial.UNANSWERED
    transport.abort()
    return Trial.ACCEPTED
