"""Logs for tests: opened without a store, filled in one line, crashed at will, on a disk that can be made to fail."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

from kafkalite.config.topic import TopicConfig
from kafkalite.protocol.record_batches.records import BatchHeader, NewRecord, build_batch, iter_batches
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.recovery import LoadOptions, create_log, load_log
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.types import TopicPartition

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
NAME = TopicPartition("topic", 0)


class FailingDisk(OsDisk):
    """The machine's disk, with `room` bytes left (None: enough) and `broken` for errors of the medium."""

    def __init__(self):
        super().__init__()
        self.room = None
        self.broken = False
        self.no_files: int | None = None
        self.files_left: int | None = None

    def open(self, path, *, create=False):
        self.check(path, 0)
        if self.no_files is not None:
            raise OSError(self.no_files, "too many open files", path)
        if self.files_left is not None:
            if not self.files_left:
                raise OSError(errno.EMFILE, "too many open files", path)
            self.files_left -= 1
        return _FailingFile(super().open(path, create=create), self, path)

    def replace(self, path, content, *, durable=True):
        self.check(path, len(content))
        super().replace(path, content, durable=durable)

    def check(self, path, size):
        if self.broken:
            raise OSError(errno.EIO, "broken", path)
        if self.room is not None:
            if size > self.room:
                raise OSError(errno.ENOSPC, "full", path)
            self.room -= size


class _FailingFile:
    def __init__(self, file, disk, path):
        self.file = file
        self.disk = disk
        self.path = path
        self.read_at_of_file = file.read_at
        self.truncate = file.truncate
        self.size = file.size

    def close(self):
        self.file.close()
        if self.disk.files_left is not None:
            self.disk.files_left += 1

    def read_at(self, position, size):
        if self.disk.broken:
            raise OSError(errno.EIO, "broken", self.path)
        return self.read_at_of_file(position, size)

    def read_in_memory(self, position, size):
        return self.read_at(position, size)

    def write_at(self, position, buffers):
        data = b"".join(bytes(buffer) for buffer in buffers)
        try:
            self.disk.check(self.path, len(data))
        except OSError:
            if self.disk.room:
                self.file.write_at(position, [data[: self.disk.room]])  # a full disk takes what fits
                self.disk.room = 0
            raise
        self.file.write_at(position, [data])


def directory_at(path: Path, disk=None, open_files=64) -> LogDirectory:
    return LogDirectory(disk or OsDisk(), str(path), open_files)


def new_log(path: Path, config: TopicConfig | None = None, disk=None, *, with_files=True) -> PartitionLog:
    directory = directory_at(path, disk)
    log = create_log(
        NAME,
        directory,
        str(path / "topic-0"),
        topic_id=bytes(15) + b"\x01",
        config=config or TopicConfig(),
        rng=Random(1),
        now_ms=NOW_MS,
    )
    if with_files:
        log.make_files()
    return log


def reopened(
    log: PartitionLog,
    *,
    clean: bool,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    now_ms: int = NOW_MS,
) -> PartitionLog:
    """The log opened again from its files, after `close` when `clean`, else as after a crash."""
    if clean:
        log.close()
    log.log_directory.files.close()
    options = LoadOptions(
        clean,
        log.recovery_point if recovery_point is None else recovery_point,
        log.log_start_offset if log_start_offset is None else log_start_offset,
        now_ms,
        DAY_MS,
    )
    directory = LogDirectory(log.log_directory.disk, log.log_directory.path, 64)
    loaded = load_log(log.topic_partition, directory, log.directory, config=log.config, rng=Random(2), options=options)
    loaded.set_high_watermark(log.high_watermark)
    return loaded


def batch(count=1, *, timestamp=NOW_MS, value=b"value", **fields) -> bytearray:
    return build_batch([NewRecord(b"key", value, timestamp + number) for number in range(count)], **fields)


def produced(producer_id=7, sequence=0, count=1, epoch=0, **fields) -> bytearray:
    """A batch of an idempotent producer."""
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def append(log: PartitionLog, records: bytearray | None = None, *, epoch=0, now_ms=NOW_MS, **options):
    return log.append_as_leader(batch() if records is None else records, leader_epoch=epoch, now_ms=now_ms, **options)


def all_bytes(log: PartitionLog) -> bytes:
    """Everything between log start and log end, read in pieces as a follower does."""
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, upper_bound=log.log_end_offset, min_one_batch=True).records
        if not piece:
            break
        data += piece
        offset = list(iter_batches(piece))[-1].next_offset
    return data


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    return list(iter_batches(all_bytes(log)))


def check_files(log: PartitionLog) -> None:
    """Every index entry points at a batch, and what the indexes promise holds."""
    for segment in log.segments:
        headers = list(segment.headers())
        if not segment.has_files:
            assert sum(header.size for header in headers) == segment.size
            continue
        starts = {header.position: header for header in headers}
        assert sum(header.size for header in headers) == segment.size == Path(segment.path).stat().st_size
        previous = (-1, -1)
        for entry in segment.offset_index.entries():
            assert starts[entry.position].last_offset == entry.offset
            assert entry.offset > previous[0] and entry.position > previous[1]
            previous = entry
        stamps = segment.time_index.entries()
        assert [each.timestamp for each in stamps] == sorted({each.timestamp for each in stamps})
        for entry in stamps:
            assert all(
                header.max_timestamp <= entry.timestamp for header in headers if header.last_offset <= entry.offset
            )
            assert any(
                header.max_timestamp == entry.timestamp for header in headers if header.last_offset == entry.offset
            )
        for index in (segment.offset_index, segment.time_index):
            entry_size = {".index": 8, ".timeindex": 12}[Path(index.path).suffix]
            assert Path(index.path).stat().st_size == index.count * entry_size
