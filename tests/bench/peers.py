"""Measures a broker of ours beside servers of Kafka's protocol that developers and tests use in its place: `python -m tests.bench.peers
[--only NAME]`.

| Peer | Is | Keeps |
|---|---|---|
| kfake | a server for tests, in Go (`pkg/kfake` of franz-go) | records in memory |
| kfake on disk | the same with a DataDir | records in files, which it flushes when a segment is full |

Neither replicates, so the table tells what a developer's test waits for, and not which broker is better. The sides take turns, each round
with fresh brokers (ZooKeeper, which only ours uses, runs beside all of them); the medians are printed. A peer that cannot be had here, for
want of a registry or of Go, is named with the reason.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from kafkalite.local.broker_process import BROKER_COMMAND
from tests.bench.__main__ import Results, measure_in_turn
from tests.bench.cells import CELLS, Cell, resident_memory
from tests.ecosystem import environments

PROGRAM: Final = Path(__file__).with_name("kfake.go")
KFAKE: Final = (
    "github.com/twmb/franz-go/pkg/kfake@v0.0.0-20260918054303-01f206a7e32c",
    "github.com/twmb/franz-go@v1.22.3",
)
MEASURED: Final = (
    Cell("memory when started", "MB", False, resident_memory),
    *(CELLS[name] for name in ("produce-100B", "produce-1kB", "consume-100B", "consume-1kB")),
    *(CELLS[name] for name in ("round-trip-p50", "round-trip-p99", "single records on 200 connections")),
    CELLS["processor time for a single record on 200 connections"],
    Cell("memory behind all of this", "MB", False, resident_memory),
)
OURS: Final = "kafkalite"


def kfake_command(*flags: str) -> tuple[str, ...]:
    """Return the command of a broker, to which the path of its properties file is appended. Raises Missing."""
    return (*environments.go_program(PROGRAM, *KFAKE).command, *flags)


PEERS: Final[Mapping[str, Callable[[], tuple[str, ...]]]] = {
    "kfake": kfake_command,
    "kfake on disk": lambda: kfake_command("-disk"),
}


def table_of(values: Mapping[str, Results]) -> Table:
    """Return the medians of all rounds, a column for each side."""
    table = Table(title="Beside servers for tests")
    table.add_column("cell")
    table.add_column("unit")
    for side in values:
        table.add_column(side, justify="right")
    for each in MEASURED:
        medians = [f"{statistics.median(found[each.name]):.3g}" for found in values.values()]
        table.add_row(each.name, each.unit, *medians)
    return table


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(PEERS)), help="Measure this peer; can be repeated.")
@click.option("--seconds", default=5.0, show_default=True, help="Length of each throughput cell.")
@click.option("--rounds", default=3, show_default=True, help="Fresh brokers of each side.")
def main(only: tuple[str, ...], seconds: float, rounds: int) -> None:
    console = Console()
    commands = {OURS: tuple(BROKER_COMMAND)}
    for name in only or PEERS:
        try:
            commands[name] = PEERS[name]()
        except environments.Missing as problem:
            console.print(f"{name} is not measured: {problem}")
    console.print(f"measured in turn: {', '.join(f'{name} ({shlex.join(c)})' for name, c in commands.items())}")
    console.print(table_of(measure_in_turn(commands, list(MEASURED), seconds, rounds)))
    console.print(
        "kfake keeps nothing on disk unless it is asked to, and replicates nothing: the figures are not comparable."
    )


if __name__ == "__main__":
    main()
