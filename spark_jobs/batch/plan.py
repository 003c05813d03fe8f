"""What a run reads: pure decisions from the log's bounds, the time index's answers and what earlier runs have done.

A run takes **the records of its date** that the log holds when the run is planned. Timestamps need not be in order, so they may lie
anywhere from the first offset whose timestamp is not before the date (the time index tells, everything before it is older) to the log's
end. The ends are pinned in the plan (`coverage`): what comes later is not the run's any more, however often it is repeated.

**Late records**, those of a date that was archived before they came, are taken by the next run of any date: for each date that is archived
the runs together know up to which offset its records are (`frontiers`), and a run takes along what lies between that and its own pinned
end. So each record is in exactly one run of its date; a run that is repeated reads the same, and its late records never mix with those of
the date's own run.

**Undated records** have a timestamp that is on no date: none (-1), or one beyond the years 1 to 9999, as when a producer writes
nanoseconds. They are dead letters of the first run that looks at their offsets: a plan says where it takes them (`undated`), which is
where no finished run has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import TypeAlias

from spark_jobs.batch.window import list_days

Offsets: TypeAlias = Mapping[int, int]
"""An offset of each partition, by the partition's number."""

Ranges: TypeAlias = Mapping[int, tuple[int, int]]
"""First offset and the one after the last, by the partition's number."""

Spans: TypeAlias = Mapping[int, tuple[tuple[int, int], ...]]
"""Any number of ranges of each partition, in order and apart."""


@dataclass(frozen=True, slots=True)
class LateDates:
    """Dates `first` to `last`, archived before, of which the records from the offsets `start` on are not in the archive yet."""

    first: date
    last: date
    start: Offsets


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run: a topic, a date, where its records can be (`ranges`), the pinned ends (`coverage`), late records to take along.

    `undated` is where it takes undated records.
    `lost` are offsets that retention took before anybody read them, where the user accepts that.
    `record_bytes` are the average bytes of an offset when the run was planned, by which tasks are cut (`spark_jobs.tasks`), where known.
    """

    topic: str
    topic_id: str
    date: date
    ranges: Ranges
    coverage: Offsets
    late: tuple[LateDates, ...] = ()
    lost: Ranges = field(default_factory=dict)
    undated: Spans = field(default_factory=dict)
    record_bytes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """A topic's first offsets and pinned ends when a run is planned."""

    topic: str
    topic_id: str
    begin: Offsets
    end: Offsets


def frontiers(done: Iterable[RunPlan]) -> dict[date, dict[int, int]]:
    """Return for each date with a finished run the offsets up to which its records are archived, by all runs together."""
    plans = list(done)
    found: dict[date, dict[int, int]] = {plan.date: dict(plan.coverage) for plan in plans}
    for plan in plans:
        for group in plan.late:
            for day in list_days(group.first, group.last):
                if day in found:
                    _raise_to(found[day], plan.coverage)
    return found


def _raise_to(offsets: dict[int, int], others: Offsets) -> None:
    for partition, offset in others.items():
        offsets[partition] = max(offset, offsets.get(partition, 0))


def late_dates(known: Mapping[date, Offsets], bounds: LogBounds, excluded: Iterable[date]) -> tuple[LateDates, ...]:
    """Return what a run that is planned with `bounds` takes along; consecutive dates with the same offsets are one group."""
    left_out = set(excluded)
    groups: list[LateDates] = []
    for day in sorted(set(known) - left_out):
        start = {
            partition: max(known[day].get(partition, 0), bounds.begin.get(partition, 0))
            for partition, end in bounds.end.items()
        }
        if all(offset >= bounds.end[partition] for partition, offset in start.items()):
            continue
        last = groups[-1] if groups else None
        if last is not None and last.last + timedelta(days=1) == day and last.start == start:
            groups[-1] = replace(last, last=day)
        else:
            groups.append(LateDates(day, day, start))
    return tuple(groups)


def plan_runs(bounds: LogBounds, starts: Mapping[date, Offsets]) -> list[RunPlan]:
    """Return a plan for each date of `starts`, which gives the first offsets not older than the date.

    A partition without so young a record has no offset in `starts`.
    """
    plans = []
    for day in sorted(starts):
        ranges = {
            partition: (min(starts[day].get(partition, end), end), end) for partition, end in sorted(bounds.end.items())
        }
        plans.append(RunPlan(bounds.topic, bounds.topic_id, day, ranges, dict(bounds.end)))
    return plans


def take_late(plans: Sequence[RunPlan], known: Mapping[date, Offsets], begin: Offsets) -> list[RunPlan]:
    """Return the plans of dates that are not archived, made together: the first of them takes along what came late for those that are."""
    first, *others = plans
    pinned = LogBounds(first.topic, first.topic_id, begin, first.coverage)
    late = late_dates(known, pinned, [plan.date for plan in plans])
    return [replace(first, late=late), *(replace(plan, late=()) for plan in others)]


