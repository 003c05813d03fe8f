"""Followers get records at a pace that depends on how many producers wait for replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.replication_pace import ReplicationPace
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.records import iter_batches
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.test_plain_produce import Broker, Peer, fetched, produce, replicated, run

VERSION = 11


@pytest.mark.parametrize(
    ("waiting", "passed_ms", "delay_ms"),
    [(0, 0.0, 0.0), (1, 0.0, 0.0), (2, 0.0, 0.6), (3, 0.5, 0.7), (3, 2.0, 0.0), (100, 0.0, 5.0), (100, 4.0, 1.0)],
)
def test_the_more_producers_wait_the_later_is_the_next_answer(waiting: int, passed_ms: float, delay_ms: float) -> None:
    pace = ReplicationPace()
    pace.waiting = waiting
    assert pace.delay_ms(50.0) == 0, "no follower got records yet"
    pace.answered(50.0)
    assert pace.delay_ms(50.0 + passed_ms) == pytest.approx(delay_ms)


class Follower:
    """Broker 2, which fetches within a session."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._session_id, self._session_epoch, self.offset = 0, 0, 0

    async def fetch(self, max_wait_ms: int = 500, min_bytes: int = 1) -> tuple[float, int]:
        """(ms until the answer, records in it); what it had is committed, and it asks for what follows what it got."""
        m = messages.fetch_request
        partition = m.FetchPartition(partition=0, fetch_offset=self.offset, partition_max_bytes=1_000_000)
        request = m.FetchRequest(
            replica_id=2,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=10**7,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[m.FetchTopic(topic="t", partitions=[partition])],
        )
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        answer = await self._broker.parts.ask(request, VERSION)
        assert answer.error_code == ErrorCode.NONE
        self._session_id = answer.session_id
        self._session_epoch += 1
        passed_ms = (loop.time() - began_s) * 1000
        data = b"".join(each.records or b"" for topic in answer.responses for each in topic.partitions)
        before = self.offset
        self.offset = max([before, *(header.next_offset for header in iter_batches(data))])
        return passed_ms, self.offset - before


def paced(path: Path, act: Callable[[Broker, Peer, Follower], Awaitable[Any]]) -> None:
    """Run `act` with a producer, ten of whose requests wait for broker 2, which just got their records."""

    async def scenario(broker: Broker) -> None:
        peer, follower = await broker.peer(produce(acks=-1)), Follower(broker)
        fetched(replicated(broker), 1)
        await follower.fetch(max_wait_ms=0)
        for number in range(10):
            peer.send(produce(acks=-1, correlation_id=number))
        await virtual_time.settle()
        assert (await follower.fetch())[0] == 0, "who comes after a pause has no wait"
        assert broker.parts.replicas.pace.waiting == 10 and not peer.answers()
        await act(broker, peer, follower)

    run(path, scenario)


def test_what_a_follower_has_is_committed_before_its_own_answer_is_due(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer, follower: Follower) -> None:
        answer = asyncio.ensure_future(follower.fetch())
        await virtual_time.settle()
        assert [number for number, code, _ in peer.told() if code == 0] == list(range(10))
        assert broker.parts.replicas.pace.waiting == 0
        peer.send(produce(acks=-1))
        passed_ms, records = await answer
        assert (round(passed_ms, 3), records > 0) == (0, True), "a single producer has the answer at once"

    paced(tmp_path, act)


@pytest.mark.parametrize(("min_bytes", "expected_ms", "records_left"), [(1, 3.6, 0), (2, 0.0, 3)])
def test_under_load_records_leave_together(
    tmp_path: Path, min_bytes: int, expected_ms: float, records_left: int
) -> None:
    """But a follower that waits for many bytes waits for nothing else."""

    async def act(broker: Broker, peer: Peer, follower: Follower) -> None:
        other = await broker.peer()
        follower.offset = 4  # seven requests still wait
        answer = asyncio.ensure_future(follower.fetch(min_bytes=min_bytes))
        for _ in range(3):
            await asyncio.sleep(0.001)
            other.send(produce())
        passed_ms, records = await answer
        await virtual_time.settle()
        assert passed_ms == pytest.approx(expected_ms)
        assert records > 0 and len(peer.answers()) == 3
        assert broker.logs[0].log_end_offset - follower.offset == records_left

    paced(tmp_path, act)


def test_records_that_come_later_than_the_fetch_wait_too(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer, follower: Follower) -> None:
        other = await broker.peer()
        broker.parts.replicas.pace.waiting += 100  # for records of other partitions
        answer = asyncio.ensure_future(follower.fetch())
        for _ in range(3):
            await asyncio.sleep(0.001)
            other.send(produce())
        passed_ms, _ = await answer
        assert passed_ms == pytest.approx(5)
        assert follower.offset == broker.logs[0].log_end_offset

    paced(tmp_path, act)


def test_a_follower_far_behind_is_not_kept(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer, follower: Follower) -> None:
        peer.send(produce(acks=-1, count=1001))
        await virtual_time.settle()
        follower.offset = 2
        assert (await follower.fetch())[0] == 0

    paced(tmp_path, act)


def test_producers_whose_time_is_over_wait_no_more(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer, follower: Follower) -> None:
        await asyncio.sleep(2)
        assert {code for _, code, _ in peer.told()} == {ErrorCode.REQUEST_TIMED_OUT}
        assert broker.parts.replicas.pace.waiting == 0

    paced(tmp_path, act)
