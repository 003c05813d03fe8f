"""Requests between brokers: LeaderAndIsr (4), StopReplica (5), UpdateMetadata (6), ControlledShutdown (7), AlterPartition (56).

The controller's three are refused from a stale controller or for an earlier life of this broker; all are idempotent, because the
controller sends a request again when the answer was lost. Large ones are served in portions: their order is that of `Replicas`' lock.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.broker.identity.authorizer import CLUSTER_ACTION
from kafkalite.broker.parts import HasMetadata, HasReplicas, HasTraffic
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.requests.served_api import serve_api
from kafkalite.controller.assignment import share_brokers
from kafkalite.controller.cluster_state import Leadership
from kafkalite.controller.control_requests import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    LiveBroker,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.controller.requests import AlterPartition, IsrProposal, TopicReference
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.adapters import LEADER_DURING_DELETE, security_protocol_name
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import Endpoint, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.coordination.coordinators import Coordinators
    from kafkalite.broker.shared_states import SharedStates
    from kafkalite.types import BrokerId

_BY_TOPIC_ID_FROM = 5
_ALTER_BY_TOPIC_ID_FROM = 2
_RECOVERING = 1
"""As leader recovery state."""


class Controller(Protocol):
    """The controller, as these handlers use it."""

    async def controlled_shutdown(self, broker_id: BrokerId, broker_epoch: int) -> list[TopicPartition]: ...

    async def alter_partition(self, request: AlterPartition) -> list[Leadership | KafkaError]: ...


class Parts(HasReplicas, HasMetadata, HasTraffic, Protocol):
    """The parts of the broker that these handlers use."""

    @property
    def coordinators(self) -> Coordinators: ...

    @property
    def controller(self) -> Controller: ...


async def leader_and_isr(
    parts: Parts, request: messages.LeaderAndIsrRequest, context: RequestContext
) -> messages.LeaderAndIsrResponse:
    """Apply roles, and return the outcome of each partition."""
    roles = await context.portions.finish(_read_roles(request))
    outcome = await parts.replicas.apply_leader_and_isr(roles)
    return await context.portions.finish(_make_roles_response(request, outcome, context.api_version))


def _read_roles(request: messages.LeaderAndIsrRequest) -> Work[LeaderAndIsr]:
    topics = []
    for topic in request.topic_states:
        yield
        name, partitions = sys.intern(topic.topic_name), []
        for state in topic.partition_states:
            yield
            partitions.append(
                LeaderAndIsrPartition(
                    TopicPartition(name, state.partition_index),
                    state.controller_epoch,
                    state.leader,
                    state.leader_epoch,
                    state.partition_epoch,
                    share_brokers(tuple(state.isr)),
                    share_brokers(tuple(state.replicas)),
                    tuple(state.adding_replicas),
                    tuple(state.removing_replicas),
                    state.is_new,
                    state.leader_recovery_state == _RECOVERING,
                )
            )
        topics.append(LeaderAndIsrTopic(name, topic.topic_id, partitions))
    return LeaderAndIsr(request.controller_id, request.controller_epoch, request.broker_epoch, topics)


def _make_roles_response(
    request: messages.LeaderAndIsrRequest, outcome: dict[TopicPartition, ErrorCode], version: int
) -> Work[messages.LeaderAndIsrResponse]:
    m = messages.leader_and_isr_response
    errors: dict[str, list[messages.leader_and_isr_response.PartitionError]] = {}
    for tp, code in outcome.items():
        yield
        error = m.PartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code)
        errors.setdefault(tp.topic, []).append(error)
    if version < _BY_TOPIC_ID_FROM:
        return m.LeaderAndIsrResponse(partition_errors=[error for of_topic in errors.values() for error in of_topic])
    topics = []
    for topic in request.topic_states:
        yield
        topics.append(m.TopicError(topic_id=topic.topic_id, partition_errors=errors.get(topic.topic_name, [])))
    return m.LeaderAndIsrResponse(topics=topics)


async def stop_replica(
    parts: Parts, request: messages.StopReplicaRequest, context: RequestContext
) -> messages.StopReplicaResponse:
    """Stop or delete replicas, and return the outcome of each."""
    outcome = await parts.replicas.stop_replicas(await context.portions.finish(_read_stop_replica(request)))
    return await context.portions.finish(_make_stop_response(outcome))


def _read_stop_replica(request: messages.StopReplicaRequest) -> Work[StopReplica]:
    partitions = {}
    for topic in request.topic_states:
        yield
        for state in topic.partition_states:
            yield
            wanted = StopReplicaPartition(state.leader_epoch, state.delete_partition)
            partitions[TopicPartition(topic.topic_name, state.partition_index)] = wanted
    return StopReplica(request.controller_id, request.controller_epoch, request.broker_epoch, partitions)


def _make_stop_response(outcome: dict[TopicPartition, ErrorCode]) -> Work[messages.StopReplicaResponse]:
    m = messages.stop_replica_response
    errors = []
    for tp, code in outcome.items():
        yield
        errors.append(m.PartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code))
    return m.StopReplicaResponse(partition_errors=errors)


async def update_metadata(
    parts: Parts, request: messages.UpdateMetadataRequest, context: RequestContext
) -> messages.UpdateMetadataResponse:
    """Replace what is known of brokers, merge what is known of partitions."""
    update = await context.portions.finish(read_update(request, parts.metadata.shared))
    alive_before = parts.metadata.brokers.keys()
    removed = await parts.replicas.update_metadata(update)
    parts.coordinators.forget_partitions(removed)
    parts.traffic.forget({each.topic for each in removed if each.topic not in parts.metadata.topics})
    if alive_before - parts.metadata.brokers.keys():
        await parts.replicas.stop_waiting_for_dead()
    return messages.UpdateMetadataResponse()


def read_update(request: messages.UpdateMetadataRequest, shared: SharedStates) -> Work[UpdateMetadata]:
    """Return what an UpdateMetadata says; partitions in the same state share it, and so do requests that name the same brokers."""
    topics = []
    for topic in request.topic_states:
        yield
        told = UpdateMetadataTopic(sys.intern(topic.topic_name), topic.topic_id, {}, {})
        for state in topic.partition_states:
            yield
            partitions = told.deleted if state.leader == LEADER_DURING_DELETE else told.partitions
            partitions[state.partition_index] = shared.share_partition(
                state.leader,
                state.leader_epoch,
                state.isr,
                state.replicas,
                state.offline_replicas,
                state.zk_version,
                state.controller_epoch,
            )
        topics.append(told)
    brokers = shared.share_brokers(request.live_brokers, _read_brokers)
    return UpdateMetadata(request.controller_id, request.controller_epoch, request.broker_epoch, topics, brokers)


def _read_brokers(told: list[messages.update_metadata_request.LiveBroker]) -> list[LiveBroker]:
    return [
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
        for broker in told
    ]


async def controlled_shutdown(
    parts: Parts, request: messages.ControlledShutdownRequest, context: RequestContext
) -> messages.ControlledShutdownResponse:
    """Move leaders away from a broker that is about to stop, and return the partitions that could not be moved."""
    m = messages.controlled_shutdown_response
    remaining = await parts.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    return m.ControlledShutdownResponse(
        remaining_partitions=[
            m.RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in remaining
        ]
    )


async def alter_partition(
    parts: Parts, request: messages.AlterPartitionRequest, context: RequestContext
) -> messages.AlterPartitionResponse:
    """Pass a leader's ISR changes to the controller, and return the outcome of each."""
    by_id = context.api_version >= _ALTER_BY_TOPIC_ID_FROM
    wanted = await context.portions.finish(_read_proposals(request, by_id))
    outcomes = await parts.controller.alter_partition(wanted)
    return await context.portions.finish(_make_isr_response(request, outcomes, by_id))