def take_undated(plan: RunPlan, done: Iterable[RunPlan], begin: Offsets) -> RunPlan:
    """Return the plan of a date that is not archived, which takes the undated records that no run of `done` has.

    Those before the plan's own records count as soon as there is a run: they came after what it has looked at.
    """
    finished = list(done)
    reached = progress(finished)
    found = {}
    for partition, (start, _) in plan.ranges.items():
        first = max(min(start, reached.get(partition, start)), begin.get(partition, 0))
        if first < plan.coverage[partition]:
            found[partition] = ((first, plan.coverage[partition]),)
    return leave_undated(replace(plan, undated=found), finished)


def leave_undated(plan: RunPlan, done: Iterable[RunPlan]) -> RunPlan:
    """Return the plan without the offsets where runs of `done` have taken undated records."""
    found = {partition: list(spans) for partition, spans in plan.undated.items()}
    for other in done:
        for partition, spans in other.undated.items():
            for span in spans:
                found[partition] = [left for each in found.get(partition, ()) for left in _without(each, span)]
    return replace(plan, undated={partition: tuple(spans) for partition, spans in sorted(found.items()) if spans})


def _without(span: tuple[int, int], other: tuple[int, int]) -> list[tuple[int, int]]:
    (start, end), (first, last) = span, other
    parts = [(start, min(end, first)), (max(start, last), end)] if first < last else [span]
    return [(low, high) for low, high in parts if low < high]


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """The ranges in which the records of a date are, and the undated ones; none of a partition without any."""

    records: Ranges
    undated: Ranges

    def narrow_plan(self, plan: RunPlan) -> RunPlan:
        """Return the plan without offsets that have neither records of its date nor undated ones."""
        ranges = {partition: (start, start) for partition, (start, _) in plan.ranges.items()}
        for partition, (first, last) in self.records.items():
            if partition in ranges:
                start, end = plan.ranges[partition]
                ranges[partition] = max(start, first), min(end, last)
        undated = {}
        for partition, spans in plan.undated.items():
            first, last = self.undated.get(partition, (0, 0))
            cut = tuple(
                (max(start, first), min(end, last)) for start, end in spans if max(start, first) < min(end, last)
            )
            if cut:
                undated[partition] = cut
        return replace(plan, ranges=ranges, undated=undated)


def read_ranges(plans: Sequence[RunPlan]) -> dict[int, tuple[int, int]]:
    """Return the smallest range of each partition that holds all that the plans want; partitions without anything are left out."""
    found: dict[int, tuple[int, int]] = {}
    for plan in plans:
        wanted = [plan.ranges]
        wanted += [{p: (start, plan.coverage[p]) for p, start in group.start.items()} for group in plan.late]
        wanted += [{p: (spans[0][0], spans[-1][1]) for p, spans in plan.undated.items()}]
        for ranges in wanted:
            for partition, (start, end) in ranges.items():
                if start < end:
                    low, high = found.get(partition, (start, end))
                    found[partition] = (min(low, start), max(high, end))
    return dict(sorted(found.items()))


def lost_before_reading(known: Mapping[date, Offsets], begin: Offsets) -> dict[int, tuple[int, int]]:
    """Return the offsets between the newest frontier and the log's beginning: retention took them before any run read them."""
    newest: dict[int, int] = {}
    for offsets in known.values():
        _raise_to(newest, offsets)
    return {p: (offset, begin[p]) for p, offset in sorted(newest.items()) if offset < begin.get(p, 0)}


def lost_of_plan(plan: RunPlan, begin: Offsets) -> dict[int, tuple[int, int]]:
    """Return the offsets of a recorded plan that the log does not have any more."""
    wanted = read_ranges([plan])
    return {p: (start, min(end, begin[p])) for p, (start, end) in wanted.items() if start < begin.get(p, 0)}


def is_newest(plan: RunPlan, others: Iterable[RunPlan]) -> bool:
    """True if no other run has looked further, so that the run may be planned again: nobody took late records after it."""
    return all(offset <= plan.coverage.get(p, 0) for other in others for p, offset in other.coverage.items())


def chunks(plans: Sequence[RunPlan], days: int) -> list[list[RunPlan]]:
    """Return the plans in groups that are read in one go: dates within a span of `days` that were planned together."""
    found: list[list[RunPlan]] = []
    for plan in sorted(plans, key=lambda plan: plan.date):
        group = found[-1] if found else None
        if group and (plan.date - group[0].date).days < days and plan.coverage == group[0].coverage:
            group.append(plan)
        else:
            found.append([plan])
    return found


def same_frontiers(known: Mapping[date, Offsets]) -> list[tuple[list[date], Offsets]]:
    """Return the dates that are archived up to the same offsets, with these."""
    groups: dict[tuple[tuple[int, int], ...], list[date]] = {}
    for day, offsets in known.items():
        groups.setdefault(tuple(sorted(offsets.items())), []).append(day)
    return [(sorted(days), dict(offsets)) for offsets, days in groups.items()]


def progress(done: Iterable[RunPlan]) -> dict[int, int]:
    """Return the offsets that the job's consumer group shows: how far the newest run has looked in each partition."""
    reached: dict[int, int] = {}
    for plan in done:
        _raise_to(reached, plan.coverage)
    return dict(sorted(reached.items()))
