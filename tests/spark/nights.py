"""What the tests of the nightly jobs share: a night on the tests' own session, records, and what is in an output folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from pyarrow import parquet

from kafkalite.client import SyncProducer
from spark_jobs.batch import layout
from spark_jobs.batch.cluster_log import ClusterLog
from spark_jobs.batch.night import Night, clear_left, recover
from spark_jobs.batch.records import Reading
from spark_jobs.batch.storage import LocalStorage

DAY = date(2013, 6, 15)
FOREVER = {"retention.ms": "-1"}
"""For topics of records from years ago."""

TIMES = ("planned_ms", "done_ms", "attempt", "staged", "stages_ms", "lateness")
"""What differs in the ledger between two runs that did the same; tasks see the lateness of the offsets that they read together."""

DIGESTS = ("identity", "digest")
"""What differs besides between two JVMs: a footer of Parquet lists a set of encodings, whose order is that of addresses in memory."""


def unix_ms(day: date, second: int = 0) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() + second) * 1000


def after(days: int) -> date:
    return DAY + timedelta(days=days)


@dataclass(frozen=True)
class Sent:
    """A record to be sent; `day` and `second` are its time."""

    day: date
    second: int = 0
    partition: int = 0
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def send(servers: str, topic: str, records: Iterable[Sent]) -> None:
    with SyncProducer(bootstrap_servers=servers, acks="all") as producer:
        for each in records:
            producer.send(
                topic,
                each.value,
                each.key,
                partition=each.partition,
                timestamp_ms=unix_ms(each.day, each.second),
                headers=each.headers,
            )
        producer.flush()


@contextmanager
def night_on(
    spark: Any, servers: str, output: Path, *, refresh: bool = False, told: list[str] | None = None, **reading: Any
) -> Iterator[Night]:
    """A night without a lock, as `python -m spark_jobs` makes it."""
    settings = {"bootstrap.servers": servers}
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    with ClusterLog(settings) as log:
        tell = (told if told is not None else []).append
        night = Night(
            spark,
            log,
            LocalStorage(output),
            Reading(settings, **reading),
            lambda: None,
            tell,
            refresh,
            output.name + "-",
        )
        recover(night)
        yield night
        clear_left(night.storage)


def archived(output: Path, topic: str, day: date, kind: str = layout.ARCHIVE) -> list[dict[str, Any]]:
    """The rows of a date, with the run, in the order of partitions and offsets."""
    rows = []
    for unit in (output / layout.dated_unit(kind, topic, day)).glob("run=*"):
        for file in unit.glob("*.parquet"):
            rows += [
                {**row, "run": unit.name.removeprefix("run=")} for row in parquet.ParquetFile(file).read().to_pylist()
            ]
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


def result(output: Path, kind: str, topic: str, day: date) -> list[dict[str, Any]]:
    """The rows of a result that replaces a date as a whole."""
    files = sorted((output / layout.dated_unit(kind, topic, day)).glob("*.parquet"))
    return [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]


def tree(output: Path) -> dict[str, bytes]:
    """All that readers can see, byte for byte."""
    return {
        str(file.relative_to(output)): file.read_bytes()
        for file in sorted(output.rglob("*"))
        if file.is_file() and not str(file.relative_to(output)).startswith("_")
    }


def tables(output: Path) -> dict[str, list[dict[str, Any]]]:
    """All that readers can see, row for row, by file."""
    return {
        str(file.relative_to(output)): parquet.ParquetFile(file).read().to_pylist()
        for file in sorted(output.rglob("*.parquet"))
        if not str(file.relative_to(output)).startswith("_")
    }


def ledger(output: Path, left_out: Sequence[str] = TIMES) -> dict[str, Any]:
    """The ledger's files without times and names of attempts."""
    return {
        str(file.relative_to(output)): _without(json.loads(file.read_bytes()), left_out)
        for file in sorted((output / layout.LEDGER).rglob("*.json"))
    }


def _without(document: Any, names: Sequence[str]) -> Any:
    if isinstance(document, dict):
        return {name: _without(value, names) for name, value in document.items() if name not in names}
    return [_without(each, names) for each in document] if isinstance(document, list) else document
