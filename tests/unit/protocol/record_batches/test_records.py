"""Record batches: the layout byte by byte, round trips, and what aiokafka's own codec makes of our batches."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import Codec, compress
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import (
    CONTROL,
    LOG_APPEND_TIME,
    SEQUENCE_LIMIT,
    TRANSACTIONAL,
    BatchHeader,
    Marker,
    NewRecord,
    build_batch,
    build_marker,
    decode_records,
    has_valid_crc,
    iter_batches,
    read_marker,
    recompress,
    set_max_timestamp_in_place,
    set_offset_and_epoch_in_place,
)
from kafkalite.protocol.record_batches.varint import read_varint, write_varint

contents = st.none() | st.binary(max_size=40)
new_records = st.lists(
    st.builds(
        NewRecord,
        key=contents,
        value=contents,
        timestamp=st.integers(0, 1 << 42),
        headers=st.lists(st.tuples(st.text(max_size=5), contents), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=30,
)


def test_the_checksum_is_crc_32c():
    assert crc32c(b"123456789") == 0xE3069283


def test_a_batch_without_records_is_a_header_alone():
    batch = build_batch([])
    header = BatchHeader.read(batch)
    assert (len(batch), header.batch_length, header.records_count, header.last_offset_delta) == (61, 49, 0, -1)


def test_a_marker_takes_78_bytes_and_says_how_its_transaction_ended():
    batch = build_marker(commit=False, producer_id=5, producer_epoch=1, coordinator_epoch=7, timestamp=9)
    header = BatchHeader.read(batch)
    assert len(batch) == 78
    assert header.is_control and header.is_transactional and header.base_sequence == -1
    assert read_marker(batch, header) == Marker(0, 7)


def test_fields_lie_where_the_format_puts_them():
    batch = build_batch(
        [NewRecord(b"k", b"v", 1000), NewRecord(None, None, 1005)],
        base_offset=7,
        leader_epoch=3,
        producer_id=11,
        producer_epoch=2,
        base_sequence=4,
    )
    assert struct.unpack_from(">qiib", batch) == (7, len(batch) - 12, 3, 2)
    assert struct.unpack_from(">hiqqqhii", batch, 21) == (0, 1, 1000, 1005, 11, 2, 4, 2)
    assert struct.unpack_from(">I", batch, 17)[0] == crc32c(bytes(batch[21:]))
    assert bytes(batch[61:]) == bytes.fromhex("10 00 00 00 02 6b 02 76 00  0c 00 0a 02 01 01 00".replace(" ", ""))


def test_sequence_numbers_start_again_at_zero():
    batch = build_batch([NewRecord(None, None)] * 3, producer_id=1, producer_epoch=0, base_sequence=SEQUENCE_LIMIT - 2)
    assert BatchHeader.read(batch).last_sequence == 0


@given(new_records, st.sampled_from(Codec))
def test_what_was_built_is_decoded(items, codec):
    batch = build_batch(items, codec=codec, base_offset=100)
    (header,) = iter_batches(batch)
    decoded = decode_records(batch, header)
    assert [(each.key, each.value, each.timestamp, each.headers) for each in decoded] == [
        (each.key, each.value, each.timestamp, tuple(each.headers)) for each in items
    ]
    assert [each.offset for each in decoded] == list(range(100, 100 + len(items)))
    assert has_valid_crc(batch, header) and header.codec == codec


@given(new_records, st.sampled_from(Codec))
def test_another_implementation_reads_our_batches(items, codec):
    batch = DefaultRecordBatch(bytes(build_batch(items, codec=codec)))
    assert batch.validate_crc()
    assert [(each.key, each.value, each.timestamp) for each in batch] == [
        (each.key, each.value, each.timestamp) for each in items
    ]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_we_read_the_batches_of_another_implementation(codec):
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number in range(500):
        builder.append(number, timestamp=5000 + number, key=b"%d" % number, value=b"value" * 9, headers=[("h", b"x")])
    batch = builder.build()
    (header,) = iter_batches(batch)
    records = decode_records(batch, header)
    assert [(each.offset, each.timestamp, each.key) for each in records] == [
        (n, 5000 + n, b"%d" % n) for n in range(500)
    ]


def test_taking_a_place_in_the_log_keeps_the_checksum_valid():
    batch = build_batch([NewRecord(b"k", b"v", 5)])
    set_offset_and_epoch_in_place(memoryview(batch), 0, 1 << 40, 12)
    header = BatchHeader.read(batch)
    assert (header.base_offset, header.partition_leader_epoch, has_valid_crc(batch, header)) == (1 << 40, 12, True)


def test_append_time_replaces_the_timestamps_of_all_records():
    batch = build_batch([NewRecord(b"k", b"v", 5), NewRecord(b"k", b"w", 6)])
    set_max_timestamp_in_place(batch, BatchHeader.read(batch), 77, log_append_time=True)
    header = BatchHeader.read(batch)
    assert header.attributes & LOG_APPEND_TIME and has_valid_crc(batch, header)
    assert [each.timestamp for each in decode_records(batch, header)] == [77, 77]


def test_recompression_changes_nothing_but_the_codec():
    batch = build_batch(
        [NewRecord(b"k", b"v" * 100, 5)] * 20, codec=Codec.LZ4, producer_id=3, producer_epoch=0, base_sequence=9
    )
    header = BatchHeader.read(batch)
    other = recompress(batch, header, Codec.ZSTD)
    changed = BatchHeader.read(other)
    assert changed.codec == Codec.ZSTD and has_valid_crc(other, changed)
    assert decode_records(other, changed) == decode_records(batch, header)
    assert changed[8:] == header[8:]


def test_a_cut_batch_is_left_out_and_garbage_is_told():
    one = build_batch([NewRecord(b"k", b"v", 5)])
    assert [header.position for header in iter_batches(one + one + one[:-1])] == [0, len(one)]
    broken = bytearray(one)
    broken[16] = 3
    with pytest.raises(KafkaError) as refused:
        list(iter_batches(one + broken))
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varints(number):
    encoded = bytearray()
    write_varint(encoded, number)
    assert read_varint(encoded, 0) == (number, len(encoded)) and len(encoded) <= 10


def test_a_varint_without_end_is_refused():
    with pytest.raises(ValueError, match="ten bytes"):
        read_varint(b"\xff" * 11, 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff", 0)


@given(st.binary(max_size=60), st.integers(1, 5))
def test_garbage_for_records_is_refused_as_invalid(garbage, count):
    batch = build_batch([])
    batch += garbage
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    try:
        records = decode_records(batch, BatchHeader.read(batch))
    except KafkaError as problem:
        assert problem.code == ErrorCode.INVALID_RECORD
    else:
        assert len(records) == count


def test_a_marker_is_not_decompressed_without_bound():
    """A follower reads one for each control batch, and a few hundred bytes may claim to be gigabytes."""
    plain = encode_record(0, 0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7) + bytes(1_000_000))
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        batch = build_batch([NewRecord(b"", b"")], attributes=CONTROL | TRANSACTIONAL, producer_id=1, producer_epoch=0)
        header = BatchHeader.read(batch)
        packed = compress(codec, plain)
        bomb = batch[:61] + packed
        changed = header._replace(attributes=header.attributes | codec, batch_length=len(bomb) - 12)
        with pytest.raises(KafkaError, match="limit of 16384"):
            read_marker(bomb, changed)
