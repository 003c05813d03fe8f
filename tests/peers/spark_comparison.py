"""Run in Spark 4.0.0 (`spark_connector.run_program`): the same reads and writes by `kafka` and by `kafkalite`, in one session.

The question is a list of cases; the answer has for each what both gave: rows with their schema, or the text of the error. A read that
says `direct` is done on our side by the source's own methods, called as Spark's workers call them: Spark starts a Python for each
question that it asks a source, which takes longer than all the rest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import CaseInsensitiveDict

from spark_jobs.source import KafkaliteSource
from tests.spark.program_sessions import jar_settings, start_session

FORMATS = ("kafka", "kafkalite")
AT_ONCE = 4
SPLITTING = {"minPartitions", "maxRecordsPerPartition"}


def session(jars: str, scratch: Path) -> SparkSession:
    return start_session(jar_settings(jars, scratch) | {"spark.task.maxFailures": "1"})


def outcome(attempt: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    try:
        return {"answer": attempt(*arguments)}
    except Exception as problem:
        lines = [line.strip() for line in f"{type(problem).__name__}: {problem}".splitlines()]
        return {"error": " ".join(line for line in lines if not line.startswith("at "))}


def plain(value: Any) -> Any:
    """A value of a row as Python writes it, whether it comes from a `Row` or from Arrow."""
    if isinstance(value, datetime):
        return value.astimezone().replace(tzinfo=None)  # as PySpark's: local time, naive
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return tuple(plain(each) for each in value.values())
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    return value


def read(spark: SparkSession, source: str, case: dict[str, Any]) -> dict[str, Any]:
    found = spark.read.format(source).options(**case["options"]).load()
    rows = [row.asDict() for row in found.collect()]
    return answer_of(case, json.loads(found.schema.json()), rows, found.rdd.getNumPartitions)


def read_directly(case: dict[str, Any]) -> dict[str, Any]:
    """What `read` does with kafkalite, by the methods that Spark calls."""
    source = KafkaliteSource(CaseInsensitiveDict(case["options"]))
    schema = source.schema()
    reader = source.reader(schema)
    partitions = reader.partitions()
    rows = [row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()]
    return answer_of(case, json.loads(schema.json()), rows, lambda: len(partitions))


def answer_of(
    case: dict[str, Any], schema: dict[str, Any], rows: list[dict[str, Any]], tasks: Callable[[], int]
) -> dict[str, Any]:
    rows = sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))
    answer: dict[str, Any] = {
        "schema": schema,
        "rows": [[repr(plain(value)) for value in row.values()] for row in rows],
    }
    if SPLITTING & case["options"].keys():
        answer["tasks"] = tasks()
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
        theirs, ours = FORMATS
        return {
            theirs: outcome(kinds[case["kind"]], spark, theirs, case),
            ours: outcome(read_directly, case)
            if case.get("direct")
            else outcome(kinds[case["kind"]], spark, ours, case),
        }

    reads = {name: case for name, case in asked["cases"].items() if case["kind"] == "read"}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(reads, pool.map(compare, reads.values()), strict=True))
    # Spark 4.0 knows Python sources that are written to only in the thread of the session.
    found |= {name: compare(case) for name, case in asked["cases"].items() if name not in reads}
    answer.write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
