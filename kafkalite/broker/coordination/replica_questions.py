"""Ask replicas whether they follow this broker: in the leader epoch in which it believes to lead a partition, and in no later one.

Each broker has one connection, opened by the first question, closed when it has not been used for a while, and opened again by the next
question after a failure. Each broker has one request in flight, with all questions that came together or while the one before was in
flight, so that a busy coordinator asks no more often than its replicas answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, NamedTuple

from kafkalite.broker.replication.leader_offsets import code_of
from kafkalite.errors import ErrorCode, ProtocolViolation
from kafkalite.lifecycle import report
from kafkalite.net.connection import Connection, OpenToBroker, open_unauthenticated
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import BrokerId, Endpoint, TopicPartition, group_by_topic

_TIMEOUT_S: Final = 1.0
"""A replica that does not answer for so long confirms nothing; clients retry."""

UNUSED_S: Final = 10.0
"""A connection that was not used for so long is closed, also that of a broker that has left."""

_KNOWS_EPOCHS_FROM: Final = 2
"""OffsetForLeaderEpoch names the current leader epoch (KIP-320, Apache Kafka 2.1)."""

_ANSWERS_EACH_FROM: Final = 4
"""A broker answers each question of a request (Apache Kafka 2.8). Older ones keep the last of each partition, and answer only that."""

_FOLLOWS: Final = [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER]
"""Error codes of a replica that follows in an epoch, for a question in the next epoch and for one in that epoch.

NOT_LEADER_OR_FOLLOWER alone proves nothing: a replica that was just restarted, and hosts the partition not yet, answers it to every
question, whatever it knew before. A later epoch is FENCED_LEADER_EPOCH. An earlier one, or none yet as long as its leader is not known
there, is UNKNOWN_LEADER_EPOCH to both.
"""

_DOES_NOT_LEAD: Final = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
"""Error code of a replica on Apache Kafka 1.1 or 2.0, which cannot be asked about an epoch.

