"""Records as arrays: the same records as objects, in the same order, with the same positions and errors."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.client import SyncConsumer
from kafkalite.client.errors import ClientError
from kafkalite.client.record_batches import RecordBatch
from kafkalite.client.record_reader import RecordReader
from kafkalite.errors import ErrorCode
from kafkalite.protocol.record_batches.records import LOG_APPEND_TIME, BatchHeader, NewRecord, build_batch
from tests.unit.client import hostile_broker
from tests.unit.client.consumer.scripted_consumer import T0, T1, consumer, fill, run
from tests.unit.client.fake_broker import FakeCluster
from tests.unit.client.group.scripted_group import commit_answer, commits, group_cluster


def values_of(batch: RecordBatch) -> list[bytes | None]:
    """By the arrays alone."""
    places = zip(batch.value_starts, batch.value_ends, strict=True)
    return [None if start < 0 else bytes(batch.data[start:end]) for start, end in places]


def test_batches_of_the_log_come_one_by_one_in_turns_of_partitions() -> None:
    cluster = FakeCluster({"t": 2})
    fill(cluster, T0, 7, batch_records=3)
    fill(cluster, T1, 2, batch_records=2)

    async def scenario() -> None:
        async with consumer(cluster, value_deserializer="json") as target:
            target.assign([T0, T1])
            found: dict[Any, list[RecordBatch]] = {T0: [], T1: []}
            while sum(map(len, found.values())) < 4:
                for each, batches in (await target.poll_batches(timeout_ms=1000)).items():
                    assert {batch.topic_partition for batch in batches} == {each}
                    found[each] += batches
            assert [batch.offsets.tolist() for batch in found[T0]] == [[0, 1, 2], [3, 4, 5], [6]]
            assert [values_of(batch) for batch in found[T0]] == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6"]]
            assert found[T0][1].timestamps.tolist() == [3000, 4000, 5000] and found[T0][1].timestamp_type == 0
            assert found[T1][0].copy_values() == [b"0", b"1"] and found[T1][0].copy_keys() == [b"k", b"k"]
            assert [await target.position(each) for each in (T0, T1)] == [7, 2]
            assert await target.poll_batches(timeout_ms=10) == {} == await target.poll_batches()

    run(scenario())


def test_a_limit_divides_a_batch_which_records_then_go_on_with() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 12, batch_records=6)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            assert [each.offset for each in (await target.getmany(timeout_ms=1000, max_records=1))[T0]] == [0]
            (batch,) = (await target.poll_batches(max_records=2))[T0]
            assert batch.offsets.tolist() == [1, 2] and await target.position(T0) == 3
            assert (await target.getone()).offset == 3
            first, second = (await target.poll_batches(T0, max_records=4))[T0]
            assert (first.offsets.tolist(), second.offsets.tolist()) == ([4, 5], [6, 7])
            target.seek(T0, 10)
            (rest,) = (await target.poll_batches(timeout_ms=1000))[T0]
            assert values_of(rest) == [b"10", b"11"]
            with pytest.raises(ValueError, match="max_records is 0"):
                await target.poll_batches(max_records=0)

    run(scenario())


def test_a_batch_that_cannot_be_read_is_told_after_those_before_it() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 6, batch_records=3)
    damaged = cluster.logs[T0][1]
    damaged[-1] ^= 1

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            (batch,) = (await target.poll_batches(timeout_ms=1000))[T0]
            assert batch.offsets.tolist() == [0, 1, 2]
            for _ in range(2):
                with pytest.raises(ClientError, match=r"t-0.* has a wrong CRC") as raised:
                    await target.poll_batches(timeout_ms=1000)
                assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
            assert await target.position(T0) == 3

    run(scenario())


def test_arrays_are_taken_by_numpy_without_a_copy() -> None:
    data = build_batch([NewRecord(None, b"%04d" % number) for number in range(50)])
    batch = RecordReader(data, BatchHeader.read(data), T0, 10).take_batch(1000)
    assert batch is not None and len(batch) == 40 and "t-0, 40 records from offset 10" in repr(batch)
    offsets = numpy.frombuffer(batch.offsets, numpy.int64)
    assert offsets.tolist() == list(range(10, 50))
    assert offsets.base is not None and offsets.base.obj is batch.offsets
    octets = numpy.frombuffer(batch.data, numpy.uint8)
    assert not octets.flags.writeable
    starts = numpy.frombuffer(batch.value_starts, numpy.int64)
    assert octets[starts[:, None] + numpy.arange(4)].tobytes() == b"".join(b"%04d" % n for n in range(10, 50))


content = st.none() | st.binary(max_size=20)
records = st.lists(
    st.builds(
        NewRecord,
        content,
        content,
        st.integers(0, 1 << 60),
        st.lists(st.tuples(st.text(max_size=3), content), max_size=2),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(records, st.sampled_from((0, 1, 4)), st.booleans(), st.integers(0, 12), st.integers(1, 12), st.data())
def test_records_made_of_arrays_are_those_that_a_reader_gives(
    rows: list[NewRecord], codec: int, by_broker: bool, from_offset: int, limit: int, more: st.DataObject
) -> None:
    attributes = LOG_APPEND_TIME if by_broker else 0
    batch = build_batch(rows, codec=codec, base_offset=5, attributes=attributes)
    if not codec and more.draw(st.booleans(), "damaged"):
        batch[more.draw(st.integers(61, len(batch) - 1))] ^= more.draw(st.integers(1, 255))
    header = BatchHeader.read(batch)
    read: list[list[Any]] = []
    for as_arrays in (False, True):
        reader, found = RecordReader(batch, header, T0, 5 + from_offset), []
        try:
            while reader.remaining:
                if as_arrays:
                    taken = reader.take_batch(limit)
                    assert taken is not None and len(taken) <= limit
                    made = taken.make_records()
                    assert values_of(taken) == taken.copy_values() == [each.value for each in made]
                    assert taken.copy_keys() == [each.key for each in made]
                    assert taken.offsets.tolist() == [each.offset for each in made]
                    assert taken.timestamps.tolist() == [each.timestamp for each in made]
                    assert {(taken.timestamp_type, taken.leader_epoch)} == {
                        (each.timestamp_type, each.leader_epoch) for each in made
                    }
                    found += made
                else:
                    found += reader.read(limit)
            found.append(reader.next_offset)
        except ClientError as problem:
            found.append(str(problem))
        read.append(found)
    assert read[0] == read[1]


def test_arrow_batches_are_those_of_a_range() -> None:
    pytest.importorskip("pyarrow")
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 9, batch_records=9)

    async def scenario() -> None:
        async with consumer(cluster) as target:
            target.assign([T0])
            target.seek(T0, 2)
            (batch,) = (await target.poll_batches(timeout_ms=1000, max_records=5))[T0]
            (whole,) = [each async for each in target.read_range(T0, 2, 7)]
            assert batch.to_arrow().equals(whole) and whole.num_rows == 5
            assert batch.to_arrow(["value", "offset"]).schema.names == ["value", "offset"]
            with pytest.raises(ValueError, match="no column colour"):
                batch.to_arrow(["colour"])

    run(scenario())


def test_a_group_commits_what_was_read_as_arrays() -> None:
    async def scenario(cluster: FakeCluster) -> None:
        fill(cluster, T0, 9)
        async with hostile_broker.consumer(cluster, group_id="g", auto_commit_interval_ms=3_600_000) as target:
            target.subscribe(["t"])
            found = (await target.poll_batches(timeout_ms=5000, max_records=4))[T0]
            assert [batch.offsets.tolist() for batch in found] == [[0, 1, 2], [3]]

    cluster = hostile_broker.run(scenario, group_cluster(offset_commit=commit_answer()))
    assert commits(cluster) == [(1, "m1", 4)]


def test_a_blocking_consumer_has_them_too() -> None:
    cluster = FakeCluster({"t": 1})
    fill(cluster, T0, 5, batch_records=5)
    with SyncConsumer(bootstrap_servers="fake:9001", opener=cluster.open, auto_offset_reset="earliest") as target:
        target.assign([T0])
        (batch,) = target.poll_batches(timeout_ms=5000)[T0]
        assert values_of(batch) == [b"0", b"1", b"2", b"3", b"4"] and target.position(T0) == 5
