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
    """Make the format `kafkalite` known to a session. Once is enough; again changes nothing.

    WorkerPythonError when Spark's workers run a Python without this package.
    """
    from spark_jobs.source import KafkaliteSource
    from spark_jobs.worker_python import check_worker_python

    check_worker_python(spark)
    spark.dataSource.register(KafkaliteSource)
