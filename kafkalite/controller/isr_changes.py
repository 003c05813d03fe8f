"""ISR changes by leaders: AlterPartition (KIP-497), or, before it, their own writes to ZooKeeper with a notification."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from kafkalite.controller import events
from kafkalite.controller.cluster_state import ClusterState, Leadership
from kafkalite.controller.machines.leader_elections import return_leaders
from kafkalite.controller.machines.leadership_znodes import read_leaderships, write_leaderships
from kafkalite.controller.machines.request_batch import publish_metadata
from kafkalite.controller.notifications import read_notifications
from kafkalite.controller.requests import AlterPartition, IsrProposal
from kafkalite.controller.steps import QueueLater, Steps, pieces, write
from kafkalite.controller.topics import reassignment
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition
from zk import paths
from zk.store import Delete
from zk.znodes import IsrChange

logger = logging.getLogger(__name__)

_FOLLOWED_TOGETHER: Final = 1_000
"""Partitions whose ISRs have changed, of which what follows is done in one go."""


def process_alter_partition(cluster: ClusterState, request: AlterPartition) -> Steps[list[Leadership | KafkaError]]:
    """Return the present leadership or the error for each proposal.

    Raises KafkaError STALE_BROKER_EPOCH unless the sender is the broker's registered incarnation.
    """
    sender = cluster.brokers.get(request.broker_id)
    if sender is None or not cluster.is_live(request.broker_id) or request.broker_epoch != sender.epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    found: list[Leadership | KafkaError] = []
    for some in pieces(request.proposals):
        found += yield from _alter_partitions(cluster, request.broker_id, some)
    return found


def _alter_partitions(
    cluster: ClusterState, leader: BrokerId, proposals: Sequence[IsrProposal]
) -> Steps[list[Leadership | KafkaError]]:
    outcomes: dict[TopicPartition, Leadership | KafkaError] = {}
    accepted: dict[TopicPartition, Leadership] = {}
    requested: list[TopicPartition | None] = []
    for proposal in proposals:
        partition = _resolve_partition(cluster, proposal)
        requested.append(partition)
        if partition is None:
            continue
        try:
            settled, wanted = _validate_proposal(cluster, partition, leader, proposal)
        except KafkaError as problem:
            outcomes[partition] = problem.as_outcome()
        else:
            outcomes[partition] = settled
            if wanted is not None:
                accepted[partition] = wanted
    written = yield from write_leaderships(accepted)
    outcomes |= written.written
    outcomes |= dict.fromkeys(written.outdated, KafkaError(ErrorCode.INVALID_UPDATE_VERSION))
    for partition, leadership in written.written.items():
        cluster.partition(partition).leadership = leadership
    for partition, error in written.failed.items():
        logger.error("ISR of %s not written: %r", partition, error)
        outcomes[partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    changed = [each for each in outcomes if cluster.find(each) is not None]
    yield from publish_metadata(cluster, changed, can_wait=True)
    yield from _follow_later(cluster, written.written)
    unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return [unknown if partition is None else outcomes[partition] for partition in requested]


def process_isr_change_notification(cluster: ClusterState) -> Steps[None]:
    """Read the states of the partitions in the notifications, send them to the brokers, delete the notifications."""
    notified, changes = yield from read_notifications(paths.ISR_CHANGES, IsrChange.decode)
    changed = dict.fromkeys(TopicPartition(*entry) for change in changes for entry in change.partitions)
    known = [partition for partition in changed if cluster.find(partition) is not None]
    for partition, leadership in (yield from read_leaderships(known)).items():
        cluster.partition(partition).leadership = leadership
    if known:
        yield from publish_metadata(cluster, known, can_wait=True)
        yield from _follow_later(cluster, known)
    yield from write([Delete(path) for path in notified])


def _follow_later(cluster: ClusterState, partitions: Iterable[TopicPartition]) -> Steps[None]:
    """Queue what follows from new ISRs behind the events that wait: leaders are answered at once, and it is done for many together."""
    following = [each for each in partitions if each in cluster.reassigning or each in cluster.handed_over]
    if following and not cluster.altered:
        yield QueueLater(0, events.IsrsAltered())
    cluster.altered.update(dict.fromkeys(following))


def process_isrs_altered(cluster: ClusterState) -> Steps[None]:
    """Complete reassignments whose targets are in sync by now, and return leaderships to brokers that are.

    What is beyond `_FOLLOWED_TOGETHER` comes after the events that wait, so none of them waits for a broker's whole decommission.
    """
    taken = list(islice(cluster.altered, _FOLLOWED_TOGETHER))
    for partition in taken:
        del cluster.altered[partition]
    if cluster.altered:
        yield QueueLater(0, events.IsrsAltered())
    altered = [partition for partition in taken if cluster.find(partition) is not None]
    yield from reassignment.maybe_complete_reassignments(cluster, altered)
    yield from return_leaders(cluster, altered)


def _resolve_partition(cluster: ClusterState, proposal: IsrProposal) -> TopicPartition | None:
    """Return the partition of a proposal, None for an unknown topic id."""
    name = proposal.topic.name
    if name is None and proposal.topic.topic_id != NO_TOPIC_ID:
        name = cluster.topic_names.get(proposal.topic.topic_id)
    return None if name is None else TopicPartition(name, proposal.partition)


def _validate_proposal(
    cluster: ClusterState, partition: TopicPartition, leader: BrokerId, wanted: IsrProposal
) -> tuple[Leadership, Leadership | None]:
    """Return the present leadership and the one to be written, None if they agree. Raises KafkaError in Kafka's order."""
    current = cluster.leadership(partition)
    if current is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.partition_epoch > current.partition_epoch or wanted.leader_epoch > current.leader_epoch:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "the leader knows more than this controller")
    if wanted.leader_epoch < current.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if set(wanted.isr) == set(current.isr) and wanted.recovering == current.recovering:
        return current, None
    if wanted.partition_epoch < current.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
    if not wanted.isr or (wanted.recovering and (len(wanted.isr) > 1 or not current.recovering)):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not all(cluster.is_live(member) for member in wanted.isr):
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)
    return current, replace(
        current,
        leader=leader,
        isr=wanted.isr,
        controller_epoch=cluster.epoch,
        recovering=wanted.recovering,
        partition_epoch=wanted.partition_epoch,
    )
