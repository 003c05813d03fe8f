"""The state-change trace: the transitions of partitions and replicas, on logger `kafkalite.state_change`.

Every line has the same keys in the same order, so that it can be searched across the logs of all controllers. At INFO are the elections of
every partition, on one line those of a topic that have the same outcome, and one line for the replicas of a broker that go offline or
online together. What is decided in memory only, and every single replica, is at DEBUG (Kafka has both at TRACE): a broker's death changes
a hundred thousand replicas, and each of the brokers logs which role it has taken.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from kafkalite.controller.cluster_state import (
    ClusterState,
    PartitionAndReplica,
    PartitionStatus,
    ReplicaStatus,
)
from kafkalite.types import BrokerId, TopicPartition

logger = logging.getLogger("kafkalite.state_change")

_ON_A_LINE: Final = 200
"""Partitions of a topic on one line, which has some thousand characters then."""

_Role: TypeAlias = tuple[BrokerId, tuple[BrokerId, ...], int]
"""Leader, ISR, leader epoch."""


def log_partition_changes(
    cluster: ClusterState, changes: Iterable[tuple[TopicPartition, PartitionStatus]], after: PartitionStatus
) -> None:
    """Log that partitions changed their states from the given ones, or kept them with a new leader or ISR.

    Partitions of a topic that have everything else in common are on one line.
    """
    level = logging.INFO if after is PartitionStatus.ONLINE else logging.DEBUG
    if not logger.isEnabledFor(level):
        return
    alike: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for (topic, index), before in changes:
        alike[topic, before, _role(cluster, TopicPartition(topic, index))].append(index)
    for (topic, before, role), indexes in alike.items():
        for start in range(0, len(indexes), _ON_A_LINE):
            name = _name(topic, indexes[start : start + _ON_A_LINE])
            _write(level, cluster, name, "-", before.value, after.value, role)


def log_replica_changes(
    cluster: ClusterState,
    broker: BrokerId,
    partitions: Sequence[TopicPartition],
    before: ReplicaStatus,
    after: ReplicaStatus,
) -> None:
    """Log that replicas of a broker changed their states: each at DEBUG, and all of them, unless they are created, on one line at INFO."""
    is_creation = after is ReplicaStatus.NEW or (before is ReplicaStatus.NEW and after is ReplicaStatus.ONLINE)
    are_many = len(partitions) > 1
    level = logging.DEBUG if is_creation or are_many else logging.INFO
    if logger.isEnabledFor(level):
        for partition in partitions:
            role = _role(cluster, partition)
            _write(level, cluster, str(partition), str(broker), before.value, after.value, role)
    if are_many and not is_creation:
        logger.info(
            "partitions=%d broker=%d transition=%s->%s controller=%d controller_epoch=%d reason=%s first=%s",
            len(partitions),
            broker,
            before.value,
            after.value,
            cluster.controller_id,
            cluster.epoch,
            cluster.reason,
            partitions[0],
        )


def log_failed_change(
    cluster: ClusterState, subject: TopicPartition | PartitionAndReplica, before: str, after: str, why: str
) -> None:
    """Log a transition that was illegal or failed."""
    if isinstance(subject, PartitionAndReplica):
        name = f"{subject.partition} broker={subject.broker_id}"
    else:
        name = f"{subject} broker=-"
    logger.error(
        "partition=%s transition=%s->%s refused=%r controller=%d controller_epoch=%d reason=%s",
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


def _name(topic: str, indexes: Sequence[int]) -> str:
    """Return the name of partitions of a topic: `t-0`, or `t-{0,3}`."""
    return f"{topic}-{indexes[0]}" if len(indexes) == 1 else f"{topic}-{{{','.join(map(str, indexes))}}}"


def _write(
    level: int,
    cluster: ClusterState,
    partition: str,
    broker: str,
    before: str,
    after: str,
    role: _Role | None,
) -> None:
    leader, isr, leader_epoch = ("-", "-", "-") if role is None else (role[0], list(role[1]), role[2])
    logger.log(
        level,
        "partition=%s broker=%s transition=%s->%s leader=%s isr=%s leader_epoch=%s "
        "controller=%d controller_epoch=%d reason=%s",
        partition,
        broker,
        before,
        after,
        leader,
        isr,
        leader_epoch,
        cluster.controller_id,
        cluster.epoch,
        cluster.reason,
    )
