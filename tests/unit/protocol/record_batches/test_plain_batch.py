"""What is plain is what the whole check takes as it is; of anything else nothing is said."""

from __future__ import annotations

import random
import struct

from crc32c import crc32c

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.plain_batch import layout_of, plain_header, put_plain
from kafkalite.protocol.record_batches.produce_validation import validate_produced
from kafkalite.protocol.record_batches.records import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    NewRecord,
    build_batch,
    has_valid_crc,
    iter_batches,
)
from tests.case import case

NOW_MS = 1_700_000_000_000


def single(value: bytes | None = b"value", key: bytes | None = None, **fields: int) -> bytearray:
    return build_batch([NewRecord(key, value, NOW_MS)], **fields)


def plain(batch: bytes | bytearray, before: bytes = b"", behind: bytes = b"") -> BatchHeader | None:
    data = before + batch + behind
    return plain_header(data, len(before), len(before) + len(batch), 7)


def with_right_crc(batch: bytearray) -> bytearray:
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def test_batches_of_one_record_are_plain_wherever_they_lie() -> None:
    numbered = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 4}
    for value, key, fields in ((b"v", None, {}), (None, b"k", {}), (bytes(9000), b"k", {}), (b"v", b"", numbered)):
        batch = single(value, key, **fields)
        with case(f"{key!r} {fields}"):
            expected = BatchHeader.read(batch)._replace(position=7)
            assert plain(batch) == plain(batch, b"12345", b"678") == expected


def test_what_is_more_than_one_plain_record_is_not() -> None:
    two = build_batch([NewRecord(None, b"v", NOW_MS)] * 2)
    others = {
        "two records": two,
        "a header": build_batch([NewRecord(None, b"v", NOW_MS, [("h", b"")])]),
        "an offset": single(base_offset=1),
        "an id without number": single(producer_id=9, producer_epoch=0),
        "cut": single()[:-1],
        "longer": single() + b"\0",
        "nothing": bytearray(),
    }
    for codec in Codec:
        if codec:
            others[codec.name] = single(bytes(100), codec=codec)
    for bit in (LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON):
        others[f"attribute {bit}"] = single(attributes=bit)
    for name, batch in others.items():
        with case(name):
            assert plain(batch) is None


def test_damaged_batches_are_plain_only_where_the_whole_check_takes_them_as_they_are() -> None:
    rng = random.Random(20)
    seen = {True: 0, False: 0}
    for number in range(3000):
        batch = single(rng.randbytes(rng.choice((0, 1, 70, 200))), rng.choice((None, b"", b"key")))
        layout = layout_of(bytes(batch), 0, len(batch))
        for _ in range(rng.choice((0, 1, 1, 2))):
            batch[rng.randrange(len(batch))] = rng.choice((0, 1, 2, 4, 0x7F, 0x80, 0xFF))
        if rng.random() < 0.9:
            with_right_crc(batch)
        before = bytes(batch)
        header = plain(before)
        seen[header is None] += 1
        assert plain_header(before, 0, len(before), 7, layout) == header, "who knows its layout sees the same"
        if header is None:
            continue
        with case(f"{number}: {before.hex()}"):
            try:
                produced = validate_produced(batch, TopicConfig(), NOW_MS, 9)
            except KafkaError as problem:  # what a turn looks at beside the batch
                assert problem.code.name == "INVALID_TIMESTAMP"
                continue
            assert produced.header == header._replace(position=0)
            assert produced.max_timestamp == header.max_timestamp and bytes(batch) == before
    assert min(seen.values()) > 300


def test_batches_get_consecutive_offsets_and_the_epoch() -> None:
    batches = [single(bytes(size)) for size in (1, 300, 0)]
    records, headers = bytearray(), []
    for batch in batches:
        header = plain_header(bytes(batch), 0, len(batch), len(records))
        assert header is not None
        headers.append(header)
        records += batch
    placed = put_plain(records, headers, 41, 6)
    assert placed == list(iter_batches(records))
    assert [(each.base_offset, each.partition_leader_epoch) for each in placed] == [(41, 6), (42, 6), (43, 6)]
    assert all(has_valid_crc(records, each) for each in placed)
