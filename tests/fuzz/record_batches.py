"""Record batches of every magic and codec: what a producer sends, what a leader or a broker answers, what lies on a disk."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch
from zlib import crc32

from crc32c import crc32c

from kafkalite.broker.traffic import count_records
from kafkalite.client import TopicPartition
from kafkalite.client.consumer.record_columns import FIELDS, record_batch, schema_of
from kafkalite.client.record_codec import BatchRecords
from kafkalite.client.record_reader import read_records
from kafkalite.config.topic import TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.portions import in_one_go
from kafkalite.protocol.record_batches import down_conversion
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.legacy_builder import MessageSetBuilder, build_wrapper
from kafkalite.protocol.record_batches.legacy_messages import to_record_batch
from kafkalite.protocol.record_batches.legacy_records import as_batch, legacy_records, rewrite_message
from kafkalite.protocol.record_batches.produce_validation import validate_produced
from kafkalite.protocol.record_batches.records import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    NewRecord,
    Record,
    build_batch,
    build_marker,
    has_valid_crc,
    iter_batches,
    iter_records,
    read_marker,
)
from tests.fuzz.engine import declared

NOW_MS = 1_700_000_000_000
_CRC = struct.Struct(">I")
_CRC_AT, _CHECKED_FROM = 17, 21
_MAGIC_AT, _OLD_OVERHEAD = 16, 12
_RECORDS_MAX = 5_000
"""A batch of bytes that promises more is left to the tests of bounds."""
_CONFIGS = (TopicConfig(), TopicConfig.from_overrides(TopicConfig(), {"cleanup.policy": "compact"}))
_SCHEMA = schema_of(FIELDS)
_PARTITION = TopicPartition("t", 0)


def _records(rng: random.Random) -> list[NewRecord]:
    return [
        NewRecord(
            rng.choice((None, b"", b"key")),
            rng.choice((None, b"", b"value" * rng.randrange(1, 20), rng.randbytes(30))),
            rng.choice((NOW_MS, NOW_MS + number, -1, 0)),
            rng.choice(((), (("h", b"x"),), (("ä", None), ("", b"")))),
        )
        for number in range(rng.choice((1, 1, 2, 5, 40)))
    ]


def batches(rng: random.Random) -> list[bytes]:
    """Batches of format 2 with each codec, as producers, transactions and coordinators write them."""
    found = []
    for codec in Codec:
        for producer in ({}, {"producer_id": 7, "producer_epoch": 0, "base_sequence": 3}):
            for attributes in (0, 8, 16):
                batch = build_batch(_records(rng), codec=codec, attributes=attributes, **producer)  # type: ignore[arg-type]
                found.append(bytes(batch))
    found.append(
        bytes(build_marker(commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp=NOW_MS))
    )
    found.append(found[0] + found[5])
    return found


def old_messages() -> list[bytes]:
    """Messages of magic 0 and 1: plain ones, wrappers with each codec, and wrappers around nothing that was compressed."""
    records = [Record(number, NOW_MS + number, key, b"value") for number, key in enumerate((None, b"", b"key"))]
    found = []
    for magic in (0, 1):
        found.append(_message_set(magic, records))
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            found.append(build_wrapper(magic, codec, 0, 2, NOW_MS, _message_set(magic, records)))
            found.append(_message_set(magic, records[:1], attributes=codec))
    found.append(build_wrapper(1, Codec.GZIP, 8, 9, NOW_MS, found[0]))
    return found


def _message_set(magic: int, records: list[Record], attributes: int = 0) -> bytes:
    builder = MessageSetBuilder(magic, attributes)
    builder.add(records)
    return builder.build()


def with_valid_crc(data: bytes) -> bytes:
    """The first batch's CRC made right, without which nothing behind the header is ever looked at."""
    if len(data) <= _MAGIC_AT or (len(data) < HEADER_SIZE and data[_MAGIC_AT] >= MAGIC):
        return data
    made = bytearray(data)
    if made[_MAGIC_AT] < MAGIC:
        end = _OLD_OVERHEAD + int.from_bytes(made[8:_OLD_OVERHEAD], "big")
        _CRC.pack_into(made, _OLD_OVERHEAD, crc32(memoryview(made)[_MAGIC_AT:end]))
        return bytes(made)
    end = BatchHeader.read(made).end
    if HEADER_SIZE <= end <= len(made):
        _CRC.pack_into(made, _CRC_AT, crc32c(memoryview(made)[_CHECKED_FROM:end]))
    return bytes(made)


