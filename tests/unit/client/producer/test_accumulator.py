"""Batches by size and linger, within a bound of memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.client.producer.accumulator import Accumulator, Batch, BatchState
from kafkalite.types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def accumulator(
    linger_ms: float = 0, batch_size: int = 300, buffer_memory: int = 10_000, in_flight: int = 1
) -> Accumulator:
    return Accumulator(
        batch_size=batch_size,
        linger_ms=linger_ms,
        buffer_memory=buffer_memory,
        max_in_flight_per_partition=in_flight,
    )


def put(target: Accumulator, tp: TopicPartition, value: bytes = b"v" * 50, now_ms: float = 0.0) -> tuple[Batch, bool]:
    """Append a record as the producer does. Return its batch, and whether it filled another one."""
    queue = target.queue(tp)
    batch = queue.open_batch
    if batch is not None and batch.add(0, None, value, []) >= 0:
        return batch, False
    is_filled = batch is not None
    return target.append_to_new(queue, 0, None, value, [], now_ms), is_filled


def test_records_share_a_batch_until_it_is_full() -> None:
    acc = accumulator()
    batches = []
    for _ in range(8):
        batch, filled = put(acc, A)
        batches.append((id(batch), filled))
    assert len({each for each, _ in batches}) == 2
    assert [filled for _, filled in batches].count(True) == 1
    first = acc.first_batch(A)
    assert first.state is BatchState.SEALED and first.size_bytes <= 300


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    acc = accumulator()
    put(acc, A)
    batch, filled = put(acc, A, b"x" * 1000)
    assert filled and batch.record_count == 1 and batch.size_bytes > 1000


def test_an_open_batch_lingers() -> None:
    acc = accumulator(linger_ms=10)
    put(acc, A, now_ms=100)
    assert acc.ready_partitions(105) == [] and acc.next_event_ms(105, 1000) == 110
    assert acc.ready_partitions(110) == [A]


def test_a_full_batch_does_not_linger() -> None:
    acc = accumulator(linger_ms=10_000)
    for _ in range(6):
        put(acc, A)
    assert acc.ready_partitions(0) == [A]


def test_memory_that_runs_low_ends_lingering() -> None:
    acc = accumulator(linger_ms=10_000, batch_size=100_000, buffer_memory=1000)
    for _ in range(10):
        put(acc, A)
    assert acc.ready_partitions(0) == [A]


def test_flush_ends_lingering_for_what_is_there() -> None:
    acc = accumulator(linger_ms=10_000)
    batch, _ = put(acc, A)
    assert acc.begin_flush() == [batch] and acc.ready_partitions(0) == [A]
    later, _ = put(acc, A)
    assert later is not batch
    acc.take_batch(A)
    acc.finish(batch, None)
    acc.end_flush()
    assert acc.ready_partitions(0) == []


def test_one_batch_in_flight_keeps_the_next_waiting() -> None:
    acc = accumulator()
    for _ in range(12):
        put(acc, A)
    put(acc, B)
    acc.take_batch(A)
    assert acc.ready_partitions(0) == [B]
    several = accumulator(in_flight=2)
    for _ in range(12):
        put(several, A)
    several.take_batch(A)
    assert several.ready_partitions(0) == [A]
    several.take_batch(A)
    assert several.ready_partitions(0) == []


def test_a_batch_that_comes_back_goes_first_and_alone() -> None:
    acc = accumulator(in_flight=5)
    for _ in range(20):
        put(acc, A)
    first, second = acc.take_batch(A), acc.take_batch(A)
    acc.requeue(first, not_before_ms=50)
    assert acc.first_batch(A) is first
    assert acc.ready_partitions(60) == [], "the second is still in flight"
    acc.requeue(second, not_before_ms=50)
    assert [acc.first_batch(A), acc.waiting(A)[1]] == [first, second]
    assert acc.ready_partitions(49) == [] and acc.ready_partitions(50) == [A]


def test_partitions_take_turns() -> None:
    acc = accumulator(in_flight=5)
    for _ in range(20):
        put(acc, A)
        put(acc, B)
    assert acc.ready_partitions(0) == [A, B]
    acc.take_batch(A)
    assert acc.ready_partitions(0) == [B, A]


def test_batches_expire_by_their_age() -> None:
    acc = accumulator()
    old, _ = put(acc, A, now_ms=0)
    acc.seal([old])
    put(acc, A, now_ms=90)
    assert acc.expired_batches(99, 100) == [] and acc.expired_batches(100, 100) == [old]


def test_callbacks_come_in_the_order_of_the_records() -> None:
    acc = accumulator()
    seen: list[int] = []
    for number in range(3):
        batch, _ = put(acc, A)
        batch.callbacks.append((number, lambda _, index: seen.append(index)))
    batch.on_done.append(lambda: seen.append(99))
    acc.take_batch(A)
    acc.finish(batch, None, base_offset=7)
    assert seen == [0, 1, 2, 99] and batch.base_offset == 7


actions = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([A, B]), st.integers(0, 400)),
        st.tuples(st.just("take"), st.sampled_from([A, B]), st.just(0)),
        st.tuples(st.just("back"), st.integers(0, 10), st.just(0)),
        st.tuples(st.just("finish"), st.integers(0, 10), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(actions, st.integers(1, 5))
def test_memory_is_accounted_and_order_is_kept(steps: list[tuple[str, object, int]], in_flight: int) -> None:
    acc = accumulator(in_flight=in_flight, buffer_memory=2000)
    flying: list[Batch] = []
    live: set[Batch] = set()
    now = 0.0
    largest = 0
    for kind, argument, size in steps:
        now += 1
        if kind == "put" and acc.has_room:
            batch, _ = put(acc, argument, b"x" * size, now)  # type: ignore[arg-type]
            live.add(batch)
            largest = max(largest, size + 200)
        elif kind == "take" and argument in acc.ready_partitions(now):
            flying.append(acc.take_batch(argument))  # type: ignore[arg-type]
        elif kind in ("back", "finish") and flying:
            batch = flying.pop(argument % len(flying))  # type: ignore[operator]
            if kind == "back":
                acc.requeue(batch, now)
            else:
                acc.finish(batch, None)
                live.discard(batch)
        assert acc.used_bytes == sum(each.size_bytes for each in live)
        assert acc.used_bytes <= 2000 + largest
        assert acc.unfinished == len(live)
        for tp in (A, B):
            waiting = [each.ordinal for each in acc.waiting(tp)]
            assert waiting == sorted(waiting)
            assert len(acc.in_flight(tp)) <= in_flight
            assert all(each.state is not BatchState.OPEN for each in acc.waiting(tp)[:-1])
            assert all(each.state is BatchState.IN_FLIGHT for each in acc.in_flight(tp))
