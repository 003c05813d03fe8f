"""Spark's classes as Java has parsed them, for every Java that the tests start for Spark: each starts with a third of the processor time.

`python -m tests.spark.class_data` makes the archive, unless there is one: a session runs and Java writes it at its end (class data sharing
of Java 13 and later). It lies beside the jars that it is made of, so that it goes with them, and serves one Java; where that finds that a
jar has changed, it does without.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path

from kafkalite.testing.spark_cluster import spark_home
from zk.server_classes import MissingRequirementError, find_java

TIMEOUT_S = 600
_QUIET = "-Xlog:disable"
"""Java would print to stdout why it does without the archive."""


def archive_path() -> Path:
    """Where the archive for this Java and the pyspark of this Python is, or would be. Raises MissingRequirementError, ImportError."""
    java = Path(find_java()).resolve()
    key = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:16]
    return spark_home() / "jars" / f"kafkalite-tests-{key}.jsa"


def java_options() -> list[str]:
    """With these Java reads the archive; none while there is no archive, Java or Spark."""
    try:
        path = archive_path()
    except (MissingRequirementError, ImportError):
        return []
    return [f"-XX:SharedArchiveFile={path}", _QUIET] if path.exists() else []


def _run(draft: Path) -> None:
    """A session that writes and reads a table."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from tests.spark.sessions import SESSION

    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[2]")
        settings = SESSION | {"spark.local.dir": folder}
        settings["spark.driver.extraJavaOptions"] += f" -XX:ArchiveClassesAtExit={draft} {_QUIET}"
        for key, text in settings.items():
            builder = builder.config(key, text)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        rows = spark.range(100).selectExpr("id", "CAST(id % 3 AS STRING) AS name", "timestamp_millis(id) AS time")
        rows.write.partitionBy("name").parquet(f"{folder}/table")
        found = spark.read.parquet(f"{folder}/table")
        found.groupBy("name").agg({"id": "max", "time": "count"}).join(found, "name").orderBy("id").collect()
        spark.stop()
        process = SparkContext._gateway.proc  # type: ignore[union-attr]
        process.stdin.close()
        try:
            process.wait(TIMEOUT_S)
        finally:
            process.kill()


def main() -> None:
    path = archive_path()
    if path.exists() or not os.access(path.parent, os.W_OK):
        return
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two that begin together make one
        if not path.exists():
            draft = path.with_suffix(".draft")
            draft.unlink(missing_ok=True)
            _run(draft)
            draft.rename(path)


if __name__ == "__main__":
    main()
