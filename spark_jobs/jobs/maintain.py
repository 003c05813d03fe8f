"""Job `maintain`: puts small files of the output's tables together, and removes what only old states of them need.

Folders of Parquet have neither: a run replaces its files, and writes them as large as `--max-file-bytes` lets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from spark_jobs.batch.storage import Storage
from spark_jobs.tables.table_format import TableFormat, compactable_files

Guard = Callable[[], None]
_DEEPEST: Final = 4
"""Levels of folders above a table: `reprocessed/NAME/topic=…` is the deepest."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What is to be done: the size of compacted files, the time (Unix ms) before which states of a table are given up."""

    compacts: bool
    target_file_bytes: int
    expires: bool
    older_than_ms: int
    now_ms: int
    dry_run: bool


def plan(storage: Storage, tables: TableFormat, folder: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the tables of the output."""
    for each in storage.entries(folder):
        path = f"{folder}/{each.name}" if folder else each.name
        if not each.is_folder or each.name.startswith(("_", ".")):
            continue
        if tables.exists(path):
            yield path
        elif depth < _DEEPEST:
            yield from plan(storage, tables, path, depth + 1)


def main(storage: Storage, tables: TableFormat, wanted: Maintenance, guard: Guard) -> list[dict[str, Any]]:
    """Maintain each table; return a row for each. A figure is None where it is not known, as for what a dry run would write."""
    return [_maintain(tables, table, wanted, guard) for table in plan(storage, tables)]


def _maintain(tables: TableFormat, table: str, wanted: Maintenance, guard: Guard) -> dict[str, Any]:
    files = tables.files(table)
    compacted, written = (compactable_files(files, wanted.target_file_bytes), None) if wanted.compacts else (0, 0)
    if compacted and not wanted.dry_run:
        guard()
        compacted, written = tables.compact(table, wanted.target_file_bytes)
    expired: dict[str, Any] = {"expired_snapshots": 0, "expired_files": 0}
    if wanted.expires:
        guard()
        found = tables.expire(table, wanted.older_than_ms, wanted.now_ms, wanted.dry_run)
        expired = {"expired_snapshots": found.snapshots, "expired_files": found.files}
    return {
        "table": table,
        "files": len(files),
        "bytes": sum(file.bytes for file in files),
        "compacted": compacted,
        "written": written if compacted else 0,
        **expired,
        "dry_run": wanted.dry_run,
    }
