"""Compaction of logs with messages of formats 0 and 1: which of their records stay, and what they are written into."""

from __future__ import annotations

import os
from random import Random

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatch  # type: ignore[import-untyped]

from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.legacy_records import (
    as_batch,
    first_offset,
    legacy_records,
    records_at,
    rewrite_message,
)
from kafkalite.protocol.record_batches.records import BatchHeader, Record, has_valid_crc, header_at
from tests.unit.storage.cleaner_settings import compact
from tests.unit.storage.log.test_old_formats import EVERY, decoded, opened
from tests.unit.storage.logs import NOW_MS, all_bytes, append, batch, check_files, headers_of, reopened
from tests.unit.storage.old_logs import CODECS, FORMATS, contents, unpack

COMPACTED = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0, "delete_retention_ms": 1000}


def seal(log):
    log.roll(NOW_MS)
    log.set_high_watermark(log.log_end_offset)


@EVERY
def test_the_last_value_of_each_key_stays_in_its_format(tmp_path, release, topic):
    log = opened(unpack(release, tmp_path), topic, **COMPACTED)
    before = headers_of(log)
    modified_ms = log.segments[0].modified_ms
    seal(log)
    done = compact(log)
    assert (done.records_read, done.records_kept, done.keys) == (40, 8, 8)
    after = headers_of(log)
    data = all_bytes(log)
    assert {(each.magic, each.codec) for each in after} == {(FORMATS[release], before[0].codec)}
    assert all(has_valid_crc(data, each) for each in after)
    assert decoded(data) == contents(release, topic)[-8:]
    assert int(os.stat(log.segments[0].path).st_mtime * 1000) == modified_ms
    check_files(log)
    for clean in (True, False):
        log = reopened(log, clean=clean)
        assert decoded(all_bytes(log)) == contents(release, topic)[-8:]


@pytest.mark.parametrize(("release", "pause_ms", "kept"), [("0.9", 1000, 7), ("0.9", 999, 8), ("0.10.2", 1000, 7)])
def test_a_tombstone_goes_once_its_segment_is_older_than_the_last_one_that_was_compacted(
    tmp_path, release, pause_ms, kept
):
    log = opened(unpack(release, tmp_path), "gzip", segment_bytes=100, **COMPACTED)
    modified_ms = log.segments[0].modified_ms
    for number in range(3):
        if number:
            append(log, batch(1))
        log.segments.active.modified_ms = modified_ms + number * pause_ms
        seal(log)
        compact(log)
        found = [each[0] for each in decoded(all_bytes(log)) if each[0] < 40]
        assert found == list(range(32, 40))[: 8 if number < 2 else kept]


def test_a_log_without_keys_loses_all(tmp_path):
    log = opened(unpack("0.10.2", tmp_path), "none", **COMPACTED)
    end = log.log_end_offset
    wrapper = message(1, 1, [Record(end + number, NOW_MS, None, b"value") for number in range(3)])
    log.append_as_follower(wrapper, now_ms=NOW_MS)
    seal(log)
    compact(log)
    assert [each[0] for each in decoded(all_bytes(log))] == list(range(32, 40)) and log.log_end_offset == end + 3
    assert reopened(log, clean=False).log_end_offset == end + 3


# what messages are written into


def message(magic, codec, records, attributes=0, timestamp=-1):
    header = BatchHeader(0, 0, -1, magic, 0, codec | attributes, 0, timestamp, timestamp, -1, -1, -1, -1, 0)
    return bytes(rewrite_message(records, header))


def any_records(rng, magic):
    offset, records = rng.choice((0, 1, 1 << 40)), []
    for _ in range(rng.randrange(1, 30)):
        key, value = (rng.choice((None, b"", rng.randbytes(rng.randrange(300)))) for _ in range(2))
        records.append(Record(offset, rng.randrange(1 << 41) if magic else -1, key, value))
        offset += rng.choice((1, 1, 3))
    return records


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(1, 4))
def test_what_is_written_is_read_again_here_and_by_others(magic, codec):
    rng = Random(f"{magic} {codec}")
    for _ in range(30):
        records = any_records(rng, magic)
        data = message(magic, codec, records)
        header = header_at(data)
        assert header is not None and header.size == len(data) and has_valid_crc(data, header)
        assert (header.last_offset, header.codec, header.magic) == (records[-1].offset, codec, magic)
        assert header.max_timestamp == max(record.timestamp for record in records)
        converted = as_batch(records, header)
        assert list(records_at(converted, BatchHeader.read(converted))) == records
        if records[-1].offset:
            assert legacy_records(data, header) == records and first_offset(data, header) == records[0].offset
            if codec == 3 and not magic:
                continue  # aiokafka does not read the frames of before 0.10
            others = LegacyRecordBatch(bytearray(data), magic)
            assert others.validate_crc()
            assert [(each.offset, each.key, each.value) for each in others] == [(o, k, v) for o, _, k, v, _ in records]


def test_the_wrappers_append_time_is_that_of_its_records():
    records = [Record(5, 1, b"k", b"v"), Record(6, 2, None, None)]
    data = message(1, 2, records, attributes=8, timestamp=99)
    header = header_at(data)
    assert header is not None and header.max_timestamp == 99
    assert [record.timestamp for record in legacy_records(data, header)] == [99, 99]
    converted = BatchHeader.read(as_batch(legacy_records(data, header), header))
    assert converted.uses_log_append_time and converted.max_timestamp == 99


@pytest.mark.parametrize("topic", CODECS)
@pytest.mark.parametrize("release", FORMATS)
def test_damaged_messages_are_refused_and_nothing_else_happens(tmp_path, release, topic):
    rng = Random(f"{release} {topic}")
    data = all_bytes(opened(unpack(release, tmp_path), topic))
    for _ in range(300):
        changed = bytearray(data[: rng.randrange(1, len(data))])
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        header = header_at(changed)
        if header is not None and header.magic < 2 and header.end <= len(changed):
            try:
                records = legacy_records(changed, header, 1 << 20)
                as_batch(records, header)
            except KafkaError:
                continue
