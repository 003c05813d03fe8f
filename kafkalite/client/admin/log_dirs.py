"""Administration of log directories: what lies where on brokers, and replicas moved between the directories of one (KIP-113).

Each broker answers for itself. A part of `Admin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkalite.client.admin.calls import AdminCalls, each_of, raise_failures
from kafkalite.client.errors import error_name, raise_error
from kafkalite.client.plain_values import PlainValues
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition, group_by_topic


class TopicPartitionReplica(NamedTuple):
    """One broker's copy of a partition."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} on broker {self.broker}"


@dataclass(frozen=True, slots=True)
class LogDirReplica(PlainValues):
    """A replica in a directory. `offset_lag` is how far it is behind the high watermark; a future one behind the current one."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir(PlainValues):
    """A log directory of a broker; `error` is Kafka's name of what is wrong with it. -1 bytes are unknown (before KIP-827)."""

    broker: int
    path: str
    error: str | None
    total_bytes: int
    usable_bytes: int
    replicas: tuple[LogDirReplica, ...]


class LogDirAdmin(AdminCalls):
    """Describes log directories and moves replicas between those of one broker (KIP-113)."""

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, tuple[LogDir, ...]]:
        """Return the log directories of brokers (default: all that live) with the replicas of `partitions` (default: all).

        AdminError, by the brokers' ids, for those that failed.
        """
        m = messages.describe_log_dirs_request
        if brokers is None:
            brokers = await self._brokers()
        topics = None
        if partitions is not None:
            wanted = group_by_topic(TopicPartition(*each) for each in partitions)
            topics = [m.DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in wanted.items()]
        request = m.DescribeLogDirsRequest(topics=topics)

        async def describe(broker: int) -> tuple[LogDir, ...]:
            what = f"describing log directories of broker {broker}"
            response = await self._ask(broker, request, what)
            raise_error(response, what)
            return tuple(sorted((_log_dir(broker, each) for each in response.results), key=lambda each: each.path))

        found = await each_of(brokers, describe)
        return dict(sorted(found.items()))

    async def alter_replica_log_dirs(self, targets: Mapping[TopicPartitionReplica, str]) -> None:
        """Begin to move replicas to other directories of their brokers, by absolute path.

        The moves have begun, not ended, when this returns; `describe_log_dirs` shows them as future replicas. AdminError with
        LOG_DIR_NOT_FOUND, REPLICA_NOT_AVAILABLE (there is no such replica yet; it will be made there), …, for those that failed.
        """
        m = messages.alter_replica_log_dirs_request
        by_broker: dict[int, dict[str, list[TopicPartition]]] = {}
        for replica, path in targets.items():
            topic, partition, broker = replica
            by_broker.setdefault(broker, {}).setdefault(path, []).append(TopicPartition(topic, partition))
        answers: list[tuple[TopicPartitionReplica, Any]] = []

        async def alter(broker: int) -> None:
            request = m.AlterReplicaLogDirsRequest(
                dirs=[
                    m.AlterReplicaLogDir(
                        path=path,
                        topics=[
                            m.AlterReplicaLogDirTopic(name=name, partitions=numbers)
                            for name, numbers in group_by_topic(partitions).items()
                        ],
                    )
                    for path, partitions in by_broker[broker].items()
                ]
            )
            response = await self._ask(broker, request, f"moving replicas of broker {broker}")
            answers.extend(
                (TopicPartitionReplica(topic.topic_name, answer.partition_index, broker), answer)
                for topic in response.results
                for answer in topic.partitions
            )

        await each_of(by_broker, alter)
        raise_failures("moving", answers)


def _log_dir(broker: int, answer: Any) -> LogDir:
    replicas = [
        LogDirReplica(
            TopicPartition(topic.name, each.partition_index),
            each.partition_size,
            each.offset_lag,
            bool(each.is_future_key),
        )
        for topic in answer.topics or ()
        for each in topic.partitions
    ]
    return LogDir(
        broker,
        answer.log_dir,
        error_name(answer.error_code) if answer.error_code else None,
        answer.total_bytes,
        answer.usable_bytes,
        tuple(sorted(replicas, key=lambda each: (each.topic_partition, each.is_future))),
    )
