"""Partition state znodes as `Leadership`: reading many at once, and the operations that create and rewrite them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence

from kafkalite.controller.cluster_state import ClusterState, Leadership
from kafkalite.controller.steps import Steps, Znode, pieces, read
from kafkalite.errors import ensure
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import Create, Result, Stat, Write
from zk.znodes import ConfigEntity, MalformedZnodeError, PartitionState

logger = logging.getLogger(__name__)

_UNCLEAN_KEY = "unclean.leader.election.enable"


def read_leaderships(partitions: Collection[TopicPartition]) -> Steps[dict[TopicPartition, Leadership]]:
    """The state of each partition that has a readable state znode; of one that cannot be read, the next change is an event."""
    found: dict[TopicPartition, Leadership] = {}
    for some in pieces(partitions):
        znodes = yield from read([paths.partition_state(*partition) for partition in some])
        found |= _decode_states(some, znodes)
        unreadable = [each for each, znode in zip(some, znodes, strict=True) if znode and each not in found]
        if unreadable:
            found |= yield from watch_leaderships(unreadable)
    return found


def current_leaderships(
    cluster: ClusterState, partitions: Collection[TopicPartition], *, fresh: bool = False
) -> Steps[dict[TopicPartition, Leadership]]:
    """The leaderships on which to decide: those in memory, or, when they may be out of date, those in ZooKeeper.

    Since KIP-497 the controller alone writes them, so memory is right unless a write has just met another version
    (`fresh`). Before, leaders write them too.
    """
    if fresh or not cluster.settings.inter_broker_protocol_version.alters_partitions:
        return (yield from read_leaderships(partitions))
    known = ((partition, cluster.leadership(partition)) for partition in partitions)
    return {partition: leadership for partition, leadership in known if leadership is not None}


def watch_leaderships(partitions: Collection[TopicPartition]) -> Steps[dict[TopicPartition, Leadership]]:
    """The same, and an event for the next change of each (needed where leaders write ISRs themselves)."""
    znodes = yield from read([paths.partition_state(*partition) for partition in partitions], watch=True)
    return _decode_states(partitions, znodes)


def _decode_states(
    partitions: Collection[TopicPartition], znodes: Sequence[Znode | None]
) -> dict[TopicPartition, Leadership]:
    found = {}
    for partition, znode in zip(partitions, znodes, strict=True):
        if znode is None:
            continue
        try:
            found[partition] = _leadership(PartitionState.decode(znode[0]), znode[1])
        except MalformedZnodeError as problem:
            path = paths.partition_state(*partition)
            logger.error("%s: the partition gets no leader until it is mended: %s", path, problem)
    return found


def _leadership(state: PartitionState, stat: Stat) -> Leadership:
    return Leadership(
        state.leader, state.leader_epoch, state.isr, state.controller_epoch, stat.version, state.recovering, stat.mzxid
    )


def _encode_state(leadership: Leadership) -> bytes:
    ensure(leadership.isr, "an ISR in ZooKeeper is never empty")
    return PartitionState(
        leadership.leader,
        leadership.leader_epoch,
        leadership.isr,
        leadership.controller_epoch,
        leadership.recovering,
    ).encode()


def leadership_write(partition: TopicPartition, leadership: Leadership) -> Write:
    """Replace the state, if the znode still has version `leadership.partition_epoch`."""
    return Write(paths.partition_state(*partition), _encode_state(leadership), leadership.partition_epoch)


def leadership_creation(partition: TopicPartition, leadership: Leadership) -> Create:
    """The first state of a partition."""
    return Create(paths.partition_state(*partition), _encode_state(leadership))


def leadership_parents(cluster: ClusterState, partitions: Collection[TopicPartition]) -> Iterator[list[Create]]:
    """What must be there before the states, level by level, outermost first."""
    topics = dict.fromkeys(partition.topic for partition in partitions)
    started = {t for t in topics if any(p.leadership is not None for p in cluster.topics[t].partitions.values())}
    yield [Create(paths.partitions(topic)) for topic in topics if topic not in started]
    yield [Create(paths.partition(*partition)) for partition in partitions]


def written_version(result: Result) -> int:
    """The version of a znode after the write that had this result."""
    ensure(isinstance(result, Stat), f"a write cannot have the result {result!r}")
    return result.version  # type: ignore[union-attr]


def read_topics_allowing_unclean(cluster: ClusterState, topics: Sequence[str]) -> Steps[set[str]]:
    """Those of `topics` whose own setting, or else the broker's, allows an unclean leader."""
    znodes = yield from read([paths.topic_config(topic) for topic in topics])
    allowed = set()
    for topic, znode in zip(topics, znodes, strict=True):
        try:
            own = None if znode is None else ConfigEntity.decode(znode[0]).config.get(_UNCLEAN_KEY)
        except MalformedZnodeError as problem:
            logger.error("no unclean leader for topic %s, its config cannot be read: %s", topic, problem)
            own = "false"
        by_default = cluster.settings.unclean_leader_election_enable
        if by_default if own is None else own.strip().lower() == "true":
            allowed.add(topic)
    return allowed
