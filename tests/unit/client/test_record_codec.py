"""Record batches as producers write and consumers read them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.client.errors import ClientError
from kafkalite.client.record_codec import (
    BatchWriter,
    record_bytes_bound,
    with_producer_state,
)
from kafkalite.client.record_reader import RecordReader, read_records
from kafkalite.errors import ErrorCode
from kafkalite.protocol.record_batches.records import (
    HEADER_SIZE,
    BatchHeader,
    NewRecord,
    build_batch,
    decode_records,
    has_valid_crc,
    iter_batches,
    recompress,
)
from kafkalite.types import TopicPartition

content = st.one_of(st.none(), st.binary(max_size=80))
record = st.tuples(
    st.integers(0, 2**45), content, content, st.lists(st.tuples(st.text(max_size=8), content), max_size=3)
)


@settings(max_examples=80)
@given(st.lists(record, min_size=1, max_size=12), st.integers(0, 4))
def test_what_is_written_is_read(records: list, codec: int) -> None:
    writer = BatchWriter(1 << 20)
    size = HEADER_SIZE
    for timestamp, key, value, headers in records:
        taken = writer.append(timestamp, key, value, headers)
        assert 0 < taken <= record_bytes_bound(key, value, headers)
        size += taken
    batch = writer.build(codec, 7, 1, 40)
    header = BatchHeader.read(batch)
    assert has_valid_crc(batch, header) and header.size == len(batch) <= size
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 40)
    found = read_records(batch, header, "t", 0, 0)
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in found] == [tuple(each) for each in records]
    assert [r.offset for r in found] == list(range(len(records)))
    ours = decode_records(batch, header)
    assert [(r.key, r.value) for r in ours] == [(key, value) for _, key, value, _ in records]


def test_a_batch_ends_at_its_size_but_takes_one_record_always() -> None:
    writer = BatchWriter(200)
    assert writer.append(0, None, b"x" * 500, []) > 500
    assert writer.append(0, None, b"x", []) == 0
    assert BatchHeader.read(writer.build(0)).records_count == 1


def test_compression_that_does_not_pay_is_left_out() -> None:
    writer = BatchWriter(1000)
    writer.append(0, None, bytes(range(60)), [])
    assert BatchHeader.read(writer.build(1)).codec == 0


def test_reading_begins_at_the_offset_asked_for() -> None:
    writer = BatchWriter(1000)
    for _ in range(5):
        writer.append(0, None, b"x", [])
    batch = writer.build(4)
    assert [r.offset for r in read_records(batch, BatchHeader.read(batch), "t", 0, 3)] == [3, 4]


def test_another_producer_state_keeps_the_records() -> None:
    writer = BatchWriter(1000)
    writer.append(5, b"k", b"v" * 100, [("h", None)])
    batch = with_producer_state(writer.build(4, 1, 0, 0), 9, 2, 77)
    header = BatchHeader.read(batch)
    assert has_valid_crc(batch, header) and (header.producer_id, header.base_sequence) == (9, 77)
    assert read_records(batch, header, "t", 0, 0)[0].value == b"v" * 100


@pytest.mark.parametrize("codec", [0, 4])
def test_damaged_records_are_named_with_their_partition(codec: int) -> None:
    writer = BatchWriter(1000)
    writer.append(5, b"k", b"v" * 100, [])
    batch = bytearray(writer.build(codec))
    batch[HEADER_SIZE:] = b"\x7f" * (len(batch) - HEADER_SIZE)
    (header,) = iter_batches(batch)
    with pytest.raises(ClientError, match="t-3: batch at offset 0") as raised:
        read_records(batch, header, "t", 3, 0)
    assert raised.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("from_offset", [0, 2])
def test_a_header_that_anybody_may_produce_stopped_all_consumers(codec: int, from_offset: int) -> None:
    """Kafka's brokers take a name that is not UTF-8, and its consumer reads it with U+FFFD."""
    headers = [(), (), (("n\x01", b"x"), ("good", None)), ()]
    plain = build_batch([NewRecord(b"k", b"v", 1, each) for each in headers])
    at = plain.index(b"n\x01")
    plain[at : at + 2] = b"\xc3\x28"
    batch = recompress(plain, BatchHeader.read(plain), codec)
    header = BatchHeader.read(batch)
    for piece in (1, 10):
        reader, found = RecordReader(batch, header, TopicPartition("t", 0), from_offset), []
        while read := reader.read(piece, bytes.decode):
            found += read
        assert [(each.offset, each.key) for each in found] == [(offset, "k") for offset in range(from_offset, 4)]
        assert list(found[2 - from_offset].headers) == [("\ufffd(", b"x"), ("good", None)]
        assert reader.remaining == 0
