"""What an output is opened with: `verify` reads folders of Parquet without Spark, and tables by it without writing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import opened_output
from spark_jobs.archived.folder_rows import FolderArchive
from spark_jobs.archived.table_rows import TableArchive
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.tables.packages import DELTA, PARQUET
from spark_jobs.tables.recorded_format import record_format


class Sessions:
    """In place of Spark's sessions: what was opened is noted, and reads tables of this format."""

    def __init__(self, root: Path, table_format: str) -> None:
        self._storage, self._format = LocalStorage(root), table_format
        self.opened: list[tuple[str, bool]] = []

    @contextmanager
    def open(self, options: Mapping[str, Any], *, writes: bool = True) -> Iterator[tuple[Any, LocalStorage, str]]:
        self.opened.append((options["output"], writes))
        yield None, self._storage, self._format


def open_archive(
    monkeypatch: pytest.MonkeyPatch, root: Path, table_format: str, output: str
) -> tuple[type, list[tuple[str, bool]]]:
    """The kind of archive that an output is opened as, and what sessions were opened for it."""
    sessions = Sessions(root, table_format)
    monkeypatch.setattr(opened_output, "open_output_session", sessions.open)
    with opened_output.open_archive({"output": output, "table_format": None}) as (_, archive):
        return type(archive), sessions.opened


def test_a_local_folder_of_parquet_needs_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_archive(monkeypatch, tmp_path, PARQUET, str(tmp_path)) == (FolderArchive, [])


def test_tables_are_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_format(LocalStorage(tmp_path), DELTA)
    assert open_archive(monkeypatch, tmp_path, DELTA, str(tmp_path)) == (TableArchive, [(str(tmp_path), False)])


def test_a_folder_that_only_spark_reaches_is_read_by_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = open_archive(monkeypatch, tmp_path, PARQUET, "hdfs://nowhere/lake")
    assert found == (FolderArchive, [("hdfs://nowhere/lake", False)])
