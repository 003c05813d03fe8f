"""Metrics by topic and partition: traffic, replicas, logs. At most `kafkalite.metrics.max.partitions` of each are exposed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.observation.exposition import (
    PAUSE,
    Family,
    Sample,
    counter,
    finish_with_pauses,
    gauge,
    gauges,
    label_text,
)
from kafkalite.broker.parts import HasConfig, HasReplicas, HasTraffic
from kafkalite.portions import Work

if TYPE_CHECKING:
    from kafkalite.broker.replication.isr_changes import AlterPartitionSender, ZooKeeperIsrWriter
    from kafkalite.broker.replication.partition import Partition
    from kafkalite.broker.replication.replica_fetchers import ReplicaFetchers
    from kafkalite.broker.traffic import TopicTraffic
    from kafkalite.storage.directories.cleaner import LogCleaner
    from kafkalite.storage.directories.log_store import LogStore
    from kafkalite.storage.log.partition_log import PartitionLog

_LOGS_AT_ONCE: Final = 2000
"""Logs that are sorted before other work of the event loop, in two milliseconds."""

_TRAFFIC: Final = (
    ("bytes_in", "Bytes of records that producers sent.", "bytesin"),
    ("bytes_out", "Bytes of records that consumers were sent.", "bytesout"),
    ("records_in", "Records that producers sent.", "messagesin"),
    ("records_out", "Records that consumers were sent.", None),
)

_OF_LOGS: Final = (
    ("kafkalite_log_size_bytes", "size_bytes", "Size of a replica's log.", "size"),
    ("kafkalite_log_start_offset", "log_start_offset", "First offset of a replica's log.", "logstartoffset"),
    ("kafkalite_log_end_offset", "log_end_offset", "Offset of the next record.", "logendoffset"),
)


class Parts(HasConfig, HasTraffic, HasReplicas, Protocol):
    """The parts of a broker that these metrics read."""

    @property
    def fetchers(self) -> ReplicaFetchers: ...

    @property
    def isr_changes(self) -> AlterPartitionSender | ZooKeeperIsrWriter: ...

    @property
    def logs(self) -> LogStore: ...

    @property
    def cleaner(self) -> LogCleaner: ...


def families(parts: Parts) -> Iterator[Family]:
    """Return traffic, then the state of the replicas here, then their logs."""
    yield from _traffic(parts)
    yield from _replicas(parts)
    yield from _logs(parts)


def _traffic(parts: Parts) -> Iterator[Family]:
    topics = sorted(parts.traffic.topics.items())[: parts.config.kafkalite_metrics_max_partitions]
    for attribute, help, old in _TRAFFIC:
        yield Family(
            f"kafkalite_topic_{attribute}_total",
            "counter",
            help,
            _of_topics(topics, attribute),
            f"kafka_server_brokertopicmetrics_{old}_total" if old else None,
        )
    yield counter(
        "kafkalite_replication_bytes_in_total",
        "Bytes of records that this broker fetched as a follower.",
        parts.fetchers.bytes_in,
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
    )
    yield counter(
        "kafkalite_replication_bytes_out_total",
        "Bytes of records that followers were sent.",
        parts.traffic.replication_bytes_out,
        "kafka_server_brokertopicmetrics_replicationbytesout_total",
    )


def _of_topics(topics: Sequence[tuple[str, TopicTraffic]], attribute: str) -> Iterator[Sample]:
    for topic, counts in topics:
        yield Sample(label_text(topic=topic), getattr(counts, attribute))


def _replicas(parts: Parts) -> Iterator[Family]:
    statistics = parts.replicas.statistics()
    for name, key, help, old in (
        ("kafkalite_partitions", "partitions", "Replicas on this broker.", "partitioncount"),
        ("kafkalite_leaders", "leaders", "Partitions that this broker leads.", "leadercount"),
        (
            "kafkalite_under_replicated_partitions",
            "under_replicated",
            "Led partitions with replicas out of sync.",
            "underreplicatedpartitions",
        ),
        (
            "kafkalite_under_min_isr_partitions",
            "under_min_isr",
            "Led partitions with fewer replicas in sync than min.insync.replicas.",
            "underminisrpartitioncount",
        ),
    ):
        yield gauge(name, help, statistics[key], f"kafka_server_replicamanager_{old}")
    yield gauge(
        "kafkalite_follower_lag_max_records",
        "Offsets by which the slowest follower is behind, of all led partitions.",
        max(map(_lag, parts.replicas.lagging()), default=0),
    )
    yield gauge(
        "kafkalite_topic_id_conflicts",
        "Replicas that are not served, for their log has another topic id than the controller tells; /health names them.",
        len(parts.replicas.topic_id_conflicts.found),
    )
    changes = parts.isr_changes
    old = "kafka_server_replicamanager_"
    yield counter("kafkalite_isr_shrinks_total", "Replicas left an ISR.", changes.shrinks, f"{old}isrshrinks_total")
    yield counter("kafkalite_isr_expands_total", "Replicas joined an ISR.", changes.expands, f"{old}isrexpands_total")


def _lag(partition: Partition) -> int:
    end = partition.log.log_end_offset
    return max((end - max(each.log_end_offset, 0) for each in partition.followers.values()), default=0)


def _logs(parts: Parts) -> Iterator[Family]:
    logs = parts.logs.all_logs()
    told = yield from _find_first_logs(logs, parts.config.kafkalite_metrics_max_partitions)
    for name, attribute, help, old in _OF_LOGS:
        yield Family(name, "gauge", help, _of_logs(told, attribute), f"kafka_log_log_{old}")
    sizes = {each.path: 0 for each in parts.logs.online_directories}
    yield from finish_with_pauses(_add_sizes(sizes, logs))
    yield gauges(
        "kafkalite_log_directory_size_bytes", "Size of all logs in a directory.", "directory", sorted(sizes.items())
    )
    uncleanable = parts.cleaner.uncleanable
    left_out = (
        Counter(log.log_directory.path for log in logs if log.topic_partition in uncleanable) if uncleanable else {}
    )
    yield gauges(
        "kafkalite_uncleanable_partitions",
        "Logs that the cleaner cannot compact; /health says why.",
        "directory",
        [(path, left_out.get(path, 0)) for path in sorted(sizes)],
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
    )
    yield gauge(
        "kafkalite_offline_log_directories",
        "Directories that failed.",
        len(parts.logs.offline_directories),
        "kafka_log_logmanager_offlinelogdirectorycount",
    )
    yield gauge(
        "kafkalite_metrics_omitted_partitions",
        "Replicas whose logs are not told, for there are more than kafkalite.metrics.max.partitions.",
        len(logs) - len(told),
    )


def _find_first_logs(logs: Sequence[PartitionLog], most: int) -> Generator[Family, None, Sequence[PartitionLog]]:
    """Return the first logs in the order of partitions, `most` at most, with pauses: to sort all of 100,000 takes 0.1 s."""
    found: list[PartitionLog] = []
    for start in range(0, len(logs), _LOGS_AT_ONCE):
        if start:
            yield PAUSE
        found = sorted([*found, *logs[start : start + _LOGS_AT_ONCE]], key=attrgetter("topic_partition"))[:most]
    return found


def _add_sizes(sizes: dict[str, int], logs: Sequence[PartitionLog]) -> Work[None]:
    """Add the sizes of logs to those of their directories, by path."""
    for log in logs:
        path = log.log_directory.path
        sizes[path] = sizes.get(path, 0) + log.size_bytes
        yield


def _of_logs(logs: Sequence[PartitionLog], attribute: str) -> Iterator[Sample]:
    for log in logs:
        topic, partition = log.topic_partition
        yield Sample(label_text(topic=topic, partition=partition), getattr(log, attribute))
