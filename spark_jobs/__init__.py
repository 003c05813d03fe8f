"""Jobs for Apache Spark, and the data source `kafkalite` that they read and write topics with.

spark_jobs.register(spark)
spark.read.format("kafkalite").option("kafka.bootstrap.servers", …).option("subscribe", "events").load()
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISCOVERY = Path(__file__).parent / "pyspark_kafkalite.py"
"""A file that makes the format known to every session that has it in `spark.submit.pyFiles`, without a call of `register`."""


def register(spark: SparkSession) -> None:
    """Make the format `kafkalite` known to a session. Once is enough; again changes nothing."""
    from spark_jobs.source import KafkaliteSource

    spark.dataSource.register(KafkaliteSource)
