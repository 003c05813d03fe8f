"""The parts that handlers need, in memory: partitions with fake logs, real metadata, sessions and quotas; no socket, no file, no ZooKeeper.

A test makes `MemoryParts(leader(...))`, changes what it needs, and calls a handler, or `ask`s as a client over the dispatcher.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from kafkalite.broker.coordination.transaction_markers import MarkerWriter
from kafkalite.broker.coordination.transaction_verification import Producer, Refusals
from kafkalite.broker.delayed_metadata import DelayedMetadata
from kafkalite.broker.failure_detection.peer_sessions import PeerSessions
from kafkalite.broker.fetch.fetch_sessions import FetchSessionCache, random_session_ids
from kafkalite.broker.fetch.partition_reader import PartitionReader
from kafkalite.broker.fetch.range_digests import RangeDigests
from kafkalite.broker.handlers import SERVED
from kafkalite.broker.identity.authorizer import ALLOW_ALL, Authorizer
from kafkalite.broker.metadata_cache import MetadataCache, TopicMetadata
from kafkalite.broker.replication.append_pace import AppendPace
from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.dispatch import Dispatcher
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import Audience, spoken_of
from kafkalite.broker.settings.dynamic_configs import DynamicConfigs
from kafkalite.broker.settings.quotas import ClientQuotas
from kafkalite.broker.settings.rates import ReplicationRate
from kafkalite.broker.traffic import Traffic
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.controller.control_requests import LiveBroker, PartitionMetadata
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.portions import Portions
from kafkalite.protocol import codec
from kafkalite.protocol.messages import Message
from kafkalite.security.principal import ANONYMOUS
from kafkalite.types import OFFSETS_TOPIC, Endpoint, TopicPartition
from tests.unit.broker.fake_log import FakeLog, assignment, make_partition
from tests.unit.clocks import LoopClock
from zk.store import Store


class Sessions(PeerSessions):
    """A failure detection that watches nobody."""

    sightings = ()


class FakeController:
    """A controller that only says whether it is active."""

    def __init__(self, is_active: bool = True) -> None:
        self.is_active = is_active


@dataclass
class FakeBound:
    """A bound of responses that no test reaches."""

    response_bytes_max: int = 1 << 31


BROKER_EPOCH = 70
"""Of the registration of the broker whose parts these are."""


class FakeConnection:
    """A `request_context.ClientConnection`; notes for how long it was silenced."""

    def __init__(self, peer_host: str = "host", closed: bool = False) -> None:
        self.listener, self.peer_host, self.closed = "PLAINTEXT", peer_host, closed
        self.principal, self.wants_template = ANONYMOUS, False
        self.muted_s: list[float] = []
        self.alone = 0
        """Requests behind which none may begin before they end."""

        self.unread = FakeBound()

    def stop_pipelining(self) -> None:
        self.alone += 1

    def mute(self, duration_s: float) -> None:
        self.muted_s.append(duration_s)


def context_of(
    version: int, client_id: str | None = "me", size: int = 100, authorizer: Authorizer = ALLOW_ALL
) -> RequestContext:
    return RequestContext(version, client_id, FakeConnection(), size, authorizer)


def leader(topic: str = "t", index: int = 0, end: int = 0, isr: tuple[int, ...] = (1,)) -> Partition:
    """A partition that broker 1 leads, all of it committed."""
    partition = make_partition(FakeLog(log_end_offset=end), topic_partition=TopicPartition(topic, index))
    partition.become_leader(assignment(leader_epoch=4, isr=isr), 0.0)
    partition.log.set_high_watermark(end)
    return partition


class MemoryLogs:
    """Notes which logs had their start written."""

    def __init__(self) -> None:
        self.noted: list[Any] = []

    def note_log_starts(self, logs: Iterable[Any]) -> None:
        self.noted += logs


class MemoryReplicas:
    """The part of `Replicas` that handlers use."""

    def __init__(self, parts: MemoryParts, partitions: tuple[Partition, ...]) -> None:
        self.clock, self.metadata = parts.clock, parts.metadata
        self.partitions = {each.topic_partition: each for each in partitions}
        self.watched: set[TopicPartition] = set()
        self.pace = AppendPace()
        self.logs = MemoryLogs()

    def require(self, topic_partition: TopicPartition) -> Partition:
        if topic_partition not in self.partitions:
            known = self.metadata.partition(topic_partition)
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[topic_partition]

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.metadata.topic_name(topic_id)

    def watch(self, topic_partition: TopicPartition, watcher: Any) -> None:
        self.watched.add(topic_partition)
        partition = self.partitions[topic_partition]
        partition.watchers = {**partition.watchers, watcher: None}

    def unwatch(self, topic_partition: TopicPartition, watcher: Any) -> None:
        self.watched.discard(topic_partition)
        partition = self.partitions[topic_partition]
        partition.watchers = {each: None for each in partition.watchers if each is not watcher}


class MemoryGroups:
    """A coordinator's runtime as far as FindCoordinator asks."""

    def partition_for(self, group_id: str) -> int:
        return 0


