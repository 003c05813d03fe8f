"""Run in Spark 4.0.0 (`spark_connector.run_program`): the same reads and writes by `kafka` and by `kafkalite`, in one session.

The question is a list of cases; the answer has for each what both gave: rows with their schema, or the text of the error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_jobs
from tests.spark.sessions import SESSION

FORMATS = ("kafka", "kafkalite")
AT_ONCE = 4
SPLITTING = {"minPartitions", "maxRecordsPerPartition"}


def session(jars: str, scratch: Path) -> SparkSession:
    settings = SESSION | {
        "spark.jars": jars,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.task.maxFailures": "1",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, text in settings.items():
        builder = builder.config(name, text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark_jobs.register(spark)
    return spark


def outcome(attempt: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    try:
        return {"answer": attempt(*arguments)}
    except Exception as problem:
        lines = [line.strip() for line in f"{type(problem).__name__}: {problem}".splitlines()]
        return {"error": " ".join(line for line in lines if not line.startswith("at "))}


def read(spark: SparkSession, source: str, case: dict[str, Any]) -> dict[str, Any]:
    found = spark.read.format(source).options(**case["options"]).load()
    rows = sorted(found.collect(), key=lambda row: (row.topic, row.partition, row.offset))
    answer: dict[str, Any] = {"schema": json.loads(found.schema.json()), "rows": [list(map(repr, row)) for row in rows]}
    if SPLITTING & case["options"].keys():
        answer["tasks"] = found.rdd.getNumPartitions()
    return answer


def write(spark: SparkSession, source: str, case: dict[str, Any]) -> list[list[str]]:
    """Rows made by SQL go to the case's topic for this source, and come back through Spark's own.

    Which partition a record without a key goes to is the producer's choice, and left out.
    """
    options = {name: text.replace("{source}", source) for name, text in case["options"].items()}
    frame = spark.sql(case["sql"].replace("{source}", source))
    frame.write.format(source).mode("append").options(**options).save()
    back = {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"], "includeHeaders": "true"}
    found = spark.read.format("kafka").options(**back, subscribe=case["read"].replace("{source}", source)).load()
    place = F.when(F.col("key").isNotNull(), F.col("partition"))
    columns = found.select(place, "key", "value", "headers", F.col("timestamp") > "2001-01-01")
    return sorted([repr(value) for value in row] for row in columns.collect())


def main(question: Path, answer: Path) -> None:
    asked = json.loads(question.read_text())
    spark = session(asked["jars"], question.parent)
    kinds = {"read": read, "write": write}

    def compare(case: dict[str, Any]) -> dict[str, Any]:
        return {source: outcome(kinds[case["kind"]], spark, source, case) for source in FORMATS}

    reads = {name: case for name, case in asked["cases"].items() if case["kind"] == "read"}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(reads, pool.map(compare, reads.values()), strict=True))
    # Spark 4.0 knows Python sources that are written to only in the thread of the session.
    found |= {name: compare(case) for name, case in asked["cases"].items() if name not in reads}
    answer.write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
