"""The tables of an output folder, by its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.tables.packages import DELTA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.batch.storage import Storage
    from spark_jobs.tables.table_format import TableFormat


def open_tables(table_format: str, spark: SparkSession, storage: Storage) -> TableFormat:
    """Return the tables of an output folder; `table_format` is DELTA or ICEBERG."""
    if table_format == DELTA:
        from spark_jobs.tables.delta import DeltaTables

        return DeltaTables(spark, storage)
    from spark_jobs.tables.iceberg import IcebergTables

    return IcebergTables(spark, storage)
