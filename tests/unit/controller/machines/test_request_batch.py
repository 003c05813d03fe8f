"""What a batch of changes becomes on the wire, and in which versions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import ClusterState, Leadership, RegisteredBroker, ReplicaStatus
from kafkalite.controller.control_requests import (
    EPOCH_DURING_DELETE,
    LeaderAndIsr,
    StopReplica,
    UpdateMetadata,
)
from kafkalite.controller.machines.request_batch import GrowingBatches, RequestBatch
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.wire import OutgoingRequest, encode_commands
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec
from kafkalite.protocol.apis import ApiKey
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


def _decode(outgoing: OutgoingRequest) -> Any:
    return codec.decode_request(outgoing.api_key, outgoing.version, b"".join(outgoing.body))


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
    cluster.partition(T0).set_replica_statuses({2: ReplicaStatus.NEW})
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
    (state,) = _decode(_outgoing(batch, cluster)[0]).topic_states[0].partition_states
    assert (state.leader, state.leader_epoch, state.zk_version, state.controller_epoch) == (-2, 0, 0, 4)
    assert (state.isr, state.replicas, state.offline_replicas) == ([1, 2], [1, 2], [2])


def test_old_stop_requests_are_split_by_their_one_flag() -> None:
    cluster = _cluster("2.3")
    batch = RequestBatch(cluster)
    batch.stop_replica(1, T0, delete=True)
    batch.stop_replica(1, T1, delete=False)
    sent = _outgoing(batch, cluster)
    assert [
        (state.delete_partition, topic.topic_name, state.partition_index)
        for each in sent
        for topic in _decode(each).topic_states
        for state in topic.partition_states
    ] == [(False, "t", 1), (True, "t", 0)]


def _count_encodings(patch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the encodings of each API: of partition states, and of requests around them."""
    counts: Counter[str] = Counter()
    find_writer, encode_around = codec.request_item_writer, codec.encode_around

    def item_writer(api_key: int, version: int, name: str) -> Any:
        write = find_writer(api_key, version, name)

        def counted(item: Any) -> bytes:
            counts[f"{ApiKey(api_key).name} {name}"] += 1
            return write(item)

        return counted

    def around(message: Any, version: int, names: tuple[str, ...]) -> Any:
        counts[ApiKey(message.API.key).name] += 1
        return encode_around(message, version, names)

    patch.setattr(codec, "request_item_writer", item_writer)
    patch.setattr(codec, "encode_around", around)
    return counts


@pytest.mark.parametrize("dead", [(), (4,)])
@pytest.mark.parametrize("partitions", [1, 1000])
def test_what_brokers_share_is_encoded_once(
    monkeypatch: pytest.MonkeyPatch, partitions: int, dead: tuple[int, ...]
) -> None:
    """A request for all of its receivers, which differ in the broker epoch, and each state that partitions are in."""
    cluster = _cluster()
    batch = RequestBatch(cluster)
    for index in range(partitions):
        partition = TopicPartition("t", index)
        cluster.set_assignment(partition, ReplicaAssignment((1, 2, 3, *dead)))
        cluster.partition(partition).leadership = Leadership(1, 7 + index % 3, (1, 2, 3), 4, 11)
        batch.leader_and_isr((1, 2, 3), partition)
    counts = _count_encodings(monkeypatch)
    sent = _outgoing(batch, cluster)
    assert counts == {
        "LEADER_AND_ISR PartitionState": min(partitions, 3),
        "LEADER_AND_ISR": 1,
        "UPDATE_METADATA PartitionState": min(partitions, 3),
        "UPDATE_METADATA": 1,
    }
    messages = [_decode(each) for each in sent]
    assert [message.broker_epoch for message in messages] == [101, 102, 103] * 2
    wanted = [(index, 7 + index % 3) for index in range(partitions)]
    for message in messages:
        states = message.topic_states[0].partition_states
        assert [(state.partition_index, state.leader_epoch) for state in states] == wanted
    assert all(state.offline_replicas == list(dead) for state in messages[3].topic_states[0].partition_states)
    assert {(broker.id, broker.endpoints[0].host) for broker in messages[3].live_brokers} == {
        (1, "host1"),
        (2, "host2"),
        (3, "host3"),
    }
    shared = [[id(part) for part in each.body if len(part) > 8192] for each in sent[3:]]
    assert shared[0] == shared[1] == shared[2] and bool(shared[0]) is (partitions > 1), "long buffers are not copied"


def test_brokers_with_different_partitions_share_their_states(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster()
    batch = RequestBatch(cluster)
    for index, hosts in enumerate([(1, 2), (1, 3), (2, 3), (1, 2)]):
        partition = TopicPartition("t", index)
        cluster.set_assignment(partition, ReplicaAssignment(hosts))
        cluster.partition(partition).leadership = Leadership(1, 7, (1, 2, 3), 4, 11)
        batch.leader_and_isr(hosts, partition, is_new=index == 3)
    batch.add_roles(2, [TopicPartition("t", 0), TopicPartition("t", 3)])
    counts = _count_encodings(monkeypatch)
    sent = _outgoing(batch, cluster)
    assert counts["LEADER_AND_ISR"] == 3 and counts["LEADER_AND_ISR PartitionState"] == 4
    told = {
        each.broker_id: [
            (state.partition_index, state.is_new) for state in _decode(each).topic_states[0].partition_states
        ]
        for each in sent
        if each.api_key is ApiKey.LEADER_AND_ISR
    }
    assert told == {
        1: [(0, False), (1, False), (3, True)],
        2: [(0, False), (2, False), (3, True)],
        3: [(1, False), (2, False)],
    }


@pytest.mark.parametrize("version", ["1.0", "2.2", "2.4-IV0", "2.4", "2.6", "2.8", "3.2", "3.9"])
def test_every_version_can_be_written_and_read(version: str) -> None:
    cluster = _cluster(version)
    batch = RequestBatch(cluster)
    batch.leader_and_isr((1, 2), T0, is_new=True)
    batch.stop_replica(3, T1, delete=True)
    for each in _outgoing(batch, cluster):
        read = _decode(each)
        assert (read.controller_id, read.controller_epoch) == (1, 5)
        assert read.broker_epoch in (-1, 100 + each.broker_id)
        assert b"".join(codec.encode_request(read, each.version)) == b"".join(each.body), "as the codec encodes it"


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("0.10.2", (0, 3, 0)),
        ("1.0", (1, 4, 0)),
        ("1.1", (1, 4, 0)),
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


def test_batches_of_a_million_partitions_grow_until_they_are_full() -> None:
    """They once grew without a bound, which made the failover of 300,000 partitions fail, again and again."""
    sizes = [len(some) for some in GrowingBatches(_cluster()).divide(range(1_000_000))]
    assert sizes[:5] == [300, 600, 1200, 2400, 4800]
    assert set(sizes[5:-1]) == {5000} and sum(sizes) == 1_000_000
