"""Requests to the controller that name very much."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.case import case
from tests.unit.broker.requests.test_much_work import LITTLE_CALLS, MANY, NAMES, UNKNOWN, Row, Site, codes_of
from tests.unit.controller.fake_cluster import FakeCluster


def controlled(scenario: Callable[[Site, FakeCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        site = await Site().open()
        cluster = await FakeCluster().start(1, 2)
        site.parts.controller = cluster.controller
        await scenario(site, cluster)
        await cluster.stop()

    virtual_time.run(run())


def test_the_controller_is_asked_for_much_in_turns() -> None:
    m = messages
    named = [TopicPartition(name, 0) for name in NAMES]
    moves = m.alter_partition_reassignments_request
    rows = [
        Row(
            5,
            m.create_topics_request.CreateTopicsRequest(
                topics=[
                    m.create_topics_request.CreatableTopic(name=f"?{name}", num_partitions=1, replication_factor=1)
                    for name in NAMES
                ]
            ),
            lambda r: codes_of(r.topics) == {ErrorCode.INVALID_TOPIC_EXCEPTION} and len(r.topics) == MANY,
        ),
        Row(
            5,
            m.create_topics_request.CreateTopicsRequest(
                topics=[m.create_topics_request.CreatableTopic(name="twice", num_partitions=1)] * MANY
            ),
            lambda r: [each.error_code for each in r.topics] == [ErrorCode.INVALID_REQUEST],
        ),
        Row(
            6,
            m.delete_topics_request.DeleteTopicsRequest(
                topics=[m.delete_topics_request.DeleteTopicState(name=name) for name in NAMES], timeout_ms=1000
            ),
            lambda r: codes_of(r.responses) == {UNKNOWN} and len(r.responses) == MANY,
        ),
        Row(
            2,
            m.create_partitions_request.CreatePartitionsRequest(
                topics=[m.create_partitions_request.CreatePartitionsTopic(name=name, count=2) for name in NAMES],
                timeout_ms=1000,
            ),
            lambda r: codes_of(r.results) == {UNKNOWN} and len(r.results) == MANY,
        ),
        Row(
            2,
            m.elect_leaders_request.ElectLeadersRequest(
                topic_partitions=[
                    m.elect_leaders_request.TopicPartitions(topic=tp.topic, partitions=[0]) for tp in named
                ]
            ),
            lambda r: len(r.replica_election_results) == MANY,
        ),
        Row(
            0,
            moves.AlterPartitionReassignmentsRequest(
                topics=[
                    moves.ReassignableTopic(
                        name=name, partitions=[moves.ReassignablePartition(partition_index=0, replicas=[1])]
                    )
                    for name in NAMES
                ]
            ),
            lambda r: len(r.responses) == MANY,
        ),
    ]

    async def scenario(site: Site, cluster: FakeCluster) -> None:
        for number, row in enumerate(rows):
            with case(f"{row.request.API.name} (row {number})"):
                reply = await site.serve(row.request, row.version)
                assert row.check(reply) is not False
                site.assert_portions()

    controlled(scenario)


def test_a_topic_of_two_thousand_million_partitions_is_refused_before_anything_is_made() -> None:
    async def scenario(site: Site, cluster: FakeCluster) -> None:
        m, more = messages.create_topics_request, messages.create_partitions_request
        huge = m.CreatableTopic(name="huge", num_partitions=2**31 - 1, replication_factor=1)
        reply = await site.serve(m.CreateTopicsRequest(topics=[huge]), 5)
        assert codes_of(reply.topics) == {ErrorCode.POLICY_VIOLATION}
        await cluster.create_topic("small", [1])
        request = more.CreatePartitionsRequest(topics=[more.CreatePartitionsTopic(name="small", count=2**31 - 1)])
        assert codes_of((await site.serve(request, 2)).results) == {ErrorCode.POLICY_VIOLATION}
        assert site.turns.calls < LITTLE_CALLS

    controlled(scenario)
