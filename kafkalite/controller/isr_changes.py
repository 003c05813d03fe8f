"""ISRs that leaders change: by AlterPartition (KIP-497), or by writing ZooKeeper themselves and leaving a notification."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from kafkalite.controller.cluster_state import ClusterState, Leadership
from kafkalite.controller.machines.leadership_znodes import leadership_write, read_leaderships, written_version
from kafkalite.controller.machines.request_batch import RequestBatch
from kafkalite.controller.requests import AlterPartition, IsrProposal
from kafkalite.controller.steps import Steps, list_children, pieces, publish, read, write
from kafkalite.controller.topics import reassignment
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition
from zk import paths
from zk.store import BadVersionError, Delete, StoreError
from zk.znodes import IsrChange, MalformedZnodeError

logger = logging.getLogger(__name__)


def process_alter_partition(cluster: ClusterState, request: AlterPartition) -> Steps[list[Leadership | KafkaError]]:
    """What holds now for each proposal. KafkaError STALE_BROKER_EPOCH unless the sender is the broker's present incarnation."""
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
    outcomes |= yield from _write_leaderships(cluster, accepted)
    batch = RequestBatch(cluster)
    batch.update_metadata(partition for partition in outcomes if cluster.find(partition) is not None)
    yield from publish(batch.commands())
    yield from reassignment.maybe_complete_reassignments(cluster, list(accepted))
    unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return [unknown if partition is None else outcomes[partition] for partition in requested]


def process_isr_change_notification(cluster: ClusterState) -> Steps[None]:
    """Leaders changed ISRs in ZooKeeper: read those states, pass them on, delete the notifications."""
    names = yield from list_children(paths.ISR_CHANGES, watch=True)
    notes = [paths.child(paths.ISR_CHANGES, name) for name in sorted(names)]
    changed: dict[TopicPartition, None] = {}
    for path, znode in zip(notes, (yield from read(notes)), strict=True):
        try:
            entries = () if znode is None else IsrChange.decode(znode[0]).partitions
        except MalformedZnodeError as problem:
            logger.error("%s is ignored: %s", path, problem)
            entries = ()
        changed.update((TopicPartition(*entry), None) for entry in entries)
    known = [partition for partition in changed if cluster.find(partition) is not None]
    for partition, leadership in (yield from read_leaderships(known)).items():
        cluster.partition(partition).leadership = leadership
    if known:
        batch = RequestBatch(cluster)
        batch.update_metadata(known)
        yield from publish(batch.commands())
        yield from reassignment.maybe_complete_reassignments(cluster, known)
    yield from write([Delete(path) for path in notes])


def _resolve_partition(cluster: ClusterState, proposal: IsrProposal) -> TopicPartition | None:
    """None for an unknown topic id."""
    name = proposal.topic.name
    if name is None and proposal.topic.topic_id != NO_TOPIC_ID:
        name = cluster.topic_names.get(proposal.topic.topic_id)
    return None if name is None else TopicPartition(name, proposal.partition)


def _validate_proposal(
    cluster: ClusterState, partition: TopicPartition, leader: BrokerId, wanted: IsrProposal
) -> tuple[Leadership, Leadership | None]:
    """The present leadership, and the one to be written unless they agree already. KafkaError in Kafka's order."""
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


def _write_leaderships(
    cluster: ClusterState, accepted: dict[TopicPartition, Leadership]
) -> Steps[dict[TopicPartition, Leadership | KafkaError]]:
    results = yield from write([leadership_write(p, leadership) for p, leadership in accepted.items()])
    outcomes: dict[TopicPartition, Leadership | KafkaError] = {}
    for (partition, leadership), result in zip(accepted.items(), results, strict=True):
        if isinstance(result, BadVersionError):
            outcomes[partition] = KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
        elif isinstance(result, StoreError):
            logger.error("ISR of %s not written: %r", partition, result)
            outcomes[partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            written = replace(leadership, partition_epoch=written_version(result))
            cluster.partition(partition).leadership = outcomes[partition] = written
    return outcomes
