"""With acks=all, requests that were appended together are answered together, in the order of their connections."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode
from kafkalite.protocol import codec
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.fake_log import assignment
from tests.unit.broker.produce.fast_path_broker import METADATA, Broker, Peer, fetched, produce, replicated, run


def test_acks_all_is_answered_when_the_record_is_committed(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer, hasty = await broker.peer(produce(acks=-1)), await broker.peer()
        partition = replicated(broker)
        fetched(partition, 2)
        for number in range(3):
            peer.send(produce(acks=-1, correlation_id=number))
            await virtual_time.settle()
        peer.send(METADATA)
        hasty.send(produce(correlation_id=8))
        await virtual_time.settle()
        assert hasty.list_outcomes() == [(8, 0, 5)] and not peer.answers() and not broker.served
        fetched(partition, 4)
        await virtual_time.settle()
        assert peer.list_outcomes() == [(0, 0, 2), (1, 0, 3)]
        fetched(partition, 6)
        await virtual_time.settle()
        answers = peer.answers()
        assert [int.from_bytes(each[4:8], "big") for each in answers] == [2, 9] and broker.served == [9]
        await asyncio.sleep(5)
        assert not peer.answers(), "no timer is left"

    run(tmp_path, act)


def test_a_request_that_waits_for_replicas_shows_what_the_next_ones_look_like(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        fetched(replicated(broker), 0)
        peer = Peer(broker)
        for number in range(3):
            peer.send(produce(acks=-1, correlation_id=number))
            await virtual_time.settle()
        assert broker.served == [0] and not peer.answers()
        fetched(broker.partition(), 3)
        await virtual_time.settle()
        assert peer.list_outcomes() == [(0, 0, 0), (1, 0, 1), (2, 0, 2)]

    run(tmp_path, act)


def test_an_answer_that_is_there_waits_for_those_before_it(tmp_path: Path) -> None:
    async def act(broker: Broker) -> None:
        peer = await broker.peer(produce(acks=-1))
        partition = replicated(broker)
        fetched(partition, 1)
        peer.send(produce(acks=-1, correlation_id=1))
        await virtual_time.settle()
        peer.send(produce(correlation_id=2))  # acks=1, of another template
        peer.send(produce(correlation_id=3))
        await virtual_time.settle()
        assert not peer.answers() and broker.served == [2]
        fetched(partition, 4)
        await virtual_time.settle()
        assert peer.list_outcomes() == [(1, 0, 1), (2, 0, 2), (3, 0, 3)]

    run(tmp_path, act)


@pytest.mark.parametrize("repeats", [False, True])
def test_what_is_not_committed_is_told_as_to_requests_that_are_served_alone(tmp_path: Path, repeats: bool) -> None:
    async def outcomes(broker: Broker) -> list[Any]:
        found: list[Any] = []
        peer = await broker.peer(produce(acks=-1))
        if not repeats:
            peer.serve_alone()
        partition = replicated(broker)
        fetched(partition, 1)
        peer.send(produce(acks=-1))
        await asyncio.sleep(1.4)
        assert not peer.answers()
        await asyncio.sleep(0.2)
        found.append(peer.answers())  # the time is over
        peer.send(produce(acks=-1))
        await virtual_time.settle()
        partition.resign()
        await virtual_time.settle()
        found.append(peer.answers())
        partition.become_leader(assignment(leader_epoch=6, isr=(1,), replicas=(1, 2)), 0.0)
        partition.log.config = TopicConfig(min_insync_replicas=2)
        peer.send(produce(acks=-1))  # appended by nobody
        await virtual_time.settle()
        found.append(peer.answers())
        return [*found, partition.log.log_end_offset]

    async def act(broker: Broker) -> None:
        timed_out, not_leader, not_enough, end = await outcomes(broker)
        codes = [codec.decode_response(ApiKey.PRODUCE, 7, each[0], 8) for each in (timed_out, not_leader, not_enough)]
        told = [reply.responses[0].partition_responses[0] for reply in codes]
        assert [(each.error_code, each.base_offset, each.log_start_offset) for each in told] == [
            (ErrorCode.REQUEST_TIMED_OUT, -1, 0),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0),
            (ErrorCode.NOT_ENOUGH_REPLICAS, -1, 0),
        ]
        assert end == 3

    run(tmp_path, act)


@pytest.mark.parametrize("is_over", [False, True])
def test_what_was_appended_together_is_answered_together(tmp_path: Path, is_over: bool) -> None:
    async def act(broker: Broker) -> None:
        peers = [await broker.peer(produce(acks=-1)) for _ in range(3)]
        partition = replicated(broker)
        fetched(partition, 3)
        for number, peer in enumerate(peers):
            peer.send(produce(acks=-1, correlation_id=number))
        await virtual_time.settle()
        fetched(partition, 5)
        await virtual_time.settle()
        assert not any(peer.answers() for peer in peers), "they wait for the last one"
        if is_over:
            await asyncio.sleep(1.6)
        else:
            partition.resign()
            await virtual_time.settle()
        code = ErrorCode.REQUEST_TIMED_OUT if is_over else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [peer.list_outcomes() for peer in peers] == [[(number, code, -1)] for number in range(3)]
        assert broker.parts.replicas.pace.waiting == 0

    run(tmp_path, act)
