"""Columns decoded at once are the same as records decoded one by one, and damage is found, not shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.client.errors import ClientError
from kafkalite.client.record_codec import BatchRecords
from kafkalite.errors import ErrorCode
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import (
    HEADER_SIZE,
    NewRecord,
    assemble_batch,
    build_batch,
    decode_records,
    iter_batches,
    set_max_timestamp_in_place,
)
from kafkalite.types import TopicPartition

pyarrow = pytest.importorskip("pyarrow")
record_columns = pytest.importorskip("kafkalite.client.consumer.record_columns")

T0 = TopicPartition("t", 0)
EVERYTHING = record_columns.schema_of(record_columns.FIELDS)


@pytest.fixture(scope="module", params=["places", "numpy"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Records are found as with compiled code, and as without it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(record_columns, "IS_COMPILED", request.param == "places")
        yield


SOME_BYTES = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4)
RECORDS = st.builds(NewRecord, SOME_BYTES, SOME_BYTES, st.integers(-(2**40), 2**40), HEADERS)
BATCHES = st.lists(
    st.tuples(st.lists(RECORDS, min_size=1, max_size=6), st.sampled_from([0, 1, 4]), st.integers(0, 5), st.booleans()),
    min_size=1,
    max_size=5,
)


def log_of(batches: list[tuple[list[NewRecord], int, int, bool]]) -> bytes:
    """Batches behind each other in one buffer, with a gap of offsets before each; some with the broker's time."""
    log, offset = bytearray(), 0
    for records, codec, gap, by_broker in batches:
        offset += gap
        batch = build_batch(records, codec=codec, base_offset=offset)
        if by_broker:
            set_max_timestamp_in_place(batch, next(iter_batches(batch)), 1234, log_append_time=True)
        log += batch
        offset += len(records)
    return bytes(log)


def batches_of(log: Any) -> list[BatchRecords]:
    return [BatchRecords(log, header, T0) for header in iter_batches(log)]


def decoded(log: Any, start: int = 0, end: int = 2**62, schema: Any = EVERYTHING) -> Any:
    return record_columns.record_batch(batches_of(log), start, end, schema)


def expected(log: bytes, start: int, end: int) -> list[tuple[Any, ...]]:
    return [
        (
            record.key,
            record.value,
            0,
            record.offset,
            record.timestamp,
            int(header.uses_log_append_time),
            [{"key": key, "value": value} for key, value in record.headers],
        )
        for header in iter_batches(log)
        for record in decode_records(log, header)
        if start <= record.offset < end
    ]


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    found.validate(full=True)
    times = found.column("timestamp").cast(pyarrow.int64())
    columns = [times if name == "timestamp" else found.column(name) for name in found.schema.names]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@given(BATCHES, st.integers(0, 10), st.integers(0, 30))
def test_columns_are_the_records(batches: list[Any], start: int, length: int) -> None:
    log = log_of(batches)
    found = decoded(log, start, start + length)
    assert found.schema == EVERYTHING
    assert rows_of(found) == expected(log, start, start + length)


