"""What tasks count of the records that pass: hours, lateness, kinds of reasons, whatever batches they come in."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.batch.records import _Conversion
from spark_jobs.batch.tally import Tally, total
from spark_jobs.observation.record_facts import OTHER_REASONS, UNDATED, LatenessCount, RecordFacts, reason_kind
from spark_jobs.observation.run_facts import LATENESS_BOUNDS_MS, RunFacts
from spark_jobs.rows import RANGE_END, RANGE_RECORDS, TIMESTAMP_MS

RUN, BEFORE = date(2013, 6, 15), date(2013, 6, 14)
HOUR_MS = 3_600_000
DAY_MS = 1_371_254_400_000
SCHEMA = pa.schema([("partition", pa.int32()), (TIMESTAMP_MS, pa.int64()), ("run", pa.date32())])
GOOD = pa.schema(
    [
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("date", pa.date32()),
        ("run", pa.date32()),
    ]
)


def lateness(rows: list[tuple[int, int | None, date | None]], batch_rows: int = 100) -> RecordFacts:
    facts = RecordFacts()
    counting = LatenessCount(facts)
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    for batch in table.to_batches(batch_rows):
        counting.add(batch)
    return facts


def expected(rows: list[tuple[int, int | None, date | None]]) -> Counter[tuple[date, int]]:
    """By the definition, record by record."""
    newest: dict[int, int] = {}
    found: Counter[tuple[date, int]] = Counter()
    for partition, time_ms, run in rows:
        if time_ms is None:
            continue
        late = max(0, newest.get(partition, time_ms) - time_ms)
        newest[partition] = max(time_ms, newest.get(partition, time_ms))
        if run is not None:
            found[run, sum(late > bound for bound in LATENESS_BOUNDS_MS)] += 1
    return found


TIMES = st.one_of(st.none(), st.integers(0, 3 * 86_400_000), st.sampled_from([0, 1000, 1001, 10_000]))
ROWS = st.lists(st.tuples(st.integers(0, 2), TIMES, st.sampled_from([RUN, BEFORE, None])), max_size=40)


@given(ROWS, st.integers(1, 9))
def test_lateness_is_that_of_the_definition(rows: list[tuple[int, int | None, date | None]], batch_rows: int) -> None:
    assert lateness(rows, batch_rows).lateness == expected(rows)


def test_times_that_are_on_no_date_make_nobody_late() -> None:
    facts = lateness([(0, 2**62, RUN), (0, -1, RUN), (0, 5_000, RUN), (0, 4_000, RUN), (0, -(2**62), RUN)])
    found = facts.of_run(RUN, "UTC", {}).lateness
    assert found.records == (1, 1, 0, 0, 0, 0, 0, 0)
    assert (found.sum_ms, found.max_ms) == (1_000, 1_000)


def add_good(facts: RecordFacts, rows: list[tuple[int, int, date, date]], reasons: list[str | None]) -> None:
    documents = [{"partition": p, "timestamp": ms * 1000, "date": day, "run": run} for p, ms, day, run in rows]
    facts.add_rows(pa.RecordBatch.from_pylist(documents, GOOD), reasons)


def test_hours_are_of_good_records_of_the_runs_own_date() -> None:
    facts = RecordFacts()
    start = 1_371_254_400_000
    rows = [
        (0, start, RUN, RUN),
        (0, start + HOUR_MS - 1, RUN, RUN),
        (1, start + HOUR_MS, RUN, RUN),
        (1, start - 1, BEFORE, RUN),
        (1, start + 2, RUN, RUN),
        (1, start - 5, BEFORE, BEFORE),
    ]
    add_good(facts, rows, [None, None, None, None, "value: not JSON: x", None])
    add_good(facts, rows[:1], [None])
    add_good(facts, [], [])
    found = facts.of_run(RUN, "Europe/Berlin", {"read": 5})
    assert found.hours == {start: {0: 3}, start + HOUR_MS: {1: 1}}
    assert found.dead_letters == {"value: not JSON": 1}
    assert facts.of_run(BEFORE, "UTC", {}).hours == {start - HOUR_MS: {1: 1}}
    assert RunFacts.from_json(json.loads(json.dumps(found.to_json()))) == found


YEAR_HOURS = 365 * 24
PLACES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([-1, 0, 1, 23, 24, 25, YEAR_HOURS]), st.integers(0, HOUR_MS - 1)),
    max_size=30,
)


@given(PLACES, st.integers(1, 40), st.sampled_from([0, 2000]))
def test_hours_are_those_of_the_definition(
    rows: list[tuple[int, int, int]], batch_rows: int, partition_step: int
) -> None:
    """Batches of few hours and partitions, and of places so far apart that no array holds them."""
    facts, expected_hours = RecordFacts(), Counter[tuple[date, int, int]]()
    records = []
    for partition, hour, within_ms in rows:
        ms = DAY_MS + hour * HOUR_MS + within_ms
        day = date.fromordinal(date(1970, 1, 1).toordinal() + ms // (24 * HOUR_MS))
        records.append((partition * (1 + partition_step), ms, day, day))
        expected_hours[day, DAY_MS + hour * HOUR_MS, partition * (1 + partition_step)] += 1
    for start in range(0, len(records), batch_rows):
        batch = records[start : start + batch_rows]
        add_good(facts, batch, [None] * len(batch))
    assert facts.hours == expected_hours


def test_hours_before_1970_begin_before_the_time() -> None:
    facts = RecordFacts()
    eve = date(1969, 12, 31)
    add_good(facts, [(0, -1, eve, eve)], [None])
    assert facts.of_run(eve, "UTC", {}).hours == {-HOUR_MS: {0: 1}}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("value: field delay: 'late' is no whole number", "value: field delay: no whole number"),
        ("value: field a1: field b: 3.5: x is no text", "value: field a1: field b: no text"),
        ("value: not JSON: Expecting value: line 1 column 1 (char 0)", "value: not JSON"),
        ("key: not UTF-8: invalid start byte at byte 7", "key: not UTF-8"),
        ("value: a list where an object is due", "value: a list where an object is due"),
        ("value: field x is missing", "value: field x is missing"),
        ("value: 1234 is out of range of int8", "value: … is out of range of int8"),
        ("value: does not fit the schema: tried 'x'", "value: does not fit the schema"),
        ("timestamp: the record has none (-1)", "timestamp: none"),
        ("timestamp: 9223372036854775807 ms is beyond the years 1 to 9999 (did a producer …?)", UNDATED),
    ],
)
def test_kinds_of_reasons_have_nothing_of_the_record(reason: str, kind: str) -> None:
    assert reason_kind(reason) == kind


def test_kinds_of_reasons_are_bounded() -> None:
    """They become labels of a metric, and a topic may have thousands of faulty fields."""
    tasks = []
    for task in range(2):
        tally = Tally()
        tally.facts.add_reasons((RUN, f"value: field f{task}_{number} is missing") for number in range(100))
        tally.facts.add_reasons([(RUN, "value: field f0_0 is missing")])
        tasks.append(tally)
    found = total(tasks).facts.reasons_of(RUN)
    assert sum(found.values()) == 202
    assert len(found) <= 41 and next(iter(found)) == "value: field f0_0 is missing" and found[OTHER_REASONS] > 100


def test_facts_of_tasks_add_up() -> None:
    one, other = Tally(), Tally()
    LatenessCount(one.facts).add(pa.RecordBatch.from_pylist(_late(3_000), SCHEMA))
    LatenessCount(other.facts).add(pa.RecordBatch.from_pylist(_late(9_000), SCHEMA))
    found = total([one, other]).facts.of_run(RUN, "UTC", {}).lateness
    assert (found.records[:3], found.sum_ms, found.max_ms) == ((2, 0, 2), 12_000, 9_000)


def _late(by_ms: int) -> list[dict[str, Any]]:
    return [{"partition": 0, TIMESTAMP_MS: 100_000 - late, "run": RUN} for late in (0, by_ms)]


class _Tallies:
    """Spark's accumulator, as tasks see it."""

    def __init__(self) -> None:
        self.found: list[Tally] = []

    def add(self, more: dict[Any, Tally]) -> None:
        self.found += more.values()


