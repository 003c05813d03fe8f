"""The session with ZooKeeper may end at any moment of a broker's start: it goes on with the next one, as Kafka's does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "key",
}


def requests_of_a_start(ends_at: int) -> int:
    """How many requests of its start a broker sent; its session ends when the one of that number is sent."""
    simulation = Simulation(1)
    cluster = SimulatedCluster(simulation, 1, SETTINGS)
    broker = cluster.brokers[1]
    requests = 0

    def counted(carry_out: Any) -> Any:
        def request(path: str, what: Any) -> Any:
            nonlocal requests
            requests += 1
            if requests == ends_at and broker.store is not None:
                broker.process.loop.call_soon(broker.store.expire_session)  # type: ignore[union-attr]
            return carry_out(path, what)

        return request

    async def scenario() -> None:
        process = broker.start_process()
        assert broker.store is not None
        broker.store._request = counted(broker.store._request)  # type: ignore[method-assign]
        async with asyncio.timeout(60):
            await process.run(broker.serve())

    simulation.run(scenario())
    return requests


@pytest.mark.parametrize("part", range(4))
def test_a_session_may_end_at_any_moment_of_a_start(part: int) -> None:
    for ends_at in range(1 + part, requests_of_a_start(0), 4):
        requests_of_a_start(ends_at)
