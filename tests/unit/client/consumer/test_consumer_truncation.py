"""A consumer that checks leader epochs notices a truncated log (KIP-320)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from kafkalite.client.errors import (
    LogTruncationError,
)
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from tests.unit.client.consumer.scripted_consumer import T0, consumer, fill, offsets, run
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.group.scripted_group import committed, group_cluster
from tests.unit.client.hostile_broker import run as run_against


def end_of_epoch_answer(end_offset: int, leader_epoch: int = 0) -> Any:
    m = messages.offset_for_leader_epoch_response
    answer = m.EpochEndOffset(partition=0, leader_epoch=leader_epoch, end_offset=end_offset)
    return m.OffsetForLeaderEpochResponse(topics=[m.OffsetForLeaderTopicResult(topic="t", partitions=[answer])])


def test_a_new_leader_with_a_shorter_log_is_noticed() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 6)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert await offsets(target, 6) == [0, 1, 2, 3, 4, 5]
            cluster.script[ApiKey.OFFSET_FOR_LEADER_EPOCH].append(end_of_epoch_answer(3))
            del cluster.logs[T0][1:]
            cluster.move_leader(T0, 2)
            fill(cluster, T0, 6)
            assert await offsets(target, 6) == [3, 4, 5, 6, 7, 8], "what is new at the old offsets is read"

    run(scenario())
    (question,) = cluster.requests_of(ApiKey.OFFSET_FOR_LEADER_EPOCH)[0].topics[0].partitions
    assert (question.leader_epoch, question.current_leader_epoch) == (0, 1)


def test_truncation_without_a_reset_policy_is_an_error() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 6)

    async def scenario() -> None:
        async with consumer(cluster, auto_offset_reset="none") as target:
            target.assign([T0])
            target.seek(T0, 0)
            assert len(await offsets(target, 6)) == 6
            cluster.script[ApiKey.OFFSET_FOR_LEADER_EPOCH].append(end_of_epoch_answer(3))
            cluster.move_leader(T0, 2)
            with pytest.raises(LogTruncationError, match="the position is 6, the logs part at 3") as raised:
                await target.getone()
            target.seek(T0, raised.value.end_offset)
            assert (await target.getone()).offset == 3

    run(scenario())


def test_a_partition_revoked_while_its_epoch_is_checked_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 6)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            checked = asyncio.Event()

            def revoke_and_answer(*_: Any) -> Any:
                target.assign([])
                checked.set()
                return end_of_epoch_answer(3)

            target.assign([T0])
            assert len(await offsets(target, 6)) == 6
            cluster.script[ApiKey.OFFSET_FOR_LEADER_EPOCH].append(revoke_and_answer)
            cluster.move_leader(T0, 2)
            fetching = asyncio.ensure_future(target.getmany(timeout_ms=2_000))
            await checked.wait()
            await asyncio.sleep(0)
            target.assign([T0])
            target.seek(T0, 5)
            assert [record.offset for record in (await fetching)[T0]] == [5]

    run(scenario())
    assert "fetching failed" not in caplog.text


def committed_in_epoch_3(broker_id: int, request: Any) -> Any:
    answer = committed(broker_id, request, 5)
    for partition in answer.groups[0].topics[0].partitions:
        partition.committed_leader_epoch = 3
    return answer


@pytest.mark.parametrize("stale_answers", [1, 30])
def test_a_leader_of_the_past_does_not_make_a_group_begin_again(
    stale_answers: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Broker 1 was cut off from the controller: it named itself as the leader, and its log ended below what the group had committed."""

    def move_on(*_: Any) -> None:
        cluster.epochs[T0], cluster.leaders[T0] = 3, 2
        fill(cluster, T0, 5)

    async def scenario(_: FakeCluster) -> None:
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            cluster.script[ApiKey.METADATA] = deque([*[lambda *_: None] * stale_answers, move_on])
            target.assign([T0])
            assert await offsets(target, 3) == [5, 6, 7]

    cluster = group_cluster(offset_fetch=committed_in_epoch_3)
    cluster.brokers[2] = ("fake", 9002)
    fill(cluster, T0, 3)
    run_against(scenario, cluster)
    assert {broker for broker, request in cluster.requests if request.API.key == ApiKey.FETCH} == {2}
    assert not cluster.requests_of(ApiKey.LIST_OFFSETS), "the position was not reset"
    told = "metadata have leader epoch 0, the position is of leader epoch 3" in caplog.text
    assert told == (stale_answers > 2)


def test_leader_epochs_of_old_brokers_are_not_waited_for() -> None:
    """Before 2.4 metadata may name a leader epoch of the past for ever (KAFKA-9212)."""

    async def scenario(cluster: FakeCluster) -> None:
        fill(cluster, T0, 8)
        cluster.max_versions[ApiKey.METADATA] = 8
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as target:
            target.assign([T0])
            assert await offsets(target, 3) == [5, 6, 7]

    run_against(scenario, group_cluster(offset_fetch=committed_in_epoch_3))
