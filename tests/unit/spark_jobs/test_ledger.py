"""The ledger's files."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from spark_jobs.batch import layout
from spark_jobs.batch.failures import OutputError
from spark_jobs.batch.ledger import Entry, Ledger, PartFile, Unit, jobs_with_ledger
from spark_jobs.batch.plan import LateDates, RunPlan
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.jobs import status
from spark_jobs.observation.run_facts import Lateness, RunFacts

PLAN = RunPlan(
    "flights",
    "AAAAAAAAAAAAAAAAAAAAAA",
    date(2013, 6, 15),
    {0: (5, 9), 1: (0, 0)},
    {0: 9, 1: 4},
    (LateDates(date(2013, 6, 1), date(2013, 6, 9), {0: 7, 1: 4}),),
    {1: (0, 2)},
    {0: ((3, 5), (7, 9))},
)
UNIT = Unit("archive/x", "_staging/x", "2013-06-15", (PartFile("part-00000-000.parquet", 10, 4, "ab"),), "cd")
ENTRY = Entry(
    "archive", PLAN, "publishing", "attempt", (UNIT,), {"records": 4, "late": 0, "dead_letters": 0}, "sink", {0: 3}, 12
)


def test_entries_come_back_as_they_were(tmp_path: Path) -> None:
    ledger = Ledger(LocalStorage(tmp_path), "archive")
    ledger.put_pending(ENTRY)
    assert ledger.read_pending("flights", PLAN.date) == ENTRY
    assert (ledger.read_done("flights", PLAN.date), ledger.all_done("flights")) == (None, [])
    assert ledger.all_pending("flights") == [ENTRY]


FACTS = RunFacts(
    "America/New_York",
    {7_200_000: {0: 3, 1: 1}},
    Lateness((3, 1, 0, 0, 0, 0, 0, 0), 900, 900),
    {"key: x": 2},
    {"read": 5},
)


def test_facts_come_back_as_they_were(tmp_path: Path) -> None:
    ledger = Ledger(LocalStorage(tmp_path), "archive")
    entry = replace(ENTRY, facts=FACTS)
    ledger.put_pending(entry)
    assert ledger.read_pending("flights", PLAN.date) == entry


def test_entries_of_before_have_no_facts() -> None:
    document = json.loads(ENTRY.encode())
    del document["facts"]
    assert Entry.decode(json.dumps(document).encode(), "file") == ENTRY
    for spoilt in ({}, {**FACTS.to_json(), "lateness": {"records": [1], "sum_ms": 0, "max_ms": 0}}):
        with pytest.raises(OutputError, match="is no entry of the ledger"):
            Entry.decode(json.dumps({**document, "facts": spoilt}).encode(), "file")


def test_finished_entry_takes_the_place_of_the_pending_one(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    ledger = Ledger(storage, "archive")
    ledger.put_pending(ENTRY)
    finished = ledger.finish(ENTRY, 99)
    assert (finished.state, finished.done_ms) == ("done", 99)
    assert ledger.all_done("flights") == [finished]
    assert ledger.all_pending("flights") == []
    assert jobs_with_ledger(storage) == ["archive"]
    assert ledger.topics() == ["flights"]


def test_temporary_files_of_killed_writers_are_no_entries(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    ledger = Ledger(storage, "archive")
    ledger.put_pending(ENTRY)
    (tmp_path / layout.ledger_folder("archive", "flights") / ".2013-06-16.json.77.tmp").write_bytes(b"{")
    assert ledger.all_pending("flights") == [ENTRY]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "units": []}', b"\xff"])
def test_damaged_file_is_named(tmp_path: Path, data: bytes) -> None:
    storage = LocalStorage(tmp_path)
    path = layout.done_file("archive", "flights", PLAN.date)
    storage.write(path, data)
    with pytest.raises(OutputError, match=f"{path} is no entry of the ledger"):
        Ledger(storage, "archive").read_done("flights", PLAN.date)


def test_status_shows_what_is_missing(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    ledger = Ledger(storage, "archive")
    ledger.put_pending(ENTRY)
    ledger.finish(ENTRY, 1_400_000_000_000)
    later = RunPlan("flights", "id", date(2013, 6, 17), {}, {})
    ledger.put_pending(Entry("archive", later, "planned", "a"))
    rows = status.main(storage)
    assert [(row["date"], row["state"], row["records"]) for row in rows] == [
        ("2013-06-15", "done", 4),
        ("2013-06-16", "missing", None),
        ("2013-06-17", "planned", None),
    ]
    assert rows[0]["done_at"] == "2014-05-13T16:53:20Z"
    assert (rows[0]["files"], rows[0]["bytes"]) == (1, 10)


def test_entries_of_before_took_no_undated_records(tmp_path: Path) -> None:
    document = json.loads(ENTRY.encode())
    del document["plan"]["undated"]
    found = Entry.decode(json.dumps(document).encode(), "file")
    assert found == replace(ENTRY, plan=replace(PLAN, undated={}))


def test_status_shows_any_time(tmp_path: Path) -> None:
    """What a ledger holds that somebody has edited is shown, not a reason to show nothing."""
    ledger = Ledger(LocalStorage(tmp_path), "archive")
    ledger.finish(ENTRY, 2**62)
    (row,) = status.main(LocalStorage(tmp_path))
    assert row["done_at"] == f"{2**62} ms"


def test_many_days_read_the_ledger_once(tmp_path: Path) -> None:
    """What a backfill of a year asks for at each of its days costs no more at the last one than at the first."""
    reads: list[str] = []

    class Counting(LocalStorage):
        def read(self, path: str) -> bytes | None:
            reads.append(path)
            return super().read(path)

    for day in range(1, 4):
        ledger = Ledger(LocalStorage(tmp_path), "archive")
        ledger.finish(replace(ENTRY, plan=replace(PLAN, date=date(2013, 6, day))), 1)
    ledger = Ledger(Counting(tmp_path), "archive")
    for day in range(4, 30):
        plan = replace(PLAN, date=date(2013, 6, day), coverage={0: day})
        assert [each.date.day for each in ledger.done_plans("flights")] == list(range(1, day))
        ledger.finish(replace(ENTRY, plan=plan), 1)
        assert ledger.done_plans("flights")[-1] == plan
    assert len(reads) == 3
    assert ledger.all_pending("flights") == [] and len(reads) == 3, "finished runs are not read for those that are not"
    again = replace(ledger.done_plans("flights")[0], coverage={0: 99})
    ledger.finish(replace(ENTRY, plan=again), 1)
    assert ledger.done_plans("flights")[0] == again and len(ledger.done_plans("flights")) == 29
    assert ledger.done_plans("another") == []
    assert [entry.plan for entry in ledger.all_done("flights")] == ledger.done_plans("flights")
