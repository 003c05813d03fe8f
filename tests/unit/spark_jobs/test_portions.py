"""Portions: what a run that was killed has recorded is taken over, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql.types import StringType

from spark_jobs.batch import layout
from spark_jobs.batch.formats import DecodedColumn, DecodedColumns
from spark_jobs.batch.ledger import PLANNED, PUBLISHING, Entry, Ledger, PartFile, Unit
from spark_jobs.batch.plan import RunPlan
from spark_jobs.batch.publication import clear_staging
from spark_jobs.batch.records import Reading, tasks_of
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.batch.tally import Tally
from spark_jobs.jobs import status
from spark_jobs.observation.record_facts import RecordFacts
from spark_jobs.portions.division import divide_tasks, portion_size, shared_attempt, work_signature
from spark_jobs.portions.staged_files import add_staged_files
from spark_jobs.portions.staged_work import StagedPortion, StagedWork, is_staged, join_units
from tests.unit.spark_jobs.test_publication import DAY, LATE, LATE_DAY, OWN, PLAN

READING = Reading({}, rows_per_task=2)
RAW = DecodedColumns(None, None)
STAGED = f"{layout.attempt_folder('a')}/units"
COUNTS = Tally(
    Counter({0: 10, 7: 3}),
    Counter({0: 9}),
    Counter({0: 9}),
    Counter({(False, DAY, DAY, 0): 8, (True, LATE_DAY, DAY, 7): 1}),
    facts=RecordFacts(
        Counter({(DAY, 1_371_254_400_000, 0): 8}),
        Counter({(DAY, 0): 8, (DAY, 3): 1}),
        Counter({DAY: 70_000}),
        {DAY: 70_000},
        Counter({(DAY, "value: no JSON"): 1}),
    ),
)


def unit(path: str, *names: str) -> Unit:
    return Unit(path, f"{STAGED}/{path}", str(DAY), tuple(PartFile(name, 5, 1, "d") for name in names), "")


def stage(at: LocalStorage, portion: StagedPortion) -> StagedPortion:
    for _, each in portion.units:
        for file in each.files:
            at.write(f"{each.staged}/{file.name}", b"12345")
    return portion


def test_portions_are_the_tasks_in_their_order() -> None:
    tasks = tasks_of(READING, [PLAN])
    assert len(tasks) == 5
    portions = divide_tasks(tasks, 2)
    assert [(each.number, each.first_task, each.offsets) for each in portions] == [(0, 0, 4), (1, 2, 4), (2, 4, 2)]
    assert [task for each in portions for task in each.tasks] == tasks
    assert divide_tasks([], 2) == []


def test_the_size_of_a_portion_goes_by_the_cores() -> None:
    assert portion_size(READING, 1) == 32
    assert portion_size(READING, 100) == 1600
    assert portion_size(replace(READING, tasks_per_portion=3), 100) == 3


def test_a_record_says_what_was_written() -> None:
    staged = StagedPortion(COUNTS, ((DAY, unit(OWN, "part-00000-000.parquet")), (DAY, unit(LATE))))
    assert StagedPortion.decode(staged.encode()) == staged


def test_a_run_goes_on_behind_what_is_recorded(tmp_path: Path) -> None:
    """Files of a portion that has no record are removed, and so is a manifest: the run writes them again."""
    at = LocalStorage(tmp_path)
    work = StagedWork.begin(at, "a", 7, "signature")
    kept = stage(at, StagedPortion(COUNTS, ((DAY, unit(OWN, "part-00000-000.parquet", "part-00001-000.parquet")),)))
    work.record(0, kept)
    stage(
        at,
        StagedPortion(
            COUNTS, ((DAY, unit(OWN, "part-00002-000.parquet")), (DAY, unit(LATE, "part-00002-000.parquet")))
        ),
    )
    at.write(f"{STAGED}/{OWN}/{layout.MANIFEST}", b"{}")
    found = StagedWork.find(at, "a", "signature")
    assert found is not None and (found.attempt, found.size) == ("a", 7)
    assert found.read(0) == kept and found.read(1) is None
    left = sorted(str(each.relative_to(tmp_path / STAGED)) for each in (tmp_path / STAGED).rglob("*") if each.is_file())
    assert left == [f"{OWN}/part-00000-000.parquet", f"{OWN}/part-00001-000.parquet"]


@pytest.mark.parametrize("data", [None, b"123"])
def test_a_portion_whose_files_are_not_all_there_is_read_again(tmp_path: Path, data: bytes | None) -> None:
    at = LocalStorage(tmp_path)
    work = StagedWork.begin(at, "a", 7, "signature")
    names = ("part-00000-000.parquet", "part-00001-000.parquet")
    work.record(0, stage(at, StagedPortion(COUNTS, ((DAY, unit(OWN, *names)),))))
    work.record(1, stage(at, StagedPortion(COUNTS, ((DAY, unit(LATE, *names)),))))
    damaged = f"{STAGED}/{OWN}/{names[1]}"
    at.remove(damaged) if data is None else at.write(damaged, data)
    found = StagedWork.find(at, "a", "signature")
    assert found is not None and found.read(0) is None and found.read(1) is not None
    assert not list((tmp_path / STAGED / OWN).glob("*")) and len(list((tmp_path / STAGED / LATE).glob("*"))) == 2


@pytest.mark.parametrize("attempt, signature", [(None, "signature"), ("b", "signature"), ("a", "another")])
def test_other_work_is_begun_anew(tmp_path: Path, attempt: str | None, signature: str) -> None:
    at = LocalStorage(tmp_path)
    StagedWork.begin(at, "a", 7, "signature")
    assert StagedWork.find(at, attempt, signature) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 2, "signature": "s", "tasks_per_portion": 1}'])
def test_damaged_records_are_none(tmp_path: Path, data: bytes) -> None:
    at = LocalStorage(tmp_path)
    at.write(f"{layout.attempt_folder('a')}/work.json", data)
    assert StagedWork.find(at, "a", "s") is None
    work = StagedWork.begin(at, "a", 1, "s")
    at.write(f"{layout.attempt_folder('a')}/portions/00000.json", data)
    assert work.read(0) is None
    at.write(f"{STAGED}/{OWN}/part-00000-000.parquet", b"12345")
    assert StagedWork.find(at, "a", "s") is not None
    assert not (tmp_path / STAGED / OWN / "part-00000-000.parquet").exists()


def test_what_a_signature_tells_apart() -> None:
    def sign(plan: RunPlan = PLAN, reading: Reading = READING, columns: DecodedColumns = RAW) -> str:
        return work_signature([plan], tasks_of(reading, [plan]), reading, columns)

    def decoded(identity: str) -> DecodedColumns:
        return DecodedColumns(None, DecodedColumn(StringType(), lambda: None, identity))  # type: ignore[arg-type, return-value]

    others = [
        sign(replace(PLAN, date=LATE_DAY)),
        sign(replace(PLAN, ranges={0: (0, 9)})),
        sign(reading=replace(READING, rows_per_task=3)),
        sign(reading=replace(READING, zone="Asia/Tokyo")),
        sign(reading=replace(READING, max_file_bytes=1)),
        sign(columns=decoded("json a int")),
        sign(columns=decoded("json b int")),
    ]
    assert len({sign(), *others}) == 1 + len(others)
    assert sign() == sign(reading=replace(READING, settings={"client.id": "x"}, tasks_per_portion=9))


def test_an_attempt_is_shared_by_all_dates_or_by_none() -> None:
    one = Entry("archive", PLAN, PLANNED, "a")
    assert shared_attempt([one, one]) == "a"
    for other in (None, replace(one, attempt="b"), replace(one, state=PUBLISHING)):
        assert shared_attempt([one, other]) is None
    assert shared_attempt([]) is None


def test_units_have_the_files_of_all_portions() -> None:
    first = StagedPortion(Tally(), ((DAY, unit(OWN, "part-00001-000.parquet", "part-00000-000.parquet")),))
    second = StagedPortion(
        Tally(), ((DAY, unit(LATE, "part-00002-000.parquet")), (DAY, unit(OWN, "part-00002-000.parquet")))
    )
    found = join_units([first, second])
    assert [(run, each.path, [file.name for file in each.files]) for run, each in found] == [
        (DAY, LATE, ["part-00002-000.parquet"]),
        (DAY, OWN, ["part-00000-000.parquet", "part-00001-000.parquet", "part-00002-000.parquet"]),
    ]


def test_staging_of_unfinished_attempts_is_kept(tmp_path: Path) -> None:
    at = LocalStorage(tmp_path)
    StagedWork.begin(at, "a", 1, "s")
    at.write(f"{layout.attempt_folder('b')}/archive/x", b"")
    at.write(layout.WRITABLE, b"")
    assert is_staged(at, "a") and not is_staged(at, "b")
    clear_staging(at, {"a", "c"})
    assert [each.name for each in at.entries(layout.STAGING)] == ["a"]
    clear_staging(at, {"c"})
    assert not (tmp_path / layout.STAGING).exists()


def test_sizes_cut_tasks_and_are_recorded_with_the_plan() -> None:
    plan = replace(PLAN, record_bytes={0: 1 << 20})
    assert len(tasks_of(Reading({}, bytes_per_task=5 << 20), [plan])) == 2
    entry = Entry("archive", plan, PLANNED, "a")
    assert Entry.decode(entry.encode(), "path").plan == plan
    assert "record_bytes" not in json.loads(Entry("archive", PLAN, PLANNED, "a").encode())["plan"], (
        "entries of before keep their signatures"
    )
    assert Entry.decode(Entry("archive", PLAN, PLANNED, "a").encode(), "path").plan.record_bytes == {}


def test_dates_of_a_group_are_read_by_the_same_tasks() -> None:
    plans = [replace(PLAN, date=date(2013, 6, number), record_bytes={0: number}) for number in (1, 2)]
    assert tasks_of(READING, plans) == tasks_of(READING, plans[::-1])


def test_status_shows_what_a_run_has_read_so_far(tmp_path: Path) -> None:
    at = LocalStorage(tmp_path)
    Ledger(at, "archive").put_pending(Entry("archive", PLAN, PLANNED, "a"))
    assert [(row["state"], row["records"], row["files"]) for row in status.main(at)] == [(PLANNED, None, 0)]
    work = StagedWork.begin(at, "a", 1, "s")
    dead = layout.run_unit(layout.DEAD_LETTERS, "flights", DAY, DAY)
    late = replace(unit(LATE, "part-00001-000.parquet"), date=str(LATE_DAY))
    work.record(0, StagedPortion(COUNTS, ((DAY, unit(OWN, "part-00000-000.parquet")), (DAY, late))))
    work.record(1, StagedPortion(COUNTS, ((DAY, unit(dead, "part-00002-000.parquet")), (LATE_DAY, unit(OWN, "x")))))
    at.write(f"{layout.attempt_folder('a')}/portions/00002.json", b"{")
    (row,) = status.main(at)
    assert (row["state"], row["records"], row["late"], row["dead_letters"]) == (PLANNED, 1, 1, 1)
    assert (row["files"], row["bytes"]) == (3, 15)
    done = Entry("archive", PLAN, PUBLISHING, "a", (unit(OWN, "part-00000-000.parquet"),))
    assert add_staged_files(at, done) is done
