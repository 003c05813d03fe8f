"""What nights and maintenance ask of a table format. Tables are named by their paths below the output folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from spark_jobs.tables.commits import Commit


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the table's present state, with the folder of its partition."""

    partition: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Expiry:
    """What an expiry removed, or would remove; None for what the format does not tell."""

    snapshots: int | None
    files: int | None


class TableFormat(Protocol):
    """Tables of one format in an output folder. Errors of Spark are raised as they are."""

    @property
    def name(self) -> str:
        """The format's name, as in `--table-format`."""

    @property
    def can_widen(self) -> bool:
        """True if a column of a table may become wider."""

    def exists(self, table: str) -> bool:
        """True if the table has had a commit."""

    def read(self, table: str) -> DataFrame:
        """Return the rows of the table as they are now."""

    def replace(self, commit: Commit, rows: DataFrame) -> None:
        """Put the rows in the place of those that have the commit's value, in one commit that carries its identity.

        The table is made, or gets columns that it lacks.
        """

    def committed_rows(self, commit: Commit) -> int | None:
        """Return how many rows the commit has written; None when the table does not have it."""

    def files(self, table: str) -> list[DataFile]:
        """Return the files of the table's present state."""

    def data_files(self, table: str) -> list[str]:
        """Return the URIs of these files, found without reading any of them."""

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        """Put small files of a partition together; return how many files went and how many came."""

    def expire(self, table: str, older_than_ms: int, now_ms: int, dry_run: bool) -> Expiry:
        """Remove what only states of the table before a time (Unix ms) need, or find out what would be removed."""


def compactable_files(files: Iterable[DataFile], target_bytes: int) -> int:
    """Return how many files compaction would put together: those below the target size in partitions that have several."""
    by_partition: dict[str, int] = {}
    for file in files:
        if file.bytes < target_bytes:
            by_partition[file.partition] = by_partition.get(file.partition, 0) + 1
    return sum(count for count in by_partition.values() if count > 1)
