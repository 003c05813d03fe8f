"""Sessions that end, controllers that were replaced without knowing it, replies that were lost, brokers that bounce."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkalite.controller.events import ListPartitionReassignments
from kafkalite.controller.failover import on_controller_failover
from kafkalite.controller.handlers import HANDLERS
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation.virtual_time import run
from tests.unit.controller.fake_cluster import FakeCluster
from zk import paths
from zk.znodes import ControllerSeat, Feature


def test_an_expired_controller_resigns_registers_again_and_another_governs() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", [1, 2])
        old_epoch = cluster.brokers[1].epoch
        cluster.members[1].store.expire_session()
        await cluster.quiet()
        assert cluster.controller.broker_id in (2, 3)
        assert not cluster.members[1].controller.is_active
        assert cluster.members[1].controller.active_controller_id == cluster.controller.broker_id
        assert cluster.brokers[1].epoch > old_epoch
        assert sorted(cluster.controller.cluster.brokers) == [1, 2, 3]
        assert await cluster.short_state("t-0") == (2, [2], 2), "nobody saw what it did meanwhile"
        assert cluster.brokers[1].received[-1].broker_epoch == cluster.brokers[1].epoch
        await cluster.stop()

    run(scenario())


def test_the_only_broker_governs_again_after_its_session_ended() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        await cluster.create_topic("t", [1])
        cluster.members[1].store.expire_session()
        await cluster.quiet()
        assert (cluster.controller.broker_id, cluster.controller.epoch) == (1, 2)
        assert (await cluster.short_state("t-0"))[:2] == (1, [1])
        await cluster.create_topic("u", [1])
        assert (await cluster.short_state("u-0"))[:2] == (1, [1])
        await cluster.stop()

    run(scenario())


def test_requests_that_wait_when_the_session_ends_are_refused() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [1, 2])
        store = cluster.members[1].store
        store.suspend()
        controller = cluster.controller
        allocation = asyncio.ensure_future(controller.allocate_producer_ids(1, cluster.brokers[1].epoch))
        shutdown = asyncio.ensure_future(controller.controlled_shutdown(2, -1))
        await asyncio.sleep(10)
        store.resume()
        outcomes = await asyncio.gather(allocation, shutdown, return_exceptions=True)
        codes = [outcome.code for outcome in outcomes if isinstance(outcome, KafkaError)]
        assert codes == [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_CONTROLLER_EPOCH]
        await cluster.quiet()
        assert cluster.controller.broker_id == 2
        await cluster.stop()

    run(scenario())


def test_a_controller_that_was_replaced_writes_nothing_and_resigns() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [1, 2])
        stale = cluster.controller
        # Somebody else was elected, and the watch that would tell has not fired yet.
        cluster.members[1].store._watches.data.pop(paths.CONTROLLER)
        cluster.members[2].store._watches.data.pop(paths.CONTROLLER)
        _, stat = await cluster.tool.read(paths.CONTROLLER_EPOCH)
        await cluster.tool.write(paths.CONTROLLER_EPOCH, b"9", stat.version)
        await cluster.tool.delete(paths.CONTROLLER)
        await cluster.tool.create(paths.CONTROLLER, ControllerSeat(7, 0).encode(), ephemeral=True)
        before = await cluster.state_and_version("t-0")
        with pytest.raises(KafkaError) as refused:
            await cluster.alter_partition("t-0", 1, [1])
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert await cluster.state_and_version("t-0") == before
        await cluster.quiet()
        assert not stale.is_active
        assert stale.active_controller_id == 7
        await cluster.stop()

    run(scenario())


def test_the_seat_is_vacated_by_hand() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.tool.delete(paths.CONTROLLER)
        await cluster.quiet()
        assert cluster.controller.epoch == 2
        assert {member.controller.active_controller_id for member in cluster.members.values()} == {
            cluster.controller.broker_id
        }
        await cluster.stop()

    run(scenario())


def test_an_epoch_raised_by_hand_is_overcome_by_a_new_election() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        await cluster.tool.write(paths.CONTROLLER_EPOCH, b"7")
        await cluster.create_topic("t", [1])
        assert cluster.controller.epoch == 8
        assert await cluster.short_state("t-0") == (1, [1], 0)
        await cluster.stop()

    run(scenario())


def test_a_broken_invariant_stops_the_controller_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(cluster: Any, event: Any) -> Any:
        raise InvariantBroken("the sky fell")

    monkeypatch.setitem(HANDLERS, ListPartitionReassignments, broken)

    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        reported: list[BaseException] = []
        controller = cluster.controller
        controller._queue._on_fatal = reported.append
        for _ in range(2):
            with pytest.raises(KafkaError):
                await controller.list_partition_reassignments(None)
        assert [str(problem) for problem in reported] == ["the sky fell"]
        await cluster.stop()

    run(scenario())


def test_a_long_loss_of_connection_without_expiry_changes_nothing() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [1, 2])
        cluster.zookeeper.lose_quorum()
        await asyncio.sleep(60)
        cluster.zookeeper.regain_quorum()
        await cluster.quiet()
        assert (cluster.controller.broker_id, cluster.controller.epoch) == (1, 1)
        assert await cluster.short_state("t-0") == (1, [1, 2], 0)
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("after_requests", range(0, 30, 3))
def test_a_reply_of_zookeeper_is_lost_while_a_topic_is_created(after_requests: int) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        store = cluster.members[1].store
        answer_next, count = store._answer_next, 0

        def count_and_lose() -> None:
            nonlocal count
            if store._requests and count == after_requests:
                store.lose_next_reply()
            count += 1
            answer_next()

        store._answer_next = count_and_lose  # type: ignore[method-assign]
        await cluster.create_topic("t", [1, 2], [2, 1], [1, 2])
        assert await cluster.short_state("t-0") == (1, [1, 2], 0)
        assert await cluster.short_state("t-1") == (2, [2, 1], 0)
        assert {p.partition for p in cluster.brokers[2].leaders} == {0, 1, 2}
        await cluster.stop()

    run(scenario())


@pytest.mark.parametrize("after_requests", range(10))
def test_the_controller_dies_at_any_moment_of_a_topics_creation(after_requests: int) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        member = cluster.members[1]
        answer_next, count = member.store._answer_next, 0

        def die() -> None:
            member.store._cut_off = True
            cluster.zookeeper.expire(member.store.session_id)

        def count_and_die() -> None:
            nonlocal count
            if count == after_requests:
                die()
            count += 1
            answer_next()

        member.store._answer_next = count_and_die  # type: ignore[method-assign]
        await cluster.create_topic("t", [2, 3], [3, 2])
        if count <= after_requests:
            die()
        del cluster.members[1]
        await cluster.until(lambda: any(m.controller.is_active for m in cluster.members.values()), "failover")
        await cluster.quiet()
        for partition, leader in (("t-0", 2), ("t-1", 3)):
            state = await cluster.state(partition)
            assert (state.leader, set(state.isr)) == (leader, {2, 3})
        assert len(cluster.brokers[2].leaders) == 2
        await cluster.stop()

    run(scenario())


def test_a_broker_that_bounced_faster_than_its_watch_counts_as_failed_and_started() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        await cluster.create_topic("t", [2, 1])
        member = cluster.members[2]
        cluster.brokers[2].unreachable = True
        await cluster.create_topic("u", [2, 1])  # a request for the old incarnation waits
        old_epoch = cluster.brokers[2].epoch
        cluster.members[1].store.suspend()
        member.store.expire_session()
        await asyncio.sleep(0.001)
        cluster.brokers[2].unreachable = False
        cluster.brokers[2].received.clear()
        cluster.members[1].store.resume()
        await cluster.quiet()
        assert cluster.brokers[2].epoch > old_epoch
        assert {message.broker_epoch for message in cluster.brokers[2].received} == {cluster.brokers[2].epoch}
        assert await cluster.short_state("t-0") == (1, [1], 1)
        await cluster.stop()

    run(scenario())


def test_a_request_is_sent_again_until_the_broker_answers_and_order_is_kept() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2)
        cluster.brokers[2].unreachable = True
        await cluster.create_topic("t", [2, 1])
        await cluster.create_topic("u", [2, 1])
        await asyncio.sleep(3)
        assert cluster.controller.statistics()["request_retries"][2] > 20
        assert cluster.controller.statistics()["queued_requests"][2] > 0
        cluster.brokers[2].received.clear()
        cluster.brokers[2].unreachable = False
        await asyncio.sleep(1)
        keys = [message.API.key for message in cluster.brokers[2].received]
        assert keys == [ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA] * 2
        names = [m.topic_states[0].topic_name for m in cluster.brokers[2].requests(ApiKey.LEADER_AND_ISR)]
        assert names == ["t", "u"]
        await cluster.stop()

    run(scenario())


def test_a_failed_failover_frees_the_seat_and_is_tried_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    def fail_at_first(*given: Any) -> Any:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ValueError("something in ZooKeeper cannot be understood")
        return on_controller_failover(*given)

    monkeypatch.setattr("kafkalite.controller.controller.on_controller_failover", fail_at_first)

    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        assert not cluster.members[1].controller.is_active
        assert not await cluster.has(paths.CONTROLLER)
        await asyncio.sleep(2)
        await cluster.quiet()
        assert (cluster.controller.epoch, attempts) == (2, 2)
        await cluster.stop()

    run(scenario())


def test_the_feature_znode() -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1)
        data, stat = await cluster.tool.read(paths.FEATURE)
        assert (Feature.decode(data), stat.version) == (Feature(), 0)
        await cluster.tool.write(paths.FEATURE, b"garbage")
        await cluster.tool.delete(paths.CONTROLLER)
        await cluster.quiet()
        assert Feature.decode((await cluster.tool.read(paths.FEATURE))[0]) == Feature()
        await cluster.stop()

    run(scenario())
