"""The readiness of a cluster: each broker's view of it, requested over a connection of its own.

A client would hide which broker answered; here each one is asked, because each learns of the others by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalite.local.broker_process import POLL_S, Inside
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.local.broker_process import BrokerProcess

_ASK_TIMEOUT_S: Final = 2.0


class Reachable(Protocol):
    """A broker's address for this machine."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class KnownCluster(NamedTuple):
    """The brokers and the controller that one broker knows; NO_BROKER while there is no controller."""

    brokers: frozenset[int]
    controller_id: int


async def ask(broker: Reachable, timeout_s: float = _ASK_TIMEOUT_S) -> KnownCluster | None:
    """Return what the broker knows; None when it does not answer in time."""
    tls = broker.tls if isinstance(broker, Inside) else None
    try:
        async with asyncio.timeout(timeout_s):
            connection = await Connection.open(
                broker.host,
                broker.port,
                client_id="kafkalite-readiness",
                timeout_s=timeout_s,
                security_protocol="PLAINTEXT" if tls is None else "SSL",
                ssl_context=tls,
            )
            try:
                await connection.negotiate()
                request = messages.metadata_request.MetadataRequest(topics=[])
                response = await connection.request(request, connection.version_of(ApiKey.METADATA))
            finally:
                connection.close()
    except (OSError, TimeoutError):
        return None
    return KnownCluster(frozenset(broker.node_id for broker in response.brokers), response.controller_id)


async def until_ready(broker: BrokerProcess, brokers: frozenset[int]) -> None:
    """Wait until the broker has started and knows all of `brokers`, and a controller among them. Raises BrokerDied."""
    while not broker.has_started():
        await asyncio.sleep(POLL_S)
    while True:
        found = await ask(broker.inside or broker)
        if found is not None and found.brokers >= brokers and found.controller_id in found.brokers:
            return
        broker.check_running()
        await asyncio.sleep(POLL_S)


async def find_controller(brokers: Iterable[BrokerProcess]) -> int:
    """Return the controller according to the first broker that answers; NO_BROKER when none does."""
    for broker in brokers:
        found = await ask(broker.inside or broker, timeout_s=0.5)
        if found is not None:
            return found.controller_id
    return NO_BROKER
