"""Large reads: what is read at once, what is read when it is sent, and what becomes of that when files change meanwhile."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol.record_batches.records import BatchHeader
from kafkalite.storage.log.file_records import HEAD_BYTES, LARGE_BYTES, PORTION_BYTES, FileRecords
from kafkalite.storage.log.log_read import LogRead
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.open_files import NotInMemory
from tests.unit.storage.logs import NOW_MS, append, batch, new_log

BATCH_BYTES = 300_000


def filled(path: Path, batches: int = 8, size: int = BATCH_BYTES) -> PartitionLog:
    log = new_log(path, TopicConfig(segment_bytes=4 * BATCH_BYTES + 10_000))
    for number in range(batches):
        append(log, batch(value=bytes([number]) * size))
    return log


def to_send(log: PartitionLog, offset: int = 0, max_bytes: int = 1 << 30) -> LogRead:
    return log.read(offset, max_bytes, upper_bound=log.log_end_offset, min_one_batch=True, to_send=True)


def large(log: PartitionLog, offset: int = 0, max_bytes: int = 1 << 30) -> FileRecords:
    found = to_send(log, offset, max_bytes).large
    assert found is not None
    return found


def content(records: FileRecords) -> bytes:
    data = bytes(records.head)
    while len(data) < len(records):
        data += records.read(len(data))
    return data


def stored(log: PartitionLog, number: int = 0) -> bytes:
    return Path(log.segments[number].path).read_bytes()


def test_large_reads_are_read_in_portions_and_are_what_is_stored(tmp_path: Path) -> None:
    log = filled(tmp_path)
    records = large(log)
    assert len(records) == log.segments[0].size > PORTION_BYTES and len(records.head) == HEAD_BYTES
    assert len(records.read(HEAD_BYTES)) == PORTION_BYTES
    assert content(records) == stored(log)
    assert content(large(log, 2)) == stored(log)[2 * log.segments[0].size // 4 :]


def test_what_is_not_large_or_not_to_be_sent_is_read_at_once(tmp_path: Path) -> None:
    log = filled(tmp_path, 4, LARGE_BYTES // 5)
    small = to_send(log)
    assert small.large is None and len(small.records) == log.segments[0].size
    log = filled(tmp_path / "other")
    assert log.read(0, 1 << 30, upper_bound=4, min_one_batch=True).records == stored(log)


@pytest.mark.parametrize("missing_bytes", [1, BATCH_BYTES])
def test_of_large_batches_only_whole_ones_are_sent(tmp_path: Path, missing_bytes: int) -> None:
    log = filled(tmp_path)
    size = log.segments[0].size // 4
    read = to_send(log, 1, 3 * size - missing_bytes)
    assert read.large is not None and len(read.large) == 2 * size
    assert read.end == (log.segments[0], 3 * size) and read.is_full
    assert not to_send(log, 1, 3 * size).is_full
    assert len(to_send(log, 0, size + 5).records or b"") == HEAD_BYTES and len(large(log, 0, size + 5)) == size


def test_a_first_batch_that_is_larger_than_asked_for_is_sent_whole(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert len(large(log, 1, 1000)) == log.segments[0].size // 4
    assert not log.read(1, 1000, upper_bound=4, min_one_batch=False, to_send=True).records


def test_small_batches_may_be_cut_as_ever(tmp_path: Path) -> None:
    log = filled(tmp_path, 100, 9_000)
    assert len(large(log, 0, LARGE_BYTES + 7)) == LARGE_BYTES + 7


def test_a_file_that_gets_another_name_or_none_is_kept(tmp_path: Path) -> None:
    log = filled(tmp_path)
    before, records, others = stored(log), large(log), large(log, 4)
    log.delete_records(4)
    log.config = TopicConfig(retention_ms=1, file_delete_delay_ms=0)
    assert log.delete_old_segments(NOW_MS * 2) and not Path(records.path).exists()
    log.local.delete_due_files(NOW_MS * 2)
    assert content(records) == before
    log.local.close_files()
    os.rename(log.directory, log.directory + "-delete")
    assert content(others)


def test_kept_files_are_closed_with_the_last_who_reads(tmp_path: Path) -> None:
    log = filled(tmp_path)
    one, other = large(log), large(log)
    path = one.path
    log.local.close_files()

    def opened() -> int:
        return sum(os.path.realpath(f"/proc/self/fd/{each}") == path for each in os.listdir("/proc/self/fd"))

    assert opened() == 1
    del one
    assert content(other) and opened() == 1
    del other
    gc.collect()
    assert opened() == 0


def test_records_that_a_replica_cuts_off_are_not_sent(tmp_path: Path) -> None:
    log = filled(tmp_path, 3)
    reached, whole = large(log), large(log, 0, 2 * BATCH_BYTES + 1000)
    log.truncate_to(2)
    append(log, batch(value=bytes(2 * BATCH_BYTES)))
    with pytest.raises(KafkaError, match="was cut") as refused:
        reached.read(HEAD_BYTES)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert BatchHeader.read(content(whole)).base_offset == 0


def test_a_directory_that_failed_sends_nothing_more(tmp_path: Path) -> None:
    log = filled(tmp_path)
    records = large(log)
    log.log_directory.take_offline(OSError("gone"))
    with pytest.raises(KafkaError):
        records.read(HEAD_BYTES)


def test_what_is_not_in_memory_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path)
    records = large(log)
    monkeypatch.setattr("kafkalite.storage.disk._OsFile.read_in_memory", lambda *_: None)
    with pytest.raises(NotInMemory):
        records.read(HEAD_BYTES)
    assert len(records.read(HEAD_BYTES, may_wait=True)) == PORTION_BYTES
