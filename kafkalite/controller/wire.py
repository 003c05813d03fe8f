"""Encoding of the controller's requests to brokers, and decoding of their responses; no other module of it knows messages."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from kafkalite.controller import events
from kafkalite.controller.control_requests import (
    Command,
    ControlRequest,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    UpdateMetadata,
    UpdateMetadataTopic,
)
from kafkalite.portions import Work
from kafkalite.protocol import messages
from kafkalite.protocol.adapters import LEADER_DURING_DELETE, SECURITY_PROTOCOLS
from kafkalite.protocol.inter_broker import InterBrokerVersions
from kafkalite.types import BrokerId, TopicPartition

logger = logging.getLogger(__name__)

_STOP_REPLICA_WITH_A_FLAG_EACH: Final = 3


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A command as a message, with its API version."""

    broker_id: BrokerId
    request: ControlRequest
    message: Any
    version: int


def encode_commands(commands: Iterable[Command], versions: InterBrokerVersions) -> Work[list[OutgoingRequest]]:
    """Convert commands to messages, in their order; parts that they share are built once."""
    writer = _Writer(versions)
    requests: list[OutgoingRequest] = []
    for command in commands:
        requests += yield from writer.requests(command)
    return requests


def decode_response(
    broker_id: BrokerId, broker_epoch: int, request: ControlRequest, response: Any
) -> events.LeaderAndIsrResponseReceived | events.StopReplicaResponseReceived | None:
    """Return the event of a response of the broker incarnation `broker_epoch`, None for UpdateMetadata."""
    code = response.error_code
    if code:
        logger.warning("broker %d refused %s with error %d", broker_id, type(request).__name__, code)
    match request:
        case LeaderAndIsr():
            names = {topic.topic_id: topic.name for topic in request.topics}
            errors = _errors(response.partition_errors)
            for topic in response.topics:
                name = names.get(bytes(topic.topic_id))
                if name is not None:
                    errors |= {TopicPartition(name, e.partition_index): e.error_code for e in topic.partition_errors}
            return events.LeaderAndIsrResponseReceived(broker_id, broker_epoch, code, errors)
        case StopReplica():
            errors = _errors(response.partition_errors)
            return events.StopReplicaResponseReceived(broker_id, broker_epoch, request, code, errors)
    return None


def _errors(partition_errors: Iterable[Any]) -> dict[TopicPartition, int]:
    return {TopicPartition(error.topic_name, error.partition_index): error.error_code for error in partition_errors}


class _Writer:
    """Builds the messages of one batch; shared parts are found by identity, which holds while the batch exists."""

    def __init__(self, versions: InterBrokerVersions) -> None:
        self._versions = versions
        self._written: dict[int, Any] = {}
        self._metadata: tuple[Sequence[UpdateMetadataTopic] | None, list[Any], list[Any]] = (None, [], [])

    def requests(self, command: Command) -> Work[list[OutgoingRequest]]:
        """Build the messages of one command. Only UpdateMetadata may be large, the others have one of `steps.pieces`."""
        broker_id, versions = command.broker_id, self._versions
        match command.request:
            case LeaderAndIsr() as request:
                return [OutgoingRequest(broker_id, request, self._leader_and_isr(request), versions.leader_and_isr)]
            case UpdateMetadata() as request:
                message = yield from self._update_metadata(request)
                return [OutgoingRequest(broker_id, request, message, versions.update_metadata)]
            case StopReplica() as request:
                return [
                    OutgoingRequest(broker_id, part, _stop_replica(part), versions.stop_replica)
                    for part in _stoppable_together(request, versions.stop_replica)
                ]
        raise TypeError(f"not a controller request: {command.request}")

    def _leader_and_isr(self, request: LeaderAndIsr) -> Any:
        m, written = messages.leader_and_isr_request, self._written
        return m.LeaderAndIsrRequest(
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=[
                m.TopicState(
                    topic_name=topic.name,
                    topic_id=topic.topic_id,
                    partition_states=[written.get(id(state)) or self._write(state) for state in topic.partitions],
                )
                for topic in request.topics
            ],
            live_leaders=[
                m.LiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
                for leader, endpoint in request.live_leaders.items()
            ],
        )

    def _write(self, state: LeaderAndIsrPartition) -> Any:
        written = self._written[id(state)] = messages.leader_and_isr_request.PartitionState(
            partition_index=state.topic_partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=list(state.replicas),
            adding_replicas=list(state.adding_replicas),
            removing_replicas=list(state.removing_replicas),
            is_new=state.is_new,
            leader_recovery_state=int(state.recovering),
        )
        return written

    def _update_metadata(self, request: UpdateMetadata) -> Work[Any]:
        m = messages.update_metadata_request
        topics, topic_states, live_brokers = self._metadata
        if topics is not request.topics:
            topic_states = []
            for topic in request.topics:
                topic_states.append((yield from _metadata_state(topic)))
            live_brokers = [
                m.LiveBroker(
                    id=broker.broker_id,
                    endpoints=[
                        m.Endpoint(
                            port=endpoint.port,
                            host=endpoint.host,
                            listener=endpoint.listener,
                            security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
                        )
                        for endpoint in broker.endpoints.values()
                    ],
                    rack=broker.rack,
                )
                for broker in request.brokers
            ]
            self._metadata = request.topics, topic_states, live_brokers
        return m.UpdateMetadataRequest(
            controller_id=request.controller_id,
            controller_epoch=request.controller_epoch,
            broker_epoch=request.broker_epoch,
            topic_states=topic_states,
            live_brokers=live_brokers,
        )


def _metadata_state(topic: UpdateMetadataTopic) -> Work[Any]:
    m = messages.update_metadata_request
    partition_states = []
    for index, known in topic.partitions.items():
        yield
        partition_states.append(
            m.PartitionState(
                partition_index=index,
                controller_epoch=known.controller_epoch,
                leader=known.leader,
                leader_epoch=known.leader_epoch,
                isr=known.isr,
                zk_version=known.partition_epoch,
                replicas=known.replicas,
                offline_replicas=known.offline_replicas,
            )
        )
    for index, known in topic.deleted.items():  # as Kafka's LeaderAndIsr.duringDelete: epochs are 0
        yield
        partition_states.append(
            m.PartitionState(
                partition_index=index,
                controller_epoch=known.controller_epoch,
                leader=LEADER_DURING_DELETE,
                isr=known.isr,
                replicas=known.replicas,
                offline_replicas=known.offline_replicas,
            )
        )
    return m.TopicState(topic_name=topic.name, topic_id=topic.topic_id, partition_states=partition_states)


def _stoppable_together(request: StopReplica, version: int) -> Iterator[StopReplica]:
    """Split a request by its delete flags for versions that have one flag for the whole request."""
    if version >= _STOP_REPLICA_WITH_A_FLAG_EACH:
        yield request
        return
    for delete in (False, True):
        part = {partition: state for partition, state in request.partitions.items() if state.delete is delete}
        if part:
            yield replace(request, partitions=part)


def _stop_replica(request: StopReplica) -> Any:
    m = messages.stop_replica_request
    by_topic = groupby(request.partitions.items(), key=lambda item: item[0].topic)
    return m.StopReplicaRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        delete_partitions=any(state.delete for state in request.partitions.values()),
        topic_states=[
            m.TopicState(
                topic_name=topic,
                partition_states=[
                    m.PartitionState(
                        partition_index=partition.partition,
                        leader_epoch=state.leader_epoch,
                        delete_partition=state.delete,
                    )
                    for partition, state in partitions
                ],
            )
            for topic, partitions in by_topic
        ],
    )
