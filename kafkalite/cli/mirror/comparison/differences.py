"""Where the records of source and target differ: digests of ranges are compared, and what differs is halved until its place is known. Pure.

A copy has the records at the offsets that they have in the source, with their timestamps, and a digest says nothing of batches and
leader epochs: so equal ranges have equal digests, whichever of the two clusters made the copy.

Digests of ranges that follow each other add up, so of two halves only the lower one is asked for. Comparisons have a bound: where more
would be needed, what is left is reported as it is known by then.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final, NamedTuple, TypeAlias

from kafkalite.cli.migrate.digests import split_range
from kafkalite.cli.output import format_count

CHUNK_OFFSETS: Final = 1 << 20
"""Offsets whose digest is asked for at first. Its bounds are multiples of this."""

COMPARISONS_MAX: Final = 256
"""Of each partition, beside those of its chunks: some ten differences are found to the offset."""

_MODULUS: Final = 1 << 128


class Digest(NamedTuple):
    """The records of a range on one side; first and last offset are None without any, and where they are not known."""

    records: int
    content_bytes: int
    fingerprint: int
    first_offset: int | None = None
    last_offset: int | None = None

    def is_same(self, other: Digest) -> bool:
        """True if both are digests of the same records."""
        return self[:3] == other[:3]

    def __sub__(self, part: Digest) -> Digest:
        """Return the digest of the others, if `part` is that of some of the records."""
        fingerprint = (self.fingerprint - part.fingerprint) % _MODULUS
        return Digest(self.records - part.records, self.content_bytes - part.content_bytes, fingerprint)


class Pair(NamedTuple):
    """The digests of the same range in source and target."""

    source: Digest
    target: Digest

    @property
    def is_equal(self) -> bool:
        return self.source.is_same(self.target)

    @property
    def is_one_sided(self) -> bool:
        """True if only one side has records."""
        return not self.source.records or not self.target.records

    @property
    def is_narrowed(self) -> bool:
        """True if only one side has records, and it is known where."""
        return self.is_one_sided and any(each.first_offset is not None for each in self)

    @property
    def is_possible(self) -> bool:
        """False for what is left of a range that was changed while it was compared, by retention or compaction."""
        return min(self.source.records, self.target.records, self.source.content_bytes, self.target.content_bytes) >= 0


class Difference(NamedTuple):
    """Offsets `start` to before `end`, in which the sides have so many records, and not the same ones. `is_change` says that both have a
    record at each of these offsets that they have any at, and another one, which no compaction explains.
    """

    start: int
    end: int
    source: int
    target: int
    is_change: bool = False

    @property
    def problem(self) -> str:
        """Return what is wrong, in words."""
        if not self.target:
            return f"{format_count(self.source, 'record')} missing in the target"
        if not self.source:
            return f"{format_count(self.target, 'record')} in the target only"
        if self.source == self.target:
            return f"{format_count(self.source, 'record')} with other contents"
        return f"{format_count(self.source, 'record')} in the source, {self.target} in the target"


class _Leaf(NamedTuple):
    """A range that was not divided any more, and how it differs; None where neither side has a record."""

    start: int
    end: int
    difference: Difference | None


Search: TypeAlias = Generator[tuple[int, int], Pair, list[Difference]]
"""Yields ranges, is sent their digests, and returns the differences."""


def search_differences(start: int, end: int, comparisons_max: int = COMPARISONS_MAX) -> Search:
    """Find where the sides differ between two offsets, in order."""
    leaves: list[_Leaf] = []
    left = comparisons_max
    for first, after in split_range(start, end, CHUNK_OFFSETS):
        some, left = yield from _search_chunk(first, after, left)
        leaves += some
    return _merge(leaves)


def _search_chunk(first: int, after: int, left: int) -> Generator[tuple[int, int], Pair, tuple[list[_Leaf], int]]:
    """Return the leaves of a chunk, and how many of the comparisons are left."""
    leaves = []
    waiting = [(first, after, (yield first, after))]
    while waiting:
        start, end, pair = waiting.pop()
        if pair.is_equal:
            leaves += [] if pair.source.records else [_Leaf(start, end, None)]
        elif end - start == 1 or left == 0 or pair.is_narrowed:
            leaves.append(_Leaf(start, end, _describe(start, end, pair)))
        elif pair.is_one_sided or not pair.is_possible:
            left -= 1
            waiting.append((start, end, (yield start, end)))
        else:
            left -= 1
            middle = (start + end) // 2
            lower = yield start, middle
            upper = Pair(pair.source - lower.source, pair.target - lower.target)
            waiting += [(middle, end, upper), (start, middle, lower)]
    return leaves, left


def _describe(start: int, end: int, pair: Pair) -> Difference:
    """Return a difference; where only one side has records, and they are known, from the first of them to the last."""
    counts = pair.source.records, pair.target.records
    if not pair.is_narrowed:
        return Difference(start, end, *counts, is_change=end - start == 1 and counts == (1, 1))
    firsts = [each.first_offset for each in pair if each.first_offset is not None]
    lasts = [each.last_offset for each in pair if each.last_offset is not None]
    return Difference(min(firsts), max(lasts) + 1, *counts)


def _merge(leaves: Iterable[_Leaf]) -> list[Difference]:
    """Return the differences; those of the same kind with no equal records between them are one."""
    merged: list[Difference] = []
    reached = None
    for start, end, each in leaves:
        if each is not None:
            last = merged[-1] if merged else None
            if last is not None and reached == start and _kind_of(last) == _kind_of(each):
                counts = last.source + each.source, last.target + each.target
                merged[-1] = Difference(last.start, each.end, *counts, last.is_change)
            else:
                merged.append(each)
        if each is not None or reached == start:
            reached = end
    return merged


def _kind_of(each: Difference) -> tuple[bool, bool, bool]:
    return bool(each.source), bool(each.target), each.is_change
