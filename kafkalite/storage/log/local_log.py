"""The files of one log (Kafka's LocalLog): its segments, of which the last one is active, and former ones that are queued for deletion.

Readers may still be at a file that a log gave up, so it is renamed to `.deleted` and stays for file.delete.delay.ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from kafkalite.config.topic import TopicConfig
from kafkalite.storage.cleaning.cleaning import CleanedSegment
from kafkalite.storage.log.segment_swap import swap_in
from kafkalite.storage.log_directory import LogDirectory, uses_disk
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.segment_list import SegmentList


class LocalLog:
    """The segments in `directory` and the files queued for deletion there; what offsets mean is up to `PartitionLog`, which owns it."""

    __slots__ = ("_rng", "_to_delete", "directory", "log_directory", "segments")

    def __init__(self, log_directory: LogDirectory, directory: str, segments: Sequence[Segment], rng: Random) -> None:
        self.log_directory = log_directory
        self.directory = directory
        self.segments = SegmentList(segments)
        self._rng = rng
        self._to_delete: deque[tuple[int, Sequence[str]]] | None = None
        """(when they are due, files), oldest first; None if there are none, because an empty deque is large."""

    def roll(self, base_offset: int, config: TopicConfig, now_ms: int) -> Segment:
        """Make a new segment the active one; a former active one that is empty is replaced. Raises OSError."""
        former = self.segments.active
        jitter_ms = self._rng.randrange(min(limit, config.segment_ms)) if (limit := config.segment_jitter_ms) else 0
        segment = Segment.create(self.log_directory.files, self.directory, base_offset, now_ms, jitter_ms)
        if not former.size and former.base_offset != base_offset:
            former.remove()
        self.segments.add(segment)
        return segment

    def replace(self, cleaned: CleanedSegment, now_ms: int, delay_ms: int) -> bool:
        """Put a compacted segment in the place of its sources; False when they are not as they were when it was made. Raises OSError."""
        bases = {source.base_offset: source.size for source in cleaned.sources}
        old = [each for each in self.segments if bases.get(each.base_offset) == each.size]
        if len(old) != len(bases) or not self.segments.is_sealed_run(old):
            return False
        new, deleted_files = swap_in(self.log_directory.files, self.directory, old, cleaned, now_ms)
        self.segments.replace_run(old, new)
        self._queue_files(deleted_files, now_ms + delay_ms)
        return True

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Remove all segments and begin an empty one at `offset`. Raises OSError."""
        self.segments.remove_files()
        self.segments.replace_all([Segment.create(self.log_directory.files, self.directory, offset, now_ms)])

    def queue_for_deletion(self, segments: Sequence[Segment], due_ms: int) -> None:
        """Rename the files of segments that are in the log no more; they are removed at `due_ms`. Raises OSError."""
        for segment in segments:
            self._queue_files(segment.mark_deleted(), due_ms)

    def _queue_files(self, paths: Sequence[str], due_ms: int) -> None:
        if self._to_delete is None:
            self._to_delete = deque()
        self._to_delete.append((due_ms, paths))

    @property
    def removal_due_ms(self) -> int | None:
        """Return when the first file queued for deletion is to be removed; None without any."""
        return self._to_delete[0][0] if self._to_delete else None

    @uses_disk
    def delete_due_files(self, now_ms: int) -> None:
        """Remove the files that were queued for deletion file.delete.delay.ms ago."""
        while self._to_delete and self._to_delete[0][0] <= now_ms:
            for path in self._to_delete.popleft()[1]:
                self.log_directory.disk.remove(path)
        if not self._to_delete:
            self._to_delete = None

    def close_files(self) -> None:
        """Close all files, because the directory is about to be renamed or removed."""
        for segment in self.segments:
            segment.close_files()
