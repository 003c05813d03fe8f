"""A consumer in a group that goes on without it, rebalances while it commits, or is closed: what is read, committed and told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.errors import ClientClosedError, ClientTimeoutError
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.consumer.scripted_consumer import fill
from tests.unit.client.fake_broker import HANG, FakeCluster
from tests.unit.client.group.scripted_group import beat, commit_answer, commits, group_cluster, joined
from tests.unit.client.hostile_broker import REQUESTS_A_SECOND, T0, Always, consumer, run

NEVER_MS = 3_600_000


def now_s() -> float:
    return asyncio.get_running_loop().time()


def joins(cluster: FakeCluster) -> int:
    return len(cluster.requests_of(ApiKey.JOIN_GROUP))


async def until(condition: Callable[[], object], within_s: float) -> None:
    """Wait for `condition`, in virtual time."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


async def reading(cluster: FakeCluster, listener: Any = None, **options: Any) -> Consumer:
    """Return a consumer that has read its first records in the group."""
    if not cluster.logs[T0]:
        fill(cluster, T0, 300)
    target = consumer(
        cluster, **{"group_id": "g", "auto_commit_interval_ms": NEVER_MS, "max_poll_records": 3, **options}
    )
    await target.connect()
    target.subscribe(["t"], listener=listener)
    assert await target.getmany(timeout_ms=5000)
    return target


