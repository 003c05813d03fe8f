"""Tries whether the listeners of a broker still accept connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kafkalite.types import Endpoint


async def all_refuse(endpoints: Iterable[Endpoint], timeout_s: float) -> bool:
    """True if there are listeners, and each of them refuses a connection; a connection that comes about is closed at once.

    A process that is stopped, or whose backlog is full, does not refuse; nor does an address that cannot be reached.
    """
    outcomes = await asyncio.gather(*(_refuses(each, timeout_s) for each in endpoints))
    return bool(outcomes) and all(outcomes)


async def _refuses(endpoint: Endpoint, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, endpoint.host, endpoint.port
            )
    except ConnectionRefusedError:
        return True
    except (
        OSError,
        ValueError,
        OverflowError,
    ):  # TimeoutError is an OSError; brokers tell addresses, which may be anything
        return False
    transport.abort()
    return False
