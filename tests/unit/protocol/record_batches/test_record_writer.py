"""Writers of records, compiled and in Python: the same batches and the same errors for whatever they are given."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.protocol.record_batches import python_records, record_code
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import HEADER_SIZE, NewRecord, build_batch
from tests.unit.protocol.record_batches.record_rows import EDGES, contents, headers, outcome, rows


def fill(code: ModuleType, target_bytes: int, items: Sequence[Any], at_once: bool) -> list[Any]:
    """What a writer does with each record, and the batch in the end."""
    writer = code.RecordsWriter(target_bytes)
    if at_once:
        found = [outcome(writer.extend, items)]
    else:
        found = [outcome(writer.append, *each) if len(each) == 4 else each for each in items]
    facts = writer.count, writer.size, writer.base_timestamp, writer.max_timestamp
    finished = bytes(writer.finish()[HEADER_SIZE:])
    return [*found, *facts, finished, outcome(writer.finish), outcome(writer.append, 1, None, None, ())]


odd_rows = st.lists(
    st.tuples(
        st.integers(-(1 << 64), 1 << 64) | st.sampled_from(EDGES) | st.sampled_from((True, None, "1", 1.5, 1e30)),
        contents | st.sampled_from((bytearray(b"b"), memoryview(b"view"), "text", 5)),
        contents | st.sampled_from((bytearray(b"b"), memoryview(b"view")[::2], [1])),
        headers
        | st.sampled_from(
            (
                (),
                None,
                (("h", b"v"),),
                [("h", bytearray(b"x"))],
                [(b"h", b"v")],
                [("h", 5)],
                [("\ud800", b"")],
                7,
                ["ab"],
            )
        ),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(rows | odd_rows, st.sampled_from((0, 100, 300, 1 << 20)), st.booleans())
def test_both_write_the_same(compiled: ModuleType, items: list[Any], target_bytes: int, at_once: bool) -> None:
    assert fill(compiled, target_bytes, items, at_once) == fill(python_records, target_bytes, items, at_once)


@settings(max_examples=60, deadline=None)
@given(rows.filter(bool), st.sampled_from((100, 300, 1 << 20)))
def test_batches_are_those_of_another_client(items: list[Any], target_bytes: int) -> None:
    """aiokafka's builder ends a batch at the same record, and its bytes are the same."""
    theirs = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=target_bytes,
    )
    writer = record_code.new_writer(target_bytes)
    taken = []
    for number, (timestamp, key, value, named) in enumerate(items):
        timestamp >>= 2  # aiokafka's differences have 64 bits, but do not wrap
        added = theirs.append(number, timestamp, key, value, named)
        assert writer.append(timestamp, key, value, named) == (added.size if added else 0)
        if added is None:
            break
        taken.append(NewRecord(key, value, timestamp, named))
    assert bytes(build_batch(taken)) == bytes(theirs.build())


def test_a_record_that_cannot_be_written_leaves_nothing_behind(compiled: ModuleType) -> None:
    for code in (compiled, python_records):
        writer = code.RecordsWriter(1000)
        writer.append(1, b"k", b"v", ())
        for timestamp, key, value, named in (
            (1 << 63, b"k", b"v", ()),
            (1, "k", b"v", ()),
            (1, b"k", "v", ()),
            (1, b"k", b"v", [("good", b"x"), ("\udc00", b"x")]),
        ):
            with pytest.raises((OverflowError, TypeError, UnicodeEncodeError)):
                writer.append(timestamp, key, value, named)
        writer.append(2, None, None, ())
        assert writer.finish()[HEADER_SIZE:] == encode_record(0, 0, b"k", b"v") + encode_record(1, 1, None, None)


def test_a_writer_may_be_called_while_it_writes(compiled: ModuleType) -> None:
    """Headers are any iterable, so a record may come in between: the outer one follows it."""
    for code in (compiled, python_records):
        writer = code.RecordsWriter(1 << 20)

        class Calling:
            def __bool__(self) -> bool:
                return True

            def __iter__(self) -> Any:
                writer.append(7, b"inner", bytes(50_000), ())  # noqa: B023
                yield "h", b"v"

        writer.append(9, b"outer", b"v", Calling())
        expected = encode_record(0, 0, b"inner", bytes(50_000)) + encode_record(2, 1, b"outer", b"v", [("h", b"v")])
        assert writer.finish()[HEADER_SIZE:] == expected


def fill_with_memory(code: ModuleType, limits: tuple[int, int], items: Sequence[Any]) -> list[Any]:
    """What `add` does with each record in batches of 300 bytes, and what the memory and the writers say then."""
    memory = code.RecordMemory(*limits, iter(range(1000, 2000)).__next__)
    writers = [code.RecordsWriter(300, memory)]
    found: list[Any] = []
    for each in items:
        added = outcome(writers[-1].add, *each) if len(each) == 4 else each
        if added == (-1, "") and memory.used_bytes < memory.limit_bytes:
            writers.append(code.RecordsWriter(300, memory))
            added = outcome(writers[-1].append, each[0] or 0, *each[1:])
        found.append((added, memory.used_bytes))
    for writer in writers:
        found += [writer.size, writer.count]
        for beyond in (-1, writer.count):
            with pytest.raises(IndexError):
                writer.timestamp_at(beyond)
        found += [writer.timestamp_at(n) for n in range(writer.count)]
    written = sum(writer.size for writer in writers if writer.count)
    assert memory.used_bytes == written
    return [*found, *(bytes(writer.finish()[HEADER_SIZE:]) for writer in writers)]


