"""What is in a stream's sinks, as readers see it that know nothing of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlparse

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from deltalake import DeltaTable
from pyarrow import parquet
from pyiceberg.table import StaticTable

from tests.peers.stream_program import COLUMNS, ICEBERG_TABLE, UNDISTURBED

Row: TypeAlias = tuple[Any, ...]

_CONSUMER_TIMEOUT_S = 120.0


def files_of_stream(folder: Path) -> list[Path]:
    """The files that batches have committed, from the log of Spark's file sink. Others are those of tasks that died."""
    log = folder / "_spark_metadata"
    numbers = {int(each.name.split(".")[0]): each for each in log.iterdir() if each.name.split(".")[0].isdigit()}
    compacted = max((number for number, each in numbers.items() if each.suffix == ".compact"), default=-1)
    files: dict[str, bool] = {}
    for number in sorted(number for number in numbers if number >= compacted):
        version, *lines = numbers[number].read_text().splitlines()
        assert version == "v1", f"{numbers[number]} is of version {version}"
        for entry in map(json.loads, filter(None, lines)):
            files[entry["path"]] = entry["action"] == "add"
    return [Path(unquote(urlparse(path).path)) for path, there in sorted(files.items()) if there]


def rows_of(found: pa.Table) -> list[Row]:
    return sorted(zip(*(found.column(name).to_pylist() for name in COLUMNS), strict=True))


def undisturbed(output: Path) -> list[Row]:
    return rows_of(parquet.read_table(output / UNDISTURBED))


def rows_in_files(output: Path) -> list[Row]:
    return rows_of(pa.concat_tables(map(parquet.read_table, files_of_stream(output / "parquet"))))


def rows_in_delta(output: Path) -> list[Row]:
    return rows_of(DeltaTable(output / "delta").to_pyarrow_table())


def rows_in_iceberg(output: Path) -> list[Row]:
    versions = (output / "iceberg").joinpath(*ICEBERG_TABLE.split("."), "metadata").glob("v*.metadata.json")
    newest = max(versions, key=lambda path: int(path.name.split(".")[0].removeprefix("v")))
    return rows_of(StaticTable.from_metadata(str(newest)).scan().to_arrow())


def records_in_topic(servers: str, topic: str, partitions: Iterable[int]) -> list[Row]:
    """Keys and values of what is committed in a topic, read by librdkafka to the last stable offset of each partition."""
    wanted = {number: TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions}
    settings = {
        "bootstrap.servers": servers,
        "group.id": "independent",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    found: list[Row] = []
    try:
        consumer.assign(list(wanted.values()))
        while wanted:
            message = consumer.poll(_CONSUMER_TIMEOUT_S)
            assert message is not None, f"no end of partitions {sorted(wanted)} of {topic} in {_CONSUMER_TIMEOUT_S} s"
            if (problem := message.error()) is None:
                found.append((message.key(), message.value()))
            elif problem.code() == KafkaError._PARTITION_EOF:
                wanted.pop(message.partition(), None)
            else:
                raise AssertionError(str(problem))
    finally:
        consumer.close()
    return sorted(found)