It is also that of one which led in a later epoch and leads no more, so its metadata is asked for afterwards: a controller tells every
broker that this one leads before it has another one lead. A leader that is elected again, and has heard of nothing, is confirmed.
"""


class _Question(NamedTuple):
    """A partition and the leader epoch in which the replica has to follow."""

    topic_partition: TopicPartition
    epoch: int


class _Replica:
    """Another broker, with its connection and the questions queued for it."""

    def __init__(self) -> None:
        self.questions: dict[_Question, asyncio.Future[bool]] = {}
        self.task: asyncio.Task[None] | None = None
        self.endpoint: Endpoint | None = None
        """Where the connection was opened to."""
        self.connection: Connection | None = None
        self.closing: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self.closing is not None:
            self.closing.cancel()
            self.closing = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class ReplicaQuestions:
    """The questions to each broker, in the newest version of OffsetForLeaderEpoch that it knows.

    inter.broker.protocol.version plays no part, as the versions are negotiated. A broker from before KIP-320 confirms that it does not
    lead the partition itself, and that this broker does as far as it knows. `endpoint_of` has where brokers are, `spawn(coroutine, name)`
    runs a task under supervision.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        endpoint_of: Callable[[BrokerId], Endpoint | None],
        spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
        connect: OpenToBroker = open_unauthenticated,
    ) -> None:
        self._broker_id, self._endpoint_of = broker_id, endpoint_of
        self._spawn, self._connect = spawn, connect
        self._replicas: dict[BrokerId, _Replica] = {}

    def ask(self, broker: BrokerId, topic_partition: TopicPartition, epoch: int) -> asyncio.Future[bool]:
        """Return a future that is True if this broker confirms that it follows in `epoch`, False also if it does not answer in time."""
        replica = self._replicas.setdefault(broker, _Replica())
        question = _Question(topic_partition, epoch)
        future = replica.questions.get(question)
        if future is None:
            future = replica.questions[question] = asyncio.get_running_loop().create_future()
        if replica.task is None or replica.task.done():
            replica.task = self._spawn(self._send_questions(broker, replica), f"ask broker {broker} whom it follows")
        return future

    def close(self) -> None:
        """Close the connections, at shutdown; the supervisor ends the tasks."""
        for replica in self._replicas.values():
            replica.close()

    async def _send_questions(self, broker: BrokerId, replica: _Replica) -> None:
        """Send requests to one broker, one after the other, until no question is queued."""
        while replica.questions:
            asked, replica.questions = replica.questions, {}
            confirmed: frozenset[_Question] = frozenset()
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    confirmed = await self._exchange(broker, replica, asked)
            except (OSError, TimeoutError, ProtocolViolation):
                pass
            except Exception as problem:
                report(f"broker {broker} could not be asked whom it follows", problem)
            for question, future in asked.items():
                if not future.done():
                    future.set_result(question in confirmed)
        if replica.connection is not None:
            if replica.closing is not None:
                replica.closing.cancel()
            replica.closing = asyncio.get_running_loop().call_later(UNUSED_S, replica.close)

    async def _exchange(
        self, broker: BrokerId, replica: _Replica, questions: Iterable[_Question]
    ) -> frozenset[_Question]:
        """Send these questions, the last one of each partition; return those that the broker confirms."""
        asked = list({each.topic_partition: each for each in questions}.values())
        codes: dict[TopicPartition, list[ErrorCode]] = {}
        try:
            connection = await self._connect_to(broker, replica)
            version = connection.version_of(ApiKey.OFFSET_FOR_LEADER_EPOCH, with_dropped=True)
            for ahead in _epochs_of_requests(version):
                response = await connection.send(self._make_request(asked, ahead), version)
                for topic in response.topics:
                    for answer in topic.partitions:
                        partition = TopicPartition(topic.topic, answer.partition)
                        codes.setdefault(partition, []).append(code_of(answer.error_code))
            if version < _KNOWS_EPOCHS_FROM:
                led = await self._ask_what_is_led_here(connection, asked)
                asked = [each for each in asked if each.topic_partition in led]
        except BaseException:
            replica.close()
            raise
        confirmation = _FOLLOWS if version >= _KNOWS_EPOCHS_FROM else _DOES_NOT_LEAD
        return frozenset(each for each in asked if codes.get(each.topic_partition) == confirmation)

    async def _ask_what_is_led_here(
        self, connection: Connection, questions: Iterable[_Question]
    ) -> frozenset[TopicPartition]:
        """Return the partitions of these topics that this broker leads by the metadata of the one that is asked."""
        m = messages.metadata_request
        topics = [
            m.MetadataRequestTopic(name=name) for name in sorted({each.topic_partition.topic for each in questions})
        ]
        request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await connection.send(request, connection.version_of(ApiKey.METADATA, with_dropped=True))
        return frozenset(
            TopicPartition(topic.name, partition.partition_index)
            for topic in response.topics
            for partition in topic.partitions
            if topic.name is not None and partition.leader_id == self._broker_id
        )

    async def _connect_to(self, broker: BrokerId, replica: _Replica) -> Connection:
        endpoint = self._endpoint_of(broker)
        if endpoint is None:
            raise ConnectionError(f"broker {broker} is not alive as far as metadata knows")
        if replica.closing is not None:
            replica.closing.cancel()
            replica.closing = None
        if replica.connection is not None:
            if replica.endpoint == endpoint and not replica.connection.closed:
                return replica.connection
            replica.close()
        connection = await self._connect(endpoint, f"broker-{self._broker_id}-leadership", _TIMEOUT_S)
        replica.connection, replica.endpoint = connection, endpoint
        await connection.negotiate(_TIMEOUT_S)
        return connection

    def _make_request(
        self, questions: Iterable[_Question], ahead: Iterable[int]
    ) -> messages.OffsetForLeaderEpochRequest:
        """Return the request for each question in the epochs that are so far ahead of its own."""
        m = messages.offset_for_leader_epoch_request
        asked = [
            (
                topic,
                m.OffsetForLeaderPartition(partition=partition, current_leader_epoch=epoch + each, leader_epoch=epoch),
            )
            for (topic, partition), epoch in questions
            for each in ahead
        ]
        topics = [m.OffsetForLeaderTopic(topic=name, partitions=those) for name, those in group_by_topic(asked).items()]
        return m.OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=topics)


def _epochs_of_requests(version: int) -> list[tuple[int, ...]]:
    """Return how far ahead of a question's epoch each request asks, one after the other; `_FOLLOWS` explains the answers."""
    if version < _KNOWS_EPOCHS_FROM:
        return [(0,)]
    return [(1, 0)] if version >= _ANSWERS_EACH_FROM else [(1,), (0,)]
