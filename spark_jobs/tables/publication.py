"""A night's commits to its tables, in place of exchanged folders (`batch.publication`), and what the tables hold.

What is staged is the same: Parquet files that were counted. Each table gets one commit of them, and the commit's own count is compared
with the plan. After a crash, whoever finishes the night looks for its commit and repeats it only where it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DateType

from spark_jobs.batch import layout
from spark_jobs.batch.failures import MissingOutputError, OutputError
from spark_jobs.batch.publication import publish
from spark_jobs.batch.storage import read_parquet
from spark_jobs.tables.commits import Commit, is_in_table, plan_commits
from spark_jobs.tables.schema_evolution import merge_schemas, nullable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spark_jobs.batch.ledger import Entry, Unit
    from spark_jobs.batch.publication import Guard
    from spark_jobs.batch.storage import Storage
    from spark_jobs.tables.table_format import TableFormat

_SORTED_BY = ("partition", "offset")


RowsOf = Callable[[Commit], "DataFrame"]


def check_columns(rows_of: RowsOf, entry: Entry, replaced: Entry | None) -> None:
    """Raise OutputError when columns that are staged do not fit their table; `rows_of` is `staged_rows`."""
    for commit in plan_commits(entry, replaced):
        if commit.units:
            rows_of(commit)


def publish_to_tables(
    storage: Storage,
    tables: TableFormat,
    rows_of: RowsOf,
    entry: Entry,
    replaced: Entry | None,
    guard: Guard,
) -> None:
    """Make the units of `entry` visible; `replaced` is the finished run of the same date, `rows_of` is `staged_rows`.

    OutputError when columns do not fit a table; MissingOutputError when a commit has other rows than were staged.
    """
    earlier = None if replaced is None else _without_tables(replaced)
    publish(storage, _without_tables(entry), earlier, guard)
    for commit in plan_commits(entry, replaced):
        if not commit.units and not tables.exists(commit.table):
            continue  # a table that somebody has removed: there is nothing to be replaced
        if tables.committed_rows(commit) is None:
            _check_staged(storage, entry, commit)
            rows = rows_of(commit)
            guard()
            tables.replace(commit, rows)
        found = tables.committed_rows(commit)
        if found != commit.rows:
            raise MissingOutputError(f"{commit.table}: {commit.rows} rows were staged, {found} are in its commit")


def staged_rows(spark: SparkSession, storage: Storage, tables: TableFormat, commit: Commit) -> DataFrame:
    """Return the staged rows of a commit with the schema that the table then has, in the order of partitions."""
    if not commit.units:
        return spark.createDataFrame([], tables.read(commit.table).schema)
    there = tables.read(commit.table).schema if tables.exists(commit.table) else None
    paths = [storage.spark_path(f"{unit.staged}/{file.name}") for unit in commit.units for file in unit.files]
    # By the folder's name, which says a date: columns of the same name in the files are those of readers of folders, too.
    folder = F.col("_metadata.file_path")
    values = {name: F.regexp_extract(folder, f".*/{name}=([^/]+)/", 1).cast(DateType()) for name in commit.partitions}
    rows = read_parquet(spark, paths, added=values)
    merged = _merged_schema(tables, commit, there, rows.schema)
    by = (*commit.partitions, *(name for name in _SORTED_BY if name in merged.names))
    return rows.to(merged).sortWithinPartitions(*by)


def readable_folder(tables: TableFormat | None, unit: Unit) -> str:
    """Return where a unit's files are once it is published: what became rows of a table is still staged."""
    return unit.path if tables is None or not is_in_table(unit) else unit.staged


def read_archived(tables: TableFormat, topic: str, days: Sequence[date], columns: Sequence[str]) -> list[DataFrame]:
    """Return these columns of the archive and of the dead letters of the days, from the tables that there are."""
    names = (f"{kind}/topic={topic}" for kind in (layout.ARCHIVE, layout.DEAD_LETTERS))
    return [
        tables.read(name).where(F.col("date").isin(list(days))).select(*columns)
        for name in names
        if tables.exists(name)
    ]


def _check_staged(storage: Storage, entry: Entry, commit: Commit) -> None:
    for unit in commit.units:
        if storage.read(f"{unit.staged}/{layout.MANIFEST}") is None:
            raise OutputError(
                f"{unit.path} was to be committed to {commit.table} from {unit.staged}, where it is not any more: "
                f"remove the pending file of {entry.plan.date} from the ledger and run the date again"
            )


def _without_tables(entry: Entry) -> Entry:
    return replace(entry, units=tuple(unit for unit in entry.units if not is_in_table(unit)))


def _merged_schema(tables: TableFormat, commit: Commit, there: StructType | None, rows: StructType) -> StructType:
    if there is not None:
        return merge_schemas(commit.table, there, rows, tables.can_widen)
    found = nullable(rows)
    assert isinstance(found, type(rows))
    return found
