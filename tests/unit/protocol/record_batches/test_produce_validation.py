"""Each fault of a produced batch and the error it earns (as Kafka 3.9 was seen to answer)."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest
from crc32c import crc32c

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.produce_validation import DecompressionBudget, validate_produced
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.record_check import InvalidRecords
from kafkalite.protocol.record_batches.record_walk import TooMuchAtOnce
from kafkalite.protocol.record_batches.records import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    NewRecord,
    assemble_batch,
    build_batch,
    decode_records,
)

NOW_MS = 1_700_000_000_000
RECORDS = [NewRecord(b"key", b"value", NOW_MS + n) for n in range(3)]


def validate(batch, config=None, version=9):
    return validate_produced(batch, config=config or TopicConfig(), now_ms=NOW_MS, request_version=version)


def refusal(batch, config=None, version=9):
    with pytest.raises(KafkaError) as refused:
        validate(batch, config, version)
    return refused.value.code


def with_field(position, form, value, batch=None):
    """A good batch with one field changed and the CRC made right again."""
    changed = bytearray(batch or build_batch(RECORDS))
    struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return changed


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_passes(codec):
    batch = build_batch(RECORDS, codec=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    produced = validate(memoryview(batch))
    assert (produced.header.records_count, produced.max_timestamp) == (3, NOW_MS + 2)


def test_no_producer_id_with_sequence_zero_is_what_some_clients_send():
    assert validate(build_batch(RECORDS, base_sequence=0))


def test_wrong_checksum():
    batch = build_batch(RECORDS)
    batch[-1] ^= 1
    assert refusal(batch) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(("magic", "code"), [(0, 87), (1, 87), (3, 2), (-1, 2)])
def test_other_magic(magic, code):
    assert refusal(with_field(16, ">b", magic)) == code


@pytest.mark.parametrize(("length", "code"), [(13, 2), (0, 2), (-5, 2), (48, 2), (0x7FFFFFFF, 87)])
def test_impossible_lengths(length, code):
    assert refusal(with_field(8, ">i", length)) == code


def test_no_records_a_torn_batch_and_two_batches():
    batch = build_batch(RECORDS)
    assert refusal(b"") == ErrorCode.INVALID_RECORD
    assert refusal(batch[:-1]) == ErrorCode.INVALID_RECORD
    assert refusal(batch + batch) == ErrorCode.INVALID_RECORD


REST = build_batch(RECORDS)


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        (b"x", 0),
        (bytes(11), 0),
        (bytes(12), 2),
        (bytes(60), 2),
        (struct.pack(">qi", 0, -5), 2),
        (struct.pack(">qi", 0, 14), 0),
        (struct.pack(">qiib", 3, 200, 0, 0), 0),
        (struct.pack(">qiib", 3, 200, 0, 9), 2),
        (struct.pack(">qiib", 3, 200, 0, -1), 2),
        (REST[:20], 0),
        (REST[:61], 0),
        (REST[:-1], 0),
        (REST, 87),
        (REST + b"x", 87),
    ],
)
def test_what_is_cut_behind_the_batch_is_no_fault(rest, code):
    """Every answer is what Apache Kafka 3.9.1 gave to the same bytes."""
    batch = build_batch(RECORDS)
    if code:
        assert refusal(batch + rest) == code
    else:
        assert validate(batch + rest).header.size == len(batch)


@pytest.mark.parametrize(
    ("position", "form", "value"),
    [
        (57, ">i", 0),
        (57, ">i", -1),
        (57, ">i", 2),
        (57, ">i", 4),
        (23, ">i", 5),
        (23, ">i", -1),
        (0, ">q", 1),
        (0, ">q", -1),
    ],
)
def test_counts_and_offsets_that_do_not_fit(position, form, value):
    assert refusal(with_field(position, form, value)) == ErrorCode.INVALID_RECORD


def test_counts_that_fit_each_other_but_not_the_records():
    assert refusal(with_field(57, ">i", 4, with_field(23, ">i", 3))) == ErrorCode.INVALID_RECORD
    assert refusal(with_field(57, ">i", 2, with_field(23, ">i", 1))) == ErrorCode.INVALID_RECORD


def test_clients_write_no_markers_and_no_append_times():
    batch = build_batch(RECORDS, attributes=CONTROL | TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)
    assert refusal(batch) == ErrorCode.INVALID_RECORD
    assert refusal(build_batch(RECORDS, attributes=LOG_APPEND_TIME)) == ErrorCode.INVALID_TIMESTAMP


def test_producers_and_sequences_go_together():
    assert refusal(build_batch(RECORDS, producer_id=5, producer_epoch=0)) == ErrorCode.INVALID_RECORD
    assert refusal(build_batch(RECORDS, attributes=TRANSACTIONAL)) == ErrorCode.INVALID_RECORD


def test_codecs():
    zstd = build_batch(RECORDS, codec=Codec.ZSTD)
    assert refusal(zstd, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate(zstd, version=7)
    assert refusal(with_field(21, ">h", 6)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        assert refusal(with_field(21, ">h", codec)) == ErrorCode.INVALID_RECORD


def test_a_bomb_is_refused():
    batch = build_batch([NewRecord(None, bytes(200_000_000))], codec=Codec.ZSTD)
    assert len(batch) < 100_000
    assert refusal(batch) == ErrorCode.INVALID_RECORD


def test_all_batches_of_a_request_share_what_they_may_become():
    budget = DecompressionBudget(request_bytes=3_000_000)
    assert budget.left_bytes == 192_000_000
    budget.left_bytes = 2_500_000
    batch = build_batch([NewRecord(None, bytes(1_000_000))], codec=Codec.GZIP)

    def check(at_once=False):
        config = TopicConfig()
        validate_produced(batch, config=config, now_ms=NOW_MS, request_version=9, budget=budget, at_once=at_once)

    check(at_once=True)
    check()
    assert 400_000 < budget.left_bytes < 500_000
    for at_once in (False, True):
        with pytest.raises(KafkaError, match="grow past the limit") as refused:
            check(at_once)
        assert refused.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [1, 5, 40])
def test_a_record_with_very_many_headers_is_not_walked_over_at_once(count):
    headers = [("", None)] * 1001
    batch = build_batch([NewRecord(b"k", None, NOW_MS, headers if n == 0 else ()) for n in range(count)])
    assert validate(batch)
    with pytest.raises(TooMuchAtOnce):
        validate_produced(batch, config=TopicConfig(), now_ms=NOW_MS, request_version=9, at_once=True)


def test_headers_that_compiled_code_would_read_in_one_go_are_left_to_another_thread():
    headers = [("", None)] * 70_000
    batch = build_batch([NewRecord(b"k" * (n % 5), None, NOW_MS, headers if n == 9 else ()) for n in range(12)])
    assert validate(batch)
    with pytest.raises(TooMuchAtOnce):
        validate_produced(batch, config=TopicConfig(), now_ms=NOW_MS, request_version=9, at_once=True)
    large = build_batch([NewRecord(b"k" * (n % 5), bytes(30_000), NOW_MS, [("h", b"v")]) for n in range(12)])
    assert validate_produced(large, config=TopicConfig(), now_ms=NOW_MS, request_version=9, at_once=True)


def test_the_loop_checks_a_few_large_batches_of_a_request_and_no_more():
    budget = DecompressionBudget()
    large = build_batch([NewRecord(None, bytes(900_000), NOW_MS)])
    small = build_batch(RECORDS)

    def check(batch):
        validate_produced(batch, config=TopicConfig(), now_ms=NOW_MS, request_version=9, budget=budget, at_once=True)

    for batch in (large, small, large, large):
        check(batch)
    for batch in (large, small):
        with pytest.raises(TooMuchAtOnce):
            check(batch)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_batches_that_the_loop_decompresses_in_vain_count_too(codec):
    """A request of a hundred partitions could have as many of them."""
    budget, decompressed = DecompressionBudget(), []
    bomb = build_batch([NewRecord(None, bytes(2_000_000), NOW_MS)], codec=codec)
    for _ in range(5):
        decompressed.append(budget.weight_at_once > 0)
        with pytest.raises(TooMuchAtOnce):
            validate_produced(bomb, config=TopicConfig(), now_ms=NOW_MS, request_version=9, budget=budget, at_once=True)
    assert decompressed == [True, True, False, False, False]


def test_sizes():
    batch = build_batch(RECORDS)
    assert validate(batch, TopicConfig(max_message_bytes=len(batch)))
    assert refusal(batch, TopicConfig(max_message_bytes=len(batch) - 1)) == ErrorCode.MESSAGE_TOO_LARGE


def test_compacted_topics_need_keys():
    batch = build_batch([*RECORDS, NewRecord(None, b"v", NOW_MS)])
    assert validate(batch)
    with pytest.raises(InvalidRecords) as refused:
        validate(batch, TopicConfig(cleanup_policy=("compact",)))
    assert refused.value.code == ErrorCode.INVALID_RECORD
    assert [number for number, _ in refused.value.record_errors] == [3]


def test_timestamps_out_of_range():
    hour = TopicConfig(message_timestamp_before_max_ms=3_600_000, message_timestamp_after_max_ms=3_600_000)
    stamps = [NOW_MS - 3_600_001, NOW_MS, NOW_MS + 3_600_001, -1]
    batch = build_batch([NewRecord(b"k", b"v", stamp) for stamp in stamps])
    assert validate(batch)
    with pytest.raises(InvalidRecords) as refused:
        validate(batch, hour)
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [number for number, _ in refused.value.record_errors] == [0, 2]
    assert validate(batch, replace(hour, message_timestamp_type="LogAppendTime"))
    assert validate(build_batch([NewRecord(b"k", b"v", -1)]), hour)


LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize("stamp", [LARGEST, SMALLEST, -2, 0])
def test_timestamps_at_the_edges_of_64_bits(stamp):
    assert validate(build_batch([NewRecord(b"k", b"v", stamp)])).max_timestamp == stamp


@pytest.mark.parametrize(("base", "others"), [(LARGEST, 1), (SMALLEST, -1), (NOW_MS, LARGEST)])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_timestamps_beyond_64_bits(base, others, count):
    body = b"".join(encode_record(others, n, b"k", b"v") for n in range(count))
    batch = assemble_batch(
        body,
        records_count=count,
        last_offset_delta=count - 1,
        base_timestamp=base,
        max_timestamp=base,
        base_offset=0,
        leader_epoch=-1,
        attributes=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )
    assert refusal(batch) == ErrorCode.INVALID_TIMESTAMP
    for record in decode_records(batch, BatchHeader.read(batch)):  # such a batch may lie in a log that Kafka wrote
        assert SMALLEST <= record.timestamp <= LARGEST


def test_the_largest_timestamp_is_what_the_records_say():
    assert validate(with_field(35, ">q", NOW_MS + 9)).max_timestamp == NOW_MS + 2


# Where the records lie


def outcome(batch, config, place):
    """What comes of it on the event loop, as a client would see it."""
    budget = DecompressionBudget(place=place)
    try:
        found = validate_produced(batch, config=config, now_ms=NOW_MS, request_version=9, budget=budget, at_once=True)
    except KafkaError as problem:
        return problem.code, problem.message, getattr(problem, "record_errors", None)
    except TooMuchAtOnce:
        return "too much at once"
    return found, budget.weight_at_once // 1000


@pytest.mark.parametrize("shape", ["alike", "different", "few"])
def test_records_that_are_checked_where_they_lie_fare_as_their_copy(shape):
    """Batches with bytes changed, of which the CRC is right, between bytes that are none of theirs."""
    rng = random.Random(shape)
    configs = (
        TopicConfig(),
        TopicConfig(cleanup_policy=("compact",)),
        replace(TopicConfig(), message_timestamp_after_max_ms=0),
    )
    sizes = {"alike": [50] * 200, "different": [rng.randrange(1, 300) for _ in range(100)], "few": [40] * 5}[shape]
    whole = bytes(build_batch([NewRecord(None, bytes(size), NOW_MS) for size in sizes]))
    accepted = 0
    for _ in range(400):
        changed = bytearray(whole)
        for _ in range(rng.randrange(3)):
            position = rng.choice((rng.randrange(HEADER_SIZE, len(whole)), HEADER_SIZE + 6, len(whole) - 1))
            changed[position] = rng.choice((0, 1, 2, 127, 128, 255, changed[position] ^ 1))
        struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
        begin = rng.randrange(100)
        memory = bytearray(rng.randbytes(begin) + changed + rng.choice((b"", bytes(100), rng.randbytes(100))))
        batch = memoryview(memory)[begin : begin + len(changed)]
        config = rng.choice(configs)
        expected = outcome(batch, config, None)
        assert outcome(batch, config, (memory, begin)) == expected
        assert outcome(batch, config, (bytearray(1000), 7)) == expected, "a place that is another one"
        accepted += len(expected) == 2
    assert 50 < accepted < 390
