"""Reading from the replica that a leader names for the client's rack (KIP-392), and from the leader where that has not what is wanted."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from kafkalite.client.cluster.view import BrokerNode, ClusterView
from kafkalite.client.consumer.read_replicas import AVOIDED_S, KEPT_S, ReadReplicas
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.consumer.test_range_reader import T0, consumer, fill, rows_of, run
from tests.unit.client.fake_broker import FakeCluster

LEADER, REPLICA = 1, 2


def fetches(cluster: FakeCluster) -> list[int]:
    """Return which broker each Fetch asked that named the partition."""
    return [broker for broker, request in cluster.requests if request.API.key == ApiKey.FETCH and request.topics]


def test_a_named_replica_holds_for_a_while() -> None:
    view = ClusterView(brokers=MappingProxyType({REPLICA: BrokerNode(REPLICA, "fake", 9002, None)}))
    replicas = ReadReplicas("near")
    replicas.note(T0, -1, 0.0)
    assert replicas.choose(T0, view, 0.0) == view.leader_of(T0)
    replicas.note(T0, REPLICA, 0.0)
    assert replicas.choose(T0, view, KEPT_S - 1) == REPLICA
    assert replicas.choose(T0, view, KEPT_S) == view.leader_of(T0)
    assert not replicas.avoid(T0, 0.0), "its time was over"
    replicas.note(T0, REPLICA, 0.0)
    assert replicas.choose(T0, ClusterView(), 0.0) == -1, "a broker that is gone"
    replicas.note(T0, REPLICA, 0.0)
    assert replicas.rack_for([T0], 0.0) == "near"
    assert replicas.avoid(T0, 0.0) and not replicas.avoid(T0, 1.0)
    assert replicas.rack_for([TopicPartition("t", 1), T0], AVOIDED_S - 1) == ""
    assert replicas.rack_for([TopicPartition("t", 1)], 0.0) == replicas.rack_for([T0], AVOIDED_S) == "near"


@pytest.mark.parametrize("replica_end", [20, 8], ids=["level", "behind"])
def test_a_range_is_read_from_the_replica(replica_end: int) -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 20, 4)
    cluster.nearest[T0], cluster.replica_ends[T0] = REPLICA, replica_end

    async def scenario() -> None:
        async with consumer(cluster, client_rack="near") as target:
            rows = await rows_of(target, 10, 20)
        assert [row["offset"] for row in rows] == list(range(10, 20))
        asked = fetches(cluster)
        assert asked[:2] == [LEADER, REPLICA]
        assert (asked[-1] == REPLICA) == (replica_end == 20), "the leader has what the replica lacks"

    run(scenario())


def test_a_range_is_read_from_the_leader_without_a_rack() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 4, 4)
    cluster.nearest[T0] = REPLICA

    async def scenario() -> None:
        async with consumer(cluster) as target:
            assert len(await rows_of(target, 0, 4)) == 4
        assert set(fetches(cluster)) == {LEADER}

    run(scenario())


@pytest.mark.parametrize("trouble", ["none", "behind", "unreachable", "no replica any more"])
def test_a_consumer_reads_from_the_replica(trouble: str) -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, 8, 4)
    cluster.nearest[T0] = REPLICA

    async def scenario() -> None:
        async with consumer(cluster, client_rack="near", auto_offset_reset="earliest", max_poll_records=4) as target:
            target.assign([T0])
            found = [each.offset for each in (await target.getmany(timeout_ms=5000))[T0]]
            assert fetches(cluster)[:2] == [LEADER, REPLICA]
            fill_from = len(cluster.requests)
            if trouble == "behind":
                cluster.replica_ends[T0] = 2
            elif trouble == "unreachable":
                cluster.unreachable.add(REPLICA)
                for connection in cluster.connections:
                    if connection.broker_id == REPLICA:
                        connection.close()
            elif trouble == "no replica any more":
                del cluster.nearest[T0]
            fill(cluster, 8, 4)
            while len(found) < 16:
                found += [each.offset for each in (await target.getmany(timeout_ms=5000)).get(T0, [])]
            assert found == list(range(16))
            asked = [broker for broker, request in cluster.requests[fill_from:] if request.API.key == ApiKey.FETCH]
            assert (LEADER in asked) == (trouble != "none")

    run(scenario())


def test_a_replica_without_the_offset_is_no_reset() -> None:
    """Out of range at a replica says nothing about the log: only the leader's answer counts."""
    cluster = FakeCluster({"t": 1})
    fill(cluster, 8, 4)
    cluster.nearest[T0], cluster.replica_ends[T0] = REPLICA, 2

    async def scenario() -> None:
        async with consumer(cluster, client_rack="near", auto_offset_reset="none") as target:
            target.assign([T0])
            target.seek(T0, 6)
            found = [each.offset for each in (await target.getmany(timeout_ms=5000))[T0]]
            assert found[0] == 6
        assert fetches(cluster)[:3] == [LEADER, REPLICA, LEADER]

    run(scenario())
