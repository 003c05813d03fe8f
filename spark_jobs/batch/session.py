"""The Spark session of the jobs: what was given to spark-submit or to `--master`, and what the jobs rely on."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping

from pyspark.sql import SparkSession

from spark_jobs import register

_RELIED_ON = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
}
"""Results depend on these."""

_BOUNDED = {
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
}
"""What Python workers get at once, however large records are; by default the first releases of Spark 4 go by their number.

Where bytes are bounded, Spark asks after each row how large the batch is, and goes through all rows of a column that has only nulls so far:
with its 10,000 records in a batch that takes twice the time of the whole night."""

_QUIET = {"spark.ui.showConsoleProgress": "false"}
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""One process on this machine needs neither a web page nor an address that others reach."""


def open_session(master: str | None, settings: Mapping[str, str], log_level: str = "FATAL") -> SparkSession:
    """Return a session with the format `kafkalite`; `master` is for programs that were not started by spark-submit."""
    if master is not None and "spark.pyspark.python" not in settings:
        # Executors run the interpreter that runs the driver: it has what the jobs need.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None and master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if master is not None and sys.platform == "linux" and not has_utf8_locale(os.environ):
        # Java takes the names of files from the locale; in cron's, letters beyond ASCII become question marks.
        os.environ["LC_ALL"] = "C.UTF-8"
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    builder = SparkSession.Builder().appName("kafkalite nightly")
    if master is not None:
        builder = builder.master(master)
    local = _LOCAL if master is not None and master.startswith("local") else {}
    for name, value in {**_QUIET, **_BOUNDED, "spark.log.level": log_level, **local, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for name, value in _RELIED_ON.items():
        spark.conf.set(name, value)
    register(spark)
    return spark


def has_utf8_locale(environment: Mapping[str, str]) -> bool:
    """True if a program with these variables takes names of files for UTF-8 (POSIX: LC_ALL wins over LC_CTYPE, that over LANG)."""
    name = next((value for key in ("LC_ALL", "LC_CTYPE", "LANG") if (value := environment.get(key))), "C")
    return name.lower().replace("-", "").partition(".")[2].startswith("utf8")
