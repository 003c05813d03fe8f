"""Nights in tables: one commit for each table and night, found again after a crash, and none that says less than was staged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.batch import layout
from spark_jobs.batch.failures import LockLostError, MissingOutputError, OutputError
from spark_jobs.batch.ledger import PUBLISHING, Entry, PartFile, Unit
from spark_jobs.batch.plan import RunPlan
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.tables.commits import Commit, Identity, plan_commits, table_of
from spark_jobs.tables.publication import check_columns, publish_to_tables, readable_folder
from spark_jobs.tables.table_format import DataFile, Expiry, TableFormat

DAY, EARLIER = date(2013, 6, 15), date(2013, 6, 12)
TABLE, DEAD = "archive/topic=flights", "dead_letters/topic=flights"
OWN = layout.run_unit(layout.ARCHIVE, "flights", DAY, DAY)
LATE = layout.run_unit(layout.ARCHIVE, "flights", EARLIER, DAY)
LETTERS = layout.run_unit(layout.DEAD_LETTERS, "flights", DAY, DAY)


@dataclass
class MemoryTables:
    """Tables whose rows are the units of the commits. `lost` rows are left out of each commit."""

    name: str = "memory"
    can_widen: bool = False
    lost: int = 0
    commits: list[Commit] = field(default_factory=list)

    def exists(self, table: str) -> bool:
        return any(each.table == table for each in self.commits)

    def replace(self, commit: Commit, rows: Any) -> None:
        assert rows == commit.units
        self.commits.append(commit)

    def committed_rows(self, commit: Commit) -> int | None:
        return commit.rows - self.lost if commit in self.commits else None

    def read(self, table: str) -> Any:
        raise NotImplementedError

    def files(self, table: str) -> list[DataFile]:
        raise NotImplementedError

    def data_files(self, table: str) -> list[str]:
        raise NotImplementedError

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        raise NotImplementedError

    def expire(self, table: str, older_than_ms: int, now_ms: int, dry_run: bool) -> Expiry:
        raise NotImplementedError


def unit(path: str, rows: int = 3, attempt: str = "one") -> Unit:
    files = (PartFile("part-00000-000.parquet", 10, rows, "ab"),)
    return Unit(path, f"_staging/{attempt}/units/{path}", str(DAY), files, attempt)


def entry(*units: Unit, attempt: str = "one", job: str = "archive") -> Entry:
    return Entry(job, RunPlan("flights", "id", DAY, {0: (0, 10)}, {0: 10}), PUBLISHING, attempt, units)


def stage(storage: LocalStorage, *entries: Entry) -> None:
    for each in entries:
        for part in each.units:
            storage.write(f"{part.staged}/{layout.MANIFEST}", b'{"identity": "%s"}' % part.identity.encode())


def publish(storage: LocalStorage, tables: TableFormat, run: Entry, replaced: Entry | None = None) -> None:
    publish_to_tables(storage, tables, lambda commit: commit.units, run, replaced, lambda: None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("path", "table", "partitions", "value"),
    [
        (LATE, TABLE, ("date", "run"), "2013-06-15"),
        (layout.dated_unit("reprocessed/a=b", "t", DAY), "reprocessed/a=b/topic=t", ("date",), "2013-06-15"),
        (layout.dated_unit(layout.SNAPSHOTS, "date.run", DAY), "snapshots/topic=date.run", ("date",), "2013-06-15"),
    ],
)
def test_the_table_of_a_unit(path: str, table: str, partitions: tuple[str, ...], value: str) -> None:
    assert table_of(path) == (table, partitions, value)


def test_late_records_go_with_the_commit_of_their_run() -> None:
    (commit,) = plan_commits(entry(unit(LATE), unit(OWN, 4)), None)
    assert (commit.table, commit.replaced_by, commit.value, commit.rows) == (TABLE, "run", "2013-06-15", 7)
    assert commit.identity == Identity("archive", "flights", "2013-06-15", "one")


def test_a_result_replaces_its_date() -> None:
    path = layout.dated_unit(layout.SNAPSHOTS, "flights", DAY)
    (commit,) = plan_commits(entry(unit(path), job="compact"), None)
    assert (commit.table, commit.partitions, commit.replaced_by) == ("snapshots/topic=flights", ("date",), "date")


def test_a_table_in_which_the_new_run_has_nothing_loses_the_rows_of_the_old_one() -> None:
    ours, dead = plan_commits(entry(unit(OWN), attempt="two"), entry(unit(OWN), unit(LETTERS)))
    assert (ours.table, dead.table) == (TABLE, DEAD)
    assert (dead.rows, dead.replaced_by, dead.value, dead.identity.attempt) == (0, "run", "2013-06-15", "two")


def test_a_run_without_rows_commits_nothing() -> None:
    assert plan_commits(entry(), None) == []


def test_identities_are_as_the_formats_keep_them() -> None:
    identity = Identity("archive", "flights", "2013-06-15", "one")
    properties = {f"kafkalite.{name}": getattr(identity, name) for name in ("job", "topic", "date", "attempt")}
    assert identity.properties() == properties
    assert identity.to_json() == (
        '{"kafkalite.job": "archive", "kafkalite.topic": "flights", "kafkalite.date": "2013-06-15", "kafkalite.attempt": "one"}'
    )


def test_each_night_is_one_commit_of_each_table(tmp_path: Path) -> None:
    storage, tables = LocalStorage(tmp_path), MemoryTables()
    run = entry(unit(LATE), unit(OWN), unit(LETTERS))
    stage(storage, run)
    publish(storage, tables, run)
    assert [each.table for each in tables.commits] == [TABLE, DEAD]


def test_whoever_finishes_a_night_repeats_only_missing_commits(tmp_path: Path) -> None:
    storage, run = LocalStorage(tmp_path), entry(unit(OWN), unit(LETTERS))
    stage(storage, run)
    done = plan_commits(run, None)
    for present in range(len(done) + 1):
        tables = MemoryTables(commits=done[:present])
        publish(storage, tables, run)
        assert tables.commits == done


def test_a_rerun_commits_again(tmp_path: Path) -> None:
    storage, tables = LocalStorage(tmp_path), MemoryTables()
    first, again = entry(unit(OWN)), entry(unit(OWN, attempt="two"), attempt="two")
    stage(storage, first, again)
    publish(storage, tables, first)
    publish(storage, tables, again, first)
    assert [each.identity.attempt for each in tables.commits] == ["one", "two"]


def test_rows_of_a_table_that_was_removed_need_not_be_replaced(tmp_path: Path) -> None:
    storage, tables = LocalStorage(tmp_path), MemoryTables()
    publish(storage, tables, entry(attempt="two"), entry(unit(OWN)))
    assert tables.commits == []


def test_rows_that_are_missing_in_a_commit_are_told(tmp_path: Path) -> None:
    storage, run = LocalStorage(tmp_path), entry(unit(OWN))
    stage(storage, run)
    with pytest.raises(MissingOutputError, match="archive/topic=flights: 3 rows were staged, 2 are in its commit"):
        publish(storage, MemoryTables(lost=1), run)


def test_what_is_neither_committed_nor_staged_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="was to be committed to archive/topic=flights from _staging/one"):
        publish(LocalStorage(tmp_path), MemoryTables(), entry(unit(OWN)))


def test_columns_are_looked_at_before_anything_is_published() -> None:
    looked: list[str] = []
    check_columns(lambda commit: looked.append(commit.table), entry(unit(OWN)), entry(unit(LETTERS)))  # type: ignore[arg-type, return-value, func-returns-value]
    assert looked == [TABLE]  # of the other one nothing is written


def test_no_commit_without_the_lock(tmp_path: Path) -> None:
    storage, tables, run = LocalStorage(tmp_path), MemoryTables(), entry(unit(OWN))
    stage(storage, run)

    def guard() -> None:
        raise LockLostError("gone")

    with pytest.raises(LockLostError):
        publish_to_tables(storage, tables, lambda commit: commit.units, run, None, guard)  # type: ignore[arg-type, return-value]
    assert tables.commits == []


def test_what_only_went_to_a_topic_stays_a_folder(tmp_path: Path) -> None:
    storage, tables = LocalStorage(tmp_path), MemoryTables()
    sent = unit(layout.dated_unit(layout.sent_kind("delays"), "flights", DAY))
    run = entry(sent)
    stage(storage, run)
    publish(storage, tables, run)
    assert tables.commits == []
    assert storage.read(f"{sent.path}/{layout.MANIFEST}") is not None
    assert readable_folder(tables, sent) == sent.path


def test_rows_of_tables_are_read_where_they_are_staged() -> None:
    ours = unit(OWN)
    assert readable_folder(MemoryTables(), ours) == ours.staged
    assert readable_folder(None, ours) == ours.path
    assert replace(ours, path="_sent/x").path == readable_folder(MemoryTables(), replace(ours, path="_sent/x"))
