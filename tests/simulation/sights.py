"""What a transcript looks at beside what clients see: what each broker believes, and who listens."""

from __future__ import annotations

import asyncio
from typing import Any

from kafkalite.testing.simulation.cluster import PORT, SimulatedBroker, SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation
from kafkalite.types import TopicPartition


class Sights:
    """Commands of `tests.simulation.stories`; brokers are given by their numbers."""

    simulation: Simulation
    cluster: SimulatedCluster

    async def _believes(self, broker: str, partition: str) -> list[str]:
        topic, _, number = partition.rpartition("-")
        replica = self._app(broker).serving.parts.replicas.partitions.get(TopicPartition(topic, int(number)))
        if replica is None:
            return ["nothing"]
        if not replica.is_leader:
            return [f"broker {replica.leader} leads in leader epoch {replica.leader_epoch}"]
        return [
            f"it leads in leader epoch {replica.leader_epoch}, ISR {sorted(replica.isr)}, "
            f"high watermark {replica.high_watermark}"
        ]

    async def _metadata(self, broker: str) -> list[str]:
        metadata = self._app(broker).metadata
        return [f"controller {metadata.controller_id}, brokers {sorted(metadata.brokers)}"]

    async def _tells(self, broker: str, partition: str) -> list[str]:
        topic, _, number = partition.rpartition("-")
        known = self._app(broker).metadata.partition(TopicPartition(topic, int(number)))
        if known is None:
            return ["nothing"]
        return [f"leader {known.leader}, leader epoch {known.leader_epoch}, ISR {sorted(known.isr)}"]

    async def _written(self, partition: str) -> list[str]:
        topic, _, number = partition.rpartition("-")
        state = self.cluster.partition_state(TopicPartition(topic, int(number)))
        assert state is not None
        return [f"ISR {sorted(state.isr)} by a controller of epoch {state.controller_epoch}"]

    async def _reach(self, broker: str) -> list[str]:
        process = self.simulation.process(f"somebody-{broker}")
        loop = process.loop

        async def connect() -> list[str]:
            try:
                transport, _ = await loop.create_connection(asyncio.Protocol, f"broker-{broker}", PORT)
            except ConnectionRefusedError:
                return ["nobody listens"]
            transport.abort()
            return ["it listens"]

        seen = await process.run(connect())
        process.kill()
        return seen

    def _app(self, broker: str) -> Any:
        return self._of(broker).app

    def _of(self, broker: str) -> SimulatedBroker:
        return self.cluster.brokers[int(broker)]