def test_the_conversion_of_a_task_counts_facts() -> None:
    """Batches as Spark hands them on: a record in order, a late one of the day before, one of no run, one of no date, the range's end."""
    text, headers = pa.binary(), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    names = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers", TIMESTAMP_MS)
    kinds = (text, text, pa.int32(), pa.int64(), GOOD.field("timestamp").type, pa.int32(), headers, pa.int64())
    more = [(RANGE_END, pa.int64()), (RANGE_RECORDS, pa.int64()), ("date", pa.date32()), ("run", pa.date32())]
    schema = pa.schema([*zip(names, kinds, strict=True), *more])

    def row(offset: int, ms: int | None, day: date | None, run: date | None, end: int | None = None) -> dict[str, Any]:
        shown = None if ms is None or ms > 2**50 else ms * 1000
        found = {
            "value": b"x",
            "partition": 1,
            "offset": offset,
            "timestamp": shown,
            TIMESTAMP_MS: ms,
            "date": day,
            "run": run,
        }
        return found | ({RANGE_END: end, RANGE_RECORDS: 4} if end is not None else {})

    rows = [
        row(0, DAY_MS + 5_000, RUN, RUN),
        row(1, DAY_MS - 5_000, BEFORE, RUN),
        row(2, DAY_MS + 99_000, RUN, None),
        row(3, 2**62, RUN, RUN),
        row(0, None, None, None, end=4),
    ]
    tallies = _Tallies()
    convert = _Conversion(None, None, 1_000_000, tallies)  # type: ignore[arg-type]
    batches = list(convert(pa.Table.from_pylist(rows, schema).to_batches()))
    assert [each for batch in batches for each in batch.column("offset").to_pylist()] == [0, 1, 3]
    (tally,) = tallies.found
    facts = tally.facts.of_run(RUN, "UTC", {})
    assert facts.hours == {DAY_MS: {1: 1}}
    assert (facts.lateness.records, facts.lateness.max_ms) == ((1, 0, 1, 0, 0, 0, 0, 0), 10_000)
    assert facts.dead_letters == {UNDATED: 1}
