"""What a batch of changes becomes on the wire, and in which versions."""

from __future__ import annotations

import pytest

from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import ClusterState, Leadership, RegisteredBroker, ReplicaStatus
from kafkalite.controller.control_requests import (
    EPOCH_DURING_DELETE,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from kafkalite.controller.machines.request_batch import RequestBatch
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.wire import OutgoingRequest, encode_commands
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec
from kafkalite.protocol.inter_broker import ProtocolVersion
from kafkalite.types import Endpoint, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _cluster(version: str = "3.9") -> ClusterState:
    settings = ControllerSettings(inter_broker_protocol_version=ProtocolVersion.parse(version))
    cluster = ClusterState(1, 5, settings)
    for broker in (1, 2, 3):
        cluster.brokers[broker] = RegisteredBroker(
            broker, 100 + broker, (Endpoint("PLAINTEXT", f"host{broker}", 9092),)
        )
    cluster.add_topic("t", b"t" * 16)
    cluster.set_assignment(T0, ReplicaAssignment((1, 2)))
    cluster.set_assignment(T1, ReplicaAssignment((2, 9)))
    cluster.partition(T0).leadership = Leadership(1, 7, (1, 2), 4, 11)
    return cluster


def _outgoing(batch: RequestBatch, cluster: ClusterState) -> list[OutgoingRequest]:
    return in_one_go(encode_commands(batch.commands(), cluster.settings.request_versions))


def test_order_and_recipients() -> None:
    batch = RequestBatch(_cluster())
    batch.stop_replica(2, T1, delete=False)
    batch.leader_and_isr((1, 2, 9), T0)
    commands = batch.commands()
    assert [(c.broker_id, type(c.request)) for c in commands] == [
        (1, LeaderAndIsr),
        (2, LeaderAndIsr),
        (1, UpdateMetadata),
        (2, UpdateMetadata),
        (3, UpdateMetadata),
        (2, StopReplica),
    ]
    assert [c.request.broker_epoch for c in commands[:2]] == [101, 102]
    first = commands[0].request
    assert isinstance(first, LeaderAndIsr)
    assert {leader: endpoint.host for leader, endpoint in first.live_leaders.items()} == {1: "host1"}
    state = first.topics[0].partitions[0]
    assert (state.controller_epoch, state.leader_epoch, state.partition_epoch) == (4, 7, 11)


def test_a_replica_that_starts_is_new_on_its_own_broker_only() -> None:
    cluster = _cluster()
    cluster.partition(T0).replica_statuses[2] = ReplicaStatus.NEW
    batch = RequestBatch(cluster)
    batch.leader_and_isr((1, 2), T0)
    states = {
        command.broker_id: command.request.topics[0].partitions[0].is_new
        for command in batch.commands()
        if isinstance(command.request, LeaderAndIsr)
    }
    assert states == {1: False, 2: True}


def test_metadata_leaves_out_partitions_without_a_leader_and_names_offline_replicas() -> None:
    cluster = _cluster()
    cluster.set_assignment(T0, ReplicaAssignment((1, 9)))
    batch = RequestBatch(cluster)
    batch.update_metadata((T0, T1))
    update = batch.commands()[0].request
    assert isinstance(update, UpdateMetadata)
    assert {index: known.offline_replicas for index, known in update.topics[0].partitions.items()} == {0: [9]}
    assert [broker.broker_id for broker in update.brokers] == [1, 2, 3]


def test_a_topic_that_is_being_deleted() -> None:
    cluster = _cluster()
    cluster.deletions.queued.add("t")
    batch = RequestBatch(cluster)
    batch.update_metadata((T0,))
    batch.stop_replica(1, T0, delete=True)
    update, *_, stop = [command.request for command in batch.commands()]
    assert isinstance(update, UpdateMetadata) and isinstance(stop, StopReplica)
    assert (update.topics[0].partitions, list(update.topics[0].deleted)) == ({}, [0])
    assert stop.partitions[T0].leader_epoch == EPOCH_DURING_DELETE


def test_a_partition_that_is_being_deleted_is_told_with_its_replicas_as_apache_kafka_does() -> None:
    """ControllerBrokerRequestBatch.addUpdateMetadataRequestForBrokers with LeaderAndIsr.duringDelete."""
    cluster = _cluster()
    cluster.deletions.queued.add("t")
    cluster.offline_dir_replicas[2].add(T0)
    batch = RequestBatch(cluster)
    batch.update_metadata((T0,))
    (state,) = _outgoing(batch, cluster)[0].message.topic_states[0].partition_states
    assert (state.leader, state.leader_epoch, state.zk_version, state.controller_epoch) == (-2, 0, 0, 4)
    assert (state.isr, state.replicas, state.offline_replicas) == ([1, 2], [1, 2], [2])


def test_old_stop_requests_are_split_by_their_one_flag() -> None:
    cluster = _cluster("2.3")
    batch = RequestBatch(cluster)
    batch.stop_replica(1, T0, delete=True)
    batch.stop_replica(1, T1, delete=False)
    sent = _outgoing(batch, cluster)
    assert [(each.message.delete_partitions, list(each.request.partitions)) for each in sent] == [
        (False, [T1]),
        (True, [T0]),
    ]


def test_what_brokers_share_is_written_down_once() -> None:
    cluster = _cluster()
    batch = RequestBatch(cluster)
    batch.leader_and_isr((1, 2), T0)
    one, two, update, other, _ = [each.message for each in _outgoing(batch, cluster)]
    assert one.topic_states[0].partition_states[0] is two.topic_states[0].partition_states[0]
    assert update.topic_states is other.topic_states


@pytest.mark.parametrize("version", ["1.0", "2.2", "2.4-IV0", "2.4", "2.6", "2.8", "3.2", "3.9"])
def test_every_version_can_be_written_and_read(version: str) -> None:
    cluster = _cluster(version)
    batch = RequestBatch(cluster)
    batch.leader_and_isr((1, 2), T0, is_new=True)
    batch.stop_replica(3, T1, delete=True)
    for each in _outgoing(batch, cluster):
        body = b"".join(bytes(part) for part in codec.encode_request(each.message, each.version))
        read = codec.decode_request(each.message.API.key, each.version, body, 0)
        assert (read.controller_id, read.controller_epoch) == (1, 5)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("0.10.2", (0, 3, 0)),
        ("1.0", (1, 4, 0)),
        ("2.1", (1, 4, 0)),
        ("2.2-IV0", (2, 5, 1)),
        ("2.3", (2, 5, 1)),
        ("2.4-IV0", (3, 5, 1)),
        ("2.4-IV1", (4, 6, 2)),
        ("2.5", (4, 6, 2)),
        ("2.6", (4, 6, 3)),
        ("2.8-IV0", (4, 6, 3)),
        ("2.8", (5, 7, 3)),
        ("3.0-IV1", (5, 7, 3)),
        ("3.2-IV0", (6, 7, 3)),
        ("3.3", (6, 7, 3)),
        ("3.4-IV0", (7, 8, 4)),
        ("3.9-IV0", (7, 8, 4)),
    ],
)
def test_versions_follow_the_inter_broker_protocol(text: str, versions: tuple[int, int, int]) -> None:
    settings = ControllerSettings(inter_broker_protocol_version=ProtocolVersion.parse(text))
    assert settings.request_versions[:3] == versions