def _outcome(read: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return read(), ""
    except KafkaError as problem:
        return None, declared(problem)


def _converted(data: bytes, header: BatchHeader) -> str:
    """Convert the batch for old consumers, which is the same by way of the decoder and of the exact walk if a broker takes it."""
    batch = data[header.position : header.end]
    outcomes = []
    for decode in (down_conversion.decode, iter_records):
        with patch.object(down_conversion, "decode", decode):
            outcomes.append(_outcome(lambda: in_one_go(down_conversion.conversion(batch, header.base_offset & 1, 0))))
    (decoded, refusal), (walked, _) = outcomes
    assert walked is None or decoded == walked, "the decoder makes other messages than the walk"
    return refusal


class RecordBatches:
    """Everything that reads records; those that succeed agree, and what a broker takes can be read by all."""

    name = "records"

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        return batches(rng) + old_messages()

    def check(self, data: bytes) -> str:
        return " | ".join((self._check(data), self._check(with_valid_crc(data))))

    def _check(self, data: bytes) -> str:
        taken, refusal = None, ""
        for config in _CONFIGS:
            for version in (3, 9):
                accepted, refusal = _outcome(
                    lambda config=config, version=version: validate_produced(  # type: ignore[misc]
                        bytearray(data), config=config, now_ms=NOW_MS, request_version=version
                    )
                )
                taken = taken or accepted
        headers, unreadable = _outcome(lambda: list(iter_batches(data)))
        told = [refusal, unreadable]
        count_records(data)
        for header in (headers or [])[:3]:
            if header.records_count > _RECORDS_MAX or not has_valid_crc(data, header):
                continue
            if header.magic == MAGIC:
                told.append(self._read(data, header, accepted=taken is not None and header.position == 0))
            else:
                told.append(self._read_old(data, header))
        told.append(_outcome(lambda: to_record_batch(data))[1])
        return " / ".join(told)

    def _read(self, data: bytes, header: BatchHeader, *, accepted: bool) -> str:
        walked, one = _outcome(lambda: list(iter_records(data, header)))
        compiled, two = _outcome(lambda: read_records(data, header, "t", 0, 0))
        columns, three = _outcome(
            lambda: record_batch([BatchRecords(data, header, _PARTITION)], -(2**62), 2**62, _SCHEMA)
        )
        if accepted:
            assert walked is not None and compiled is not None and columns is not None, (
                f"a broker takes what consumers cannot read: {one}; {two}; {three}"
            )
            assert len(walked) == header.records_count, "not all records that a broker took can be read"
        if walked is not None and compiled is not None and accepted:
            ours = [_plain(each) for each in walked]
            theirs = [(each.offset, each.timestamp, each.key, each.value) for each in compiled]
            assert ours == theirs, "readers disagree"
            assert columns.num_rows == len(ours), "columns have other records"
        if header.is_control:
            _outcome(lambda: read_marker(data, header))
        return f"{one}, {two}, {three}, {_converted(data, header)}"

    def _read_old(self, data: bytes, header: BatchHeader) -> str:
        """A message of a format before batches, as logs and consumers read it."""
        records, one = _outcome(lambda: legacy_records(data, header))
        if records is None or len(records) > _RECORDS_MAX:
            return one
        batch, two = _outcome(lambda: as_batch(records, header))
        if batch is not None:
            read = read_records(batch, BatchHeader.read(batch), "t", 0, 0)
            assert [each.offset for each in read] == [each.offset for each in records], "a batch of other records"
        again = rewrite_message(records, header)
        headers = list(iter_batches(again))
        assert all(has_valid_crc(again, each) for each in headers), "rewritten with a wrong CRC"
        kept = [each for found in headers for each in legacy_records(again, found)]
        assert [(each.key, each.value) for each in kept] == [(each.key, each.value) for each in records], (
            "others are kept"
        )
        return two


def _plain(record: Record) -> tuple[int, int, bytes | None, bytes | None]:
    return record.offset, record.timestamp, record.key, record.value
