"""Delta Lake tables: a night replaces its partition (`replaceWhere`), and its commit has the run's identity as `userMetadata`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_jobs.tables.packages import DELTA
from spark_jobs.tables.table_format import DataFile, Expiry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.batch.storage import Storage
    from spark_jobs.tables.commits import Commit

_VERSION: Final = re.compile(r"\d{20}\.(?:json|checkpoint\..*)")
_HISTORY: Final = 1000
"""Commits among which that of a run is looked for. The run holds the lock, so there are hardly others after it."""
_SAFE_HOURS: Final = 168
"""Delta Lake's own limit, below which it asks to switch its check off."""
_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"
_OPTIMIZE: Final = "spark.databricks.delta.optimize."
_LISTING_TASKS: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_TASKS_PER_CORE: Final = 4
"""Of those that list folders for VACUUM, which by Spark's default are 10,000 whatever the table's size."""


class DeltaTables:
    """`TableFormat` by Delta Lake."""

    name = DELTA
    can_widen = False
    """Delta Lake could by a table feature (type widening), with which most other readers cannot read the table any more."""

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._spark, self._storage = spark, storage

    def exists(self, table: str) -> bool:
        return any(_VERSION.fullmatch(each.name) for each in self._storage.entries(f"{table}/_delta_log"))

    def read(self, table: str) -> DataFrame:
        return self._spark.read.format(DELTA).load(self._storage.spark_path(table))

    def replace(self, commit: Commit, rows: DataFrame) -> None:
        writer = rows.write.format(DELTA).mode("overwrite").partitionBy(*commit.partitions)
        writer = writer.option("replaceWhere", f"{commit.replaced_by} = DATE'{commit.value}'")
        writer = writer.option("mergeSchema", "true").option("userMetadata", commit.identity.to_json())
        writer.option("compression", "zstd").save(self._storage.spark_path(commit.table))

    def committed_rows(self, commit: Commit) -> int | None:
        if not self.exists(commit.table):
            return None
        history = self._spark.sql(f"DESCRIBE HISTORY {self._quote_path(commit.table)} LIMIT {_HISTORY}")
        ours = history.where(F.col("userMetadata") == commit.identity.to_json())
        found = ours.select(F.col("operationMetrics")["numOutputRows"].alias("rows")).head()
        return None if found is None else int(found["rows"] or 0)

    def files(self, table: str) -> list[DataFile]:
        described = self.read(table).select("_metadata.file_path", "_metadata.file_size").distinct().collect()
        return [DataFile(row["file_path"].rpartition("/")[0], row["file_size"]) for row in described]

    def data_files(self, table: str) -> list[str]:
        return self.read(table).inputFiles()

    def compact(self, table: str, target_bytes: int) -> tuple[int, int]:
        for name in ("minFileSize", "maxFileSize"):
            self._spark.conf.set(f"{_OPTIMIZE}{name}", str(target_bytes))
        (done,) = self._spark.sql(f"OPTIMIZE {self._quote_path(table)}").collect()
        return done["metrics"]["numFilesRemoved"], done["metrics"]["numFilesAdded"]

    def expire(self, table: str, older_than_ms: int, now_ms: int, dry_run: bool) -> Expiry:
        hours = (now_ms - older_than_ms) / 3_600_000
        vacuum = f"VACUUM {self._quote_path(table)} RETAIN {hours:.6f} HOURS"
        self._spark.conf.set(_LISTING_TASKS, str(_TASKS_PER_CORE * self._spark.sparkContext.defaultParallelism))
        if hours < _SAFE_HOURS:
            self._spark.conf.set(_CHECK, "false")
        try:
            files = self._spark.sql(f"{vacuum} DRY RUN").count()
            if not dry_run:
                self._spark.sql(vacuum).collect()
        finally:
            if hours < _SAFE_HOURS:
                self._spark.conf.unset(_CHECK)
        return Expiry(None, files)

    def _quote_path(self, table: str) -> str:
        path = self._storage.spark_path(table).replace("`", "``")
        return f"delta.`{path}`"