def test_a_record_of_very_many_headers_is_no_search_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte may hold half a million; a round over all records for each of them took minutes, and 3 KB."""
    rounds, parts = [], record_columns._parts
    monkeypatch.setattr(record_columns, "_parts", lambda *given: rounds.append(1) or parts(*given))
    many = [("ä" * (number % 3), None if number % 5 else b"x" * (number % 200)) for number in range(2000)]
    records = [NewRecord(b"k", b"v", 5, many[:count]) for count in (2000, 0, 33, 1, 500, 32)]
    log = log_of([(records, 0, 0, False), (records, 4, 0, False)])
    assert rows_of(decoded(log, 1, 11)) == expected(log, 1, 11)
    assert len(rounds) < 100


def test_batches_of_several_buffers() -> None:
    logs = [bytes(build_batch([NewRecord(b"k", b"v%d" % n)], base_offset=n)) for n in range(3)]
    found = record_columns.record_batch([each for log in logs for each in batches_of(log)], 1, 3, EVERYTHING)
    assert [row[1] for row in rows_of(found)] == [b"v1", b"v2"]


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize(("rows", "size_bytes"), [(7, 1 << 20), (1000, 200), (1, 1), (40, 1 << 20)])
def test_a_batch_of_very_many_records_is_read_in_parts(codec: int, rows: int, size_bytes: int) -> None:
    records = [NewRecord(b"k", b"v" * (number % 50), number) for number in range(40)]
    log = log_of([(records, codec, 5, False), (records[:3], codec, 0, True)])
    parts = [part for batch in batches_of(log) for part in batch.parts(rows, size_bytes)]
    assert all(part.header.records_count <= rows for part in parts)
    assert max(part.decompressed_size() for part in parts) < max(4 * size_bytes + 200, size_bytes + 200)
    assert (len(parts) > 2) is ((rows, size_bytes) != (40, 1 << 20))
    together = record_columns.record_batch(parts, 7, 43, EVERYTHING)
    apart = [record_columns.record_batch([part], 7, 43, EVERYTHING) for part in parts]
    assert rows_of(together) == [row for each in apart for row in rows_of(each)] == expected(log, 7, 43)


def test_a_view_and_an_array_of_bytes_serve_as_well() -> None:
    log = log_of([([NewRecord(b"k", b"v", 5, [("h", None)])], 0, 0, False)])
    assert rows_of(decoded(memoryview(log))) == rows_of(decoded(bytearray(log))) == expected(log, 0, 1)


def test_only_the_columns_that_are_wanted() -> None:
    schema = record_columns.schema_of(["offset", "value"])
    found = decoded(log_of([([NewRecord(b"k", b"v")], 0, 3, False)]), schema=schema)
    assert found.to_pydict() == {"value": [b"v"], "offset": [3]}
    with pytest.raises(ValueError, match="no column colour; there are key, value, partition"):
        record_columns.schema_of(["colour"])


def test_batches_that_compaction_has_emptied() -> None:
    facts = {"base_timestamp": 0, "max_timestamp": 0, "leader_epoch": 0, "attributes": 0}
    facts |= {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    empty = bytes(assemble_batch(b"", records_count=0, last_offset_delta=4, base_offset=0, **facts))
    assert rows_of(decoded(empty)) == []
    full = bytes(build_batch([NewRecord(None, b"v")], base_offset=5))
    assert [row[3] for row in rows_of(decoded(empty + full))] == [5]


def damaged(body: bytes, records_count: int = 1) -> bytes:
    facts = {"base_timestamp": 0, "max_timestamp": 0, "leader_epoch": 0, "attributes": 0, "last_offset_delta": 0}
    facts |= {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    return bytes(assemble_batch(body, records_count=records_count, base_offset=7, **facts))


GOOD = encode_record(0, 0, b"key", b"value", [("h", b"x")])


@pytest.mark.parametrize(
    "log",
    [
        damaged(GOOD, records_count=2),
        damaged(GOOD + GOOD, records_count=1),
        damaged(GOOD[:-1]),
        damaged(b"\x01" + GOOD[1:]),  # a negative length
        damaged(b"\x0e\x00\x00\x00\x06keyxx"),  # no room for a value
        damaged(b"\x12\x00\x00\x00\xfe\xff\xff\xff\x0fxx"),  # a key larger than its record
        damaged(b"\x20\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01xxx"),  # larger than any number of bytes
        damaged(b"\x1c\x00\x00" + b"\xff" * 11),  # a varint without an end
        damaged(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01"),  # a header whose key is null
        damaged(b"\x10\x00\x00\x00\x01\x01\x02\x40\x01"),  # a header larger than its record
        damaged(b"\x0e\x00\x00\x00\x01\x01\x00\x00"),  # bytes left over
        damaged(b"\x96\x01\x00\x00\x00\x01\x01\x50" + b"\x00\x01" * 34),  # the 35th of 40 headers is missing
        damaged(b"\x96\x01\x00\x00\x00\x01\x01\x46" + b"\x00\x01" * 32 + b"\x00\x01\x01\x01"),  # one without a key
        damaged(b"\x98\x01\x00\x00\x00\x01\x01\x42" + b"\x00\x01" * 32 + b"\x02a\x06xx"),  # one beyond its record
    ],
)
def test_damage_is_an_error_that_names_the_batch(log: bytes) -> None:
    whole = bytes(build_batch([NewRecord(b"k", b"v")], base_offset=6))
    with pytest.raises(ClientError, match="t-0: batch at offset 7 cannot be read") as raised:
        decoded(whole + log)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE
    batch = batches_of(log)[0]
    for rows, size_bytes in ((0, 1 << 20), (1, 1)):
        with pytest.raises(ClientError, match="t-0: batch at offset 7 cannot be read"):
            record_columns.record_batch([*batch.parts(max(rows, 1), size_bytes)], 0, 1 << 62, EVERYTHING)


def test_a_header_key_that_is_no_text_is_read_as_java_reads_it() -> None:
    """Brokers take it, so it must not stop a job for ever."""
    body = bytearray(encode_record(0, 0, None, b"v", [("ab", b"x"), ("ä", None)]))
    body[body.index(b"ab")] = 0xFF
    (headers,) = decoded(damaged(bytes(body))).column("headers").to_pylist()
    assert headers == [{"key": "\ufffdb", "value": b"x"}, {"key": "ä", "value": None}]


def test_what_cannot_be_decompressed_is_named() -> None:
    log = bytearray(build_batch([NewRecord(b"k", b"v" * 100)], codec=1, base_offset=3))
    log[HEADER_SIZE + 2] ^= 0xFF
    with pytest.raises(ClientError, match="t-0: batch at offset 3"):
        decoded(bytes(log))
