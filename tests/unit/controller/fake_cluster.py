"""A cluster in one process for tests of the controller: ZooKeeper in memory, brokers that record what they are told.

Time is virtual (`kafkalite.testing.simulation.virtual_time`), so nothing waits for real and every run is the same.
`FakeBroker` answers as a broker that obeys; its attributes make it fail.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from kafkalite.broker.handlers.control import read_update
from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.controller.cluster_state import Leadership
from kafkalite.controller.controller import Controller
from kafkalite.controller.metadata_digests import digest_metadata
from kafkalite.controller.requests import AlterPartition, IsrProposal, TopicReference
from kafkalite.controller.wire import OutgoingRequest
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import VirtualClock
from kafkalite.types import Endpoint, TopicPartition
from tests.unit.broker.loop_turns import not_measured
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.session import Session
from zk.store import NoNodeError
from zk.top_level import create_top_level
from zk.znodes import BrokerRegistration, ConfigEntity, PartitionState, RegisteredEndpoint, TopicAssignment

FIRST_PORT = 9000
DEADLINE_S = 60.0
"""Virtual seconds after which a condition is given up."""


class FakeBroker:
    """What a broker was told, and what it thinks of it."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.epoch = -1
        self.received: list[Any] = []
        self.unreachable = False
        self.storage_errors: set[TopicPartition] = set()
        self.delete_errors: dict[TopicPartition, int] = {}
        self.leader_epochs: dict[TopicPartition, int] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.known_brokers: set[int] = set()
        self.metadata: MetadataCache | None = None
        """Of a broker of ours that proves what it knows; None of one of Apache Kafka."""
        self.digests_take_s = 0.0
        self.closed_channels = 0

    async def answer(self, message: Any) -> Any:
        await asyncio.sleep(0)
        if self.unreachable:
            raise ConnectionRefusedError(f"broker {self.broker_id} is unreachable")
        self.received.append(message)
        match message.API.key:
            case ApiKey.LEADER_AND_ISR:
                return self._leader_and_isr(message)
            case ApiKey.UPDATE_METADATA:
                return self._update_metadata(message)
            case ApiKey.STOP_REPLICA:
                return self._stop_replica(message)
            case ApiKey.METADATA_DIGESTS:
                return await self._metadata_digests(message)
        raise AssertionError(f"a controller does not send {message}")

    def _leader_and_isr(self, message: Any) -> Any:
        shape = messages.leader_and_isr_response
        topics = []
        for topic in message.topic_states:
            errors = []
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                code = 56 if partition in self.storage_errors else 0
                if not code and state.leader_epoch <= self.leader_epochs.get(partition, -1):
                    code = 11
                if not code:
                    self.leader_epochs[partition] = state.leader_epoch
                errors.append(shape.PartitionError(partition_index=state.partition_index, error_code=code))
            topics.append(shape.TopicError(topic_id=topic.topic_id, partition_errors=errors))
        return shape.LeaderAndIsrResponse(topics=topics)

    def _update_metadata(self, message: Any) -> Any:
        self.known_brokers = {broker.id for broker in message.live_brokers}
        if self.metadata is not None:
            self.metadata.apply(in_one_go(read_update(message, self.metadata.shared)))
        for topic in message.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                if state.leader == -2:
                    self.leaders.pop(partition, None)
                else:
                    self.leaders[partition] = state.leader
        return messages.update_metadata_response.UpdateMetadataResponse()

    async def _metadata_digests(self, message: Any) -> Any:
        await asyncio.sleep(self.digests_take_s)
        topics = () if self.metadata is None else self.metadata.topics.values()
        with not_measured():
            digests = in_one_go(digest_metadata(topics, message.buckets))
        return messages.metadata_digests_response.MetadataDigestsResponse(digests=digests)

    def _stop_replica(self, message: Any) -> Any:
        shape = messages.stop_replica_response
        errors = []
        for topic in message.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                code = self.delete_errors.get(partition, 0) if state.delete_partition else 0
                if state.delete_partition and not code:
                    self.leader_epochs.pop(partition, None)
                errors.append(
                    shape.PartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index, error_code=code
                    )
                )
        return shape.StopReplicaResponse(partition_errors=errors)

    # -- what tests ask

    def requests(self, key: ApiKey) -> list[Any]:
        return [message for message in self.received if message.API.key == key]

    def told(self, partition: str) -> list[tuple[int, int, list[int], bool]]:
        """(leader, leader epoch, ISR, is new) of each LeaderAndIsr for a partition `topic-index`."""
        name, _, index = partition.rpartition("-")
        return [
            (state.leader, state.leader_epoch, state.isr, state.is_new)
            for message in self.requests(ApiKey.LEADER_AND_ISR)
            for topic in message.topic_states
            for state in topic.partition_states
            if (topic.topic_name, state.partition_index) == (name, int(index))
        ]

    def metadata_of(self, partition: str) -> list[Any]:
        """States of a partition in UpdateMetadata requests."""
        name, _, index = partition.rpartition("-")
        return [
            state
            for message in self.requests(ApiKey.UPDATE_METADATA)
            for topic in message.topic_states
            for state in topic.partition_states
            if (topic.topic_name, state.partition_index) == (name, int(index))
        ]

    def stopped(self, partition: str) -> list[tuple[bool, int]]:
        """(delete, leader epoch) of each StopReplica for a partition."""
        name, _, index = partition.rpartition("-")
        return [
            (state.delete_partition, state.leader_epoch)
            for message in self.requests(ApiKey.STOP_REPLICA)
            for topic in message.topic_states
            for state in topic.partition_states
            if (topic.topic_name, state.partition_index) == (name, int(index))
        ]


