"""The state-change trace: the transitions of partitions and replicas, on logger `kafkalite.state_change`.

Every line has the same keys in the same order, so that it can be searched across the logs of all controllers; partitions with the same
outcome may share a line (`partition_names`). Of a creation only the first leader of each partition is logged at INFO. The steps before it
and those of its replicas say nothing else, and are at DEBUG (Kafka has the latter at TRACE), as is that a partition has no leader until the
next election.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from kafkalite.controller.cluster_state import (
    ClusterState,
    PartitionAndReplica,
    PartitionStatus,
    ReplicaStatus,
)
from kafkalite.controller.machines.partition_names import ONE_BY_ONE, name_partitions
from kafkalite.errors import KafkaError
from kafkalite.types import BrokerId, TopicPartition

logger = logging.getLogger("kafkalite.state_change")

_Role: TypeAlias = tuple[BrokerId, tuple[BrokerId, ...], int]
"""Leader, ISR, leader epoch."""
_Status = TypeVar("_Status", PartitionStatus, ReplicaStatus)
_Change: TypeAlias = tuple[BrokerId | None, _Status, _Role | None]
"""Broker, state before, role."""


def log_partition_changes(
    cluster: ClusterState, changes: Collection[tuple[TopicPartition, PartitionStatus]], after: PartitionStatus
) -> None:
    """Log that partitions changed their states from the given ones, or kept them with a new leader or ISR."""
    level = logging.INFO if after is PartitionStatus.ONLINE else logging.DEBUG
    if logger.isEnabledFor(level):
        alike: defaultdict[_Change[PartitionStatus], list[TopicPartition]] = defaultdict(list)
        for partition, before in changes:
            alike[None, before, _role(cluster, partition)].append(partition)
        _write_changes(level, cluster, alike, after, len(changes))


def log_replica_changes(
    cluster: ClusterState,
    broker: BrokerId,
    changes: Collection[tuple[TopicPartition, ReplicaStatus]],
    after: ReplicaStatus,
) -> None:
    """Log that replicas on a broker changed their states from the given ones."""
    alike: defaultdict[_Change[ReplicaStatus], list[TopicPartition]] = defaultdict(list)
    created: defaultdict[_Change[ReplicaStatus], list[TopicPartition]] = defaultdict(list)
    writes, writes_creations = logger.isEnabledFor(logging.INFO), logger.isEnabledFor(logging.DEBUG)
    for partition, before in changes:
        is_creation = after is ReplicaStatus.NEW or (before is ReplicaStatus.NEW and after is ReplicaStatus.ONLINE)
        if writes_creations if is_creation else writes:
            group = created if is_creation else alike
            group[broker, before, _role(cluster, partition)].append(partition)
    _write_changes(logging.DEBUG, cluster, created, after, len(changes))
    _write_changes(logging.INFO, cluster, alike, after, len(changes))


def log_failed_elections(cluster: ClusterState, failures: Mapping[TopicPartition, KafkaError]) -> None:
    """Log that partitions have no leader, at ERROR."""
    alike: defaultdict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
    for partition, problem in failures.items():
        why = str(problem).replace(f" for partition {partition}", "")
        alike[cluster.partition(partition).status.value, why].append(partition)
    for (before, why), partitions in alike.items():
        for names in _name(partitions, len(failures)):
            _write_failure(cluster, f"{names} broker=-", before, PartitionStatus.ONLINE.value, why)


def log_failed_change(
    cluster: ClusterState, subject: TopicPartition | PartitionAndReplica, before: str, after: str, why: str
) -> None:
    """Log a transition that was illegal or failed."""
    if isinstance(subject, PartitionAndReplica):
        name = f"partition={subject.partition} broker={subject.broker_id}"
    else:
        name = f"partition={subject} broker=-"
    _write_failure(cluster, name, before, after, why)


def _write_failure(cluster: ClusterState, name: str, before: str, after: str, why: str) -> None:
    logger.error(
        "%s transition=%s->%s refused=%r controller=%d controller_epoch=%d reason=%s",
        name,
        before,
        after,
        why,
        cluster.controller_id,
        cluster.epoch,
        cluster.reason,
    )


def _role(cluster: ClusterState, partition: TopicPartition) -> _Role | None:
    known = cluster.leadership(partition)
    return None if known is None else (known.leader, known.isr, known.leader_epoch)


def _write_changes(
    level: int,
    cluster: ClusterState,
    alike: Mapping[_Change[_Status], Sequence[TopicPartition]],
    after: _Status,
    changes: int,
) -> None:
    for (broker, before, role), partitions in alike.items():
        leader, isr, leader_epoch = ("-", "-", "-") if role is None else (role[0], list(role[1]), role[2])
        for names in _name(partitions, changes):
            logger.log(
                level,
                "%s broker=%s transition=%s->%s leader=%s isr=%s leader_epoch=%s controller=%d controller_epoch=%d reason=%s",
                names,
                "-" if broker is None else broker,
                before.value,
                after.value,
                leader,
                isr,
                leader_epoch,
                cluster.controller_id,
                cluster.epoch,
                cluster.reason,
            )


def _name(partitions: Sequence[TopicPartition], changes: int) -> Iterator[str]:
    """Yield what each line says of partitions, which share lines if there are many changes in all."""
    if changes > ONE_BY_ONE:
        yield from name_partitions(partitions)
    else:
        for partition in partitions:
            yield f"partition={partition}"
