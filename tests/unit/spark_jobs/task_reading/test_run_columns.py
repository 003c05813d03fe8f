"""Which run takes a record, and what an audit counts it as: batches against a rule that looks at one record."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.batch.plan import LateDates, RunPlan
from spark_jobs.batch.tally import Tallies
from spark_jobs.task_reading.audit_columns import AuditColumns
from spark_jobs.task_reading.date_ranges import FindDateRanges
from spark_jobs.task_reading.run_columns import RunColumns, take_until

FIRST = date(2013, 6, 10)
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
FIRST_MS = (FIRST - date(1970, 1, 1)).days * DAY_MS
ODD_MS = 1_700_000_000_000_000_000
Rows = list[tuple[int, int, int | None]]
"""Partition, offset, milliseconds; the row that ends a range has none."""
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 9),
        st.one_of(
            st.sampled_from([None, -1, -2, ODD_MS]),
            st.integers(-3, 5).map(lambda day: FIRST_MS + day * DAY_MS + 7 * HOUR_MS + 5),
        ),
    ),
    max_size=12,
)
DAYS = st.integers(-3, 3).map(lambda days: FIRST + timedelta(days))
SPANS = st.lists(st.tuples(st.integers(0, 5), st.integers(5, 9)), max_size=2).map(tuple)
LATE = st.builds(
    lambda first, days, start: LateDates(first, first + timedelta(days), start),
    DAYS,
    st.integers(0, 3),
    st.dictionaries(st.integers(0, 2), st.integers(0, 9)),
)
PLANS = st.lists(
    st.builds(
        lambda day, late, undated: RunPlan("t", "", day, {}, {}, tuple(late), {}, undated),
        DAYS,
        st.lists(LATE, max_size=2),
        st.dictionaries(st.integers(0, 2), SPANS),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda plan: plan.date,
)


def batch_of(rows: Rows) -> pa.RecordBatch:
    """Return what the source gives."""
    ends = [None if time is not None else offset for _, offset, time in rows]
    return pa.record_batch(
        {
            "key": pa.array([b"%d" % offset for _, offset, _ in rows], pa.binary()),
            "value": pa.array([None] * len(rows), pa.binary()),
            "headers": pa.array(
                [None] * len(rows), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            ),
            "partition": pa.array([partition for partition, _, _ in rows], pa.int32()),
            "offset": pa.array([offset for _, offset, _ in rows], pa.int64()),
            "timestampMs": pa.array([time for _, _, time in rows], pa.int64()),
            "rangeEnd": pa.array(ends, pa.int64()),
        }
    )


def with_counts(rows: Rows) -> pa.RecordBatch:
    """Return what the source gives to those who count."""
    found = batch_of(rows).select(["partition", "offset", "timestampMs", "rangeEnd"])
    counts = [None if time is not None else 7 for _, _, time in rows]
    return found.append_column("rangeRecords", pa.array(counts, pa.int64()))


def date_at(time_ms: int | None) -> date | None:
    if time_ms is None or time_ms in (-1, ODD_MS):
        return None
    return date(1970, 1, 1) + timedelta(milliseconds=time_ms)


def run_of(partition: int, offset: int, time_ms: int | None, plans: list[RunPlan]) -> date | None:
    day = date_at(time_ms)
    if any(day == plan.date for plan in plans):
        return day
    for plan in plans:
        for group in plan.late:
            if day is not None and group.first <= day <= group.last and offset >= group.start.get(partition, 99):
                return plan.date
        spans = plan.undated.get(partition, ()) if day is None and time_ms is not None else ()
        if any(start <= offset < end for start, end in spans):
            return plan.date
    return None


@given(ROWS, PLANS)
def test_runs_and_dates(rows: Rows, plans: list[RunPlan]) -> None:
    step: RunColumns = pickle.loads(pickle.dumps(RunColumns.of_plans("UTC", plans)))
    found = step(batch_of(rows))
    runs = [run_of(*row, plans) for row in rows]
    assert found.column("run").to_pylist() == runs
    assert found.column("date").to_pylist() == [
        date_at(time) or run for (_, _, time), run in zip(rows, runs, strict=True)
    ]
    assert found.column("offset").to_pylist() == [offset for _, offset, _ in rows]


@given(
    st.lists(st.sampled_from(range(-3, 6)), unique=True, max_size=4),
    st.dictionaries(DAYS, st.dictionaries(st.integers(0, 2), st.integers(0, 9)), max_size=3),
    ROWS.map(lambda rows: [row for row in rows if row[2] is not None]),
)
def test_what_an_audit_compares(days: list[int], known: dict[date, dict[int, int]], rows: Rows) -> None:
    wanted = [FIRST + timedelta(each) for each in days]
    found = AuditColumns.of_runs("UTC", wanted, known)(batch_of(rows))
    expected: list[Any] = []
    for partition, offset, time in rows:
        day = date_at(time)
        if day in wanted and day is not None and time is not None:
            covered = offset < known.get(day, {}).get(partition, 0)
            expected.append((covered, day, time - time % HOUR_MS, time, partition, offset))
    columns = ("covered", "date", "hour_ms", "timestamp_ms", "partition", "offset")
    assert list(zip(*(found.column(name).to_pylist() for name in columns), strict=True)) == expected
    archived = AuditColumns.of_archive("UTC", wanted)(batch_of(rows))
    everything = [(True, *each[1:]) for each in expected]
    assert list(zip(*(archived.column(name).to_pylist() for name in columns), strict=True)) == everything


@given(st.integers(-3, 6), ROWS.map(lambda rows: [row for row in rows if row[2] is not None]))
def test_what_a_snapshot_looks_at(days: int, rows: Rows) -> None:
    last = FIRST + timedelta(days)
    found = take_until(batch_of(rows), "UTC", (last - date(1970, 1, 1)).days)
    expected = [row for row in rows if (day := date_at(row[2])) is None or day <= last]
    columns = (found.column(name).to_pylist() for name in ("partition", "offset", "timestampMs"))
    assert list(zip(*columns, strict=True)) == expected


@given(st.sets(st.integers(-3, 6), min_size=1, max_size=3), st.lists(ROWS, min_size=1, max_size=3))
def test_where_a_backfill_finds_dates(numbers: set[int], batches: list[Rows]) -> None:
    """Batches with the rows that end ranges: those are counted, and are on no date."""
    days = [FIRST + timedelta(each) for each in numbers]
    added: list[Tallies] = []
    tallies: Any = SimpleNamespace(add=added.append)
    step = pickle.loads(pickle.dumps(FindDateRanges.between("UTC", days, None)))  # type: ignore[arg-type]
    step = replace(step, tallies=tallies)
    expected: dict[tuple[int, date | None], list[int]] = {}
    for partition, offset, time in (row for rows in batches for row in rows):
        day = date_at(time)
        if time is not None and (day is None or min(days) <= day <= max(days)):
            expected.setdefault((partition, day), []).append(offset)
    found = [row for batch in step(with_counts(rows) for rows in batches) for row in batch.to_pylist()]
    assert {(row["partition"], row["date"]): (row["first"], row["last"]) for row in found} == {
        place: (min(offsets), max(offsets)) for place, offsets in expected.items()
    }
    assert len(found) == len(expected)
    (counts,) = added[0].values()
    assert counts.read == Counter(row[0] for rows in batches for row in rows if row[2] is not None)
