"""Batches that were lately appended are found without a read of the log, and others all the same."""

from __future__ import annotations

from pathlib import Path

from kafkalite.config.topic import TopicConfig
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.open_files import OpenFiles
from tests.case import case
from tests.unit.storage.logs import append, batch, new_log


def find_place(log: PartitionLog, offset: int) -> tuple[int, int] | None:
    """(base offset of the segment, position) of a batch."""
    place = log.segments.place_of(offset)
    return None if place is None else (place[0].base_offset, place[1])


def test_places_are_those_of_the_indexes(tmp_path: Path) -> None:
    counts = [1, 3, 1, 2] * 60
    log = new_log(tmp_path, TopicConfig(segment_bytes=100 * len(batch())))
    for count in counts:
        append(log, batch(count))
    remembered = [find_place(log, offset) for offset in range(-1, log.log_end_offset + 2)]
    assert len(log.segments) > 1
    log.segments.free_idle()
    assert [find_place(log, offset) for offset in range(-1, log.log_end_offset + 2)] == remembered
    for cut in (log.log_end_offset - 5, log.segments.active.base_offset, 7):
        with case(f"cut at {cut}"):
            append(log, batch(2))
            log.truncate_to(cut)
            assert find_place(log, log.log_end_offset) is None
            append(log, batch(2))
            end = log.log_end_offset
            assert find_place(log, end - 1) == find_place(log, end - 2)
            assert find_place(log, end) is None


def test_the_last_batches_are_found_without_a_read(tmp_path: Path, monkeypatch) -> None:
    reads: list[str] = []
    read = OpenFiles.read
    monkeypatch.setattr(OpenFiles, "read", lambda self, path, *place: reads.append(path) or read(self, path, *place))
    log = new_log(tmp_path)
    size = len(batch())
    for _ in range(300):
        append(log)
    assert [find_place(log, offset) for offset in range(240, 300)] == [(0, offset * size) for offset in range(240, 300)]
    assert not reads
    assert find_place(log, 1) == (0, size) and reads