def _read_proposals(request: messages.AlterPartitionRequest, by_id: bool) -> Work[AlterPartition]:
    proposals = []
    for topic in request.topics:
        yield
        reference = TopicReference(topic_id=bytes(topic.topic_id)) if by_id else TopicReference(topic.topic_name)
        for data in topic.partitions:
            yield
            proposals.append(_read_proposal(reference, data))
    return AlterPartition(request.broker_id, request.broker_epoch, tuple(proposals))


def _make_isr_response(
    request: messages.AlterPartitionRequest, outcomes: Iterable[Leadership | KafkaError], by_id: bool
) -> Work[messages.AlterPartitionResponse]:
    m = messages.alter_partition_response
    topics, remaining = [], iter(outcomes)
    for topic in request.topics:
        yield
        answered = m.TopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=[])
        for data in topic.partitions:
            yield
            answered.partitions.append(_make_isr_outcome(data.partition_index, next(remaining), by_id))
        topics.append(answered)
    return m.AlterPartitionResponse(topics=topics)


def _read_proposal(topic: TopicReference, data: messages.alter_partition_request.PartitionData) -> IsrProposal:
    isr = tuple(member.broker_id for member in data.new_isr_with_epochs) or tuple(data.new_isr)
    recovering = data.leader_recovery_state == _RECOVERING
    return IsrProposal(topic, data.partition_index, data.leader_epoch, isr, recovering, data.partition_epoch)


def _make_isr_outcome(
    index: int, outcome: Leadership | KafkaError, by_id: bool
) -> messages.alter_partition_response.PartitionData:
    m = messages.alter_partition_response
    if isinstance(outcome, KafkaError):
        # INELIGIBLE_REPLICA came with version 2; before, a leader was asked to try again.
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


APIS: Final = (
    serve_api(ApiKey.LEADER_AND_ISR, 0, 7, leader_and_isr, CLUSTER_ACTION),
    serve_api(ApiKey.STOP_REPLICA, 0, 4, stop_replica, CLUSTER_ACTION),
    serve_api(ApiKey.UPDATE_METADATA, 0, 8, update_metadata, CLUSTER_ACTION),
    serve_api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, controlled_shutdown, CLUSTER_ACTION),
    serve_api(ApiKey.ALTER_PARTITION, 0, 3, alter_partition, CLUSTER_ACTION),
)