class _FakeChannel:
    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def request_encoded(self, outgoing: OutgoingRequest) -> Any:
        if outgoing.is_optional and self._broker.metadata is None:
            raise ValueError("the broker does not speak it")
        with not_measured():  # a broker has an event loop of its own
            message = codec.decode_request(outgoing.api_key, outgoing.version, b"".join(outgoing.body))
        return await self._broker.answer(message)

    def close(self) -> None:
        self._broker.closed_channels += 1


class Member:
    """One broker process: its ZooKeeper session, its registration, its controller component."""

    def __init__(self, cluster: FakeCluster, broker_id: int, clean: bool = False) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.store = MemoryStore(cluster.zookeeper, session_timeout_s=6.0)
        self.session = Session(self.store)
        self.controller = Controller(
            self.store,
            broker_id,
            cluster.config,
            VirtualClock(),
            random.Random(broker_id),
            cluster.open_channel,
            session=self.session,
            had_clean_shutdown=clean,
            own_metadata=lambda: {} if self.broker.metadata is None else self.broker.metadata.topics,
        )

    @property
    def broker(self) -> FakeBroker:
        return self.cluster.brokers[self.broker_id]

    async def start(self) -> None:
        await self.store.start(10.0)
        await create_top_level(self.store)
        self.session.on_renewed(self.register)
        await self.register()
        self.controller.start()

    async def register(self) -> None:
        """As a broker does; the fake broker forgets what it knew, as it is a new process."""
        endpoint = RegisteredEndpoint("PLAINTEXT", "fake", FIRST_PORT + self.broker_id)
        path = paths.broker(self.broker_id)
        await self.store.create(path, BrokerRegistration((endpoint,)).encode(), ephemeral=True)
        _, stat = await self.store.read(path)
        self.broker.epoch = stat.czxid

    async def die(self) -> None:
        """kill -9, seen when the session ends: at once here."""
        await self.controller.stop()
        self.store.expire_session()
        await self.store.close()


