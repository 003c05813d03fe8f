"""Requests between brokers: LeaderAndIsr (4), StopReplica (5), UpdateMetadata (6), ControlledShutdown (7), AlterPartition (56).

The controller's three are refused from a stale controller or for an earlier life of this broker; all are idempotent, because the
controller sends a request again when the answer was lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.authorizer import Operation, Permission, ResourceType
from kafkalite.broker.request_context import RequestContext
from kafkalite.broker.served_api import served
from kafkalite.controller.cluster_state import Leadership
from kafkalite.controller.control_requests import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    LiveBroker,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.controller.requests import AlterPartition, IsrProposal, TopicReference
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.protocol.adapters import LEADER_DURING_DELETE, security_protocol_name
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import Endpoint, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.coordinators import Coordinators
    from kafkalite.broker.metadata_cache import MetadataCache
    from kafkalite.broker.replicas import Replicas
    from kafkalite.broker.traffic import Traffic
    from kafkalite.types import BrokerId

_BY_TOPIC_ID_FROM = 5
_ALTER_BY_TOPIC_ID_FROM = 2
_RECOVERING = 1
"""As leader recovery state."""


class Controller(Protocol):
    """What is asked of the controller."""

    async def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition]: ...

    async def alter_partition(self, request: AlterPartition) -> list[Leadership | KafkaError]: ...


class Parts(Protocol):
    """What these handlers use of the broker."""

    @property
    def replicas(self) -> Replicas: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def coordinators(self) -> Coordinators: ...

    @property
    def controller(self) -> Controller: ...


async def leader_and_isr(
    parts: Parts, request: messages.leader_and_isr_request.LeaderAndIsrRequest, context: RequestContext
) -> messages.leader_and_isr_response.LeaderAndIsrResponse:
    """Take roles; the outcome of each partition."""
    m = messages.leader_and_isr_response
    outcome = await parts.replicas.apply_leader_and_isr(_leader_and_isr(request))
    errors: dict[str, list[messages.leader_and_isr_response.PartitionError]] = {}
    for tp, code in outcome.items():
        error = m.PartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code)
        errors.setdefault(tp.topic, []).append(error)
    if context.api_version < _BY_TOPIC_ID_FROM:
        return m.LeaderAndIsrResponse(partition_errors=[error for of_topic in errors.values() for error in of_topic])
    return m.LeaderAndIsrResponse(
        topics=[
            m.TopicError(topic_id=topic.topic_id, partition_errors=errors.get(topic.topic_name, []))
            for topic in request.topic_states
        ]
    )


def _leader_and_isr(request: messages.leader_and_isr_request.LeaderAndIsrRequest) -> LeaderAndIsr:
    topics = [
        LeaderAndIsrTopic(
            topic.topic_name,
            topic.topic_id,
            [
                LeaderAndIsrPartition(
                    TopicPartition(topic.topic_name, state.partition_index),
                    state.controller_epoch,
                    state.leader,
                    state.leader_epoch,
                    state.partition_epoch,
                    tuple(state.isr),
                    tuple(state.replicas),
                    tuple(state.adding_replicas),
                    tuple(state.removing_replicas),
                    state.is_new,
                    state.leader_recovery_state == _RECOVERING,
                )
                for state in topic.partition_states
            ],
        )
        for topic in request.topic_states
    ]
    return LeaderAndIsr(request.controller_id, request.controller_epoch, request.broker_epoch, topics)


async def stop_replica(
    parts: Parts, request: messages.stop_replica_request.StopReplicaRequest, context: RequestContext
) -> messages.stop_replica_response.StopReplicaResponse:
    """Stop or delete replicas; the outcome of each."""
    m = messages.stop_replica_response
    partitions = {
        TopicPartition(topic.topic_name, state.partition_index): StopReplicaPartition(
            state.leader_epoch, state.delete_partition
        )
        for topic in request.topic_states
        for state in topic.partition_states
    }
    outcome = await parts.replicas.stop_replicas(
        StopReplica(request.controller_id, request.controller_epoch, request.broker_epoch, partitions)
    )
    return m.StopReplicaResponse(
        partition_errors=[
            m.PartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code)
            for tp, code in outcome.items()
        ]
    )


def update_metadata(
    parts: Parts, request: messages.update_metadata_request.UpdateMetadataRequest, context: RequestContext
) -> messages.update_metadata_response.UpdateMetadataResponse:
    """Replace what is known of brokers, merge what is known of partitions."""
    update = _update_metadata(request)
    parts.replicas.check_controller(update)
    alive_before = parts.metadata.brokers.keys()
    removed = parts.metadata.apply(update)
    parts.coordinators.forget_partitions(removed)
    parts.traffic.forget({each.topic for each in removed} - parts.metadata.topics.keys())
    if alive_before - parts.metadata.brokers.keys():
        parts.replicas.brokers_died()
    return messages.update_metadata_response.UpdateMetadataResponse()


def _update_metadata(request: messages.update_metadata_request.UpdateMetadataRequest) -> UpdateMetadata:
    topics = []
    for topic in request.topic_states:
        told = UpdateMetadataTopic(topic.topic_name, topic.topic_id, {}, {})
        for state in topic.partition_states:
            partitions = told.deleted if state.leader == LEADER_DURING_DELETE else told.partitions
            partitions[state.partition_index] = PartitionMetadata(
                state.leader,
                state.leader_epoch,
                state.isr,
                state.replicas,
                state.offline_replicas,
                state.zk_version,
                state.controller_epoch,
            )
        topics.append(told)
    brokers = [
        LiveBroker(
            broker.id,
            {
                each.listener: Endpoint(
                    each.listener, each.host, each.port, security_protocol_name(each.security_protocol)
                )
                for each in broker.endpoints
            },
            broker.rack,
        )
        for broker in request.live_brokers
    ]
    return UpdateMetadata(request.controller_id, request.controller_epoch, request.broker_epoch, topics, brokers)


async def controlled_shutdown(
    parts: Parts, request: messages.controlled_shutdown_request.ControlledShutdownRequest, context: RequestContext
) -> messages.controlled_shutdown_response.ControlledShutdownResponse:
    """Move leaders away from a broker that is about to stop; the partitions that could not be moved."""
    m = messages.controlled_shutdown_response
    remaining = await parts.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    return m.ControlledShutdownResponse(
        remaining_partitions=[
            m.RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in remaining
        ]
    )


async def alter_partition(
    parts: Parts, request: messages.alter_partition_request.AlterPartitionRequest, context: RequestContext
) -> messages.alter_partition_response.AlterPartitionResponse:
    """A leader's ISR changes, written by the controller."""
    m = messages.alter_partition_response
    by_id = context.api_version >= _ALTER_BY_TOPIC_ID_FROM
    references = [
        TopicReference(topic_id=bytes(topic.topic_id)) if by_id else TopicReference(topic.topic_name)
        for topic in request.topics
    ]
    proposals = tuple(
        _proposal(reference, data)
        for reference, topic in zip(references, request.topics, strict=True)
        for data in topic.partitions
    )
    wanted = AlterPartition(request.broker_id, request.broker_epoch, proposals)
    outcomes = iter(await parts.controller.alter_partition(wanted))
    return m.AlterPartitionResponse(
        topics=[
            m.TopicData(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[_isr_outcome(data.partition_index, next(outcomes), by_id) for data in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _proposal(topic: TopicReference, data: messages.alter_partition_request.PartitionData) -> IsrProposal:
    isr = tuple(member.broker_id for member in data.new_isr_with_epochs) or tuple(data.new_isr)
    recovering = data.leader_recovery_state == _RECOVERING
    return IsrProposal(topic, data.partition_index, data.leader_epoch, isr, recovering, data.partition_epoch)


def _isr_outcome(
    index: int, outcome: Leadership | KafkaError, by_id: bool
) -> messages.alter_partition_response.PartitionData:
    m = messages.alter_partition_response
    if isinstance(outcome, KafkaError):
        # INELIGIBLE_REPLICA came with version 2; before, a leader was told to try again.
        is_too_new = outcome.code is ErrorCode.INELIGIBLE_REPLICA and not by_id
        code = ErrorCode.OPERATION_NOT_ATTEMPTED if is_too_new else outcome.code
        return m.PartitionData(partition_index=index, error_code=int(code))
    return m.PartitionData(
        partition_index=index,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        leader_recovery_state=int(outcome.recovering),
        partition_epoch=outcome.partition_epoch,
    )


_CLUSTER_ACTION: Final = Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
APIS: Final = (
    served(ApiKey.LEADER_AND_ISR, 0, 7, leader_and_isr, _CLUSTER_ACTION),
    served(ApiKey.STOP_REPLICA, 0, 4, stop_replica, _CLUSTER_ACTION),
    served(ApiKey.UPDATE_METADATA, 0, 8, update_metadata, _CLUSTER_ACTION),
    served(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, controlled_shutdown, _CLUSTER_ACTION),
    served(ApiKey.ALTER_PARTITION, 0, 3, alter_partition, _CLUSTER_ACTION),
)
