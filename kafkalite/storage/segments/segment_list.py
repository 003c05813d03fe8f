"""The segments of one log in the order of offsets: which one holds an offset, and changes at both ends.

There is always at least one segment; the last one is active, all others are sealed. Where batches begin that were lately
appended is remembered, because that is where readers at the log's end, and high watermarks, mostly point.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from kafkalite.errors import ensure
from kafkalite.failpoints import reach
from kafkalite.storage.segments.segment import Segment

_PLACES_KEPT: Final = 64
_base_offset = attrgetter("base_offset")
_NO_PLACES: Final[dict[int, tuple[Segment, int]]] = {}
"""The places of all logs to which nothing was appended lately; always empty."""


class SegmentList:
    """The segments of a log. It opens and removes none: callers do that."""

    __slots__ = ("_places", "_segments")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._places = _NO_PLACES
        self._segments: tuple[Segment, ...] = ()
        self.replace_all(segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def first_base_offset(self) -> int:
        return self._segments[0].base_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def ends(self, log_end_offset: int) -> list[int]:
        """Return for each segment the base offset of the next one, for the active one the log end offset."""
        return [*(segment.base_offset for segment in self._segments[1:]), log_end_offset]

    def from_offset(self, offset: int) -> Sequence[Segment]:
        """Return the segment that holds `offset` and those behind it."""
        return self._segments[self._number_of(offset) :]

    def place_of(self, offset: int) -> tuple[Segment, int] | None:
        """Return (segment, position) of the batch that holds `offset`, or of the first one behind it; None when there is none."""
        place = self._places.get(offset)
        if place is not None:
            return place
        for number in range(self._number_of(offset), len(self._segments)):
            segment = self._segments[number]
            position = segment.find(offset)
            if position is not None:
                return segment, position
        return None

    def remember(self, base_offset: int, segment: Segment, position: int) -> None:
        """Remember that a batch from `base_offset` on was appended there."""
        places = self._places
        if not places:
            places = self._places = {}
        places[base_offset] = segment, position
        if len(places) > _PLACES_KEPT:
            del places[next(iter(places))]

    def free_idle(self) -> None:
        """Free what is kept for a log that grows: places of batches, open files of the active segment. All is found again, but slower."""
        if self._places:  # else nothing was appended since
            self._places = _NO_PLACES
            self.active.close_files()

    def add(self, segment: Segment) -> None:
        """Make `segment` the active one; an empty segment that was active before drops out of the list."""
        kept = self._segments if self.active.size else self._segments[:-1]
        ensure(not kept or segment.base_offset > kept[-1].base_offset, f"{segment} is not behind all others")
        self._segments = (*kept, segment)

    def drop_first(self, count: int) -> Sequence[Segment]:
        """Take the oldest `count` segments out; at least one stays."""
        ensure(count < len(self._segments), "a log keeps at least one segment")
        gone = self._segments[:count]
        self.replace_all(self._segments[count:])
        return gone

    def truncate_to(self, offset: int) -> int:
        """Remove the batch that holds `offset` and all behind it, with their files; returns where the segments end now. Raises OSError."""
        reach("log.truncating")
        kept = self._number_of(offset) + 1
        gone = self._segments[kept:]
        self.replace_all(self._segments[:kept])
        for segment in reversed(gone):
            segment.remove()
        return self.active.truncate_to(offset)

    def remove_files(self) -> None:
        """Remove the files of all segments, the last one first: a stop in between leaves a log that is shorter. Raises OSError."""
        for segment in reversed(self._segments):
            segment.remove()

    def is_sealed_run(self, segments: Sequence[Segment]) -> bool:
        """True if these segments lie in the list one behind the other, none of them the active one."""
        number = self._number_of(segments[0].base_offset)
        return self._segments[number : number + len(segments)] == tuple(segments) and segments[-1] is not self.active

    def replace_run(self, old: Sequence[Segment], new: Segment) -> None:
        """Put `new` in the place of `old`, a sealed run."""
        number = self._number_of(old[0].base_offset)
        self.replace_all([*self._segments[:number], new, *self._segments[number + len(old) :]])

    def replace_all(self, segments: Sequence[Segment]) -> None:
        ensure(segments, "a log has at least one segment")
        self._segments = tuple(segments)
        self._places = _NO_PLACES

    def _number_of(self, offset: int) -> int:
        """Return the number of the last segment that begins up to `offset`; the first one for offsets below all."""
        return max(0, bisect_right(self._segments, offset, key=_base_offset) - 1)
