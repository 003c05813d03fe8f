"""What perf measures: percentiles, intervals, pace; and the loads against a scripted cluster."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.producer.producer import Producer
from kafkalite.clock import SystemClock
from kafkalite.perf.flow import Flow, Latencies, Meter, Pace
from kafkalite.perf.measure import (
    JoinTimer,
    ProduceLoad,
    RoundTripLostError,
    RoundTrips,
    consume_load,
    produce_load,
    round_trips,
)
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import TopicPartition
from tests.unit.client.fake_broker import FakeCluster, values_in
from tests.unit.clocks import HandClock

T0 = TopicPartition("t", 0)


def ignore(_: Flow, __: Flow) -> None:
    """A report that nobody reads."""


def test_percentiles_are_those_of_the_sorted_durations() -> None:
    durations = [random.Random(7).expovariate(0.1) for _ in range(20_000)]
    found = Latencies()
    for begin in range(0, len(durations), 999):
        found.add(durations[begin : begin + 999])
    ordered = sorted(durations)
    exact = [ordered[int(len(ordered) * share / 100)] for share in (50, 95, 99, 99.9)]
    assert found.percentiles_ms() == pytest.approx(exact, rel=0.003)
    assert (found.count, found.max_ms) == (20_000, max(durations))
    assert found.mean_ms == pytest.approx(sum(durations) / 20_000)


def test_memory_is_bounded_and_precision_with_it() -> None:
    found = Latencies()
    durations = [number * 0.37 for number in range(200_000)]
    for begin in range(0, len(durations), 10_000):
        found.add(durations[begin : begin + 10_000])
    assert len(found._counts) < 66_000
    exact = [durations[int(len(durations) * share / 100)] for share in (1, 50, 99.9)]
    assert found.percentiles_ms([1, 50, 99.9]) == pytest.approx(exact, rel=0.003)
    twice = Latencies()
    twice.merge(found)
    twice.merge(found)
    assert (twice.count, twice.max_ms) == (400_000, durations[-1])
    assert twice.percentiles_ms([50]) == found.percentiles_ms([50])


def test_small_numbers_of_durations() -> None:
    found = Latencies()
    assert found.percentiles_ms() == [0.0] * 4 and found.mean_ms == 0.0
    found.add([])
    found.add([0.25])
    assert found.percentiles_ms([0, 50, 100]) == [0.25] * 3
    found.add([0.75, 0.5, 0.01])
    assert found.percentiles_ms([25, 50, 75, 100]) == [0.01, 0.25, 0.5, 0.75]
    assert set(found.to_dict()) == {"mean_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"}


def test_intervals_are_reported_when_they_are_over() -> None:
    clock = HandClock()
    reports: list[tuple[int, float, int]] = []
    meter = Meter(clock, lambda window, total: reports.append((window.records, window.elapsed_ms, total.records)), 1000)
    clock.ms = 400
    meter.add(10, 100, [1.0])
    assert reports == []
    clock.ms = 1000
    meter.add(5, 50, [2.0])
    clock.ms = 2500
    meter.tick(clock.ms)
    assert reports == [(15, 1000, 15), (0, 1500, 15)]
    assert (meter.total.records_per_s, meter.total.bytes_per_s) == (15, 150), "nothing came after the first second"
    assert meter.total.latencies.max_ms == 2.0


def test_a_flow_without_time_has_no_rate() -> None:
    assert Flow(5, 5, records=3, bytes=3).to_dict()["records_per_s"] == 0


def test_pace_waits_only_when_it_is_worth_it() -> None:
    clock = HandClock()
    pace = Pace(1000, clock)
    assert pace.ahead_ms(1) == 0, "1 ms is too short a wait"
    assert pace.ahead_ms(100) == 100
    clock.ms = 150
    assert pace.ahead_ms(100) == 0
    assert Pace(-1, clock).ahead_ms(10**9) == 0


def producer_of(cluster: FakeCluster, **options: Any) -> Producer:
    return Producer(bootstrap_servers="fake:9001", opener=cluster.open, partitioner=lambda *_: 0, **options)


def consumer_of(cluster: FakeCluster) -> Consumer:
    return Consumer(
        bootstrap_servers="fake:9001", opener=cluster.open, auto_offset_reset="earliest", fetch_max_wait_ms=10
    )


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({"t": 1})


async def produce(cluster: FakeCluster, count: int, **options: Any) -> Any:
    async with producer_of(cluster, **options) as producer:
        load = ProduceLoad("t", count, lambda number: b"%05d" % number)
        return await produce_load(producer, load, SystemClock(), ignore)


def test_every_record_is_sent_and_measured(cluster: FakeCluster) -> None:
    outcome = asyncio.run(produce(cluster, 2500, batch_size=1000))
    assert values_in(cluster, T0) == [b"%05d" % number for number in range(2500)]
    flow = outcome.flow
    assert (flow.records, flow.bytes, flow.latencies.count, outcome.failed) == (2500, 12_500, 2500, 0)
    assert 0 < flow.latencies.percentiles_ms()[0] <= flow.latencies.max_ms <= flow.elapsed_ms


def test_refused_records_are_counted_apart(cluster: FakeCluster) -> None:
    m = messages.produce_response

    def refuse(_: int, request: Any) -> Any:
        answer = m.PartitionProduceResponse(index=0, error_code=87, error_message="no", base_offset=-1)
        return m.ProduceResponse(responses=[m.TopicProduceResponse(name="t", partition_responses=[answer])])

    cluster.script[ApiKey.PRODUCE].append(refuse)
    outcome = asyncio.run(produce(cluster, 100, batch_size=200))
    kept = len(values_in(cluster, T0))
    assert 0 < outcome.failed < 100 and outcome.failed + outcome.flow.records == 100
    assert kept == outcome.flow.records == outcome.flow.latencies.count
    assert "INVALID_RECORD" in repr(getattr(outcome.first_error, "name", None))


def test_consuming_counts_what_is_asked_for_or_stops_when_nothing_comes(cluster: FakeCluster) -> None:
    asyncio.run(produce(cluster, 1000))

    async def consume(count: int, timeout_ms: float) -> Any:
        async with consumer_of(cluster) as consumer:
            consumer.assign([T0])
            return await consume_load(consumer, count, SystemClock(), ignore, timeout_ms=timeout_ms)

    whole = asyncio.run(consume(700, 10_000))
    assert (whole.flow.records, whole.flow.bytes, whole.timed_out) == (700, 3500, False)
    short = asyncio.run(consume(1001, 150))
    assert (short.flow.records, short.timed_out) == (1000, True)


def test_joining_is_from_the_start_and_from_each_revocation() -> None:
    clock = HandClock()
    timer = JoinTimer(clock)
    clock.ms = 300
    timer.on_partitions_assigned({T0})
    clock.ms = 400
    timer.on_partitions_assigned(set())
    timer.on_partitions_revoked({T0})
    clock.ms = 450
    timer.on_partitions_assigned({T0})
    assert timer.total_ms == 350


@pytest.mark.parametrize("records_per_s", [-1, 2000.0])
def test_round_trips(cluster: FakeCluster, records_per_s: float) -> None:
    async def measure() -> Flow:
        async with producer_of(cluster) as producer, consumer_of(cluster) as consumer:
            await producer.send_and_wait("t", b"a stranger's record, long enough")
            consumer.assign([T0])
            wanted = RoundTrips("t", 20, 100, run_id=2**63 + 1, records_per_s=records_per_s)
            return await round_trips(producer, consumer, wanted, SystemClock(), ignore)

    flow = asyncio.run(measure())
    assert (flow.records, flow.bytes, flow.latencies.count) == (20, 2000, 20)
    assert {len(each) for each in values_in(cluster, T0)[1:]} == {100}


def test_a_round_trip_that_does_not_come_back_is_an_error(cluster: FakeCluster) -> None:
    cluster.topics["t"], cluster.leaders[TopicPartition("t", 1)] = 2, 1

    async def measure() -> Flow:
        async with producer_of(cluster) as producer, consumer_of(cluster) as consumer:
            consumer.assign([TopicPartition("t", 1)])
            wanted = RoundTrips("t", 5, 16, run_id=1, timeout_ms=100)
            return await round_trips(producer, consumer, wanted, SystemClock(), ignore)

    with pytest.raises(RoundTripLostError, match=r"1 of the records sent to t .* within 100 ms"):
        asyncio.run(measure())
