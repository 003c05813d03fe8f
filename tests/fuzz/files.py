"""Files on a broker's disk, as a crash, a bad medium or an operator may leave them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.records import NewRecord, build_batch, iter_batches
from kafkalite.storage.checkpoints import read_epochs, read_offsets
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.partition_metadata import read_topic_id
from kafkalite.storage.log.recovery import LoadOptions, create_log, load_log
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.meta_properties import WrongDirectory, read_meta_properties
from kafkalite.storage.producers.producer_snapshot import UnusableSnapshot, decode_snapshot
from kafkalite.testing.simulation.memory_disk import MemoryDisk
from kafkalite.testing.simulation.virtual_time import VirtualClock, VirtualTime
from kafkalite.types import TopicPartition
from tests.fuzz.engine import declared
from tests.fuzz.record_batches import NOW_MS, with_valid_crc

NAME = TopicPartition("topic", 0)
ROOT, LOG = "/logs", "/logs/topic-0"


def memory_disk() -> MemoryDisk:
    disk = MemoryDisk(VirtualClock(VirtualTime()))
    disk.make_directory(LOG)
    return disk


class Checkpoints:
    """Small files by themselves. The first byte of the input says which; the rest is its content."""

    name = "checkpoints"

    def __init__(self) -> None:
        self._disk = memory_disk()
        path = f"{ROOT}/file"
        self._readers: tuple[Callable[[bytes], Any], ...] = (
            lambda _: read_offsets(self._disk, path),
            lambda _: read_epochs(self._disk, path),
            lambda _: read_meta_properties(self._disk, path),
            lambda _: read_topic_id(self._disk, path),
            decode_snapshot,
        )

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        contents = (
            (0, b"0\n2\ntopic 0 5\nother 7 9223372036854775807\n"),
            (0, b"0\n0\n"),
            (1, b"0\n2\n0 0\n3 17\n"),
            (2, b"#\n#Mon\nbroker.id=1\ncluster.id=abc\\=\nversion=0\n"),
            (3, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"),
            (4, _snapshot()),
        )
        return [bytes((kind,)) + content for kind, content in contents]

    def check(self, data: bytes) -> str:
        kind = data[0] % len(self._readers) if data else 0
        self._disk.replace(f"{ROOT}/file", data[1:])
        try:
            found = self._readers[kind](data[1:])
        except (OSError, WrongDirectory, UnusableSnapshot) as problem:
            return f"{kind} {declared(problem)}"
        return f"{kind} {type(found).__name__}"


def _snapshot() -> bytes:
    disk, log = _written()
    log.close()
    name = sorted(each.name for each in disk.list(LOG) if each.name.endswith(".snapshot"))[-1]
    return disk.read(f"{LOG}/{name}")


def _config() -> TopicConfig:
    return TopicConfig.from_overrides(TopicConfig(), {"segment.bytes": "600", "index.interval.bytes": "0"})


def _written() -> tuple[MemoryDisk, PartitionLog]:
    """A log of some segments, with two leader epochs and a producer, closed in good order."""
    disk = memory_disk()
    directory = LogDirectory(disk, ROOT, 64)
    log = create_log(
        NAME, directory, LOG, topic_id=bytes(15) + b"\1", config=_config(), rng=random.Random(1), now_ms=NOW_MS
    )
    for number in range(12):
        records = [NewRecord(b"key", b"v" * 40, NOW_MS + number * 1000) for _ in range(2)]
        batch = build_batch(records, codec=number % 5, producer_id=7, producer_epoch=0, base_sequence=2 * number)
        log.append_as_leader(batch, leader_epoch=number // 6, now_ms=NOW_MS + number * 1000)
    return disk, log


class Logs:
    """One file of a log is another one; the log is opened, read, written, and opened again.

    The first byte of the input says which file, the second how the broker stopped; the rest is the file's content.
    """

    name = "logs"

    def __init__(self) -> None:
        disk, log = _written()
        log.close()
        self._files = {each.name: disk.read(f"{LOG}/{each.name}") for each in disk.list(LOG)}
        self._names = sorted(self._files)

    def seeds(self, rng: random.Random) -> Sequence[bytes]:
        return [
            bytes((number, clean)) + self._files[name] for number, name in enumerate(self._names) for clean in (0, 1)
        ]

    def check(self, data: bytes) -> str:
        name = self._names[data[0] % len(self._names)] if data else self._names[0]
        clean = len(data) > 1 and data[1] % 2 == 1
        content = data[2:]
        if name.endswith(".log") and len(data) > 1 and data[1] & 2:
            content = with_valid_crc(content)
        disk = memory_disk()
        for each, original in self._files.items():
            disk.replace(f"{LOG}/{each}", content if each == name else original)
        suffix = name.rpartition(".")[2] + (" clean" if clean else "")
        try:
            log = self._opened(disk, clean=clean)
        except OSError as problem:
            return f"{suffix} {declared(problem)}"
        try:
            self._use(log)
            log.close()
        except OSError as problem:  # which would take the directory offline
            return f"{suffix} later {declared(problem)}"
        end = log.log_end_offset
        try:
            again = self._opened(disk, clean=True)
        except OSError as problem:
            return f"{suffix} again {declared(problem)}"
        assert again.log_end_offset == end, "records are lost by a clean restart"
        return f"{suffix} {len(log.segments)} {len(log.epochs.entries())}"

    def _opened(self, disk: MemoryDisk, *, clean: bool) -> PartitionLog:
        options = LoadOptions(clean, 0, 0, NOW_MS, 86_400_000)
        return load_log(
            NAME, LogDirectory(disk, ROOT, 64), LOG, config=_config(), rng=random.Random(2), options=options
        )

    def _use(self, log: PartitionLog) -> None:
        offset, reads = log.log_start_offset, 0
        while offset < log.log_end_offset:
            piece = log.read(offset, 1 << 16, upper_bound=log.log_end_offset, min_one_batch=True).records
            try:
                following = max((each.next_offset for each in iter_batches(piece)), default=offset)
            except KafkaError:
                break  # damage behind a clean stop, which whoever reads it reports
            if following <= offset:
                break
            offset, reads = following, reads + 1
            assert reads < 1_000, "reading does not end"
        log.epochs.end_offset_for(0, log.log_end_offset)
        before = log.log_end_offset
        if before < 2**62:
            batch = build_batch([NewRecord(b"key", b"value", NOW_MS)])
            result = log.append_as_leader(batch, leader_epoch=max(2, log.epochs.latest or 0), now_ms=NOW_MS)
            assert result.first_offset == before