@settings(max_examples=150, deadline=None)
@given(rows | odd_rows, st.sampled_from(((1 << 40, 1 << 30), (500, 1 << 30), (1 << 40, 90), (0, 0))))
def test_both_add_the_same(compiled: ModuleType, items: list[Any], limits: tuple[int, int]) -> None:
    assert fill_with_memory(compiled, limits, items) == fill_with_memory(python_records, limits, items)


def test_a_record_without_a_timestamp_gets_the_time(compiled: ModuleType) -> None:
    for code in (compiled, python_records):
        before = time.time_ns() // 1_000_000
        writer = code.RecordsWriter(1000, code.RecordMemory(10_000, 1000))
        assert [writer.add(None, b"k", b"v", ()), writer.add(5, None, b"v", ()), writer.add(None, None, None, ())] == [
            0,
            1,
            2,
        ]
        after = time.time_ns() // 1_000_000
        first, second, third = (writer.timestamp_at(n) for n in range(3))
        assert before <= first <= third <= after and second == 5
        assert (writer.base_timestamp, writer.max_timestamp) == (first, third)


def test_the_clock_of_a_memory_may_fail(compiled: ModuleType) -> None:
    def fail() -> int:
        raise RuntimeError("no time")

    for code in (compiled, python_records):
        memory = code.RecordMemory(10_000, 1000, fail)
        writer = code.RecordsWriter(1000, memory)
        with pytest.raises(RuntimeError, match="no time"):
            writer.add(None, None, b"v", ())
        assert memory.used_bytes == writer.count == 0 and writer.add(1, None, b"v", ()) == 0


def test_adding_needs_a_memory_and_four_arguments(compiled: ModuleType) -> None:
    for code in (compiled, python_records):
        writer = code.RecordsWriter(1000)
        with pytest.raises(ValueError, match="memory"):
            writer.add(1, None, b"v", ())
        with pytest.raises(IndexError):
            writer.timestamp_at(0)
        with pytest.raises(TypeError):
            code.RecordsWriter(1000, code.RecordMemory(10_000, 1000)).add(1, None, b"v")


def test_a_finished_batch_takes_nothing_and_keeps_its_timestamps(compiled: ModuleType) -> None:
    for code in (compiled, python_records):
        writer = code.RecordsWriter(1 << 20, code.RecordMemory(1 << 20, 1 << 20))
        for number in range(1000):
            writer.add(number, None, b"v", ())
        size = writer.size
        writer.finish()
        with pytest.raises(ValueError, match="finished"):
            writer.add(1, None, b"v", ())
        assert [writer.timestamp_at(n) for n in (0, 64, 999)] == [0, 64, 999] and writer.size == size


class Place:
    """Where a record of a queue is said to be."""

    def __init__(self) -> None:
        self.batch: Any = None
        self.index = -1


class Owner:
    def __init__(self) -> None:
        self.callbacks: list[Any] = []


def take_from_queue(code: ModuleType, items: Sequence[Any], target_bytes: int) -> list[Any]:
    """What `add_queued` takes of a queue for partition 1 of "t", call by call, and what it leaves."""
    places = [Place() for _ in items]
    records = deque((place, *each) for place, each in zip(places, items, strict=True))
    writer, owner = code.RecordsWriter(target_bytes, code.RecordMemory(2000, 500)), Owner()
    found: list[Any] = [outcome(writer.add_queued, records, "t", 1, 77, owner, lambda called: [called])]
    found.append(outcome(writer.add_queued, records, "t", 1, 78, owner, lambda called: [called]))
    assert [place.batch for place in places] == [owner] * writer.count + [None] * len(records)
    assert [place.index for place in places] == [*range(writer.count)] + [-1] * len(records)
    times = [writer.timestamp_at(n) for n in range(writer.count)]
    return [*found, owner.callbacks, times, [each[1:] for each in records], bytes(writer.finish()[HEADER_SIZE:])]


queued = st.tuples(
    st.sampled_from(("t", "t", "t", "u")),
    contents | st.sampled_from((5, "text", bytearray(b"b"))),
    contents,
    st.sampled_from((1, 1, 1, 2, None)),
    st.none() | st.sampled_from((5, 1 << 64)),
    st.sampled_from((None, None, None, (), [("h", b"v")])),
    st.none() | st.just("called"),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(queued, max_size=12), st.sampled_from((100, 300, 1 << 20)))
def test_both_take_the_same_from_a_queue(compiled: ModuleType, items: list[Any], target_bytes: int) -> None:
    assert take_from_queue(compiled, items, target_bytes) == take_from_queue(python_records, items, target_bytes)
