"""AlterReplicaLogDirs (34) and DescribeLogDirs (35): moving replicas between this broker's directories, and what lies where (KIP-113).

- Both concern the broker that is asked alone. 34: REPLICA_NOT_AVAILABLE for a partition without a log here notes where to make it.
- 35: a directory that failed has KAFKA_STORAGE_ERROR and no topics; 3 an error of the whole request; 4 total and usable bytes (KIP-827).
  `offset_lag` is how far the log end is behind the high watermark, of a copy how far behind the current log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.identity.authorizer import ALTER_CLUSTER, DESCRIBE_CLUSTER
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import run_in_portions, serve_api
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.replication.log_dir_moves import LogDirMoves
    from kafkalite.storage.directories.log_store import LogStore
    from kafkalite.storage.log.partition_log import PartitionLog
    from kafkalite.storage.log_directory import LogDirectory


class Parts(Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def logs(self) -> LogStore: ...

    @property
    def log_dir_moves(self) -> LogDirMoves: ...


@run_in_portions
def alter_replica_log_dirs(
    parts: Parts, request: messages.AlterReplicaLogDirsRequest, context: RequestContext
) -> Work[messages.AlterReplicaLogDirsResponse]:
    """Start moves, and return the outcome of each partition."""
    m = messages.alter_replica_log_dirs_response
    results: dict[str, list[messages.alter_replica_log_dirs_response.AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        yield
        for topic in directory.topics:
            yield
            for index in topic.partitions:
                yield
                code = ErrorCode.NONE
                try:
                    parts.log_dir_moves.move(TopicPartition(topic.name, index), directory.path)
                except KafkaError as problem:
                    code = problem.code
                answer = m.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                results.setdefault(topic.name, []).append(answer)
    return m.AlterReplicaLogDirsResponse(
        results=[m.AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in results.items()]
    )


@run_in_portions
def describe_log_dirs(
    parts: Parts, request: messages.DescribeLogDirsRequest, context: RequestContext
) -> Work[messages.DescribeLogDirsResponse]:
    """Return every directory of log.dirs with the partitions that are asked for, all if none are named."""
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = set()
        for topic in request.topics:
            yield
            for index in topic.partitions:
                yield
                wanted.add(TopicPartition(topic.topic, index))
    results = []
    for directory in parts.logs.directories:
        results.append((yield from _describe(parts, directory, wanted)))
    return messages.DescribeLogDirsResponse(results=results)


def _describe(
    parts: Parts, directory: LogDirectory, wanted: set[TopicPartition] | None
) -> Work[messages.describe_log_dirs_response.DescribeLogDirsResult]:
    m = messages.describe_log_dirs_response
    result = m.DescribeLogDirsResult(log_dir=directory.path, total_bytes=-1, usable_bytes=-1)
    try:
        directory.require_online()
        try:
            result.total_bytes, result.usable_bytes = directory.disk.room(directory.path)
        except OSError as problem:
            raise directory.failure(problem) from problem
    except KafkaError as problem:
        result.error_code = problem.code
        return result
    topics: dict[str, list[messages.describe_log_dirs_response.DescribeLogDirsPartition]] = {}
    current = {log.topic_partition: log for log in parts.logs.all_logs()}
    for log, is_future in [(log, False) for log in current.values()] + [
        (log, True) for log in parts.logs.future.logs.values()
    ]:
        yield
        if log.log_directory is directory and (wanted is None or log.topic_partition in wanted):
            topics.setdefault(log.topic_partition.topic, []).append(
                m.DescribeLogDirsPartition(
                    partition_index=log.topic_partition.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(log, current.get(log.topic_partition) if is_future else None),
                    is_future_key=is_future,
                )
            )
    result.topics = [m.DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()]
    return result


def _lag(log: PartitionLog, ahead: PartitionLog | None) -> int:
    if ahead is not None:
        return ahead.log_end_offset - log.log_end_offset
    return max(0, log.high_watermark - log.log_end_offset)


def _move_failed(
    request: messages.AlterReplicaLogDirsRequest, code: ErrorCode, message: str | None
) -> messages.AlterReplicaLogDirsResponse:
    m = messages.alter_replica_log_dirs_response
    return m.AlterReplicaLogDirsResponse(
        results=[
            m.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    m.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


APIS: Final = (
    serve_api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, alter_replica_log_dirs, ALTER_CLUSTER, failure=_move_failed),
    serve_api(ApiKey.DESCRIBE_LOG_DIRS, 0, 4, describe_log_dirs, DESCRIBE_CLUSTER),
)
