"""Requests with acks=all are appended at a pace that depends on how many wait for replicas."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalite.broker.replication.append_pace import AppendPace
from kafkalite.errors import ErrorCode
from kafkalite.net.frames import request_frame
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.produce.fast_path_broker import METADATA, Broker, Peer, fetched, produce, replicated, run


@pytest.mark.parametrize(
    ("waiting", "passed_ms", "delay_ms"),
    [(0, 0.0, 0.0), (1, 0.0, 0.0), (2, 0.0, 0.6), (3, 0.5, 0.7), (3, 2.0, 0.0), (100, 0.0, 3.0), (100, 2.0, 1.0)],
)
def test_the_more_requests_wait_the_later_the_next_are_appended(
    waiting: int, passed_ms: float, delay_ms: float
) -> None:
    pace = AppendPace()
    pace.waiting = waiting
    assert pace.delay_ms(50.0) == 0, "nothing was appended yet"
    pace.note_append(50.0)
    assert pace.delay_ms(50.0 + passed_ms) == pytest.approx(delay_ms)


def append_late(pace: AppendPace, now_ms: float, lateness_ms: float, times: int) -> float:
    """Append so often, each time later than a request waited for it; return when it was the last time."""
    for _ in range(times):
        now_ms += pace.delay_ms(now_ms) + lateness_ms
        pace.note_append(now_ms)
    return now_ms


@pytest.mark.parametrize(("lateness_ms", "interval_ms"), [(0.0, 3.0), (1.5, 4.5), (40.0, 6.0)])
def test_where_processors_are_short_more_requests_are_appended_together(lateness_ms: float, interval_ms: float) -> None:
    pace = AppendPace()
    pace.waiting = 100
    pace.note_append(0.0)
    now_ms = append_late(pace, 0.0, lateness_ms, 100)
    assert pace.delay_ms(now_ms) == pytest.approx(interval_ms, abs=0.01)
    now_ms = append_late(pace, now_ms, 0.0, 100)
    assert pace.delay_ms(now_ms) == pytest.approx(3.0, abs=0.01), "it was for a while"


def test_one_long_turn_and_a_pause_are_no_shortage() -> None:
    pace = AppendPace()
    pace.waiting = 100
    pace.note_append(0.0)
    now_ms = append_late(pace, 0.0, 40.0, 1)
    for _ in range(100):
        now_ms += 1000.0  # nobody waited meanwhile
        pace.note_append(now_ms)
    assert pace.delay_ms(now_ms) < 3.5


def paced(path: Path, act: Callable[[Broker, Peer], Awaitable[Any]]) -> Broker:
    """Run `act` with a producer, ten of whose requests were just appended and wait for broker 2."""

    async def scenario(broker: Broker) -> None:
        peer = await broker.peer(produce(acks=-1))
        fetched(replicated(broker), 1)
        peer.send(*(produce(acks=-1, correlation_id=number) for number in range(10)))
        await virtual_time.settle()
        assert broker.logs[0].log_end_offset == 11 and broker.parts.replicas.pace.waiting == 10
        broker.disk.sizes.clear()
        await act(broker, peer)

    return run(path, scenario)


async def commit(broker: Broker) -> None:
    fetched(broker.partition(), broker.logs[0].log_end_offset)
    await virtual_time.settle()


def test_what_comes_under_load_is_appended_together(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        peers = [await broker.peer(produce(acks=-1)) for _ in range(3)]
        before = broker.logs[0].log_end_offset
        for number, each in enumerate(peers):
            each.send(produce(acks=-1, correlation_id=20 + number))
            await asyncio.sleep(0.0009)
        assert broker.logs[0].log_end_offset == before
        await asyncio.sleep(0.0004)
        assert broker.logs[0].log_end_offset == before + 3 and len(broker.disk.sizes) == 1
        await commit(broker)
        assert [each.list_outcomes()[-1] for each in peers] == [
            (20 + number, 0, before + number) for number in range(3)
        ]

    paced(tmp_path, act)


def test_who_sends_one_request_after_the_other_is_not_read_from_meanwhile(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        peer.send(produce(acks=-1, correlation_id=20))
        assert not peer.transport.reading
        await asyncio.sleep(0.0031)
        assert peer.transport.reading
        assert broker.logs[0].log_end_offset == 12

    paced(tmp_path, act)


def test_what_is_read_at_the_end_of_the_wait_is_appended_with_the_rest(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        resume = peer.transport.resume_reading

        def readable() -> None:
            resume()
            asyncio.get_running_loop().call_soon(peer.send, produce(acks=-1, correlation_id=21))

        peer.transport.resume_reading = readable  # type: ignore[method-assign]
        peer.send(produce(acks=-1, correlation_id=20))
        await asyncio.sleep(0.0031)
        assert broker.logs[0].log_end_offset == 13 and len(broker.disk.sizes) == 1

    paced(tmp_path, act)


def test_a_single_producer_waits_for_nothing(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        await commit(broker)
        await asyncio.sleep(0.01)
        for number in range(20, 23):
            peer.send(produce(acks=-1, correlation_id=number))
            await virtual_time.settle()
            await commit(broker)
            assert [each[:2] for each in peer.list_outcomes()][-1] == (number, ErrorCode.NONE)
            assert peer.transport.reading

    paced(tmp_path, act)


def test_whoever_waits_for_the_leader_only_is_served_in_the_same_turn(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        hasty = await broker.peer()
        peer.send(produce(acks=-1, correlation_id=20))
        hasty.send(produce(correlation_id=8))
        await virtual_time.settle()
        assert [each[:2] for each in hasty.list_outcomes()] == [(8, ErrorCode.NONE)]
        assert peer.transport.reading, "what was to wait is appended too"
        await commit(broker)
        assert [each[0] for each in peer.list_outcomes()][-1] == 20

    paced(tmp_path, act)


def test_another_request_of_the_connection_stays_behind(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        peer.send(produce(acks=-1, correlation_id=20))
        peer.send(METADATA)
        assert broker.logs[0].log_end_offset == 12 and peer.transport.reading
        await commit(broker)
        assert int.from_bytes(peer.answers()[-1][4:8], "big") == 9

    paced(tmp_path, act)


def test_a_connection_that_is_gone_meanwhile_is_not_read_from(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        peer.send(produce(acks=-1, correlation_id=20))
        peer.connection.connection_lost(None)
        await asyncio.sleep(0.01)
        assert broker.logs[0].log_end_offset == 12 and not peer.transport.reading

    paced(tmp_path, act)


def test_a_stop_serves_what_waits(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        peer.send(produce(acks=-1, correlation_id=20))
        broker.dispatcher.cancel_all()
        assert broker.logs[0].log_end_offset == 12

    paced(tmp_path, act)


def test_whatever_was_received_in_one_go_is_in_progress_and_then_nothing_is_read(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        for begin, count in ((100, 500), (1000, 1500)):
            assert peer.transport.reading
            peer.send(*(produce(acks=-1, correlation_id=number) for number in range(begin, begin + count)))
            await asyncio.sleep(0.01)
        assert not peer.transport.reading and broker.parts.replicas.pace.waiting == 2010
        assert not broker.served, "none of them was served alone"
        await commit(broker)
        assert peer.transport.reading
        assert [each[0] for each in peer.list_outcomes()] == [*range(10), *range(100, 600), *range(1000, 2500)]

    paced(tmp_path, act)


def test_what_came_behind_another_request_is_served_with_others_again(tmp_path: Path) -> None:
    """Else a producer in full flow would never come back to it after a Metadata request."""

    async def act(broker: Broker, peer: Peer) -> None:
        damaged = bytearray(produce(acks=-1, correlation_id=205))
        damaged[-1] ^= 1
        frames = {number: produce(acks=-1, correlation_id=number) for number in range(100, 800)} | {205: bytes(damaged)}
        peer.send(*(frames[number] for number in range(100, 200)), METADATA, METADATA)
        peer.send(*(frames[number] for number in range(200, 800)))
        numbers = []
        for _ in range(5):
            await asyncio.sleep(0.01)
            await commit(broker)
            numbers += [int.from_bytes(each[4:8], "big") for each in peer.answers()]
        assert numbers == [*range(10), *range(100, 200), 9, 9, *range(200, 800)]
        assert 9 in broker.served and 205 in broker.served, "alone"
        assert max(broker.served) < 200 + 512, "of those behind it only what was of the same turn"
        assert not broker.parts.replicas.pace.waiting

    paced(tmp_path, act)


@pytest.mark.parametrize("seed", range(40))
def test_answers_leave_in_the_order_of_requests_whatever_they_are(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    count = 300

    def request(number: int) -> bytes:
        kind = rng.random()
        if kind < 0.03:
            return b"".join(request_frame(APIS[ApiKey.API_VERSIONS], 0, number, "me", []))
        made = bytearray(
            produce(
                acks=1 if kind < 0.1 else -1, index=rng.randrange(2), correlation_id=number, count=1 + (kind > 0.97)
            )
        )
        if 0.1 < kind < 0.13:
            made[-1] ^= 1
        return bytes(made)

    async def act(broker: Broker) -> None:
        peer = await broker.peer(produce(acks=-1), produce(), produce(acks=-1, index=1))
        replicated(broker)
        left = [request(number) for number in range(count)]
        numbers: list[int] = []
        deadline_s = asyncio.get_running_loop().time() + 1.4
        while len(numbers) < count and asyncio.get_running_loop().time() < deadline_s:
            size = rng.choice((1, 2, 5, 40, 150))
            if peer.transport.reading and left:
                peer.send(*left[:size])
                del left[:size]
            await asyncio.sleep(rng.choice((0, 0.001, 0.005)))
            if rng.random() < 0.5:
                await commit(broker)
            numbers += [int.from_bytes(each[4:8], "big") for each in peer.answers()]
        assert numbers == list(range(count))
        assert broker.parts.replicas.pace.waiting == 0

    run(tmp_path, act)


def test_requests_whose_time_is_over_wait_no_more(tmp_path: Path) -> None:
    async def act(broker: Broker, peer: Peer) -> None:
        await asyncio.sleep(2)
        assert {code for _, code, _ in peer.list_outcomes()} == {ErrorCode.REQUEST_TIMED_OUT}
        assert broker.parts.replicas.pace.waiting == 0

    paced(tmp_path, act)
