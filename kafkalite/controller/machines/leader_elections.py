"""Requested elections: preferred leaders (by API, znode or timer) and unclean ones."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable

from kafkalite.controller.cluster_state import ClusterState, PartitionContext
from kafkalite.controller.machines.partition_state_machine import (
    Strategy,
    bring_partitions_online,
    elect_missing_leaders,
)
from kafkalite.controller.steps import Pause, Steps, exists, partition_list, pieces, read, write
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import NO_BROKER, BrokerId, TopicPartition
from zk import paths
from zk.store import Delete
from zk.znodes import MalformedZnodeError, PreferredElection

logger = logging.getLogger(__name__)

Results = dict[TopicPartition, KafkaError | None]


def elect_leaders(
    cluster: ClusterState, partitions: Collection[TopicPartition] | None, *, unclean: bool
) -> Steps[Results]:
    """Process ElectLeaders (KIP-460); return the error or None by partition.

    Of all partitions (None) those that need no election, or are being deleted, are not in the result.
    """
    if partitions is None:
        wanted = [p for p, _ in cluster.partitions() if not cluster.is_queued_for_deletion(p.topic)]
    else:
        wanted = list(dict.fromkeys(partitions))
    results: Results = {}
    elected = []
    for some in pieces(wanted):
        for partition in some:
            refusal = _refusal(cluster, partition, unclean)
            if refusal is None:
                elected.append(partition)
            elif partitions is not None or refusal.code is not ErrorCode.ELECTION_NOT_NEEDED:
                results[partition] = refusal
        if len(wanted) > len(some):
            yield Pause()
    strategy = Strategy.OFFLINE_UNCLEAN if unclean else Strategy.PREFERRED
    failures = (yield from bring_partitions_online(cluster, elected, strategy)) if elected else {}
    results |= {partition: failures.get(partition) for partition in elected}
    return results


def process_zk_preferred_election(cluster: ClusterState) -> Steps[None]:
    """Hold the elections in /admin/preferred_replica_election, if it exists, and delete it."""
    if not (yield from exists(paths.PREFERRED_REPLICA_ELECTION)):
        return
    (znode,) = yield from read((paths.PREFERRED_REPLICA_ELECTION,))
    if znode is not None:
        try:
            entries = PreferredElection.decode(znode[0]).partitions
        except MalformedZnodeError as problem:
            logger.error("%s is unreadable and will be deleted: %s", paths.PREFERRED_REPLICA_ELECTION, problem)
            entries = ()
        partitions = [TopicPartition(*entry) for entry in entries]
        results = yield from elect_leaders(cluster, partitions, unclean=False)
        for partition, failure in results.items():
            if failure is not None and failure.code is not ErrorCode.ELECTION_NOT_NEEDED:
                logger.warning("preferred leader of %s not elected: %s", partition, failure)
    yield from write((Delete(paths.PREFERRED_REPLICA_ELECTION),))
    yield from exists(paths.PREFERRED_REPLICA_ELECTION)  # watch for the next one


def rebalance_leaders(cluster: ClusterState) -> Steps[None]:
    """Elect preferred leaders where a broker's imbalance is above leader.imbalance.per.broker.percentage."""
    allowed = cluster.settings.leader_imbalance_per_broker_percentage / 100
    for broker, (preferred, misplaced) in sorted(find_imbalance(cluster).items()):
        if len(misplaced) / preferred <= allowed:
            continue
        possible = [p for p in misplaced if _can_lead(cluster, p, broker)]
        if possible:
            logger.info("electing preferred leader %d for %s", broker, partition_list(possible))
            yield from bring_partitions_online(cluster, possible, Strategy.PREFERRED)


def return_leaders(cluster: ClusterState, partitions: Iterable[TopicPartition]) -> Steps[None]:
    """Give leadership back to those of these partitions' preferred leaders that stopped in good order and are in sync again.

    With auto.leader.rebalance.enable, without waiting until leader.imbalance.check.interval.seconds are over as Kafka does: a restart
    that was planned leaves the leaders where they were.
    """
    returning = []
    for partition in partitions:
        broker, state = cluster.handed_over.get(partition), cluster.find(partition)
        if broker is None or state is None or state.leadership is None:
            continue
        if broker in state.leadership.isr and cluster.is_live(broker):
            del cluster.handed_over[partition]
            if cluster.settings.auto_leader_rebalance_enable and state.assignment.preferred == broker != state.leader:
                returning.append(partition)
    if returning:
        logger.info("leadership returns to preferred leaders: %s", partition_list(returning))
        yield from bring_partitions_online(cluster, returning, Strategy.PREFERRED)


def find_imbalance(cluster: ClusterState) -> dict[BrokerId, tuple[int, list[TopicPartition]]]:
    """Return by broker the number of partitions that prefer it, and those of them with another leader."""
    preferred: defaultdict[BrokerId, int] = defaultdict(int)
    misplaced: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for partition, state in cluster.partitions():
        if cluster.is_queued_for_deletion(partition.topic) or not state.assignment.replicas:
            continue
        broker = state.assignment.preferred
        preferred[broker] += 1
        if is_misplaced(state):
            misplaced[broker].append(partition)
    return {broker: (count, misplaced[broker]) for broker, count in preferred.items()}


def is_misplaced(state: PartitionContext) -> bool:
    """True if another broker than the preferred one leads the partition."""
    return bool(state.assignment.replicas) and state.leader is not None and state.leader != state.assignment.preferred


def process_unclean_election_enable(cluster: ClusterState, topic: str | None) -> Steps[None]:
    """Elect missing leaders again in a topic, or in all (None), for which unclean elections were allowed."""
    known = None if topic is None else cluster.topics.get(topic)
    if topic is None or known is not None:
        yield from elect_missing_leaders(cluster, None if known is None else known.topic_partitions())


def _refusal(cluster: ClusterState, partition: TopicPartition, unclean: bool) -> KafkaError | None:
    state = cluster.find(partition)
    if state is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if cluster.is_queued_for_deletion(partition.topic):
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    leader = state.leader
    if unclean:
        needed = leader is None or leader == NO_BROKER or not cluster.is_live(leader)
    else:
        needed = leader != state.assignment.preferred
    return (
        None if needed else KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    )


def _can_lead(cluster: ClusterState, partition: TopicPartition, broker: BrokerId) -> bool:
    leadership = cluster.leadership(partition)
    return leadership is not None and broker in leadership.isr and cluster.is_online(broker, partition)