class MemoryVerifier:
    """A `TransactionVerifier` that is off until a test sets `is_enabled`, and then answers with `refusals`, at once or not."""

    def __init__(self) -> None:
        self.is_enabled = False
        self.refusals: Refusals | asyncio.Future[Refusals] = {}
        self.asked: list[tuple[Producer, list[TopicPartition]]] = []

    def verify(self, producer: Producer, partitions: Iterable[TopicPartition]) -> Refusals | asyncio.Future[Refusals]:
        self.asked.append((producer, list(partitions)))
        return self.refusals


class MemoryTopicCreation:
    """Makes what is missing at once; `created` has the names."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.created: list[str] = []

    async def create_missing(self, names: list[str], may_create: bool, portions: Portions) -> dict[str, ErrorCode]:
        if not may_create:
            return dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.created += names
        return dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)

    async def create_internal(self, name: str) -> ErrorCode:
        self.created.append(name)
        know(self._metadata, TopicPartition(name, 0))
        return ErrorCode.NONE

    async def partition_count(self, topic: str) -> int:
        return 1


def know(metadata: MetadataCache, topic_partition: TopicPartition, leader: int = 1) -> None:
    """Put a partition into metadata, as the controller would."""
    topic, index = topic_partition
    known = metadata.topics.setdefault(topic, TopicMetadata(topic))
    known.partitions[index] = PartitionMetadata(leader, 4, [leader], [1, 2], [], 0, 1)


class MemoryParts:
    """See the module. Brokers 1 and 2 are alive, 1 is the controller; metadata knows the partitions that are given."""

    def __init__(self, *partitions: Partition, **settings: str) -> None:
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.from_properties({"zookeeper.connect": "unused", "broker.id": "1"}, overrides)
        self.broker_id, self.cluster_id = 1, "the-cluster"
        self.spoken, self.spoken_to_clients, self.spoken_to_peers = (spoken_of(SERVED, each) for each in Audience)
        self.clock, self.traffic = LoopClock(), Traffic()
        self.quotas = ClientQuotas()
        self.metadata = MetadataCache()
        self.metadata.controller_id, self.metadata.version = 1, 1
        self.metadata.brokers = {
            number: LiveBroker(number, {"PLAINTEXT": Endpoint("PLAINTEXT", f"host{number}", 9092)}) for number in (1, 2)
        }
        self.delayed_metadata = DelayedMetadata(self.metadata, lambda broker: False)
        for each in partitions:
            know(self.metadata, each.topic_partition)
        self.proposed: list[IsrChange] = []
        self.replicas = MemoryReplicas(self, partitions)
        self.fetch_sessions = FetchSessionCache(
            10, random_session_ids(random.Random(1)), self.replicas.watch, self.replicas.unwatch
        )
        self.partition_reader = PartitionReader(
            self.replicas,  # type: ignore[arg-type]
            lambda partition, change: self.proposed.append(change),
            ReplicationRate(11, 1000, lambda: 1e18),
        )
        self.range_digests = RangeDigests()
        self.topic_creation = MemoryTopicCreation(self.metadata)
        self.groups = self.transactions = MemoryGroups()
        self.leadership: Any = SimpleNamespace(is_needed=False, confirm=lambda place, answer: answer)
        self.transaction_verifier = MemoryVerifier()
        self.marker_sender: Any = SimpleNamespace(unwritten=lambda transactional_id: None)
        self.offsets_ended: list[tuple[int, int, int, bool]] = []
        """What the groups' coordinator was told of markers: partition, offset, producer id, committed."""
        self.marker_writer = MarkerWriter(
            self.replicas,  # type: ignore[arg-type]
            self.clock,
            lambda: self.config.request_timeout_ms,
            lambda *told: self.offsets_ended.append(told),
        )
        self.failure_detection = Sessions(lambda: self.metadata.brokers, lambda: BROKER_EPOCH, random.Random(1))
        self.acls: Any = None
        self.controller: Any = None
        """What the test makes, where it is asked."""

    def keep_in(self, store: Store) -> None:
        """Configurations and quotas are kept in this store."""
        self.store, self.dynamic_configs = store, DynamicConfigs(store, LiveConfig(self.config))

    async def ask(
        self, request: Message, version: int, authorizer: Authorizer = ALLOW_ALL, listener: str = "PLAINTEXT"
    ) -> Any:
        """The decoded answer to a request, over dispatch and codec; None when there is none."""
        body = await self.ask_bytes(request, version, authorizer, listener)
        if body is None:
            return None
        position = response_body_position(request.API, version, body)
        return codec.decode_response(request.API.key, version, body, position)

    async def ask_bytes(
        self, request: Message, version: int, authorizer: Authorizer = ALLOW_ALL, listener: str = "PLAINTEXT"
    ) -> bytes | None:
        """The answer's frame without its length."""
        api = request.API
        dispatcher = Dispatcher(
            self,  # type: ignore[arg-type]
            SERVED,
            authorizer,
            peer_listener=self.config.inter_broker_listener_name,
        )
        frame = b"".join(request_frame(api, version, 7, "me", codec.encode_request(request, version)))
        connection = FakeConnection()
        connection.listener = listener
        answer = dispatcher.handle(memoryview(bytearray(frame))[4:], connection)
        if isinstance(answer, asyncio.Future):
            answer = await answer
        return None if answer is None else b"".join(answer)[4:]


GROUPS_TOPIC = TopicPartition(OFFSETS_TOPIC, 0)
