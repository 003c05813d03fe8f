"""The Spark session of a program that tests start: its own process, often of another release of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import spark_jobs
from tests.spark import class_data
from tests.spark.sessions import SESSION


def jar_settings(jars: str, scratch: Path) -> dict[str, str]:
    """Return the settings of a session with `jars` that keeps its files in `scratch`."""
    return SESSION | {
        "spark.driver.extraJavaOptions": class_data.JAVA_OPTIONS,
        "spark.jars": jars,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def start_session(settings: Mapping[str, str], master: str = "local[2]") -> SparkSession:
    """Start a quiet session that knows our source."""
    builder = SparkSession.builder.master(master)
    for name, text in settings.items():
        builder = builder.config(name, text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark_jobs.register(spark)
    return spark
