"""Replicas that are asked whom they follow, and a coordinator that asks them: fakes for tests of what proves leadership."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafkalite.broker.coordination.leadership_proof import LeadershipProof, SessionDoubt
from kafkalite.broker.coordination.replica_questions import ReplicaQuestions
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import BrokerId, Endpoint, TopicPartition
from zk.store import SessionState

PARTITION = TopicPartition("__consumer_offsets", 3)
SECOND_PARTITION = TopicPartition("__consumer_offsets", 5)
TIMEOUT_MS = 6000
METADATA_VERSION = 5


class Time:
    def __init__(self) -> None:
        self.at_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.at_ms

    def now_ms(self) -> int:
        return int(self.at_ms)


class Store:
    def __init__(self) -> None:
        self.state = SessionState.CONNECTED
        self.enter: Callable[[SessionState], object] = lambda state: None

    def add_session_listener(self, listener: Callable[[SessionState], object]) -> None:
        self.enter = listener


class Doubted:
    def __init__(self) -> None:
        self.time, self.store = Time(), Store()
        self.doubt = SessionDoubt(self.store, self.time, TIMEOUT_MS)  # type: ignore[arg-type]

    def after(self, milliseconds: float) -> bool:
        """Looking as often as the broker does."""
        for _ in range(10):
            self.time.at_ms += milliseconds / 10
            self.doubt.check_pause()
        return self.doubt.holds()


Answer: TypeAlias = tuple[ErrorCode, ErrorCode] | Exception
"""Codes of the two questions in one request, of the next leader epoch and of this one; or a problem."""


@dataclass
class LedPartition:
    """A partition as far as a proof of leadership asks."""

    maximal_isr: tuple[int, ...]
    is_leader: bool = True
    leader_epoch: int = 7


class Peer:
    """A connection to a replica that speaks OffsetForLeaderEpoch up to `version`, and as old a Metadata; `send` answers."""

    def __init__(self, send: Callable[[Any, int], Awaitable[Any]], version: int) -> None:
        self.send, self.version = send, version
        self.closed = False

    async def negotiate(self, timeout_s: float) -> None:
        pass

    def version_of(self, api_key: int, *, with_dropped: bool) -> int:
        assert with_dropped
        return self.version if api_key == ApiKey.OFFSET_FOR_LEADER_EPOCH else METADATA_VERSION

    def close(self) -> None:
        self.closed = True


class Replicas:
    """Others who answer so; `asked` has who was, in which epochs, `connections` what was opened to them."""

    def __init__(self, answers: dict[BrokerId, Answer], version: int = 4, *, ends_early: bool = False) -> None:
        self.answers, self.version = answers, version
        self.asked: list[tuple[str, list[int]]] = []
        self.connections: list[Peer] = []
        self.leader_by_metadata = 1
        self.partition: Any = LedPartition((1, *answers))
        self.session = Doubted()
        self.questions = ReplicaQuestions(
            1,
            lambda broker: Endpoint("PLAINTEXT", str(broker), self.port) if broker in self.answers else None,
            lambda coroutine, name: asyncio.ensure_future(coroutine),
            self.connect,  # type: ignore[arg-type]
        )
        self.port = 9092
        self.proof = LeadershipProof(
            1,
            self.session.doubt,
            ends_early,
            lambda partition: self.partition if partition in (PARTITION, SECOND_PARTITION) else None,
            self.questions,
            lambda coroutine, name: asyncio.ensure_future(coroutine),
        )

    def lose_connection_to_zookeeper(self) -> None:
        self.session.store.enter(SessionState.SUSPENDED)

    async def connect(self, endpoint: Endpoint, client_id: str, timeout_s: float) -> Any:
        await asyncio.sleep(0.01)
        answer = self.answers[int(endpoint.host)]
        if isinstance(answer, ConnectionError):
            raise answer

        async def send(message: Any, version: int) -> Any:
            answer = self.answers[int(endpoint.host)]
            if isinstance(answer, Exception):
                await asyncio.sleep(1000)
                raise answer
            await asyncio.sleep(0.001)
            if isinstance(message, messages.MetadataRequest):
                assert version == METADATA_VERSION and not message.allow_auto_topic_creation
                return self.metadata([topic.name or "" for topic in message.topics or []])
            assert version == self.version
            (topic,) = message.topics
            assert (message.replica_id, topic.topic) == (1, PARTITION.topic)
            self.asked.append((endpoint.host, [asked.current_leader_epoch for asked in topic.partitions]))
            m = messages.offset_for_leader_epoch_response
            answered = list(zip(topic.partitions, itertools.cycle(answer)))
            if version < 4:  # as Apache Kafka up to 2.7, which has a map of them
                last = {asked.partition: asked for asked in topic.partitions}.values()
                answered = [(asked, answer[asked.current_leader_epoch == asked.leader_epoch]) for asked in last]
            told = [m.EpochEndOffset(partition=asked.partition, error_code=code) for asked, code in answered]
            return m.OffsetForLeaderEpochResponse(
                topics=[m.OffsetForLeaderTopicResult(topic=topic.topic, partitions=told)]
            )

        self.connections.append(Peer(send, self.version))
        return self.connections[-1]

    def metadata(self, topics: list[str]) -> messages.MetadataResponse:
        m = messages.metadata_response
        partitions = [
            m.MetadataResponsePartition(partition_index=each.partition, leader_id=self.leader_by_metadata)
            for each in (PARTITION, SECOND_PARTITION)
        ]
        return m.MetadataResponse(topics=[m.MetadataResponseTopic(name=name, partitions=partitions) for name in topics])
