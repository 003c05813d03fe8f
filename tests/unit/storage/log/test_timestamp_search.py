"""Searches through batches that were made to be dear: they are left to another thread, and their outcome is kept."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.compression import Codec, compress
from kafkalite.protocol.record_batches.python_records import encode_record
from kafkalite.protocol.record_batches.records import NewRecord, assemble_batch, build_batch
from kafkalite.storage.cold_reads import in_memory
from kafkalite.storage.log import timestamp_search
from kafkalite.storage.log.timestamp_search import LongSearch, find_offset_for_timestamp
from tests.unit.storage.logs import NOW_MS, append, batch, new_log


def large_batch(body: bytes, count: int, codec: Codec = Codec.ZSTD) -> bytearray:
    return assemble_batch(
        compress(codec, body),
        records_count=count,
        last_offset_delta=count - 1,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 1,
        base_offset=0,
        leader_epoch=-1,
        attributes=codec,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
    )


MANY = large_batch(b"".join(encode_record(number == 11_999, number, b"k", None) for number in range(12_000)), 12_000)
WIDE = large_batch(encode_record(0, 0, None, bytes(3_000_000)) + encode_record(1, 1, None, None), 2)


@pytest.mark.parametrize(("records", "last"), [(MANY, 11_999), (WIDE, 1)])
def test_a_large_batch_is_searched_in_another_thread(tmp_path, monkeypatch, records, last):
    log = new_log(tmp_path)
    append(log)
    append(log, bytearray(records))
    with log.only_in_memory, pytest.raises(LongSearch):
        find_offset_for_timestamp(log, NOW_MS + 1, 100_000)
    threads = []
    search = timestamp_search._search

    def noted(*arguments):
        threads.append((threading.current_thread(), arguments[-1]))
        return search(*arguments)

    monkeypatch.setattr(timestamp_search, "_search", noted)
    found = asyncio.run(in_memory(log, lambda: find_offset_for_timestamp(log, NOW_MS + 1, 100_000)))
    assert found == (NOW_MS + 1, 1 + last, 0) == find_offset_for_timestamp(log, NOW_MS + 1, 100_000)
    here = threading.current_thread()
    assert any(thread is not here for thread, _ in threads)
    assert all(limit <= 1 << 20 for thread, limit in threads[:-1] if thread is here), (
        "no large work in the loop's thread"
    )


def test_small_batches_are_searched_at_once(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(100, codec=Codec.ZSTD))
    with log.only_in_memory:
        assert find_offset_for_timestamp(log, NOW_MS + 50, 1000) == (NOW_MS + 50, 50, 0)


def test_what_a_long_search_could_not_read_is_its_outcome(tmp_path):
    log = new_log(tmp_path)
    append(log, bytearray(MANY))
    segment = log.segments.active
    with log.only_in_memory, pytest.raises(LongSearch) as cold:
        find_offset_for_timestamp(log, NOW_MS + 1, 100_000)
    cold.value._data = cold.value._data[:100]
    cold.value.load()
    with log.only_in_memory, pytest.raises(KafkaError) as refused:
        find_offset_for_timestamp(log, NOW_MS + 1, 100_000)
    assert refused.value.code == ErrorCode.INVALID_RECORD
    for number in range(40):
        segment.searched[number] = None
    cold.value.load()
    assert len(segment.searched) <= 16


def test_header_names_that_are_no_text_do_not_hide_records_from_a_search(tmp_path):
    """Apache Kafka takes them from producers and decodes none of them when it looks for a time; so does this broker."""
    records = build_batch([NewRecord(b"k", b"v", NOW_MS + n, headers=[("x", b"")]) for n in range(3)])
    log = new_log(tmp_path)
    append(log, with_header_names(records))
    assert find_offset_for_timestamp(log, NOW_MS + 2, 100) == (NOW_MS + 2, 2, 0)


def with_header_names(records: bytearray) -> bytearray:
    body = bytes(records[61:]).replace(b"\x02x", b"\x02\xff")
    changed = large_batch(body, 3, Codec.NONE)
    assert changed != records
    return changed
