"""What tasks count, and what is refused when it is not what was planned."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from spark_jobs.batch import layout
from spark_jobs.batch.failures import MissingOutputError, MissingRecordsError
from spark_jobs.batch.publication import check_unit, gather
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.batch.tally import Tallies, Tally, add_tally, check_read, total
from spark_jobs.rows import RANGE_COLUMNS, declared_schema, range_end_row
from tests.unit.spark_jobs.test_publication import DAY, OWN, part

COLUMNS = ("partition", "offset", *RANGE_COLUMNS)
SCHEMA = pa.schema([("partition", pa.int32()), *((name, pa.int64()) for name in COLUMNS[1:])])


def batch(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], SCHEMA)


def counted(*batches: pa.RecordBatch) -> Tally:
    tally = Tally()
    for each in batches:
        tally.add_read(each)
    return tally


def test_rows_that_end_ranges_are_counted_and_taken_out() -> None:
    tally = Tally()
    found = tally.add_read(batch((0, 3, None, None), (0, 7, None, None), (0, 3, 9, 2), (1, 0, None, None)))
    assert found.to_pylist() == [
        {"partition": 0, "offset": 3},
        {"partition": 0, "offset": 7},
        {"partition": 1, "offset": 0},
    ]
    assert (tally.offsets, tally.given, tally.read) == ({0: 6}, {0: 2}, {0: 2, 1: 1})
    assert tally.add_read(batch()).num_rows == 0


def test_the_reader_makes_that_row_for_queries_that_declare_it() -> None:
    schema = declared_schema(("key", *COLUMNS, "headers", "timestamp"))
    row = range_end_row(schema, 2, 5, 11, 4)
    assert row.to_pylist() == [
        {
            "key": None,
            "partition": 2,
            "offset": 5,
            "rangeEnd": 11,
            "rangeRecords": 4,
            "headers": None,
            "timestamp": None,
        }
    ]
    assert range_end_row(declared_schema(("key",)), 2, 5, 11, 4) is None


def test_all_that_was_planned_was_read() -> None:
    tasks = [
        counted(batch((0, 3, None, None), (0, 3, 6, 1))),
        counted(batch((0, 6, 9, 0), (1, 0, None, None), (1, 0, 1, 1))),
    ]
    check_read("t", {0: (3, 9), 1: (0, 1)}, total(tasks))
    check_read("t", {}, Tally())


class Accumulated:
    """Stands for Spark's accumulator."""

    def __init__(self) -> None:
        self.value: Tallies = {}

    def add(self, more: Tallies) -> None:
        self.value = {**self.value, **more}


def test_what_is_read_twice_counts_once() -> None:
    """A task that Spark runs again, or records that a query uses twice, in tasks of other numbers."""
    tallies: Any = Accumulated()
    for rows in ([(0, 3, None, None), (0, 3, 6, 1)], [(0, 6, 9, 0)], [(0, 3, None, None), (0, 3, 6, 1)]):
        add_tally(tallies, counted(batch(*rows)))
    assert len(tallies.value) == 2
    check_read("t", {0: (3, 9)}, total(tallies.value.values()))


@pytest.mark.parametrize(
    ("tasks", "problem"),
    [
        ([], r"t-0, offsets 3 to 8: 6 offsets were planned, 0 were read; the date is not done: run it again"),
        ([counted(batch((0, 3, 6, 0)))], r"t-0, offsets 3 to 8: 6 offsets were planned, 3 were read"),
        ([counted(batch((0, 3, 9, 2), (0, 3, None, None)))], r"t-0, .*: the log gave 2 records, 1 came to the job"),
        ([counted(batch((0, 3, 9, 0), (1, 0, 4, 0)))], r"t-1, .*: 0 offsets were planned, 4 were read"),
    ],
)
def test_what_was_not_read_is_named(tasks: list[Tally], problem: str) -> None:
    with pytest.raises(MissingRecordsError, match=problem):
        check_read("t", {0: (3, 9)}, total(tasks))


def test_a_unit_has_the_rows_that_tasks_wrote(tmp_path: Path) -> None:
    written = f"{layout.attempt_folder('a')}/archive"
    (tmp_path / written).mkdir(parents=True)
    parquet.write_table(pa.table({"partition": pa.array([0, 0, 2], pa.int32())}), tmp_path / written / part(0))
    at = LocalStorage(tmp_path)
    unit = gather(at, "a", written, OWN, DAY, [(0, "")])
    check_unit(at, "t", OWN, unit, {0: 2, 2: 1})
    check_unit(at, "t", OWN, unit, 3)
    check_unit(at, "t", OWN, None, Counter[int]())
    check_unit(at, "t", OWN, None, 0)
    with pytest.raises(
        MissingOutputError,
        match=rf"{OWN}: 5 rows were planned, 3 are in the files that Spark left \(t-0: planned 1, found 2; "
        r"t-2: planned 4, found 1\); nothing was published",
    ):
        check_unit(at, "t", OWN, unit, {0: 1, 2: 4})
    with pytest.raises(MissingOutputError, match=r"5 rows were planned, 0 are .* \(t-1: planned 5, found 0\)"):
        check_unit(at, "t", OWN, None, {1: 5})
    with pytest.raises(
        MissingOutputError, match=rf"{OWN}: 5 rows were planned, 0 are in the files that Spark left; nothing"
    ):
        check_unit(at, "t", OWN, None, 5)