class Listener:
    """Notes what it is told; `during` is awaited within a method of that name."""

    def __init__(self, **during: Callable[[], Awaitable[Any]]) -> None:
        self.told: list[tuple[str, set[TopicPartition]]] = []
        self.ended: list[str] = []
        self.during = during

    async def _note(self, name: str, partitions: set[TopicPartition]) -> None:
        self.told.append((name, partitions))
        if name in self.during:
            await self.during[name]()
        self.ended.append(name)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await self._note("assigned", assigned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._note("revoked", revoked)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        await self._note("lost", lost)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_refused_automatic_commit_ends_reading_and_lets_the_member_join_again(code: ErrorCode) -> None:
    """It used to read the lost partitions on, for minutes: nothing woke the membership."""

    async def scenario(cluster: FakeCluster) -> None:
        target = await reading(cluster, auto_commit_interval_ms=1000)
        cluster.script[ApiKey.OFFSET_COMMIT] = Always(commit_answer(code))
        cluster.script[ApiKey.JOIN_GROUP] = Always(HANG)
        before = joins(cluster)
        await target.getmany()
        await asyncio.sleep(1.1)
        await target.getmany()
        await until(lambda: joins(cluster) > before, within_s=1)
        assert target.assignment() == set() and await target.getmany(timeout_ms=100) == {}
        await target.close(commit=False)

    run(scenario, group_cluster())


def test_a_cancelled_poll_is_over() -> None:
    """Cancelled while partitions were given up it counted for ever, and later ones were committed under the program's hands."""

    async def scenario(cluster: FakeCluster) -> None:
        target = await reading(cluster, Listener(revoked=lambda: asyncio.sleep(5)))
        cluster.script[ApiKey.HEARTBEAT] = beat(ErrorCode.REBALANCE_IN_PROGRESS)
        await asyncio.sleep(6)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await target.getmany()
        await until(lambda: joins(cluster) == 2, within_s=10)
        assert await target.getmany(timeout_ms=10_000)
        before = len(commits(cluster))
        cluster.script[ApiKey.HEARTBEAT] = beat(ErrorCode.REBALANCE_IN_PROGRESS)
        await asyncio.sleep(20)
        assert len(commits(cluster)) == before and target.assignment() == {T0}, "the program still works on its records"
        await target.getmany()
        assert len(commits(cluster)) == before + 1
        await target.close(commit=False)

    run(scenario, group_cluster(offset_commit=commit_answer()))


@pytest.mark.parametrize("options", [{"group_instance_id": "i"}, {}], ids=["static", "dynamic"])
def test_a_program_that_was_away_too_long_gets_no_records_of_its_old_partitions(options: dict[str, Any]) -> None:
    """Another member has them; the first poll used to hand out what was buffered."""

    async def scenario(cluster: FakeCluster) -> None:
        timeouts = {"request_timeout_ms": 200_000, "session_timeout_ms": 200_000, "max_poll_interval_ms": 60_000}
        listener = Listener()
        target = await reading(cluster, listener, **timeouts, **options)
        cluster.script[ApiKey.JOIN_GROUP] = Always(HANG)
        await asyncio.sleep(61)
        assert listener.told[1:] == [("lost", {T0})], "it is told before the program is back"
        await asyncio.sleep(140)
        assert await target.getmany() == {} and target.assignment() == set()
        await target.close(commit=False)

    run(scenario, group_cluster(leave_group=lambda *_: HANG))


def cooperative_cluster(**answers: Any) -> FakeCluster:
    return group_cluster(join_group=joined(protocol_name="cooperative-sticky"), **answers)


def test_a_commit_that_meets_rebalances_for_ever_ends_in_its_time() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        options = {"partition_assignment_strategy": "cooperative-sticky", "default_api_timeout_ms": 5000}
        target = await reading(cluster, **options)
        begun_s = now_s()
        with pytest.raises(ClientTimeoutError, match="within 5 s"):
            await target.commit({T0: 1})
        assert now_s() - begun_s < 6
        assert len(commits(cluster)) < 5 * REQUESTS_A_SECOND
        await target.close(commit=False)

    run(scenario, cooperative_cluster(offset_commit=commit_answer(ErrorCode.REBALANCE_IN_PROGRESS)))


@pytest.mark.parametrize("silent", [ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP])
def test_a_commit_does_not_outlast_its_time(silent: ApiKey) -> None:
    """The time of a request, or of a JoinGroup, may be much longer."""

    async def scenario(cluster: FakeCluster) -> None:
        options = {"partition_assignment_strategy": "cooperative-sticky", "default_api_timeout_ms": 5000}
        target = await reading(cluster, **options)
        cluster.script[silent] = Always(HANG)
        begun_s = now_s()
        with pytest.raises(ClientTimeoutError, match="within 5 s"):
            await target.commit({T0: 1})
        assert now_s() - begun_s < 6
        await target.close(commit=False)

    run(scenario, cooperative_cluster(offset_commit=commit_answer(ErrorCode.REBALANCE_IN_PROGRESS)))


def test_a_listener_that_commits_does_not_wait_for_a_commit_that_waits_for_the_group() -> None:
    """Neither ended: the listener waited for the program's commit, which waited for the group, which waited for the listener."""

    async def scenario(cluster: FakeCluster) -> None:
        target: Consumer

        async def rebalance_and_commit() -> None:
            target._group.membership.rejoin("as a heartbeat would")  # type: ignore[union-attr]
            await target.commit({T0: 0})

        listener = Listener(assigned=rebalance_and_commit)
        target = consumer(cluster, group_id="g", enable_auto_commit=False)
        await target.connect()
        target.subscribe(["t"], listener=listener)
        later = asyncio.get_running_loop().create_future()
        answer = cluster.script[ApiKey.SYNC_GROUP].popleft()
        cluster.script[ApiKey.SYNC_GROUP] = Always(lambda *_: later)
        await asyncio.sleep(1)
        program = asyncio.create_task(target.commit({T0: 0}))
        await asyncio.sleep(0.35)
        cluster.script[ApiKey.OFFSET_COMMIT] = Always(commit_answer())
        later.set_result(answer())
        await until(lambda: listener.ended, within_s=5)
        await asyncio.wait([program], timeout=70)
        assert program.done()
        program.exception()
        await target.close(commit=False)

    run(scenario, group_cluster(offset_commit=commit_answer(ErrorCode.REBALANCE_IN_PROGRESS)))


def found_at(broker_id: int) -> Any:
    m = messages.find_coordinator_response
    node = m.Coordinator(key="g", node_id=broker_id, host="fake", port=9000 + broker_id)
    return m.FindCoordinatorResponse(coordinators=[node])


def test_a_join_at_a_coordinator_that_is_none_any_more_is_given_up() -> None:
    """It may take minutes to be answered; the commits' timeout finds the new coordinator, and with it the JoinGroup goes there."""

    async def scenario(cluster: FakeCluster) -> None:
        cluster.brokers[2] = ("fake", 9002)
        options = {"auto_commit_interval_ms": 1000, "request_timeout_ms": 10_000}
        target = await reading(cluster, partition_assignment_strategy="cooperative-sticky", **options)
        for key in (ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT):
            answer = cluster.script[key].popleft()
            cluster.script[key] = Always(
                lambda broker, request, answer=answer: HANG if broker == 1 else answer(broker, request)
            )
        cluster.script[ApiKey.FIND_COORDINATOR] = Always(found_at(2))
        cluster.script[ApiKey.HEARTBEAT] = beat(ErrorCode.REBALANCE_IN_PROGRESS)

        async def poll() -> None:
            while True:
                await target.getmany(timeout_ms=100)

        program = asyncio.create_task(poll())
        await until(lambda: any(each.API.key == ApiKey.JOIN_GROUP for at, each in cluster.requests if at == 2), 18)
        program.cancel()
        await target.close(commit=False)

    run(scenario, cooperative_cluster(offset_commit=commit_answer()))


def test_unsubscribing_commits_as_a_member_and_leaves_without_another_poll() -> None:
    """The commit used to go without a generation, which coordinators refuse while the member is there."""

    async def scenario(cluster: FakeCluster) -> None:
        listener = Listener()
        target = await reading(cluster, listener)
        target.unsubscribe()
        assert target.assignment() == set()
        await until(lambda: cluster.requests_of(ApiKey.LEAVE_GROUP), within_s=1)
        assert commits(cluster) == [(1, "m1", 3)]
        assert listener.told == [("assigned", {T0}), ("revoked", {T0})]
        await target.close()
        assert len(commits(cluster)) == 1 and len(cluster.requests_of(ApiKey.LEAVE_GROUP)) == 1

    run(scenario, group_cluster(offset_commit=commit_answer()))


def test_what_is_assigned_by_hand_after_unsubscribing_stays() -> None:
    other = TopicPartition("other", 0)

    async def scenario(cluster: FakeCluster) -> None:
        fill(cluster, other, 3)
        target = await reading(cluster)
        target.unsubscribe()
        target.assign([other])
        assert [each.offset for each in (await target.getmany(timeout_ms=5000))[other]] == [0, 1, 2]
        await target.getmany(timeout_ms=500)
        assert target.assignment() == {other}
        assert commits(cluster) == [(1, "m1", 3)], "what was read in the group is not forgotten"
        await target.close(commit=False)

    run(scenario, group_cluster(offset_commit=commit_answer()))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_subscribing_again_at_once_joins_after_the_group_was_left(strategy: str) -> None:
    async def scenario(cluster: FakeCluster) -> None:
        target = await reading(cluster, partition_assignment_strategy=strategy)
        target.unsubscribe()
        target.subscribe(["t"])
        await until(lambda: joins(cluster) == 2, within_s=1)
        order = [
            each.API.key for _, each in cluster.requests if each.API.key in (ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP)
        ]
        assert order == [ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.JOIN_GROUP]
        assert commits(cluster) == [(1, "m1", 3)]
        assert cluster.requests_of(ApiKey.JOIN_GROUP)[1].member_id == ""
        assert await target.getmany(timeout_ms=5000)
        await target.close(commit=False)

    run(scenario, group_cluster(join_group=joined(protocol_name=strategy), offset_commit=commit_answer()))


def test_unsubscribing_while_the_program_is_called_stalled_lets_it_join_again() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        target = await reading(cluster, max_poll_interval_ms=60_000)
        await asyncio.sleep(61)
        target.unsubscribe()
        target.subscribe(["t"])
        await until(lambda: joins(cluster) == 2, within_s=1)
        await target.close(commit=False)

    run(scenario, group_cluster())


def test_partitions_that_are_lost_while_they_are_committed_are_lost_and_not_revoked() -> None:
    """A program with a store of its own would overwrite the new owner's positions in `on_partitions_revoked`."""

    async def scenario(cluster: FakeCluster) -> None:
        listener = Listener()
        target = await reading(cluster, listener)
        cluster.script[ApiKey.OFFSET_COMMIT] = Always(commit_answer(ErrorCode.UNKNOWN_MEMBER_ID))
        cluster.script[ApiKey.HEARTBEAT] = beat(ErrorCode.REBALANCE_IN_PROGRESS)
        await asyncio.sleep(4)
        await target.getmany()
        await until(lambda: joins(cluster) == 2, within_s=1)
        assert listener.told[:2] == [("assigned", {T0}), ("lost", {T0})]
        await target.close(commit=False)

    run(scenario, group_cluster())


def test_closing_a_consumer_that_lost_its_partitions_says_so() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        listener = Listener()
        target = await reading(cluster, listener)
        cluster.script[ApiKey.OFFSET_COMMIT] = Always(commit_answer(ErrorCode.UNKNOWN_MEMBER_ID))
        await target.close()
        assert listener.told == [("assigned", {T0}), ("lost", {T0})]

    run(scenario, group_cluster())


def test_a_listener_commits_while_the_consumer_is_closed() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        target: Consumer
        listener = Listener(revoked=lambda: target.commit())
        target = await reading(cluster, listener, enable_auto_commit=False)
        await target.close()
        assert listener.ended == ["assigned", "revoked"] and commits(cluster) == [(1, "m1", 3)]
        with pytest.raises(ClientClosedError):
            await target.commit()

    run(scenario, group_cluster(offset_commit=commit_answer()))


@pytest.mark.parametrize("answered", [True, False])
def test_closing_while_the_group_rebalances_commits_in_the_next_generation(answered: bool) -> None:
    """Its JoinGroup has ended the old one. Without an answer the consumer is closed nevertheless."""

    async def scenario(cluster: FakeCluster) -> None:
        listener = Listener()
        target = await reading(cluster, listener, partition_assignment_strategy="cooperative-sticky")
        later = asyncio.get_running_loop().create_future()
        cluster.script[ApiKey.JOIN_GROUP] = Always(lambda *_: later)
        cluster.script[ApiKey.HEARTBEAT] = beat(ErrorCode.REBALANCE_IN_PROGRESS)
        refused, taken = commit_answer(ErrorCode.ILLEGAL_GENERATION), commit_answer()
        cluster.script[ApiKey.OFFSET_COMMIT] = Always(
            lambda broker, request: (taken if request.generation_id_or_member_epoch == 2 else refused)(broker, request)
        )
        await until(lambda: joins(cluster) == 2, within_s=5)
        if answered:
            answer = joined(protocol_name="cooperative-sticky", generation_id=2)
            asyncio.get_running_loop().call_later(0.05, later.set_result, answer)
        begun_s = now_s()
        await target.close()
        assert now_s() - begun_s < (1 if answered else 6)
        assert ((2, "m1", 3) in commits(cluster)) == answered
        assert listener.told[-1] == ("revoked", {T0}) and len(cluster.requests_of(ApiKey.LEAVE_GROUP)) == 1

    run(scenario, cooperative_cluster())


def test_the_leader_joins_again_for_partitions_that_came_while_it_synced() -> None:
    """They were in metadata, which the leader looked at only while it was stable: nobody read them for minutes."""

    def lead(_: int, request: Any) -> Any:
        member = messages.join_group_response.JoinGroupResponseMember
        return joined(leader="m1", members=[member(member_id="m1", metadata=request.protocols[0].metadata)])

    async def scenario(cluster: FakeCluster) -> None:
        later = asyncio.get_running_loop().create_future()
        answer = cluster.script[ApiKey.SYNC_GROUP].popleft()
        cluster.script[ApiKey.SYNC_GROUP] = Always(lambda *_: later)
        target = consumer(cluster, group_id="g", enable_auto_commit=False)
        await target.connect()
        target.subscribe(["t"])
        await until(lambda: cluster.requests_of(ApiKey.SYNC_GROUP), within_s=5)
        cluster.topics["t"], cluster.leaders[TopicPartition("t", 1)] = 2, 1
        await target._cluster.refresh()
        later.set_result(answer())
        program = asyncio.create_task(target.getone())
        await until(lambda: joins(cluster) == 2, within_s=5)
        program.cancel()
        await target.close(commit=False)

    run(scenario, group_cluster(join_group=lead))
