"""What maintenance does to which tables, without any Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.batch.failures import LockLostError
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.jobs import maintain
from spark_jobs.jobs.maintain import Maintenance
from spark_jobs.tables.table_format import DataFile, Expiry, compactable_files

TARGET_BYTES = 100


NO_ROWS = "maintenance reads and replaces no rows"


class ListedTables:
    """Folders with a file `table` are tables; their files and what is done to them are noted."""

    name = "listed"
    can_widen = False

    def __init__(self, root: Path, files: dict[str, list[DataFile]]) -> None:
        self._root, self._files = root, files
        self.done: list[tuple[Any, ...]] = []

    def exists(self, table: str) -> bool:
        return (self._root / table / "table").exists()

    def files(self, table: str) -> list[DataFile]:
        return self._files.get(table, [])

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        self.done.append(("compact", table, target_bytes))
        return 2, 1

    def expire(self, table: str, older_than_ms: int, now_ms: int, dry_run: bool) -> Expiry:
        self.done.append(("expire", table, older_than_ms, now_ms, dry_run))
        return Expiry(4, None if dry_run else 7)

    def read(self, table: str) -> Any:
        raise AssertionError(NO_ROWS)

    def replace(self, commit: Any, rows: Any) -> None:
        raise AssertionError(NO_ROWS)

    def committed_rows(self, commit: Any) -> int | None:
        raise AssertionError(NO_ROWS)

    def data_files(self, table: str) -> list[str]:
        raise AssertionError(NO_ROWS)


def make_tables(root: Path, files: dict[str, list[DataFile]]) -> tuple[LocalStorage, ListedTables]:
    storage = LocalStorage(root)
    for table in files:
        storage.write(f"{table}/table", b"")
    return storage, ListedTables(root, files)


def make_request(*, dry_run: bool = False, compacts: bool = True, expires: bool = True) -> Maintenance:
    return Maintenance(compacts, TARGET_BYTES, expires, 1_000, 2_000, dry_run)


SMALL = [DataFile("date=1", 10), DataFile("date=1", 10)]


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ([], 0),
        ([DataFile("a", 10)], 0),
        (SMALL, 2),
        ([*SMALL, DataFile("date=1", TARGET_BYTES)], 2),
        ([DataFile("a", 10), DataFile("a", TARGET_BYTES)], 0),
        ([DataFile("a", 10), DataFile("b", 10)], 0),
    ],
)
def test_small_files_of_one_partition_are_put_together(files: list[DataFile], count: int) -> None:
    assert compactable_files(files, TARGET_BYTES) == count


def test_all_tables_are_found_and_nothing_else(tmp_path: Path) -> None:
    names = ["archive/topic=a", "dead_letters_of/delays/topic=a", "reprocessed/delays/topic=b"]
    storage, tables = make_tables(tmp_path, {name: [] for name in [*names, "_staging/x", "archive/topic=a/inner"]})
    storage.write("_table_format.json", b"{}")
    assert list(maintain.plan(storage, tables)) == names


def test_tables_with_small_files_are_compacted_and_all_expire(tmp_path: Path) -> None:
    storage, tables = make_tables(tmp_path, {"archive/topic=a": SMALL, "archive/topic=b": SMALL[:1]})
    first, second = maintain.main(storage, tables, make_request(), lambda: None)
    assert tables.done == [
        ("compact", "archive/topic=a", TARGET_BYTES),
        ("expire", "archive/topic=a", 1_000, 2_000, False),
        ("expire", "archive/topic=b", 1_000, 2_000, False),
    ]
    assert first == {
        "table": "archive/topic=a",
        "files": 2,
        "bytes": 20,
        "compacted": 2,
        "written": 1,
        "expired_snapshots": 4,
        "expired_files": 7,
        "dry_run": False,
    }
    assert (second["compacted"], second["written"]) == (0, 0)


def test_a_dry_run_only_counts(tmp_path: Path) -> None:
    storage, tables = make_tables(tmp_path, {"archive/topic=a": SMALL})
    (row,) = maintain.main(storage, tables, make_request(dry_run=True), lambda: None)
    assert [step[0] for step in tables.done] == ["expire"] and tables.done[0][-1] is True
    assert (row["compacted"], row["written"], row["expired_files"], row["dry_run"]) == (2, None, None, True)


def test_each_half_can_be_left_out(tmp_path: Path) -> None:
    storage, tables = make_tables(tmp_path, {"archive/topic=a": SMALL})
    maintain.main(storage, tables, make_request(expires=False), lambda: None)
    maintain.main(storage, tables, make_request(compacts=False), lambda: None)
    assert [step[0] for step in tables.done] == ["compact", "expire"]


def test_nothing_is_changed_without_the_lock(tmp_path: Path) -> None:
    storage, tables = make_tables(tmp_path, {"archive/topic=a": SMALL})

    def guard() -> None:
        raise LockLostError("gone")

    with pytest.raises(LockLostError):
        maintain.main(storage, tables, make_request(), guard)
    assert tables.done == []
