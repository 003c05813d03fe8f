"""Message sets of old clients, as aiokafka's builder for them writes them."""

from __future__ import annotations

import struct
import zlib

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import Codec, compress
from kafkalite.protocol.record_batches.legacy_messages import is_message_set, to_record_batch
from kafkalite.protocol.record_batches.records import BatchHeader, NewRecord, build_batch, decode_records, has_valid_crc


def message_set(magic, codec, count=5):
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for number in range(count):
        builder.append(
            number, timestamp=1000 + number, key=b"k%d" % number if number % 2 else None, value=b"value" * 50
        )
    return bytes(builder.build())


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_records_survive(magic, codec):
    messages = message_set(magic, codec)
    assert is_message_set(messages)
    batch = to_record_batch(memoryview(messages))
    header = BatchHeader.read(batch)
    assert has_valid_crc(batch, header) and header.codec == codec and header.last_offset_delta == 4
    assert [(each.key, each.value, each.timestamp) for each in decode_records(batch, header)] == [
        (b"k%d" % n if n % 2 else None, b"value" * 50, 1000 + n if magic else -1) for n in range(5)
    ]


def test_the_lz4_frames_of_the_oldest_clients_have_a_wrong_checksum():
    frame = bytearray(compress(Codec.LZ4, message_set(0, 0)))
    frame[6] ^= 0x55
    message = struct.pack(">bbii", 0, Codec.LZ4, -1, len(frame)) + frame
    messages = struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message
    batch = to_record_batch(messages)
    assert len(decode_records(batch, BatchHeader.read(batch))) == 5


def test_a_damaged_message_is_refused():
    messages = bytearray(message_set(1, 0))
    messages[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        to_record_batch(messages)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [0, 5, 12, 20, 30, 100])
def test_a_cut_set_is_refused(size):
    with pytest.raises(KafkaError):
        to_record_batch(message_set(1, 0, count=1)[:size])


def test_a_record_batch_is_no_message_set():
    assert not is_message_set(build_batch([NewRecord(b"k", b"v")]))


def test_a_message_that_is_cut_behind_others_is_left_out():
    whole = message_set(1, 0, count=2)
    one = len(message_set(1, 0, count=1))
    for rest in (1, 12, 30, len(whole) - one - 1):
        batch = to_record_batch(whole[: one + rest])
        assert BatchHeader.read(batch).records_count == 1


def framed(body):
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def test_all_compressed_messages_of_a_set_share_one_bound():
    large = framed(struct.pack(">bbii", 0, 0, -1, 18_000_000) + bytes(18_000_000))
    packed = compress(Codec.GZIP, large)
    message = framed(struct.pack(">bbii", 0, Codec.GZIP, -1, len(packed)) + packed)
    assert BatchHeader.read(to_record_batch(message)).records_count == 1
    with pytest.raises(KafkaError, match="grow past the limit") as refused:
        to_record_batch(message * 2)
    assert refused.value.code == ErrorCode.INVALID_RECORD
