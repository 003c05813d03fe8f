"""What a run's part of the log is, as digests that the ledger keeps, and where an archive or a log differs from them. Pure.

A run takes the records of spans: ranges of offsets, of which only those count that have timestamps within a span of time (`plan`). Their
digests (`Admin.digest_records`) are kept for each *bucket*, the offsets between two multiples of BUCKET_OFFSETS, so that a difference has
a place. What differs is then looked for by halves, as long as the log has the records; the ledger alone knows of a bucket what offsets are
missing where nothing else is, and otherwise where it begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from spark_jobs.batch.plan import Offsets, RunPlan
from spark_jobs.batch.window import find_times

BUCKET_OFFSETS: Final = 1 << 16
_NO_TIMESTAMP: Final = -1
_FIRST_DATED_MS, _AFTER_DATED_MS = -62_135_596_800_000, 253_402_300_800_000
"""The years 1 to 9999: records of other times are undated."""
_LEAST_MS: Final = -(1 << 63)
_MODULUS: Final = 1 << 128
_LISTED: Final = 10


class Span(NamedTuple):
    """Offsets `start` to before `end` of a partition, and of these the records from `since_ms` to before `until_ms` (None: no bound)."""

    partition: int
    start: int
    end: int
    since_ms: int
    until_ms: int | None


class Sum(NamedTuple):
    """How many records, the sum of their hashes modulo 2**128, and their first and last offset (-1 without any)."""

    records: int = 0
    fingerprint: int = 0
    first_offset: int = -1
    last_offset: int = -1

    def __add__(self, other: Sum) -> Sum:  # type: ignore[override]
        if not self.records or not other.records:
            return other if other.records else self
        return Sum(
            self.records + other.records,
            (self.fingerprint + other.fingerprint) % _MODULUS,
            min(self.first_offset, other.first_offset),
            max(self.last_offset, other.last_offset),
        )


@dataclass(frozen=True, slots=True)
class Bucket:
    """A run's records with offsets from `start` to before `end` of a partition; `fingerprint` has 32 hexadecimal digits."""

    partition: int
    start: int
    end: int
    records: int
    first_offset: int
    last_offset: int
    fingerprint: str

    @property
    def sum(self) -> Sum:
        return Sum(self.records, int(self.fingerprint, 16), self.first_offset, self.last_offset)


def spans_of(plan: RunPlan, zone: ZoneInfo) -> list[Span]:
    """Return the spans whose records a run takes: those of its date, late ones, undated ones. No record lies in two of them."""
    day = _times_of_dates(plan.date, plan.date, zone)
    found = [Span(p, start, end, *times) for p, (start, end) in plan.ranges.items() for times in day]
    for group in plan.late:
        days = _times_of_dates(group.first, group.last, zone)
        found += [Span(p, start, plan.coverage[p], *times) for p, start in group.start.items() for times in days]
    undated = ((_LEAST_MS, _FIRST_DATED_MS), (_NO_TIMESTAMP, _NO_TIMESTAMP + 1), (_AFTER_DATED_MS, None))
    found += [
        Span(p, start, end, *times) for p, ranges in plan.undated.items() for start, end in ranges for times in undated
    ]
    return [each for each in found if each.start < each.end]


def _times_of_dates(first: date, last: date, zone: ZoneInfo) -> list[tuple[int, int]]:
    """Return the spans of time of dates, within the years 1 to 9999; -1, of the last millisecond of 1969, stands for no time."""
    parts = [(_FIRST_DATED_MS, _NO_TIMESTAMP), (_NO_TIMESTAMP + 1, _AFTER_DATED_MS)]
    spans = [
        (max(since, begin), min(until, end)) for since, until in find_times(first, last, zone) for begin, end in parts
    ]
    return [(since, until) for since, until in spans if since < until]


def clip_spans(spans: Iterable[Span], begin: Offsets) -> list[Span]:
    """Return the spans without the offsets that the log does not have any more."""
    cut = [each._replace(start=max(each.start, begin.get(each.partition, 0))) for each in spans]
    return [each for each in cut if each.start < each.end]


def within(spans: Iterable[Span], partition: int, start: int, end: int) -> list[Span]:
    """Return the parts of spans that lie between two offsets of a partition."""
    found = [
        each._replace(start=max(each.start, start), end=min(each.end, end))
        for each in spans
        if each.partition == partition
    ]
    return [each for each in found if each.start < each.end]


