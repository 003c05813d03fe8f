"""Run in Spark 4.0.0 (`tests.peers.spark_connector.run_program`): topics read, or written, by `kafka` and by `kafkalite` in turn, in one
session.

The answer has for each cell and source the seconds of each round: on the clock, and of processors (the JVM and Spark's Python workers).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_jobs

SOURCES: Final = ("kafka", "kafkalite")
WRITING_TASKS: Final = 4
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def session(jars: str, scratch: Path, cores: int) -> SparkSession:
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, text in settings.items():
        builder = builder.config(name, text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark_jobs.register(spark)
    return spark


def processor_s() -> float:
    """Processor time of this process's descendants, the ended ones too, from Linux's /proc."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                facts = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            parents[int(folder.name)] = int(facts[1])
            ticks[int(folder.name)] = sum(map(int, facts[11:15]))
    return sum(ticks[each] for each in ticks if _descends(each, parents)) / _TICKS_PER_S


def own_processor_s(pid: int) -> float:
    """Processor time of one process, without what it has started."""
    facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, facts[11:13])) / _TICKS_PER_S


def _descends(process: int, parents: dict[int, int]) -> bool:
    while process in parents:
        process = parents[process]
        if process == os.getpid():
            return True
    return False


def read(spark: SparkSession, source: str, options: dict[str, str]) -> dict[str, float]:
    frame = spark.read.format(source).options(**options).load()
    began, used = time.perf_counter(), processor_s()
    frame.write.format("noop").mode("overwrite").save()
    return {"wall_s": time.perf_counter() - began, "processor_s": processor_s() - used}


def write(spark: SparkSession, source: str, options: dict[str, str]) -> dict[str, float]:
    """Write `rows` with values of `size` bytes, which Spark makes at next to no cost, to `topic`."""
    given = dict(options)
    rows, size = int(given.pop("rows")), int(given.pop("size"))
    # The values of the records are all the same: to make others in Java would take longer than to write them.
    value = F.lit(bytearray(os.urandom(size // 2).hex().encode()))
    frame = spark.range(0, rows, 1, WRITING_TASKS).select(F.col("id").cast("string").alias("key"), value.alias("value"))
    began, used = time.perf_counter(), processor_s()
    frame.write.format(source).options(**given).mode("append").save()
    return {"wall_s": time.perf_counter() - began, "processor_s": processor_s() - used}


def main(question: Path, answer: Path) -> None:
    asked = json.loads(question.read_text())
    spark = session(asked["jars"], question.parent, asked["cores"])
    found: dict[str, dict[str, list[Any]]] = {}
    for name, options in asked["cells"].items():
        act = write if "topic" in options else read
        for _ in range(asked["warm_up"]):
            for source in SOURCES:
                act(spark, source, options)
        rounds = found[name] = {source: [] for source in SOURCES}
        for number in range(asked["rounds"]):
            for source in SOURCES if number % 2 else reversed(SOURCES):
                rounds[source].append(act(spark, source, options))
    answer.write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
