"""The driver of `test_streams_exactly_once`: streams from one topic into several sinks at once, in a Spark of either release.

    python -m tests.peers.stream_program QUESTION.json

The test writes into `request.json` what is to run, with a number; the program runs it and leaves a file `done-<number>`:

`available-now`     each query with Trigger.AvailableNow, to its end
`continuous`        each query with a batch after the other, until the next request
`batch`             one batch of all records into `undisturbed`, and the end of the program

A query that fails is started again from its checkpoint. Whoever kills the program starts it again, and it does what was asked for last.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from tests.spark.program_sessions import start_session

AVAILABLE_NOW: Final = "available-now"
CONTINUOUS: Final = "continuous"
BATCH: Final = "batch"
MODES: Final = (AVAILABLE_NOW, CONTINUOUS)

REQUEST: Final = "request.json"
UNDISTURBED: Final = "undisturbed"
ICEBERG_CATALOG: Final = "streams"
ICEBERG_TABLE: Final = "db.rows"
COLUMNS: Final = ("partition", "offset", "key", "value")

_POLL_S: Final = 0.2
_MAX_FAILURES: Final = 100


def checkpoint_of(output: Path, sink: str) -> Path:
    """Where Spark keeps how far a query has come."""
    return output / "checkpoints" / sink


class Streams:
    """The queries of one session, by the names of their sinks."""

    def __init__(self, spark: SparkSession, asked: Mapping[str, Any]) -> None:
        self._spark, self._output = spark, Path(asked["output"])
        self._cluster = {"kafka.bootstrap.servers": asked["servers"]}
        self._source = {**self._cluster, "subscribe": asked["topic"], "startingOffsets": "earliest"}
        self._limits = asked["limits"]
        self._target = asked["target"]
        self._sinks: list[str] = asked["sinks"]
        self.failures = 0

    def run(self, may_go_on: Callable[[], bool], **trigger: Any) -> None:
        """Run all queries until each has ended, or `may_go_on` says that they are to be stopped."""
        running = {name: self._start(name, trigger) for name in self._sinks}
        try:
            while running and may_go_on():
                time.sleep(_POLL_S)
                for name, query in list(running.items()):
                    if query.isActive:
                        continue
                    if (problem := query.exception()) is None:
                        del running[name]
                        continue
                    self.failures += 1
                    print(f"the query into {name} failed, and is started again:", str(problem)[:2000], flush=True)
                    if self.failures > _MAX_FAILURES:
                        raise RuntimeError(f"more than {_MAX_FAILURES} failures of queries")
                    running[name] = self._start(name, trigger)
        finally:
            for query in running.values():
                query.stop()

    def _start(self, name: str, trigger: Mapping[str, Any]) -> Any:
        reader = self._spark.readStream.format("kafkalite").options(**self._source, **self._limits)
        rows = reader.load().select(*COLUMNS)
        return {
            "parquet": self._to_files,
            "delta": self._to_files,
            "iceberg": self._to_iceberg,
            "topic": self._to_topic,
        }[name](name, rows, trigger)

    def _writer(self, name: str, rows: DataFrame, trigger: Mapping[str, Any]) -> Any:
        writer = rows.writeStream.outputMode("append").trigger(**trigger)
        return writer.option("checkpointLocation", str(checkpoint_of(self._output, name)))

    def _to_files(self, name: str, rows: DataFrame, trigger: Mapping[str, Any]) -> Any:
        return self._writer(name, rows, trigger).format(name).start(str(self._output / name))

    def _to_iceberg(self, name: str, rows: DataFrame, trigger: Mapping[str, Any]) -> Any:
        table = f"{ICEBERG_CATALOG}.{ICEBERG_TABLE}"
        columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in rows.schema.fields)
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg")
        return self._writer(name, rows, trigger).format(name).toTable(table)

    def _to_topic(self, name: str, rows: DataFrame, trigger: Mapping[str, Any]) -> Any:
        one_task = rows.select("key", "value").coalesce(1)
        options = {**self._cluster, "topic": self._target, "transactional.id.prefix": "streams"}
        return self._writer(name, one_task, trigger).format("kafkalite").options(**options).start()

    def write_undisturbed(self) -> None:
        rows = self._spark.read.format("kafkalite").options(**self._source).load().select(*COLUMNS)
        rows.write.mode("overwrite").parquet(str(self._output / UNDISTURBED))


def main(question: Path) -> None:
    asked = json.loads(question.read_text())
    control = question.parent
    spark = start_session(asked["settings"], "local[2,4]")
    streams = Streams(spark, asked)

    def request() -> dict[str, Any]:
        found: dict[str, Any] = json.loads((control / REQUEST).read_text())
        return found

    done = 0
    while True:
        wanted = request()
        if wanted["number"] == done:
            time.sleep(_POLL_S)
            continue
        if wanted["mode"] == AVAILABLE_NOW:
            streams.run(lambda: True, availableNow=True)
        elif wanted["mode"] == CONTINUOUS:
            streams.run(lambda now=wanted["number"]: request()["number"] == now, processingTime="0 seconds")  # type: ignore[misc]
        else:
            streams.write_undisturbed()
        done = wanted["number"]
        (control / f"done-{done}").touch()
        if wanted["mode"] == BATCH:
            break
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
