"""Facts that tasks count while records pass: hours, lateness, kinds of reasons (`run_facts` says what they are).

A batch costs a few vectorised steps, and rows are looked at one by one only where they are dead letters.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute  # type: ignore[import-untyped]

from spark_jobs.observation.run_facts import LATENESS_BOUNDS_MS, Lateness, RunFacts
from spark_jobs.rows import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS, TIMESTAMP_MS

OTHER_REASONS: Final = "other reasons"
UNDATED: Final = "timestamp: beyond the years 1 to 9999"

_KINDS_MAX: Final = 40
"""Kinds of reasons that a run tells apart: they become labels of a metric."""
_PLACES_MAX: Final = 100_000
"""Runs times hours times partitions of a batch that are counted in an array of that length."""
_HOUR_US: Final = 3_600_000_000
_NO_TIMESTAMP: Final = -1
_EPOCH: Final = date(1970, 1, 1).toordinal()
_KIND_LENGTH: Final = 80
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBER: Final = re.compile(r"(?<![\w-])-?\d[\w.]*")
_WRONG_TYPE: Final = re.compile(r".* is no (\S.*)", re.DOTALL)
_PARTS: Final = ("key", "value")


def reason_kind(reason: str) -> str:
    """Return what reasons of the same kind have in common: the place and the fault, without the record's own values."""
    if reason.startswith("timestamp: "):
        return "timestamp: none" if "has none" in reason else UNDATED
    segments = reason.split(": ")
    count = 1 if segments[0] in _PARTS else 0
    while count < len(segments) - 1 and segments[count].startswith("field "):
        count += 1
    rest = ": ".join(segments[count:])
    wrong_type = _WRONG_TYPE.fullmatch(rest)
    fault = f"no {wrong_type[1]}" if wrong_type else _NUMBER.sub("…", _QUOTED.sub("…", segments[count]))
    return ": ".join([*segments[:count], fault])[:_KIND_LENGTH]


