"""What is counted of what goes in and out."""

from __future__ import annotations

from kafkalite.broker.traffic import BATCHES_COUNTED, Traffic, count_records
from kafkalite.protocol.record_batches.records import NewRecord, build_batch, build_marker


def batch(records: int) -> bytes:
    return bytes(build_batch([NewRecord(None, b"v" * 10, 1) for _ in range(records)]))


def test_records_of_whole_batches_count() -> None:
    data = batch(3) + batch(1) + batch(250)
    assert count_records(data) == count_records(memoryview(data)) == 254
    assert count_records(data[:-1]) == 4, "the last batch is cut"
    assert count_records(data[: len(batch(3)) + 20]) == 3
    assert count_records(b"") == count_records(data[:40]) == 0


def test_many_small_batches_are_counted_by_the_first_of_them() -> None:
    assert count_records(batch(1) * BATCHES_COUNTED) == BATCHES_COUNTED
    assert count_records(batch(1) * 6000) == 6000
    uneven = batch(1) * BATCHES_COUNTED + batch(50)
    assert count_records(uneven) == BATCHES_COUNTED * len(uneven) // (BATCHES_COUNTED * len(batch(1)))


def test_markers_do_not_count() -> None:
    marker = build_marker(commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1)
    assert count_records(batch(2) + bytes(marker) + batch(1)) == 3


def test_bytes_that_are_no_batches_end_the_count() -> None:
    assert count_records(batch(2) + bytes(100)) == 2
    assert count_records(batch(2) + b"\xff" * 100) == 2


def test_records_behind_those_that_are_known_are_estimated() -> None:
    known = batch(4) * 10
    assert count_records(known, 3 * len(known)) == 120
    assert count_records(known[: len(batch(4)) - 1], 2 * len(batch(4))) == 8, "of the first batch the header is enough"
    assert count_records(known, len(known)) == 40


def test_topics_are_counted_apart_and_forgotten() -> None:
    traffic = Traffic()
    traffic.count_produced("a", 100, 5)
    traffic.count_produced("a", 50, 1)
    traffic.count_fetched("b", batch(4), len(batch(4)))
    a, b = traffic.topics["a"], traffic.topics["b"]
    assert (a.bytes_in, a.records_in, a.bytes_out, a.records_out) == (150, 6, 0, 0)
    assert (b.bytes_in, b.records_in, b.bytes_out, b.records_out) == (0, 0, len(batch(4)), 4)
    traffic.forget(["a", "never seen"])
    assert list(traffic.topics) == ["b"]
