"""A driver program: copies one topic into another and prints how many rows it read, as JSON.

Arguments: bootstrap servers, source, target, a folder. Every task makes the file `begun` there and waits for the file `open`. Nothing
registers the format: the session is given `spark_jobs.DISCOVERY` by configuration.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import SparkSession


def gate(folder: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def hold(batches: Iterator[Any]) -> Iterator[Any]:
        import pathlib
        import time

        for batch in batches:
            pathlib.Path(folder, "begun").touch()
            deadline = time.monotonic() + 60
            while not pathlib.Path(folder, "open").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch

    return hold


def main(servers: str, source: str, target: str, folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    reader = spark.read.format("kafkalite").option("kafka.bootstrap.servers", servers).option("subscribe", source)
    frame = reader.option("maxRecordsPerPartition", "200").schema("key binary, value binary, partition int").load()
    held = frame.mapInArrow(gate(folder), frame.schema)
    held.write.format("kafkalite").mode("append").options(topic=target, **{"kafka.bootstrap.servers": servers}).save()
    print(json.dumps({"rows": frame.count(), "tasks": frame.rdd.getNumPartitions()}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
