"""ISRs that leaders change: by AlterPartition (KIP-497), or by writing ZooKeeper themselves and leaving a notification."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkalite.controller import reassignment
from kafkalite.controller.cluster_state import ClusterState, Leadership
from kafkalite.controller.leadership_znodes import leadership_write, read_leaderships, written_version
from kafkalite.controller.request_batch import RequestBatch
from kafkalite.controller.steps import Steps, list_children, publish, read, write
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition
from zk import paths
from zk.store import BadVersionError, Delete, StoreError
from zk.znodes import IsrChange, MalformedZnodeError

logger = logging.getLogger(__name__)

RECOVERED, RECOVERING = 0, 1
FIRST_VERSION_WITH_TOPIC_IDS = 2


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a leader asks for one partition."""

    leader_epoch: int
    isr: tuple[BrokerId, ...]
    recovering: bool
    partition_epoch: int


def alter_partition(cluster: ClusterState, request: Any, version: int) -> Steps[Any]:
    """The AlterPartitionResponse. KafkaError STALE_BROKER_EPOCH unless the sender is the broker's present incarnation."""
    sender = cluster.brokers.get(request.broker_id)
    if sender is None or not cluster.is_live(request.broker_id) or request.broker_epoch != sender.epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    outcomes: dict[TopicPartition, Leadership | KafkaError] = {}
    accepted: dict[TopicPartition, Leadership] = {}
    asked: list[tuple[Any, str | None]] = []
    for topic in request.topics:
        name = _topic_name(cluster, topic, version)
        asked.append((topic, name))
        if name is None:
            continue
        for data in topic.partitions:
            partition = TopicPartition(name, data.partition_index)
            try:
                settled, proposal = _checked(cluster, partition, request.broker_id, _proposal(data), version)
            except KafkaError as problem:
                outcomes[partition] = problem
            else:
                outcomes[partition] = settled
                if proposal is not None:
                    accepted[partition] = proposal
    outcomes |= yield from _written(cluster, accepted)
    batch = RequestBatch(cluster)
    batch.update_metadata(partition for partition in outcomes if cluster.find(partition) is not None)
    yield from publish(batch.commands())
    yield from reassignment.complete_ready(cluster, list(accepted))
    return _response(asked, outcomes)


def isr_change_notification(cluster: ClusterState) -> Steps[None]:
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
        yield from reassignment.complete_ready(cluster, known)
    yield from write([Delete(path) for path in notes])


def _topic_name(cluster: ClusterState, topic: Any, version: int) -> str | None:
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        return str(topic.topic_name)
    return None if topic.topic_id == NO_TOPIC_ID else cluster.topic_names.get(bytes(topic.topic_id))


def _proposal(data: Any) -> Proposal:
    isr = tuple(member.broker_id for member in data.new_isr_with_epochs) or tuple(data.new_isr)
    return Proposal(data.leader_epoch, isr, data.leader_recovery_state == RECOVERING, data.partition_epoch)


def _checked(
    cluster: ClusterState, partition: TopicPartition, leader: BrokerId, wanted: Proposal, version: int
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
        raise KafkaError(
            ErrorCode.INELIGIBLE_REPLICA
            if version >= FIRST_VERSION_WITH_TOPIC_IDS
            else ErrorCode.OPERATION_NOT_ATTEMPTED
        )
    return current, replace(
        current,
        leader=leader,
        isr=wanted.isr,
        controller_epoch=cluster.epoch,
        recovering=wanted.recovering,
        partition_epoch=wanted.partition_epoch,
    )


def _written(
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


def _response(asked: Sequence[tuple[Any, str | None]], outcomes: dict[TopicPartition, Leadership | KafkaError]) -> Any:
    shape = messages.alter_partition_response
    topics = []
    for topic, name in asked:
        partitions = []
        for data in topic.partitions:
            answer = shape.PartitionData(partition_index=data.partition_index)
            outcome = (
                KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
                if name is None
                else outcomes[TopicPartition(name, data.partition_index)]
            )
            if isinstance(outcome, KafkaError):
                answer.error_code = int(outcome.code)
            else:
                answer.leader_id = outcome.leader
                answer.leader_epoch = outcome.leader_epoch
                answer.isr = list(outcome.isr)
                answer.leader_recovery_state = int(outcome.recovering)
                answer.partition_epoch = outcome.partition_epoch
            partitions.append(answer)
        topics.append(shape.TopicData(topic_name=name or "", topic_id=topic.topic_id, partitions=partitions))
    return shape.AlterPartitionResponse(topics=topics)
