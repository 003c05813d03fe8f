"""Clients of a run begin whatever has struck the cluster by then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

from kafkalite.client import Admin, NoBrokersAvailableError, Producer

_AGAIN_S: Final = 0.3

ClientT = TypeVar("ClientT", Admin, Producer)


@asynccontextmanager
async def connected(client: ClientT) -> AsyncIterator[ClientT]:
    """As `async with client`, but while no broker can be reached it asks again, as a program does that somebody supervises."""
    async with AsyncExitStack() as stack:
        stack.push_async_exit(client)
        while True:
            try:
                await client.connect()
                break
            except NoBrokersAvailableError:
                await asyncio.sleep(_AGAIN_S)
        yield client
