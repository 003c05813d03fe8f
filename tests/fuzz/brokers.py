"""A whole broker: mutated requests are decoded, authorised, handled and answered, on simulated network, disk, clock and ZooKeeper."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any

from kafkalite.client import Admin, NewTopic
from kafkalite.errors import KafkaError, ProtocolViolation
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.processes import Simulation
from tests.fuzz.engine import declared
from tests.fuzz.messages import requests
from tests.fuzz.record_batches import batches
from tests.unit.broker.memory_parts import FakeConnection

_ANSWER_S = 0.05
_LIFE = 500
"""Requests to one broker; what they leave behind (groups that wait, topics) ends with it."""


class Brokers:
    """The property is that nothing unexpected is reported, and that the broker lives."""

    name = "broker"
    measured_every = 1_000_000_000
    """The broker's own life is in it."""

    def __init__(self) -> None:
        self._served = 0
        self._simulation: Simulation | None = None

    def close(self) -> None:
        """End the world of the present broker."""
        if self._simulation is not None:
            for process in self._simulation._processes:
                process.take_apart()
            self._simulation = None

    def _begin(self) -> None:
        self.close()
        self._simulation = Simulation(1)
        settings = {
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        self._cluster = SimulatedCluster(self._simulation, 1, settings)
        self._cluster.zookeeper.on_transaction = lambda *_: None
        self._served = 0
        self._run(self._cluster.start())
        self._run(self._create())
        self._unexpected: list[BaseException] = []
        broker = self._cluster.brokers[1]
        assert broker.process is not None and broker.app is not None
        report = broker.app.errors.handle

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            problem = context.get("exception")
            if problem is not None and not isinstance(problem, asyncio.CancelledError):
                self._unexpected.append(problem)
            report(loop, context)

        broker.process.loop.set_exception_handler(handle)

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        assert self._simulation is not None
        return self._simulation._run(coroutine, 1e12)

    async def _create(self) -> None:
        assert self._simulation is not None
        client = self._simulation.process("admin")

        async def create() -> None:
            options = {"bootstrap_servers": self._cluster.bootstrap_servers, "chance": random.Random(1).random}
            async with Admin(**options) as admin:
                await admin.create_topics([NewTopic("topic", num_partitions=3, replication_factor=1)])

        await client.run(create())
        client.kill()

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        return [*requests(rng), *requests(rng), *self._produced(rng)]

    def _produced(self, rng: random.Random) -> list[bytes]:
        m = messages.produce_request
        api = APIS[ApiKey.PRODUCE]
        found = []
        for number, records in enumerate(batches(rng)):
            partition = m.PartitionProduceData(index=number % 3, records=records)
            request = m.ProduceRequest(
                acks=1, timeout_ms=10, topic_data=[m.TopicProduceData(name="topic", partition_data=[partition])]
            )
            version = 3 + number % 9
            found.append(b"".join(request_frame(api, version, 7, "fuzz", codec.encode_request(request, version)))[4:])
        return found

    def check(self, data: bytes) -> str:
        if self._simulation is None or self._served >= _LIFE:
            self._begin()
        assert self._simulation is not None
        self._served += 1
        behaviour: str = self._run(self._serve(data))
        problems = self._simulation.problems
        if self._unexpected or problems:
            self.close()
            if self._unexpected:
                raise self._unexpected[0]
            raise AssertionError(f"a broker {problems}")
        return behaviour

    async def _serve(self, data: bytes) -> str:
        broker = self._cluster.brokers[1]
        assert broker.process is not None and broker.app is not None and broker.app.serving is not None
        dispatcher = broker.app.serving.dispatcher
        frame = memoryview(bytearray(data))

        async def handle() -> str:
            what = f"{int.from_bytes(data[:2], 'big')} {int.from_bytes(data[2:4], 'big')}"
            try:
                response = dispatcher.handle(frame, FakeConnection("stranger"))  # type: ignore[arg-type]
                if isinstance(response, asyncio.Future):
                    done, _ = await asyncio.wait({response}, timeout=_ANSWER_S)
                    if not done:
                        return f"{what} waits"
                    failure = response.exception()
                    if isinstance(
                        failure, (ProtocolViolation, KafkaError)
                    ):  # raised here, its traceback would hold the response
                        return declared(failure)
                    response = response.result()
            except (ProtocolViolation, KafkaError) as problem:
                return declared(problem)
            return f"{what} {0 if response is None else sum(map(len, response)).bit_length()}"

        return await broker.process.run(handle())