class FakeCluster:
    """Brokers by id; `znode` reads what is in ZooKeeper."""

    def __init__(self, *, proves_metadata: bool = False, **config: Any) -> None:
        """`proves_metadata`: brokers started from now on are brokers of ours, which say what they know."""
        self.zookeeper = MemoryZooKeeper()
        self.proves_metadata = proves_metadata
        self.config = LiveConfig(
            BrokerConfig.from_properties(
                {"zookeeper.connect": "memory", "broker.id": "0"}
                | {key.replace("_", "."): str(value) for key, value in config.items()}
            )
        )
        self.brokers: defaultdict[int, FakeBroker] = defaultdict(lambda: FakeBroker(-1))
        self.members: dict[int, Member] = {}
        self.tool = MemoryStore(self.zookeeper)

    def open_channel(self, endpoint: Endpoint) -> _FakeChannel:
        return _FakeChannel(self.brokers[endpoint.port - FIRST_PORT])

    async def start(self, *broker_ids: int, clean: bool = False) -> FakeCluster:
        """Start brokers one after the other, so that the first one is the controller, and wait until all is quiet.

        Those that are `clean` had a clean shutdown before, so they lost no records.
        """
        if not self.members:
            await self.tool.start(10.0)
        for broker_id in broker_ids:
            self.brokers[broker_id] = FakeBroker(broker_id)
            if self.proves_metadata:
                self.brokers[broker_id].metadata = MetadataCache()
            member = self.members[broker_id] = Member(self, broker_id, clean)
            await member.start()
            await self.quiet()
        return self

    async def stop(self) -> None:
        for member in self.members.values():
            await member.controller.stop()
            await member.store.close()
        await self.tool.close()

    async def kill(self, broker_id: int) -> None:
        await self.members.pop(broker_id).die()
        await self.quiet()

    async def restart(self, broker_id: int) -> None:
        await self.start(broker_id)

    @property
    def controller(self) -> Controller:
        """The active one; there must be exactly one."""
        (active,) = [m.controller for m in self.members.values() if m.controller.is_active]
        return active

    async def until(self, condition: Callable[[], object], what: str = "the condition") -> None:
        """Let the loop run until the condition holds."""
        deadline_s = asyncio.get_running_loop().time() + DEADLINE_S
        while not condition():
            if asyncio.get_running_loop().time() > deadline_s:
                raise TimeoutError(f"{what} did not come true")
            await asyncio.sleep(0.001)

    async def quiet(self, turns: int = 400) -> None:
        """Let everything run that is due now; timers further ahead do not fire."""
        for _ in range(turns):
            await asyncio.sleep(0)

    # -- what tools write and everybody can read

    async def create_topic(self, name: str, *replicas: Iterable[int], topic_id: str | None = None) -> None:
        """As a 2.8 tool does: config, then assignment; no topic id."""
        await self.tool.create(paths.topic_config(name), ConfigEntity({}).encode())
        assignment = TopicAssignment({index: tuple(brokers) for index, brokers in enumerate(replicas)}, topic_id)
        await self.tool.create(paths.topic(name), assignment.encode())
        await self.quiet()

    async def delete_topic(self, name: str) -> None:
        await self.tool.create(paths.delete_topic(name))
        await self.quiet()

    async def topic(self, name: str) -> TopicAssignment:
        return TopicAssignment.decode((await self.tool.read(paths.topic(name)))[0])

    async def state(self, partition: str) -> PartitionState:
        return (await self.state_and_version(partition))[0]

    async def state_and_version(self, partition: str) -> tuple[PartitionState, int]:
        name, _, index = partition.rpartition("-")
        data, stat = await self.tool.read(paths.partition_state(name, int(index)))
        return PartitionState.decode(data), stat.version

    async def short_state(self, partition: str) -> tuple[int, list[int], int]:
        """(leader, ISR, leader epoch)."""
        state = await self.state(partition)
        return state.leader, list(state.isr), state.leader_epoch

    async def has(self, path: str) -> bool:
        try:
            await self.tool.read(path)
        except NoNodeError:
            return False
        return True

    async def alter_partition(
        self, partition: str, leader: int, isr: Iterable[int], **changes: Any
    ) -> Leadership | KafkaError:
        """A leader's AlterPartition, from the state in ZooKeeper; the outcome for the partition."""
        name, _, index = partition.rpartition("-")
        state, version = await self.state_and_version(partition)
        proposal = IsrProposal(
            TopicReference(topic_id=self.controller.cluster.topics[name].topic_id),  # type: ignore[union-attr]
            int(index),
            changes.pop("leader_epoch", state.leader_epoch),
            tuple(isr),
            changes.pop("recovering", False),
            changes.pop("partition_epoch", version),
        )
        broker_epoch = changes.pop("broker_epoch", self.brokers[leader].epoch)
        (outcome,) = await self.controller.alter_partition(AlterPartition(leader, broker_epoch, (proposal,)))
        await self.quiet()
        return outcome


def code_of(outcome: object) -> ErrorCode:
    """Why something was refused, or NONE."""
    return outcome.code if isinstance(outcome, KafkaError) else ErrorCode.NONE
