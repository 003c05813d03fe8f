"""Reading and writing by our Spark source beside Spark's connector: `python -m tests.bench.spark [--rounds 5] [--only CELL] [--apache]`.

One Spark session (4.0.0, local, two cores) reads the same topics of the same broker by both, in turn; medians of the rounds are compared.
Cells: values of 100 B and 1 kB, read and written, then growth with the number of partitions and with the size of the topic. Results go to
`tests/bench/results/spark-<moment>.json` and to a table: rows/s on the clock, and per second of processor (JVM and Python
workers), which other work on the machine disturbs less. The aims are ratios on the clock.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer
from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from tests.bench.spark_reading import SOURCES
from tests.peers import apache_kafka, spark_connector

RESULTS: Final = Path(__file__).parent / "results"
AIMS: Final = {"100 B": 3.0, "1 kB": 2.0, "100 B, written": 2.0, "1 kB, written": 2.0}
CORES: Final = 2
WARM_UP: Final = 2


@dataclass(frozen=True, slots=True)
class Cell:
    """A topic of `rows` records with values of `size` bytes, and how it is read."""

    name: str
    size: int
    rows: int
    partitions: int = 4
    options: tuple[tuple[str, str], ...] = ()
    writes: bool = False

    @property
    def topic(self) -> str:
        return f"bench-{self.size}-{self.rows}-{self.partitions}{'-written' if self.writes else ''}"

    def make_options(self, servers: str) -> dict[str, str]:
        """Return the options of a read, or of a write and what is written."""
        if self.writes:
            written = {"topic": self.topic, "rows": str(self.rows), "size": str(self.size)}
            return {"kafka.bootstrap.servers": servers, **written, **dict(self.options)}
        return {"kafka.bootstrap.servers": servers, "subscribe": self.topic, **dict(self.options)}


def cells(scale: float) -> list[Cell]:
    small, large = int(1_000_000 * scale), int(200_000 * scale)
    return [
        Cell("100 B", 100, small),
        Cell("1 kB", 1000, large),
        Cell("100 B, written", 100, small, writes=True),
        Cell("1 kB, written", 1000, large, writes=True),
        Cell("100 B, 1 partition", 100, small, 1),
        Cell("100 B, 1 partition, 4 tasks", 100, small, 1, (("minPartitions", "4"),)),
        Cell("100 B, 16 partitions", 100, small, 16),
        Cell("100 B, a tenth of the rows", 100, small // 10),
        Cell("100 B, three times the rows", 100, small * 3),
    ]


def fill(servers: str, cell: Cell) -> None:
    with SyncAdmin(bootstrap_servers=servers) as admin:
        if cell.topic in admin.list_topics():
            return
        admin.create_topics([NewTopic(cell.topic, cell.partitions, 1)])
    if cell.writes:
        return
    values = [os.urandom(cell.size // 2).hex().encode() for _ in range(1000)]
    with SyncProducer(bootstrap_servers=servers, acks=1, enable_idempotence=False) as producer:
        for number in range(cell.rows):
            producer.send(cell.topic, values[number % 1000], b"%08d" % number, number % cell.partitions)


def measure(chosen: list[Cell], rounds: int, command: tuple[str, ...]) -> dict[str, Any]:
    """What `spark_reading` answers for these cells."""
    with tempfile.TemporaryDirectory() as scratch, LocalCluster(brokers=1, command=command) as cluster:
        for cell in chosen:
            fill(cluster.bootstrap_servers, cell)
        asked = {
            "jars": spark_connector.jars(),
            "cores": CORES,
            "rounds": rounds,
            "warm_up": WARM_UP,
            "cells": {cell.name: cell.make_options(cluster.bootstrap_servers) for cell in chosen},
        }
        found: dict[str, Any] = spark_connector.run_program(
            "tests.bench.spark_reading", asked, Path(scratch), timeout_s=3600
        )
    return found


def rates(cell: Cell, rounds: dict[str, list[dict[str, float]]], clock: str) -> dict[str, float]:
    """Rows per second of each source, medians of the rounds."""
    return {source: cell.rows / statistics.median(each[clock] for each in rounds[source]) for source in SOURCES}


def show(chosen: list[Cell], found: dict[str, Any]) -> None:
    theirs, ours = SOURCES
    table = Table(title="rows/s read or written by Spark 4.0.0, two cores")
    for column in ("cell", theirs, ours, "ratio", "aim", f"{theirs} per processor s", ours, "ratio"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    for cell in chosen:
        wall, used = (rates(cell, found[cell.name], clock) for clock in ("wall_s", "processor_s"))
        aim = AIMS.get(cell.name)
        table.add_row(
            cell.name,
            f"{wall[theirs]:,.0f}",
            f"{wall[ours]:,.0f}",
            f"{wall[ours] / wall[theirs]:.2f}",
            f"{aim:.1f}" if aim else "",
            f"{used[theirs]:,.0f}",
            f"{used[ours]:,.0f}",
            f"{used[ours] / used[theirs]:.2f}",
        )
    Console(width=140).print(table)


@click.command()
@click.option("--rounds", default=5, show_default=True, help="Reads of each cell by each source.")
@click.option("--scale", default=1.0, show_default=True, help="Of the number of rows.")
@click.option("--only", multiple=True, help="Only this cell; can be repeated.")
@click.option("--apache", is_flag=True, help="Read from Apache Kafka's broker in place of ours.")
def main(rounds: int, scale: float, only: tuple[str, ...], apache: bool) -> None:
    chosen = [each for each in cells(scale) if not only or each.name in only]
    command = tuple(apache_kafka.broker_command()) if apache else BROKER_COMMAND
    found = measure(chosen, rounds, command)
    RESULTS.mkdir(exist_ok=True)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    record = {
        "broker": "apache" if apache else "kafkalite",
        "processors": os.cpu_count(),
        "cells": {cell.name: {"rows": cell.rows, "size": cell.size, **found[cell.name]} for cell in chosen},
    }
    (RESULTS / f"spark-{moment}.json").write_text(json.dumps(record, indent=1))
    show(chosen, found)


if __name__ == "__main__":
    main()
