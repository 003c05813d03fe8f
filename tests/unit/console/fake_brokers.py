"""The brokers of a cluster in memory, each asked for itself: killed, slow, or with a view of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from kafkalite.client import ClusterDescription, TopicDescription
from kafkalite.console.membership import Told
from tests.unit.console.fake_admin import FakeAdmin


class FakeBrokers:
    """The brokers of a `FakeAdmin`, at ports of 9000 and their ids. `told` replaces what one of them knows of its cluster."""

    def __init__(self, admin: FakeAdmin) -> None:
        self._admin = admin
        self.servers = [("h", 9001)]
        self.killed: set[int] = set()
        self.broken: set[int] = set()
        """Those whose answers cannot be read."""
        self.delays_s: dict[int, float] = {}
        """How long a broker takes for its answers."""
        self.topic_delays_s: dict[int, float] = {}
        """How long it takes for topics in addition."""
        self.told: dict[int, ClusterDescription] = {}
        self.asked_topics: Counter[int] = Counter()

    async def ask_members(self, host: str, port: int) -> Told:
        return await self._ask(port - 9000)

    async def ask_topics(self, host: str, port: int) -> Told:
        broker = port - 9000
        self.asked_topics[broker] += 1
        told = await self._ask(broker)
        await asyncio.sleep(self.topic_delays_s.get(broker, 0))
        topics: Mapping[str, TopicDescription] = {each.name: each for each in await self._admin.describe_topics()}
        return Told(told.cluster_id, told.controller_id, told.brokers, topics)

    async def _ask(self, broker: int) -> Told:
        async with asyncio.timeout(10):
            await asyncio.sleep(self.delays_s.get(broker, 0))
        if broker in self.broken:
            raise RuntimeError("an answer that nobody foresaw")
        if broker in self.killed or self._admin.is_away:
            raise ConnectionRefusedError(f"no connection to h:{9000 + broker}: Connection refused")
        cluster = self.told.get(broker) or await self._admin.describe_cluster()
        return Told(cluster.cluster_id, cluster.controller_id, {each.id: each for each in cluster.brokers})

    async def close(self) -> None: ...
