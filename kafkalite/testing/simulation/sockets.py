"""Where processes of a simulation listen: addresses, and the servers bound to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kafkalite.testing.simulation.readiness import Descriptors


class Address(NamedTuple):
    """Where a socket is bound."""

    host: str
    port: int


class SocketOwner(Protocol):
    """A process (`kafkalite.testing.simulation.processes.Process`), as the network knows it."""

    name: str
    machine: str
    alive: bool
    descriptors: Descriptors

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...


class _ListeningSocket(NamedTuple):
    address: Address

    def getsockname(self) -> Address:
        return self.address


@dataclass(eq=False)
class SimulatedServer(asyncio.AbstractServer):
    """What `create_server` of a simulated process gives."""

    _unbind: Callable[[SimulatedServer], None]
    process: SocketOwner
    factory: Callable[[], asyncio.BaseProtocol]
    address: Address
    _serving: bool = False

    @property
    def sockets(self) -> tuple[_ListeningSocket, ...]:
        return (_ListeningSocket(self.address),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.process.loop

    def is_serving(self) -> bool:
        return self._serving

    async def start_serving(self) -> None:
        self._serving = True

    def close(self) -> None:
        self._serving = False
        self._unbind(self)

    async def serve_forever(self) -> None:
        await self.start_serving()
        await self.get_loop().create_future()

    async def wait_closed(self) -> None: ...
