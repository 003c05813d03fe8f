"""Brokers that refuse the role which the controller gives them are named in the log and counted, until they take it."""

from __future__ import annotations

import pytest

from kafkalite.controller import events, responses
from kafkalite.controller.cluster_state import ClusterState
from kafkalite.errors import ErrorCode
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster

T, U = TopicPartition("t", 0), TopicPartition("u", 0)


def answered(cluster: ClusterState, broker_id: int, errors: dict[TopicPartition, int]) -> None:
    epoch = cluster.brokers[broker_id].epoch
    refused = {partition: error for partition, error in errors.items() if error}
    accepted = {partition.topic: [partition.partition] for partition, error in errors.items() if not error}
    event = events.LeaderAndIsrResponseReceived(broker_id, epoch, 0, refused, accepted)
    assert not list(responses.process_leader_and_isr_response(cluster, event))


def test_a_refused_role_is_told_until_it_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        for name in ("t", "u"):
            await cluster.create_topic(name, [1, 2])
        term = cluster.controller._term
        assert term is not None

        def count() -> int:
            return int(cluster.controller.statistics()["refused_replicas_count"])

        def lines() -> list[str]:
            return [each.message for each in caplog.records if "refuses LeaderAndIsr" in each.message]

        assert count() == 0
        wrong, repeated = ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.STALE_CONTROLLER_EPOCH
        for _ in range(2):
            answered(term.cluster, 2, {T: wrong, U: repeated})
        assert (count(), lines()) == (1, ["broker 2 refuses LeaderAndIsr for t-0: INCONSISTENT_TOPIC_ID"])
        answered(term.cluster, 1, {T: wrong, U: 999})
        assert count() == 3 and lines()[-1] == "broker 1 refuses LeaderAndIsr for u-0: error 999"
        answered(term.cluster, 1, {T: ErrorCode.NONE})
        assert count() == 2
        await cluster.delete_topic("u")
        assert count() == 1
        await cluster.kill(2)
        assert count() == 0
        await cluster.stop()

    run(scenario())
