"""Partition state znodes as `Leadership`: reading and writing many at once."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafkalite.controller.assignment import share_brokers
from kafkalite.controller.cluster_state import ClusterState, Leadership
from kafkalite.controller.steps import READ_PIECES, Pause, Steps, Znode, pieces, read, write
from kafkalite.errors import InvariantBroken, ensure
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import BadVersionError, Create, Stat, StoreError, Write
from zk.znodes import ConfigEntity, MalformedZnodeError, PartitionState
from zk.znodes.topics import encode_partition_state

logger = logging.getLogger(__name__)

_UNCLEAN_KEY = "unclean.leader.election.enable"


def read_leaderships(partitions: Collection[TopicPartition]) -> Steps[dict[TopicPartition, Leadership]]:
    """Return the state of each partition with a readable state znode; unreadable ones are watched, so a repair is an event."""
    found: dict[TopicPartition, Leadership] = {}
    for many in pieces(partitions, READ_PIECES):
        znodes = yield from read([paths.partition_state(*partition) for partition in many])
        for some in pieces(zip(many, znodes, strict=True)):
            found |= _decode_states(some)
            unreadable = [each for each, znode in some if znode and each not in found]
            if unreadable:
                found |= yield from watch_leaderships(unreadable)
            if len(many) > len(some):
                yield Pause()
    return found


def current_leaderships(
    cluster: ClusterState, partitions: Collection[TopicPartition], *, fresh: bool = False
) -> Steps[dict[TopicPartition, Leadership]]:
    """Return the leaderships in memory, or, where those may be out of date, in ZooKeeper.

    Since KIP-497 only the controller writes them, so memory is right unless a write has just met another version
    (`fresh`). Before, leaders write them too.
    """
    if fresh or not cluster.settings.inter_broker_protocol_version.alters_partitions:
        return (yield from read_leaderships(partitions))
    known = ((partition, cluster.leadership(partition)) for partition in partitions)
    return {partition: leadership for partition, leadership in known if leadership is not None}


def watch_leaderships(partitions: Collection[TopicPartition]) -> Steps[dict[TopicPartition, Leadership]]:
    """Read states and watch them, needed where leaders write ISRs themselves (before KIP-497)."""
    znodes = yield from read([paths.partition_state(*partition) for partition in partitions], watch=True)
    return _decode_states(zip(partitions, znodes, strict=True))


def _decode_states(read_states: Iterable[tuple[TopicPartition, Znode | None]]) -> dict[TopicPartition, Leadership]:
    found = {}
    for partition, znode in read_states:
        if znode is None:
            continue
        try:
            found[partition] = _leadership(PartitionState.decode(znode[0]), znode[1])
        except MalformedZnodeError as problem:
            path = paths.partition_state(*partition)
            logger.error("%s is unreadable, the partition gets no leader until it is repaired: %s", path, problem)
    return found


def _leadership(state: PartitionState, stat: Stat) -> Leadership:
    return Leadership(
        state.leader,
        state.leader_epoch,
        share_brokers(state.isr),
        state.controller_epoch,
        stat.version,
        state.recovering,
        stat.mzxid,
    )


def _encode_state(leadership: Leadership) -> bytes:
    ensure(leadership.isr, "an ISR in ZooKeeper is never empty")
    return encode_partition_state(
        leadership.leader,
        leadership.leader_epoch,
        leadership.isr,
        leadership.controller_epoch,
        leadership.recovering,
    )


@dataclass(frozen=True, slots=True)
class WrittenLeaderships:
    """Results of conditional writes: the new states, partitions whose znode has another version, and other errors."""

    written: dict[TopicPartition, Leadership] = field(default_factory=dict)
    outdated: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, StoreError] = field(default_factory=dict)


def write_leaderships(leaderships: Mapping[TopicPartition, Leadership]) -> Steps[WrittenLeaderships]:
    """Replace each state whose znode still has the version `partition_epoch`."""
    operations: list[Write] = []
    for some in pieces(leaderships.items()):
        operations += [
            Write(paths.partition_state(*partition), _encode_state(leadership), leadership.partition_epoch)
            for partition, leadership in some
        ]
        if len(leaderships) > len(some):
            yield Pause()
    results = yield from write(operations)
    outcome = WrittenLeaderships()
    for answered in pieces(zip(leaderships.items(), results, strict=True)):
        for (partition, leadership), result in answered:
            if isinstance(result, Stat):
                outcome.written[partition] = leadership.at_version(result.version)
            elif isinstance(result, BadVersionError):
                outcome.outdated.append(partition)
            elif isinstance(result, StoreError):
                outcome.failed[partition] = result
            else:
                raise InvariantBroken(f"a write cannot have the result {result!r}")
        if len(leaderships) > len(answered):
            yield Pause()
    return outcome


def create_leaderships(
    cluster: ClusterState, leaderships: Mapping[TopicPartition, Leadership]
) -> Steps[dict[TopicPartition, StoreError]]:
    """Create the first state of each partition, and its parents; return the errors."""
    for parents in _parents(cluster, leaderships):
        yield from write(parents)  # existing ones are refused, which does not matter
    creations = [Create(paths.partition_state(*each), _encode_state(leaderships[each])) for each in leaderships]
    results = zip(leaderships, (yield from write(creations)), strict=True)
    return {partition: result for partition, result in results if isinstance(result, StoreError)}


def _parents(cluster: ClusterState, partitions: Collection[TopicPartition]) -> Iterator[list[Create]]:
    """Return the creations of the znodes above the states, level by level, outermost first."""
    topics = dict.fromkeys(partition.topic for partition in partitions)
    started = {t for t in topics if any(p.leadership is not None for p in cluster.topics[t].partitions.values())}
    yield [Create(paths.partitions(topic)) for topic in topics if topic not in started]
    yield [Create(paths.partition(*partition)) for partition in partitions]


def read_topics_allowing_unclean(cluster: ClusterState, topics: Sequence[str]) -> Steps[set[str]]:
    """Return those of `topics` whose own setting, or else the broker's, allows an unclean leader."""
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
