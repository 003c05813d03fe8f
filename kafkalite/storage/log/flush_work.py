"""The part of a log that is on the medium, and the writes that make it safe up to an offset.

Work may run on another thread while the log goes on, so it counts only for what it has seen: not for records that were written in the place
of truncated ones meanwhile, nor for a file that was written again.

A truncation has to be flushed like a write, or a power failure undoes it:

1. A follower has records 4 to 6 of leader epoch 1, which were never committed. It truncates to 4 and fetches 4 to 6 of epoch 2.
2. These are committed, and a checkpoint says so, durably: high watermark 7.
3. Power fails. The file has its former content again: records of epoch 1, below a high watermark of 7.

So truncations are flushed soon, and until then a checkpoint has the high watermark of before, which holds for both contents.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.storage.disk import Disk

if TYPE_CHECKING:
    from kafkalite.storage.segments.segment_list import SegmentList


class FlushWork(NamedTuple):
    """Files to bring to the medium so that all below `up_to` is safe; plain data, so `run` may be called on any thread."""

    disk: Disk
    paths: tuple[str, ...]
    up_to: int
    truncations: int
    """Number of truncations of the log so far."""
    last_note: int
    """The newest of the notes about files that the work does justice to."""

    def run(self) -> None:
        """Sync the files; one that was removed meanwhile, by retention or with its topic, is passed over. Raises OSError."""
        for path in self.paths:
            try:
                self.disk.sync(path)
            except FileNotFoundError:
                pass


class FlushState:
    """The recovery point of a log in `directory`, below which all is on the medium, and the files written beside the records."""

    __slots__ = (
        "_directory",
        "_disk",
        "_notes",
        "_truncations",
        "_unflushed_since_ms",
        "_unsynced",
        "_watermark_limit",
        "recovery_point",
    )

    def __init__(self, disk: Disk, directory: str, recovery_point: int) -> None:
        self.recovery_point = recovery_point
        self._disk = disk
        self._directory = directory
        self._unsynced: tuple[str, ...] = ()
        """The names of the files, in the order of their latest notes."""
        self._notes = self._truncations = 0
        self._watermark_limit: int | None = None
        """High watermark before the truncations that a power failure may still undo; None where those bring back nothing uncommitted."""
        self._unflushed_since_ms: int | None = None

    def note_file(self, name: str) -> None:
        """Note that a file in the directory was written, so that the next flush brings it to the medium too."""
        self._notes += 1
        self._unsynced = (*(each for each in self._unsynced if each != name), name)

    def note_truncation(self, end_before: int, high_watermark_before: int, end: int) -> None:
        """Note that the log ends at `end` now: work under way has not seen what is appended there next."""
        self._truncations += 1
        self.recovery_point = min(self.recovery_point, end)
        limit = min(high_watermark_before, end)
        if limit < end_before and (self._watermark_limit is None or limit < self._watermark_limit):
            self._watermark_limit = limit

    def limit_high_watermark(self, high_watermark: int) -> int:
        """Return the high watermark that still holds when a power failure undoes truncations."""
        limit = self._watermark_limit
        return high_watermark if limit is None or high_watermark < limit else limit

    def is_flushed(self, log_end_offset: int) -> bool:
        """True if everything is on the medium already."""
        return self.recovery_point >= log_end_offset and not self._unsynced and self._watermark_limit is None

    def is_blank(self, log_end_offset: int) -> bool:
        """True if there never was a record, as far as this process knows; the next controller says all that its files say."""
        return not log_end_offset and not self._truncations

    def make_work(self, segments: SegmentList, log_end_offset: int, *, moves_recovery_point: bool = True) -> FlushWork:
        """Return what makes a log safe up to its end: the segments from the recovery point on, and the files noted."""
        has_changed = self.recovery_point < log_end_offset or self._watermark_limit is not None
        unflushed = segments.from_offset(self.recovery_point) if has_changed else ()
        noted = (os.path.join(self._directory, name) for name in self._unsynced)
        paths = (*(path for each in unflushed for path in each.paths()), *noted, self._directory)
        up_to = log_end_offset if moves_recovery_point else self.recovery_point
        return FlushWork(self._disk, paths, up_to, self._truncations, self._notes)

    def mark_done(self, work: FlushWork) -> None:
        """Note that `work` ran without an error."""
        self._unflushed_since_ms = None
        later_notes = self._notes - work.last_note
        self._unsynced = self._unsynced[-later_notes:] if later_notes else ()
        if work.truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, work.up_to)
            self._watermark_limit = None

    def due_ms(self, log_end_offset: int, now_ms: int, flush_ms: int) -> int | None:
        """Return when records are left unflushed for flush.ms, as far as calls of this have seen; None where all are flushed.

        It is 0 after a truncation, which is flushed as soon as possible.
        """
        if self._watermark_limit is not None:
            return 0
        if self.recovery_point >= log_end_offset:
            self._unflushed_since_ms = None
            return None
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        return self._unflushed_since_ms + flush_ms
