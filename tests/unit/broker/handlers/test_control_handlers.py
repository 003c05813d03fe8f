"""What the controller tells reaches a broker's replicas and metadata as it was meant, in every version; and what they answer comes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.broker.handlers import control
from kafkalite.broker.shared_states import SharedStates
from kafkalite.broker.traffic import Traffic
from kafkalite.controller import events
from kafkalite.controller.cluster_state import Leadership
from kafkalite.controller.control_requests import (
    Command,
    ControlRequest,
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
from kafkalite.controller.wire import decode_response, encode_commands
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec, messages
from kafkalite.protocol.inter_broker import ProtocolVersion
from kafkalite.types import Endpoint, TopicPartition
from tests.unit.broker.memory_parts import context_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = bytes(range(16))
RELEASES = ("1.1", "2.1", "2.2", "2.4-IV0", "2.4", "2.6", "2.8", "3.2", "3.9")

STATES = [LeaderAndIsrPartition(tp, 4, 1, 7, 11, (1, 2), (1, 2, 3), (3,), (2,), True, True) for tp in (T0, T1)]
KNOWN = PartitionMetadata(1, 7, [1, 2], [1, 2, 9], [9], 11, 4)


class Node:
    """A broker that notes what it is told and answers with `outcome`."""

    def __init__(self, outcome: Any = None) -> None:
        self.told: list[Any] = []
        self._outcome = outcome
        self.replicas = self.controller = self.metadata = self
        self.coordinators, self.traffic = self, Traffic()
        self.brokers: dict[int, LiveBroker] = {}
        self.topics: dict[str, Any] = {}
        self.shared = SharedStates()

    def forget_partitions(self, removed: object) -> None:
        pass

    async def update_metadata(self, update: UpdateMetadata) -> list[TopicPartition]:
        self.told.append(update)
        return []

    async def _take(self, request: Any) -> Any:
        self.told.append(request)
        return self._outcome

    apply_leader_and_isr = stop_replicas = alter_partition = _take


def tell(request: ControlRequest, release: str, outcome: dict[TopicPartition, ErrorCode] | None = None) -> Any:
    """(what the broker took, what the controller hears), by way of the wire."""
    handler: Any = {
        LeaderAndIsr: control.leader_and_isr,
        StopReplica: control.stop_replica,
        UpdateMetadata: control.update_metadata,
    }[type(request)]
    (sent,) = in_one_go(encode_commands([Command(3, request)], ProtocolVersion.parse(release).requests))
    key, body = sent.api_key, b"".join(sent.body)
    node = Node(outcome)
    reply = handler(node, codec.decode_request(key, sent.version, body, 0), context_of(sent.version))
    reply = asyncio.run(reply)
    answer = b"".join(bytes(part) for part in codec.encode_response(reply, sent.version))
    heard = decode_response(3, 103, sent.request, codec.decode_response(key, sent.version, answer, 0))
    return node.told[0], heard


@pytest.mark.parametrize("release", RELEASES)
def test_leader_and_isr(release: str) -> None:
    versions = ProtocolVersion.parse(release).requests
    request = LeaderAndIsr(1, 5, 103, [LeaderAndIsrTopic("t", ID, STATES)])
    outcome = {T0: ErrorCode.NONE, T1: ErrorCode.KAFKA_STORAGE_ERROR}
    told, heard = tell(request, release, outcome)
    (topic,) = told.topics
    assert (told.controller_id, told.controller_epoch, topic.name, len(topic.partitions)) == (1, 5, "t", 2)
    assert told.broker_epoch == (103 if versions.leader_and_isr >= 2 else -1)
    assert topic.topic_id == (ID if versions.leader_and_isr >= 5 else bytes(16))
    state = topic.partitions[1]
    assert state.topic_partition == T1
    assert (state.leader, state.leader_epoch, state.partition_epoch, state.isr) == (1, 7, 11, (1, 2))
    assert (state.replicas, state.is_new) == ((1, 2, 3), True)
    moving = ((3,), (2,)) if versions.leader_and_isr >= 3 else ((), ())
    assert (state.adding_replicas, state.removing_replicas) == moving
    assert state.recovering is (versions.leader_and_isr >= 6)
    refused = {T1: ErrorCode.KAFKA_STORAGE_ERROR}
    assert heard == events.LeaderAndIsrResponseReceived(3, 103, 0, refused, {"t": [0]})


@pytest.mark.parametrize("release", RELEASES)
def test_update_metadata(release: str) -> None:
    version = ProtocolVersion.parse(release).requests.update_metadata
    endpoint = Endpoint("SASL_SSL", "h", 9093, "SASL_SSL")
    live = LiveBroker(2, {"SASL_SSL": endpoint}, "r")
    request = UpdateMetadata(1, 5, 103, [UpdateMetadataTopic("t", ID, {0: KNOWN}, {3: KNOWN})], [live])
    told, heard = tell(request, release)
    (topic,) = told.topics
    assert (topic.name, topic.topic_id) == ("t", ID if version >= 7 else bytes(16))
    assert (topic.partitions, list(topic.deleted)) == ({0: KNOWN}, [3])
    assert (told.brokers, heard) == ([live], None)


def test_equal_states_of_partitions_are_one_object() -> None:
    """A broker keeps them for a hundred thousand partitions."""
    in_sync = replace(KNOWN, isr=[1, 2, 9])
    topic = UpdateMetadataTopic("t", ID, {0: in_sync, 1: KNOWN, 2: KNOWN}, {})
    told, _ = tell(UpdateMetadata(1, 5, 103, [topic], []), "3.9")
    first, second, third = told.topics[0].partitions.values()
    assert (first, second) == (in_sync, KNOWN) and second is third
    assert first.isr is first.replicas is second.replicas
    states = [state._replace(isr=state.replicas) for state in STATES]
    told, _ = tell(LeaderAndIsr(1, 5, 103, [LeaderAndIsrTopic("t", ID, states)]), "3.9", {})
    first, second = told.topics[0].partitions
    assert first.isr is first.replicas is second.replicas


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("delete", [True, False])
def test_stop_replica(release: str, delete: bool) -> None:
    version = ProtocolVersion.parse(release).requests.stop_replica
    request = StopReplica(1, 5, 103, {T1: StopReplicaPartition(7, delete)})
    told, heard = tell(request, release, {T1: ErrorCode.FENCED_LEADER_EPOCH})
    assert told.partitions == {T1: StopReplicaPartition(7 if version >= 3 else -1, delete)}
    errors = {T1: ErrorCode.FENCED_LEADER_EPOCH}
    assert heard == events.StopReplicaResponseReceived(3, 103, request, 0, errors)


def test_an_unknown_security_protocol_changes_nothing() -> None:
    m = messages.update_metadata_request
    broker = m.LiveBroker(id=1, endpoints=[m.Endpoint(listener="L", host="h", port=1, security_protocol=9)])
    node: Any = Node()
    with pytest.raises(ProtocolViolation):
        asyncio.run(control.update_metadata(node, m.UpdateMetadataRequest(live_brokers=[broker]), context_of(8)))
    assert node.told == []


@pytest.mark.parametrize("version", range(4))
def test_alter_partition(version: int) -> None:
    m = messages.alter_partition_request
    members = [m.BrokerState(broker_id=broker) for broker in (1, 2)] if version >= 3 else []
    data = [
        m.PartitionData(
            partition_index=index,
            leader_epoch=7,
            new_isr=[] if members else [1, 2],
            new_isr_with_epochs=members,
            leader_recovery_state=1,
            partition_epoch=11,
        )
        for index in (0, 1)
    ]
    topic = m.TopicData(
        topic_name="t" if version < 2 else "", topic_id=ID if version >= 2 else bytes(16), partitions=data
    )
    node: Any = Node([Leadership(1, 7, (1, 2), 5, 12, True), KafkaError(ErrorCode.INELIGIBLE_REPLICA)])
    request = m.AlterPartitionRequest(broker_id=1, broker_epoch=103, topics=[topic])
    reply = asyncio.run(control.alter_partition(node, request, context_of(version)))
    reference = TopicReference(topic_id=ID) if version >= 2 else TopicReference("t")
    assert node.told == [
        AlterPartition(1, 103, tuple(IsrProposal(reference, index, 7, (1, 2), True, 11) for index in (0, 1)))
    ]
    (answered,) = reply.topics
    first, second = answered.partitions
    assert (answered.topic_name, answered.topic_id) == (topic.topic_name, topic.topic_id)
    assert (first.error_code, first.leader_id, first.isr, first.partition_epoch) == (0, 1, [1, 2], 12)
    refused = ErrorCode.INELIGIBLE_REPLICA if version >= 2 else ErrorCode.OPERATION_NOT_ATTEMPTED
    assert second.error_code == refused