@dataclass(slots=True)
class RecordFacts:
    """Facts of a task's records, or of all tasks' together, by the date of the run that takes them."""

    hours: Counter[tuple[date, int, int]] = field(default_factory=Counter)
    """Good records of the run's own date, by run, hour in ms and partition."""
    lateness: Counter[tuple[date, int]] = field(default_factory=Counter)
    """Records by run and class."""
    lateness_ms: Counter[date] = field(default_factory=Counter)
    latest_ms: dict[date, int] = field(default_factory=dict)
    """The largest lateness."""
    reasons: Counter[tuple[date, str]] = field(default_factory=Counter)

    def update(self, other: RecordFacts) -> None:
        """Add the facts of another task."""
        self.hours.update(other.hours)
        self.lateness.update(other.lateness)
        self.lateness_ms.update(other.lateness_ms)
        for run, latest in other.latest_ms.items():
            self.latest_ms[run] = max(latest, self.latest_ms.get(run, 0))
        self.reasons.update(other.reasons)

    def add_rows(self, batch: pa.RecordBatch, reasons: Sequence[str | None]) -> None:
        """Count a batch's records by hour, and the kinds of the reasons of its dead letters."""
        is_dead = None
        if reasons.count(None) < len(reasons):
            is_dead = pa.array([reason is not None for reason in reasons])
            runs = batch.column("run").filter(is_dead).to_pylist()
            self.add_reasons(zip(runs, (reason for reason in reasons if reason is not None), strict=True))
        chosen = batch.select(["run", "partition", "timestamp"])
        own = pa.compute.fill_null(pa.compute.equal(batch.column("date"), batch.column("run")), False)
        if is_dead is not None:
            own = pa.compute.and_not(own, is_dead)
        if not pa.compute.all(own).as_py():
            chosen = chosen.filter(own)
        if chosen.num_rows:
            self._add_hours(*chosen.columns)

    def _add_hours(self, runs: pa.Array, partitions: pa.Array, times: pa.Array) -> None:
        days, hours = runs.cast(pa.int32()).to_numpy(), np.floor_divide(times.cast(pa.int64()).to_numpy(), _HOUR_US)
        columns = [days, hours, partitions.to_numpy()]
        lowest = [int(column.min()) for column in columns]
        sizes = [int(column.max()) - low + 1 for column, low in zip(columns, lowest, strict=True)]
        found: Iterable[tuple[tuple[int, int, int], int]]
        if math.prod(sizes) <= _PLACES_MAX:
            place = np.zeros(len(days), np.int64)
            for column, low, size in zip(columns, lowest, sizes, strict=True):
                place = place * size + (column - low) if size > 1 else place
            counts = np.bincount(place, minlength=math.prod(sizes)).reshape(sizes)
            found = (
                (
                    (lowest[0] + int(day), lowest[1] + int(hour), lowest[2] + int(partition)),
                    int(counts[day, hour, partition]),
                )
                for day, hour, partition in zip(*np.nonzero(counts), strict=True)
            )
        else:
            found = Counter(zip(*(column.tolist() for column in columns), strict=True)).items()
        for (day, hour, partition), count in found:
            run = date.fromordinal(_EPOCH + day)
            self.hours[run, hour * (_HOUR_US // 1000), partition] += count

    def add_reasons(self, found: Iterable[tuple[date, str]]) -> None:
        """Count pairs of a run and a reason; kinds beyond the first forty are one."""
        for run, reason in found:
            key = run, reason_kind(reason)
            self.reasons[key if key in self.reasons or len(self.reasons) < _KINDS_MAX else (run, OTHER_REASONS)] += 1

    def of_run(self, run: date, zone: str, stages_ms: Mapping[str, int]) -> RunFacts:
        """Return what the ledger keeps of a run."""
        hours: dict[int, dict[int, int]] = {}
        for (day, hour_ms, partition), count in sorted(self.hours.items()):
            if day == run:
                hours.setdefault(hour_ms, {})[partition] = count
        classes = tuple(self.lateness[run, number] for number in range(len(LATENESS_BOUNDS_MS) + 1))
        lateness = Lateness(classes, self.lateness_ms[run], self.latest_ms.get(run, 0))
        return RunFacts(zone, hours, lateness, self.reasons_of(run), stages_ms)

    def reasons_of(self, run: date) -> dict[str, int]:
        """Return the dead letters of a run by kind of reason, the most frequent first; kinds beyond the first forty are one."""
        found = sorted(
            ((reason, count) for (day, reason), count in self.reasons.items() if day == run),
            key=lambda pair: (pair[0] == OTHER_REASONS, -pair[1], pair[0]),
        )
        kept = dict(found[:_KINDS_MAX])
        if rest := sum(count for _, count in found[_KINDS_MAX:]):
            kept[OTHER_REASONS] = kept.get(OTHER_REASONS, 0) + rest
        return kept


class LatenessCount:
    """Counts the lateness of a task's records, batch by batch in the order of the log."""

    def __init__(self, facts: RecordFacts) -> None:
        self._facts = facts
        self._newest_ms: dict[int, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch that still has all rows that were read, TIMESTAMP_MS and `run` among its columns.

        Timestamps that are on no date say nothing of the others, nor do the rows that end ranges.
        """
        times = pa.compute.fill_null(batch.column(TIMESTAMP_MS), _NO_TIMESTAMP).to_numpy(zero_copy_only=False)
        dated = (times != _NO_TIMESTAMP) & (times >= FIRST_TIMESTAMP_MS) & (times <= LAST_TIMESTAMP_MS)
        times = np.where(dated, times, FIRST_TIMESTAMP_MS)
        partitions = batch.column("partition").to_numpy(zero_copy_only=False)
        late = np.zeros(len(times), np.int64)
        edges = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(times)]
        for start, end in itertools.pairwise(edges):
            if start < end:
                late[start:end] = self._lateness(int(partitions[start]), times[start:end])
        runs = batch.column("run")
        bounds = pa.compute.min_max(runs).as_py()
        if runs.null_count == 0 and bounds["min"] == bounds["max"]:
            found = late if dated.all() else late[dated]
            if len(found):
                self._count(bounds["min"], found)
            return
        taken = dated & runs.is_valid().to_numpy(zero_copy_only=False)
        days = pa.compute.fill_null(runs.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
        for day in np.unique(days[taken]).tolist():
            self._count(date.fromordinal(_EPOCH + day), late[taken & (days == day)])

    def _lateness(self, partition: int, times: Any) -> Any:
        newest = np.maximum.accumulate(np.concatenate(([self._newest_ms.get(partition, FIRST_TIMESTAMP_MS)], times)))
        self._newest_ms[partition] = int(newest[-1])
        return np.maximum(newest[:-1] - times, 0)

    def _count(self, run: date, late: Any) -> None:
        behind = late[late > 0]
        self._facts.lateness[run, 0] += len(late) - len(behind)
        if not len(behind):
            self._facts.latest_ms.setdefault(run, 0)
            return
        classes = np.bincount(np.searchsorted(LATENESS_BOUNDS_MS, behind, side="left"))
        for number, count in enumerate(classes.tolist()):
            if count:
                self._facts.lateness[run, number] += count
        self._facts.lateness_ms[run] += int(behind.sum())
        self._facts.latest_ms[run] = max(int(behind.max()), self._facts.latest_ms.get(run, 0))
