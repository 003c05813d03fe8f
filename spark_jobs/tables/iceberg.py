"""Iceberg tables: a night overwrites its partition, and its snapshot has the run's identity in its summary.

The output folder is the warehouse of a Hadoop catalog, so a table is read by its path alone. That catalog commits by renaming a file, which
fails on local folders and HDFS where another writer was faster. On object stores it is a look and a copy, which is one step for readers and
two for writers: there the lock of the output keeps them apart.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import mmh3
from pyspark.sql import functions as F
from pyspark.sql.types import DateType

from spark_jobs.tables.packages import ICEBERG
from spark_jobs.tables.table_format import DataFile, Expiry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.batch.storage import Storage
    from spark_jobs.tables.commits import Commit

_METADATA: Final = re.compile(r"v\d+\.(?:gz\.)?metadata\.json")
_ORPHANS_AFTER_MS: Final = 24 * 3_600_000
"""Iceberg removes no younger files: they may be those of a commit under way."""


class IcebergTables:
    """`TableFormat` by Iceberg."""

    name = ICEBERG
    can_widen = True

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._spark, self._storage = spark, storage
        # A session keeps the catalogs that it has loaded: each output folder has one of its own.
        self._catalog = f"kafkalite_{mmh3.mmh3_x64_128_digest(storage.uri.encode()).hex()[:16]}"
        catalog = f"spark.sql.catalog.{self._catalog}"
        spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{catalog}.type", "hadoop")
        spark.conf.set(f"{catalog}.warehouse", storage.spark_path(""))
        spark.conf.set(f"{catalog}.cache-enabled", "false")

    def exists(self, table: str) -> bool:
        return any(_METADATA.fullmatch(each.name) for each in self._storage.entries(f"{table}/metadata"))

    def read(self, table: str) -> DataFrame:
        return self._spark.table(self._name(table))

    def replace(self, commit: Commit, rows: DataFrame) -> None:
        # Rows come sorted by partition; Iceberg need not send those of a night to one task.
        writer = rows.writeTo(self._name(commit.table)).option("distribution-mode", "none")
        for name, value in commit.identity.properties().items():
            writer = writer.option(f"snapshot-property.{name}", value)
        if not self.exists(commit.table):
            writer = writer.using(ICEBERG).tableProperty("write.spark.accept-any-schema", "true")
            writer.partitionedBy(*map(F.col, commit.partitions)).create()
            return
        is_replaced = F.col(commit.replaced_by) == F.lit(commit.value).cast(DateType())
        writer.option("mergeSchema", "true").overwrite(is_replaced)

    def committed_rows(self, commit: Commit) -> int | None:
        if not self.exists(commit.table):
            return None
        found = self._spark.table(f"{self._name(commit.table)}.snapshots")
        for name, value in commit.identity.properties().items():
            found = found.where(F.col("summary")[name] == value)
        row = found.select(F.col("summary")["added-records"].alias("rows")).head()
        return None if row is None else int(row["rows"] or 0)

    def files(self, table: str) -> list[DataFile]:
        described = self._spark.table(f"{self._name(table)}.files").select("file_path", "file_size_in_bytes").collect()
        return [DataFile(row["file_path"].rpartition("/")[0], row["file_size_in_bytes"]) for row in described]

    def data_files(self, table: str) -> list[str]:
        listed = self._spark.table(f"{self._name(table)}.files").where("content = 0")
        return [row["file_path"] for row in listed.select("file_path").collect()]

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        options = f"map('target-file-size-bytes', '{target_bytes}', 'min-input-files', '2')"
        (done,) = self._call("rewrite_data_files", table, f"options => {options}")
        return done["rewritten_data_files_count"], done["added_data_files_count"]

    def expire(self, table: str, older_than_ms: int, now_ms: int, dry_run: bool) -> Expiry:
        before = datetime.fromtimestamp(older_than_ms / 1000, UTC).strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S.%f'")
        name = self._name(table)
        current = [row["snapshot_id"] for row in self._spark.table(f"{name}.refs").select("snapshot_id").collect()]
        old = self._spark.table(f"{name}.snapshots").where(f"committed_at < {before}")
        snapshots = old.where(~F.col("snapshot_id").isin(current)).count()
        files: int | None = None
        if not dry_run:
            (done,) = self._call("expire_snapshots", table, f"older_than => {before}, retain_last => 1")
            files = done["deleted_data_files_count"]
        if now_ms - older_than_ms > _ORPHANS_AFTER_MS:
            dry = str(dry_run).lower()
            orphans = self._call("remove_orphan_files", table, f"older_than => {before}, dry_run => {dry}")
            files = (files or 0) + len(orphans)
        return Expiry(snapshots, files)

    def _call(self, procedure: str, table: str, arguments: str) -> list[Any]:
        name = ".".join(map(_quote, table.split("/"))).replace("'", "\\'")
        return self._spark.sql(f"CALL {self._catalog}.system.{procedure}(table => '{name}', {arguments})").collect()

    def _name(self, table: str) -> str:
        return ".".join([self._catalog, *map(_quote, table.split("/"))])


def _quote(part: str) -> str:
    return f"`{part.replace('`', '``')}`"
