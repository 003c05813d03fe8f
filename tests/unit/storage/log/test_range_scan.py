"""Digests of ranges of a log: always those of the records that a reader of committed records gets, whatever is kept of segments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import in_one_go
from kafkalite.protocol.record_batches.record_digest import NO_RECORDS, RangeDigest, digest_batch
from kafkalite.protocol.record_batches.records import (
    TRANSACTIONAL,
    NewRecord,
    build_batch,
    iter_batches,
)
from kafkalite.storage.log import range_scan
from kafkalite.storage.log.log_summary import summarize_log
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.range_scan import DigestCache, RangeScan
from kafkalite.storage.segments import segment_digests
from kafkalite.storage.segments.segment_digests import DigestBlock, decode_blocks, encode_blocks
from tests.unit.storage.cleaner_settings import compact
from tests.unit.storage.logs import DAY_MS, NOW_MS, FailingDisk, append, new_log, reopened
from tests.unit.storage.random_transactions import Writer, committed, expected

BLOCK_BYTES = 400
SMALL = TopicConfig(segment_bytes=1500, index_interval_bytes=100)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (range_scan, segment_digests):
        monkeypatch.setattr(module, "BLOCK_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(range_scan, "PIECE_BYTES", 300)


class Reads:
    """Counts the records that are read."""

    def __init__(self) -> None:
        self.records = 0


def scan(
    log: PartitionLog,
    start: int = 0,
    end: int | None = None,
    cache: DigestCache | None = None,
    reads: Reads | None = None,
    *,
    fresh: bool = False,
    between: Callable[[RangeScan], object] = lambda going: None,
) -> RangeDigest:
    stable = log.last_stable_offset
    going = RangeScan(log, start, stable if end is None else end, cache or DigestCache(), fresh=fresh)
    while not going.is_done:
        piece = going.next_piece()
        if piece is None:
            continue
        digests = []
        headers, committed_ones = piece.headers, piece.is_committed
        if piece.runs:
            headers = list(iter_batches(bytes(piece.data)[: piece.size_bytes]))
            assert (headers[0], headers[-1]) == (piece.headers[0], piece.headers[-1])
            committed_ones = [True] * len(headers)
        for header, is_committed in zip(headers, committed_ones, strict=True):
            digest = NO_RECORDS
            if is_committed:
                digest = in_one_go(digest_batch(piece.data, header, going.offset, going.end))
                if reads is not None:
                    reads.records += digest.records
            digests.append(digest)
        going.add(piece, [(digest, None) for digest in digests])
        between(going)
    going.finish()
    return going.digest


def files_of(log: PartitionLog) -> list[Path]:
    return sorted(Path(log.directory).glob("*.digests"))


@pytest.mark.parametrize("seed", range(12))
def test_any_range_at_any_time_has_the_digest_of_its_committed_records(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    log, cache = new_log(tmp_path, SMALL), DigestCache()
    writer = Writer(log, random)
    for step in range(6):
        writer.write(15)
        if step % 2:
            writer.end_all()
        if step == 4:
            log = writer.log = reopened(log, clean=True)
            cache = DigestCache()
        stable = log.last_stable_offset
        assert scan(log, 0, stable, cache) == expected(log)
        for _ in range(4):
            start, end = sorted((random.randint(0, stable), random.randint(0, stable)))
            assert scan(log, start, end, cache) == expected(log, start, end), (start, end)
            assert scan(log, start, end, cache, fresh=True) == expected(log, start, end), (start, end)
            between = random.randint(start, end)
            assert scan(log, start, between, cache) + scan(log, between, end, cache) == expected(log, start, end)
    assert len(files_of(log)) == len(log.segments) - 1 > 3


def filled(path: Path, seed: int = 1, batches: int = 60) -> PartitionLog:
    log = new_log(path, SMALL)
    writer = Writer(log, Random(seed))
    writer.write(batches)
    writer.end_all(commit=True)
    return log


def test_what_was_read_once_is_not_read_again(tmp_path: Path) -> None:
    log, cache = filled(tmp_path), DigestCache()
    first, again, after_start, fresh = Reads(), Reads(), Reads(), Reads()
    digest = scan(log, cache=cache, reads=first)
    assert first.records == digest.records
    assert scan(log, cache=cache, reads=again) == digest
    assert again.records < 30, "the last block of the active segment is not over"
    later = committed(log)[40].offset + 1
    scan(log, later, cache=cache)
    assert scan(log, cache=cache, reads=again) == digest and again.records < 60, "that is no reason to forget more"
    log = reopened(log, clean=True)
    assert scan(log, reads=after_start) == digest
    active = log.segments.active.base_offset
    assert after_start.records == expected(log, active).records, "sealed segments have their digests beside them"
    assert scan(log, reads=fresh, fresh=True) == digest
    assert fresh.records == digest.records


def test_a_range_that_grows_reads_what_is_new(tmp_path: Path) -> None:
    """A night after the other: the second begins where the first ended, somewhere within a block."""
    log, cache = filled(tmp_path), DigestCache()
    end = log.last_stable_offset
    scan(log, 0, end // 2 + 1, cache)
    scan(log, end // 2 + 1, end, cache)
    reads = Reads()
    assert scan(log, cache=cache, reads=reads) == expected(log)
    assert reads.records < 100, "the block in which one ended and the other began"
    before = reads.records
    scan(log, cache=cache, reads=reads)
    assert reads.records - before < 30, "the last block of the active segment is not over"


def test_what_is_open_and_what_was_aborted_is_left_out(tmp_path: Path) -> None:
    log, cache = new_log(tmp_path, SMALL), DigestCache()
    writer = Writer(log, Random(3))
    append(log, build_batch([NewRecord(b"k", b"v", NOW_MS)]))
    fields = {"producer_id": 5, "producer_epoch": 0, "attributes": TRANSACTIONAL}
    append(log, build_batch([NewRecord(b"a", b"1", NOW_MS)], base_sequence=0, **fields))
    append(log, build_batch([NewRecord(b"k", b"w", NOW_MS)]))
    log.set_high_watermark(log.log_end_offset)
    assert (log.last_stable_offset, scan(log, cache=cache).records) == (1, 1)
    writer.open[5] = None
    writer.end_all(commit=False)
    assert (scan(log, cache=cache).records, scan(log, cache=cache)) == (2, expected(log))
    append(log, build_batch([NewRecord(b"a", b"2", NOW_MS)], base_sequence=1, **fields))
    writer.open[5] = None
    writer.end_all(commit=True)
    digest = scan(log, cache=cache)
    assert (digest.records, digest.first_offset, digest.last_offset, digest) == (3, 0, 4, expected(log))


def test_nothing_is_kept_of_records_that_were_cut(tmp_path: Path) -> None:
    log, cache = filled(tmp_path), DigestCache()
    scan(log, cache=cache)
    middle = log.segments[2].base_offset + 3
    log.truncate_to(middle)
    assert len(files_of(log)) == 2
    writer = Writer(log, Random(99))
    writer.sequences = {}
    for _ in range(40):
        append(log, build_batch([NewRecord(b"other", writer.random.randbytes(50), NOW_MS)] * 2))
    log.set_high_watermark(log.log_end_offset)
    assert scan(log, cache=cache) == expected(log)
    assert scan(reopened(log, clean=True)) == expected(log)


def test_a_log_that_is_cut_between_two_pieces(tmp_path: Path) -> None:
    """Where other batches lie now, of other lengths, what follows is found again by its offset."""
    log, cache = new_log(tmp_path, SMALL), DigestCache()
    for number in range(60):
        append(log, build_batch([NewRecord(b"k", b"v" * (number % 50), NOW_MS)]))
    log.set_high_watermark(log.log_end_offset)
    before = expected(log, 0, 60)
    seen: list[int] = []

    def cut(going: RangeScan) -> None:
        if going.offset > 5 and not seen:
            seen.append(going.offset)
            log.truncate_to(2)
            while log.log_end_offset < 60:
                append(log, build_batch([NewRecord(b"other", b"w" * (log.log_end_offset % 7), NOW_MS)]))
            log.set_high_watermark(60)

    found = scan(log, 0, 60, cache, between=cut)
    (offset,) = seen
    rest = expected(log, offset, 60)
    assert (found.records, rest.records, before.records) == (60, 60 - offset, 60)
    assert scan(log, offset, 60, DigestCache()) == rest
    assert found == before_part(before, tmp_path / "again", offset) + rest
    assert scan(log, cache=cache) == expected(log)


def before_part(whole: RangeDigest, path: Path, end: int) -> RangeDigest:
    """The digest of the first records of the log as it was before it was cut."""
    log = new_log(path, SMALL)
    for number in range(60):
        append(log, build_batch([NewRecord(b"k", b"v" * (number % 50), NOW_MS)]))
    log.set_high_watermark(log.log_end_offset)
    assert expected(log) == whole
    return expected(log, 0, end)


def test_a_log_that_is_compacted_between_two_pieces(tmp_path: Path) -> None:
    config = TopicConfig(cleanup_policy=("compact",), segment_bytes=1500, index_interval_bytes=100)
    log, cache = new_log(tmp_path, config), DigestCache()
    for number in range(80):
        append(log, build_batch([NewRecord(b"k%d" % (number % 7), b"%d" % number * 9, NOW_MS)]))
    log.roll(NOW_MS)
    log.set_high_watermark(log.log_end_offset)
    first, seen = expected(log, 0, 20), []

    def clean(going: RangeScan) -> None:
        if going.offset >= 20 and not seen:
            seen.append((going.offset, going.digest))
            compact(log)

    found = scan(log, cache=cache, between=clean)
    ((offset, digest),) = seen
    assert digest.records == offset >= first.records == 20
    assert found == digest + expected(log, offset) and found.records == offset + 7
    assert scan(log, cache=cache) == expected(log)


def test_retention_and_deletion_take_the_files_along(tmp_path: Path) -> None:
    log, cache = filled(tmp_path), DigestCache()
    scan(log, cache=cache)
    before = len(files_of(log))
    log.config = TopicConfig(segment_bytes=1500, index_interval_bytes=100, retention_bytes=3000)
    gone = log.delete_old_segments(NOW_MS)
    assert gone > 1 and len(files_of(log)) == before - gone
    assert scan(log, log.log_start_offset, cache=cache) == expected(log)
    with pytest.raises(KafkaError) as caught:
        scan(log, 0, cache=cache)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.delete_records(log.log_start_offset + 5)
    assert scan(log, log.log_start_offset, cache=cache) == expected(log)
    log.local.delete_due_files(NOW_MS + DAY_MS)
    log.truncate_fully_and_start_at(500)
    assert not files_of(log) and not list(Path(log.directory).glob("*.deleted"))


def test_after_a_compaction_the_records_that_are_left_count(tmp_path: Path) -> None:
    config = TopicConfig(cleanup_policy=("compact",), segment_bytes=1500, index_interval_bytes=100)
    log, cache = new_log(tmp_path, config), DigestCache()
    for number in range(80):
        append(log, build_batch([NewRecord(b"k%d" % (number % 7), b"%d" % number * 9, NOW_MS)] * 2))
    log.roll(NOW_MS)
    log.set_high_watermark(log.log_end_offset)
    before = scan(log, cache=cache)
    assert before == expected(log) and before.records == 160
    compact(log)
    after = scan(log, cache=cache)
    assert after == expected(log) and after.records == 7
    log = reopened(log, clean=True)
    assert scan(log) == after


def test_the_file_of_a_log_that_was_put_in_its_place_is_not_believed(tmp_path: Path) -> None:
    """Not even one of the same size, with the same time of modification."""
    log = filled(tmp_path / "one")
    other = filled(tmp_path / "two")
    digest = scan(log)
    scan(other)
    assert files_of(log)
    log.close()
    path = Path(log.segments[0].path)
    status = path.stat()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    reads = Reads()
    assert scan(reopened(log, clean=False), reads=reads) == digest
    assert reads.records > expected(log, log.segments.active.base_offset).records


def damaged(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[:-1]
    yield content + b"\0"
    for position in (0, 5, 13, 20, 30, 37, 41, 45, 60, 80, 100, len(content) - 1):
        yield bytes([*content[:position], content[position] ^ 1, *content[position + 1 :]])


def test_a_damaged_file_is_not_believed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    digest = scan(log)
    log = reopened(log, clean=True)
    (path, *_) = files_of(log)
    content, size = path.read_bytes(), log.segments[0].size
    version = log.log_directory.disk.status(log.segments[0].path).version
    assert len(decode_blocks(content, size, version)) > 1
    for other in damaged(content):
        assert decode_blocks(other, size, version) == {}
        path.write_bytes(other)
        reads = Reads()
        assert scan(reopened(log, clean=False), reads=reads) == digest
        assert reads.records > 0
    assert decode_blocks(content, size + 1, version) == {}
    assert decode_blocks(content, size, (version[0], version[1], version[2] + 1)) == {}


def test_blocks_that_contradict_each_other_are_not_believed() -> None:
    version = (1, 2, 3)
    fine = {0: DigestBlock(0, 300, 5, RangeDigest(1, 0, 0, 7, 7, 1, 1)), 1: DigestBlock(500, 600, 9, NO_RECORDS)}
    assert decode_blocks(encode_blocks(fine, 600, version), 600, version) == fine
    for wrong in (
        {0: fine[0], 1: DigestBlock(200, 600, 9, NO_RECORDS)},
        {0: fine[0], 1: DigestBlock(500, 601, 9, NO_RECORDS)},
        {0: fine[0], 1: DigestBlock(500, 600, 4, NO_RECORDS)},
        {0: DigestBlock(0, 0, 5, NO_RECORDS)},
        {0: DigestBlock(0, 100, 5, NO_RECORDS), 1: DigestBlock(100, 300, 6, NO_RECORDS)},
    ):
        assert decode_blocks(encode_blocks(wrong, 600, version), 600, version) == {}


def test_a_full_disk_keeps_nothing_from_being_told(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = new_log(tmp_path, SMALL, disk)
    writer = Writer(log, Random(1))
    writer.write(60)
    writer.end_all(commit=True)
    disk.room = 0
    assert scan(log) == expected(log) and not files_of(log)
    assert log.log_directory.offline_reason is None


def test_damaged_records_are_told_and_never_passed_over(tmp_path: Path) -> None:
    log = filled(tmp_path)
    segment = log.segments[1]
    segment.disk.open(segment.path).write_at(8, [b"\x7f\xff\xff\xff"])
    with pytest.raises(KafkaError, match="no batch at position 0") as caught:
        scan(log)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_log_with_digests_beside_it_is_summarized(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    assert summarize_log(log, None) is not None
    log.summarized_as = 1
    scan(log)
    assert files_of(log) and summarize_log(log, None) is not None
    assert log.summarized_as is None, "its directory has changed since"


def test_a_file_without_its_segment_is_removed_at_the_next_start(tmp_path: Path) -> None:
    log = filled(tmp_path)
    stray = Path(log.directory, f"{99999:020d}.digests")
    stray.write_bytes(b"x")
    scan(log)
    kept = files_of(log)
    reopened(log, clean=True)
    assert files_of(log) == [each for each in kept if each != stray]


def test_digests_in_memory_are_bounded(tmp_path: Path) -> None:
    log, cache = filled(tmp_path), DigestCache(segments_max=2)
    digest = scan(log, cache=cache)
    assert sum(each.digests is not None for each in log.segments) <= 2
    assert scan(log, cache=cache) == digest