def align_spans(spans: Iterable[Span]) -> list[tuple[Span, ...]]:
    """Return the spans cut where others of their partition begin or end, those of the same offsets together: so that each offset is asked
    about once, whatever times are wanted there.
    """
    by_partition: dict[int, list[Span]] = {}
    for span in spans:
        by_partition.setdefault(span.partition, []).append(span)
    found = []
    for partition, some in by_partition.items():
        cuts = sorted({offset for each in some for offset in (each.start, each.end)})
        found += [tuple(within(some, partition, start, end)) for start, end in pairwise(cuts)]
    return [group for group in found if group]


def make_buckets(parts: Iterable[tuple[int, int, Sum]]) -> list[Bucket]:
    """Return the buckets that have records, of sums with the partition and an offset in their bucket."""
    totals: dict[tuple[int, int], Sum] = {}
    for partition, offset, found in parts:
        place = bucket_of(partition, offset)
        totals[place] = totals.get(place, Sum()) + found
    return [
        Bucket(p, start, start + BUCKET_OFFSETS, total.records, *total[2:], f"{total.fingerprint:032x}")
        for (p, start), total in sorted(totals.items())
        if total.records
    ]


def bucket_of(partition: int, offset: int) -> tuple[int, int]:
    """Return partition and start of the bucket that holds an offset."""
    return partition, offset - offset % BUCKET_OFFSETS


def differing(ledger: Iterable[Bucket], found: Mapping[tuple[int, int], Sum]) -> list[Bucket]:
    """Return the buckets of the ledger in which something else is found; for those that only `found` has, empty ones."""
    known = {(each.partition, each.start): each for each in ledger}
    for partition, start in found:
        nothing = Bucket(partition, start, start + BUCKET_OFFSETS, 0, -1, -1, f"{0:032x}")
        known.setdefault((partition, start), nothing)
    return [each for place, each in sorted(known.items()) if each.sum != found.get(place, Sum())]


class Rows:
    """The archive's rows of one bucket: the hashes of those at each offset."""

    def __init__(self) -> None:
        self.hashes: dict[int, list[int]] = {}

    def add(self, offset: int, hashed: int) -> None:
        self.hashes.setdefault(offset, []).append(hashed)

    def sum_of(self, start: int, end: int) -> Sum:
        """Return the sum of the rows with offsets from `start` to before `end`."""
        total = Sum()
        for offset, some in self.hashes.items():
            if start <= offset < end:
                total += Sum(len(some), sum(some) % _MODULUS, offset, offset)
        return total

    @property
    def doubled(self) -> list[int]:
        """Return the offsets that more than one row has."""
        return sorted(offset for offset, some in self.hashes.items() if len(some) > 1)


def narrow(bucket: Bucket, rows: Rows, log: Callable[[int, int], Sum]) -> Iterator[tuple[int, str]]:
    """Yield the offsets at which rows differ from what `log` says of two offsets of the bucket, each with what is wrong."""
    waiting = [(bucket.start, bucket.end)]
    while waiting:
        start, end = waiting.pop()
        wanted, found = log(start, end), rows.sum_of(start, end)
        if wanted == found:
            continue
        if end - start > 1:
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
        elif not found.records:
            yield start, "is missing"
        elif not wanted.records:
            yield start, "is not in the log"
        elif found.records > wanted.records:
            yield start, f"is there {found.records} times"
        else:
            yield start, "has other contents"


def explain(bucket: Bucket, rows: Rows) -> str:
    """Return what is wrong with a bucket's rows, as far as the ledger alone tells."""
    if rows.doubled:
        return f"offsets {list_offsets(rows.doubled)} are there more than once"
    count = sum(len(some) for some in rows.hashes.values())
    where = f"among offsets {bucket.start} to {bucket.end - 1}"
    if count < bucket.records:
        lacking = bucket.records - count
        gaps = sorted({*range(bucket.first_offset, bucket.last_offset + 1)} - rows.hashes.keys())
        if len(gaps) == lacking:
            return f"offsets {list_offsets(gaps)} are missing"
        return f"{lacking} of {bucket.records} records are missing, at offsets among {list_offsets(gaps)}"
    if count > bucket.records:
        return f"{count - bucket.records} records more than the run had {where}"
    return f"a record has other contents {where}"


def list_offsets(offsets: Sequence[int]) -> str:
    """Return some offsets as text."""
    more = f" and {len(offsets) - _LISTED} more" if len(offsets) > _LISTED else ""
    return ", ".join(map(str, offsets[:_LISTED])) + more


def group_problems(found: Iterable[tuple[int, str]]) -> list[str]:
    """Return a line for each kind of problem, with its offsets."""
    kinds: dict[str, list[int]] = {}
    for offset, problem in found:
        kinds.setdefault(problem, []).append(offset)
    return [f"offset {list_offsets(offsets)} {problem}" for problem, offsets in kinds.items()]
