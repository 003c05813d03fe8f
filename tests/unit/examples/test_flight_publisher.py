"""The demo's publisher: the totals that it returns, and the leader that it kills in the middle of the stream."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from deploy.examples.flights.check import OrderJudge
from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.record_reader import read_records
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster

pandas = pytest.importorskip("pandas", reason="the demo's extra is not installed")

from deploy.examples.flights.publisher import LeaderKill, Published, publish, wait_in_sync  # noqa: E402

_ROWS = 60
_PID_OF_BROKER = {1: 4001, 2: 4002}


@pytest.fixture
def flights(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster({"flights": 2})
    monkeypatch.setattr(ClusterClient, "_open", lambda _, host, port: cluster.open(host, port))
    for number in range(2):
        cluster.leaders[TopicPartition("flights", number)] = number + 1
    return cluster


def table() -> object:
    return pandas.DataFrame(
        {
            "tailnum": pandas.Series([None if n % 10 == 0 else f"N{n % 7}" for n in range(_ROWS)], dtype="str"),
            "dep_delay": [float(n) for n in range(_ROWS)],
            "minute": [n % 60 for n in range(_ROWS)],
            "time_hour": ["2013-01-01T10:00:00Z"] * _ROWS,
        }
    )


def published(kill: LeaderKill | None) -> tuple[Published, int]:
    steps: list[int] = []

    async def call() -> Published:
        async with asyncio.timeout(20):
            return await publish("fake:9001", "flights", table(), steps.append, kill)

    return asyncio.run(call()), sum(steps)


def judged(cluster: FakeCluster) -> OrderJudge:
    judge = OrderJudge()
    for number in range(2):
        tp = TopicPartition("flights", number)
        for batch in cluster.logs[tp]:
            for record in read_records(batch, BatchHeader.read(batch), tp.topic, tp.partition, 0):
                judge.check_record(record)  # type: ignore[arg-type]  # a draft has the same fields
    return judge


def test_what_is_published_is_what_is_remembered(flights: FakeCluster) -> None:
    sent, steps = published(None)
    found = judged(flights).finish()
    assert found.problems == [] and steps == _ROWS
    assert (found.records, found.bytes, found.checksum) == (sent.records, sent.bytes, sent.checksum)
    assert (found.keys, found.null_keys) == (sent.keys, sent.null_keys) == (7, 6)


def test_a_leader_is_killed_and_nothing_is_lost(flights: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []

    def kill(pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        (broker,) = [each for each, own_pid in _PID_OF_BROKER.items() if own_pid == pid]
        killed.append(broker)
        flights.unreachable.add(broker)
        for connection in flights.connections:
            if connection.broker_id == broker:
                connection.close()
        for each, leader in list(flights.leaders.items()):
            if leader == broker:
                flights.move_leader(each, 3 - broker)

    monkeypatch.setattr(os, "kill", kill)
    striking = LeaderKill("fake:9001", TopicPartition("flights", 0), 20, _PID_OF_BROKER)
    sent, _ = published(striking)
    assert killed == [1] and striking.killed == 1 and striking.successor == 2
    assert striking.pause_s > 0
    found = judged(flights).finish()
    assert found.problems == [] and found.records == sent.records == _ROWS

    other = LeaderKill("fake:9002", TopicPartition("flights", 0), 0, {})
    assert asyncio.run(other.find_leader()) == 2


def test_replicas_that_lag_are_waited_for(flights: FakeCluster) -> None:
    assert asyncio.run(wait_in_sync("fake:9001", ["flights"], 5.0))
    flights.in_sync[TopicPartition("flights", 0)] = [1]
    assert not asyncio.run(wait_in_sync("fake:9001", ["flights"], 0.2))
