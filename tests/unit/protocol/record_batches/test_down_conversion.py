"""Batches become messages that aiokafka's readers of magic 0 and 1 read; how many bytes, as Apache Kafka sends them."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from unittest.mock import patch

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import in_one_go
from kafkalite.protocol.record_batches import down_conversion
from kafkalite.protocol.record_batches.compression import Codec, DecompressedTooLarge, compress
from kafkalite.protocol.record_batches.down_conversion import RECORDS_AT_ONCE, conversion
from kafkalite.protocol.record_batches.legacy_messages import to_record_batch
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    NewRecord,
    assemble_batch,
    build_batch,
    build_marker,
    decode_records,
    iter_records,
)

OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
Message = tuple[int, int | None, bytes | None, bytes | None]
"""Offset, timestamp, key, value."""


def converted(data: bytes | bytearray, magic: int, first_offset: int = 0, limit_bytes: int = 1 << 26) -> bytes:
    return in_one_go(conversion(data, magic, first_offset, limit_bytes=limit_bytes))


def entries(data: bytes) -> list[bytes]:
    """The whole messages of a set."""
    found, position = [], 0
    while position + 12 <= len(data):
        (size,) = struct.unpack_from(">i", data, position + 8)
        if position + 12 + size > len(data):
            break
        found.append(data[position : position + 12 + size])
        position += 12 + size
    return found


def read(data: bytes, magic: int) -> list[Message]:
    """As aiokafka reads them; CRCs are right."""
    messages: list[Message] = []
    for entry in entries(data):
        assert entry[16] == magic
        batch = LegacyRecordBatch(entry, magic)
        assert batch.validate_crc()
        messages += [(each.offset, each.timestamp, each.key, each.value) for each in batch]
    return messages


def records(count: int = 5) -> list[NewRecord]:
    return [
        NewRecord(
            b"k%d" % n if n % 2 else None,
            b"value" * n if n % 3 else None,
            1000 + 7 * n,
            [("name", b"x")] if n % 5 == 4 else [],
        )
        for n in range(count)
    ]


def expected(content: Sequence[NewRecord], magic: int, base_offset: int = 0) -> list[Message]:
    """aiokafka has no timestamp where it is -1."""
    return [
        (base_offset + n, each.timestamp if magic and each.timestamp != -1 else None, each.key, each.value)
        for n, each in enumerate(content)
    ]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_records_keep_offsets_timestamps_keys_and_values(magic: int, codec: Codec) -> None:
    content = records(2 * RECORDS_AT_ONCE + 3)
    data = converted(build_batch(content, codec=codec, base_offset=70, producer_id=5, producer_epoch=0), magic)
    if codec == Codec.LZ4 and not magic:
        again = to_record_batch(data)
        assert [(each.key, each.value) for each in decode_records(again, BatchHeader.read(again))] == [
            (each.key, each.value) for each in content
        ]
    else:
        assert read(data, magic) == expected(content, magic, 70)
    if codec:
        (wrapper,) = entries(data)
        assert struct.unpack_from(">q", wrapper)[0] == 70 + len(content) - 1
        assert not magic or struct.unpack_from(">q", wrapper, 18)[0] == content[-1].timestamp


def test_offsets_within_a_wrapper_of_magic_1_count_from_its_first_record() -> None:
    content = [NewRecord(None, b"x", 1)] * 3
    (wrapper,) = entries(converted(build_batch(content, codec=Codec.GZIP, base_offset=1 << 40), 1))
    assert [each[0] for each in read(wrapper, 1)] == [(1 << 40) + n for n in range(3)]
    again = to_record_batch(wrapper)
    assert len(decode_records(again, BatchHeader.read(again))) == 3


def test_lz4_frames_of_magic_0_have_the_checksum_that_old_clients_compute() -> None:
    batch = build_batch(records(), codec=Codec.LZ4)
    frames = [converted(batch, magic)[header:][:7] for magic, header in ((0, 26), (1, 34))]
    assert frames[1] == compress(Codec.LZ4, b"x" * 9)[:7]
    assert frames[0] == frames[1][:6] + b"\x1a"


def test_log_append_time_is_told_of_each_message_and_of_the_wrapper() -> None:
    batch = bytearray(build_batch(records(), base_offset=3, attributes=LOG_APPEND_TIME))
    struct.pack_into(">q", batch, 35, 9_000)
    for entry in entries(converted(batch, 1)):
        assert entry[17] == LOG_APPEND_TIME and struct.unpack_from(">q", entry, 18)[0] == 9_000
    batch = bytearray(build_batch(records(), base_offset=3, attributes=LOG_APPEND_TIME, codec=Codec.GZIP))
    struct.pack_into(">q", batch, 35, 9_000)
    (wrapper,) = entries(converted(batch, 1))
    assert wrapper[17] == LOG_APPEND_TIME | Codec.GZIP and struct.unpack_from(">q", wrapper, 18)[0] == 9_000
    assert [each[1] for each in read(wrapper, 1)] == [9_000] * 5


def test_plain_records_below_the_offset_that_was_asked_for_are_left_out() -> None:
    content = records(10)
    data = build_batch(content, base_offset=20)
    assert read(converted(data, 1, 24), 1) == expected(content, 1, 20)[4:]
    data = build_batch(content, base_offset=20, codec=Codec.GZIP)
    assert read(converted(data, 1, 24), 1) == expected(content, 1, 20)


def test_control_batches_are_left_out_and_alone_leave_nothing() -> None:
    marker = build_marker(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=1)
    batch = build_batch(records(1), attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0)
    assert BatchHeader.read(marker).attributes & CONTROL
    assert read(converted(batch + marker, 1), 1) == expected(records(1), 1)
    assert converted(marker, 1) == b""


def test_zstd_is_refused_unless_something_else_comes_first() -> None:
    zstd = build_batch(records(), codec=Codec.ZSTD, base_offset=1)
    with pytest.raises(KafkaError) as refused:
        converted(zstd, 1)
    assert refused.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert read(converted(build_batch(records(1)) + zstd, 1), 1) == expected(records(1), 1)


def test_as_many_bytes_as_there_were_or_as_the_first_batch_became() -> None:
    small, large = build_batch(records(1)), build_batch([NewRecord(None, b"", 1)] * 30, base_offset=1)
    one = converted(small, 1)
    assert len(one) == len(small)
    assert one[34:] == struct.pack(">qi", -1, 61) + bytes(len(small) - 34 - 12)
    many = converted(large, 1)
    assert len(many) == 30 * 34 > len(large)
    both = converted(small + large, 1)
    assert len(both) == len(small) + len(large)
    assert both == (one[:34] + many)[: len(both)]


def test_what_follows_a_long_way_behind_the_messages_is_as_long_as_it_says() -> None:
    batch = build_batch([NewRecord(None, bytes(200_000), 1), NewRecord(None, b"x", 1)], base_offset=5)
    data = converted(batch, 1, 6)
    assert len(data) == len(batch)
    rest = data[35:]
    assert struct.unpack_from(">qi", rest) == (-1, len(rest) + 1)
    assert struct.unpack_from(">qi", rest, 128 * 1024) == (-1, len(rest) - 128 * 1024 + 1)


def test_a_batch_cut_at_the_end_is_left_out() -> None:
    first, second = build_batch(records(2)), build_batch(records(2), base_offset=2)
    cut = bytes(first + second)[:-1]
    assert read(converted(cut, 1), 1) == expected(records(2), 1)
    assert converted(bytes(first)[:-1], 1) == b""


def test_header_names_that_are_no_utf8_are_none_of_our_business() -> None:
    batch = bytes(build_batch([NewRecord(b"k", b"v", 5, [("name", b"x")])]))
    plain = batch[61:].replace(b"name", b"\xff\xfe\xfd\xfc")

    damaged = batch[:61] + plain
    assert read(converted(damaged, 1), 1) == [(0, 5, b"k", b"v")]


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_a_batch_that_would_become_too_large_is_refused_before_it_does(codec: Codec) -> None:
    """Records of no bytes grow from 7 to 34, of which a compressed batch may hold very many."""
    batch = build_batch([NewRecord(None, None, 1)] * 5000, codec=codec)
    with pytest.raises(DecompressedTooLarge):
        converted(batch, 1, limit_bytes=40_000)


def test_it_pauses_after_some_hundred_records() -> None:
    for codec in OLD_CODECS:
        batch = build_batch([NewRecord(None, b"x", 1)] * 10 * RECORDS_AT_ONCE, codec=codec)
        assert sum(1 for _ in conversion(batch, 1, 0)) >= 10


class Kept:
    def __init__(self) -> None:
        self.known: dict[tuple[int, int], bytes] = {}
        self.used = 0

    def get(self, header: BatchHeader, magic: int) -> bytes | None:
        found = self.known.get((header.base_offset, magic))
        self.used += found is not None
        return found

    def put(self, header: BatchHeader, magic: int, messages: bytes) -> None:
        self.known[header.base_offset, magic] = messages


def test_whole_batches_are_kept_for_the_next_consumer() -> None:
    kept = Kept()
    data = build_batch(records(3)) + build_batch(records(3), base_offset=3, codec=Codec.GZIP)
    first = in_one_go(conversion(data, 1, 1, kept))
    assert list(kept.known) == [(3, 1)]  # of the first batch only a part was wanted
    assert in_one_go(conversion(data, 1, 1, kept)) == first and kept.used == 1
    assert in_one_go(conversion(data, 1, 0, kept)) == converted(data, 1, 0)


content = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        st.integers(-1, 1 << 41),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(content, st.sampled_from(OLD_CODECS[:3])), min_size=1, max_size=3), st.data())
def test_whatever_was_in_batches_is_in_the_messages(
    batches: list[tuple[list[NewRecord], Codec]], data: st.DataObject
) -> None:
    log, model, offset = bytearray(), [], 0
    magic = data.draw(st.sampled_from([0, 1]))
    for inside, codec in batches:
        log += build_batch(inside, codec=codec, base_offset=offset)
        model += expected(inside, magic, offset)
        offset += len(inside)
    found = read(converted(log, magic), magic)
    assert found == model[: len(found)]
    assert len(found) >= len(batches[0][0])


@pytest.mark.parametrize("codec", OLD_CODECS[:3])
def test_messages_of_magic_1_become_older_ones_and_those_that_are_stay(codec: Codec) -> None:
    newer = converted(build_batch(records(), codec=codec, base_offset=4), 1)
    newer = b"".join(entries(newer))
    assert read(converted(newer, 0), 0) == expected(records(), 0, 4)
    assert converted(newer, 1) == newer


def convert_both_ways(batch: bytes, magic: int) -> list[bytes | ErrorCode]:
    """Return what a batch becomes by way of the decoder, and by the exact walk over its records."""
    outcomes: list[bytes | ErrorCode] = []
    for decode in (down_conversion.decode, iter_records):
        with patch.object(down_conversion, "decode", decode):
            try:
                outcomes.append(converted(batch, magic))
            except KafkaError as problem:
                outcomes.append(problem.code)
    return outcomes


@pytest.mark.parametrize("magic", [0, 1])
def test_damaged_records_become_the_same_both_ways(magic: int) -> None:
    chance = random.Random(5 + magic)
    outcomes = set()
    for _ in range(300):
        batch = bytearray(build_batch(records(chance.randrange(1, 12)), base_offset=chance.choice((0, 7, 1 << 50))))
        for _ in range(chance.randrange(3)):
            batch[chance.randrange(HEADER_SIZE, len(batch))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        decoded, walked = convert_both_ways(bytes(batch), magic)
        assert decoded == walked
        outcomes.add(type(decoded))
    assert outcomes == {bytes, ErrorCode}


def test_timestamps_and_offsets_at_the_edge_of_64_bits_become_the_same_both_ways() -> None:
    edges = (-(1 << 63), -(1 << 62), -1, 0, (1 << 62) - 1, (1 << 63) - 1)
    for base_timestamp in edges:
        for delta in edges:
            for base_offset in (0, (1 << 63) - 1):
                record = encode_record(delta, 1, b"k", None)
                batch = assemble_batch(
                    record,
                    records_count=1,
                    last_offset_delta=0,
                    base_timestamp=base_timestamp,
                    max_timestamp=0,
                    base_offset=base_offset,
                    leader_epoch=0,
                    attributes=0,
                    producer_id=-1,
                    producer_epoch=-1,
                    base_sequence=-1,
                )
                decoded, walked = convert_both_ways(bytes(batch), 1)
                assert decoded == walked


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("base_offset", [-1, (1 << 63) - 1])
def test_a_batch_whose_base_offset_is_none_is_corrupt(magic: int, base_offset: int) -> None:
    """No checksum covers it; beyond 64 bits the fetch failed with what nobody expected."""
    batch = build_batch([NewRecord(b"k", b"v", 5)] * 2, base_offset=base_offset)
    with pytest.raises(KafkaError) as caught:
        converted(batch, magic)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
