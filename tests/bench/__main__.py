"""Measures one broker: `python -m tests.bench [--only CELL] [--compare FILE] [--against COMMAND] [--results]`.

Results go to `tests/bench/results/<moment>.json` and to a table. `--compare` compares with such a file, and the exit status is 1
when a cell has lost more than a tenth; it is refused for another machine's. `--against` runs a second broker command and measures both in
turn, A B A B ..., so that a change of the machine's mood hits both; the medians of the rounds are compared. For the broker of another
checkout COMMAND is `/path/to/checkout/.venv/bin/python -P -m kafkalite broker --config`: without -P, Python would take the modules of the
current directory.

`--results` measures the cells of the page beside Apache Kafka, three rounds, and writes `tests/bench/RESULTS.md` with its picture. It takes
half an hour, on a machine that does nothing else; `--only` and `--seconds` make it shorter.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from tests.bench import (  # noqa: F401 -- they register their cells
    clusters,
    groups,
    lives,
    observation,
    old_consumers,
    storage,
    transactions,
)
from tests.bench.cells import CELLS, Cell, Target, wait_for_controller
from tests.bench.machine import machine, ours
from tests.bench.page import PICTURE, losses, page, picture
from tests.peers import apache_kafka

RESULTS: Final = Path(__file__).parent / "results"
PAGE: Final = Path(__file__).with_name("RESULTS.md")
PROPERTIES: Final = {"log.retention.check.interval.ms": "3600000"}
ON_THE_PAGE: Final = (
    *(
        "produce-100B",
        "produce-1kB",
        "produce-1kB-acks-all",
        "consume-100B",
        "consume-1kB",
        "round-trip-p50",
        "round-trip-p99",
    ),
    *("single records on 20 connections", "single records on 200 connections"),
    "processor time for a single record on 200 connections",
    *("start-up", "resident-memory"),
    *(f"creation of {lives.PARTITIONS} partitions, one broker", f"clean stop with {lives.PARTITIONS} partitions"),
    f"restart with {lives.PARTITIONS} partitions",
    *("failover gap after a leader's session, 300 partitions", "failover gap at a clean stop, 300 partitions"),
    *("creation of 500 partitions, factor 3", "idle processor use of three brokers, 500 partitions"),
    "controller failover, 500 partitions",
)
Results = dict[str, list[float]]


def measure(command: tuple[str, ...], cells: list[Cell], seconds: float) -> dict[str, float]:
    """Each cell's value on a fresh broker."""
    with LocalCluster(brokers=0, properties=PROPERTIES, command=command) as cluster:
        began = time.perf_counter()
        cluster.add_broker(1)
        target = Target(cluster, time.perf_counter() - began, seconds, command)
        wait_for_controller(target.servers)
        return {each.name: each.measure(target) for each in cells}


def measure_in_turn(
    commands: dict[str, tuple[str, ...]], cells: list[Cell], seconds: float, rounds: int
) -> dict[str, Results]:
    """All rounds' values by side and cell; the sides take turns, and the one that begins changes each round."""
    values: dict[str, Results] = {side: {each.name: [] for each in cells} for side in commands}
    for number in range(rounds):
        order = list(commands) if number % 2 == 0 else list(reversed(commands))
        for side in order:
            for name, value in measure(commands[side], cells, seconds).items():
                values[side][name].append(value)
    return values


def show(title: str, cells: list[Cell], ours: Results, other_name: str, other: Results) -> None:
    table = Table(title=title)
    table.add_column("cell")
    for heading in ("unit", "median", "lowest", "highest"):
        table.add_column(heading, justify="right")
    if other:
        table.add_column(other_name, justify="right")
        table.add_column("change", justify="right")
    for each in cells:
        values = ours[each.name]
        median = statistics.median(values)
        row = [each.name, each.unit, f"{median:.3g}", f"{min(values):.3g}", f"{max(values):.3g}"]
        if other.get(each.name):
            before = statistics.median(other[each.name])
            row += [f"{before:.3g}", change(each, before, median)]
        table.add_row(*row)
    Console().print(table)


def change(cell: Cell, before: float, now: float) -> str:
    """Such as "+12 % better"; gains and losses under 2 % are noise."""
    if before == 0:
        return "-"
    percent = (now / before - 1) * 100
    if abs(percent) < 2:
        return "same"
    better = (percent > 0) == cell.higher_is_better
    return f"[{'green' if better else 'red'}]{percent:+.0f} % {'better' if better else 'worse'}"


def sides() -> dict[str, str]:
    """The versions that are compared, and how they run."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    return {
        "kafkalite": ours(),
        "Apache Kafka": f"{apache_kafka.VERSION} with ZooKeeper, {java}, {' '.join(apache_kafka.SCRIPT_FLAGS)}",
    }


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(sorted(CELLS)), help="Measure this cell; can be repeated.")
@click.option("--seconds", default=5.0, show_default=True, help="Length of each throughput cell.")
@click.option("--rounds", default=1, show_default=True, help="Fresh brokers to measure.")
@click.option(
    "--compare",
    type=click.Path(path_type=Path, exists=True),
    help="Compare with an earlier result file; the status is 1 when a cell lost more than a tenth.",
)
@click.option("--against", help="Another broker command; the path of a properties file is appended to it.")
@click.option("--results", is_flag=True, help="Measure beside Apache Kafka, and write the page of results.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Result file.  [default: a new one in tests/bench/results]"
)
def main(
    only: tuple[str, ...],
    seconds: float,
    rounds: int,
    compare: Path | None,
    against: str | None,
    results: bool,
    output: Path | None,
) -> None:
    earlier = None if compare is None else json.loads(compare.read_text())
    if earlier is not None and earlier["machine"] != machine():
        raise click.ClickException(f"{compare} was measured on another machine: {earlier['machine']}")
    wanted = only or (ON_THE_PAGE if results else tuple(CELLS))
    cells = [CELLS[name] for name in wanted]
    commands = {"ours": tuple(BROKER_COMMAND)}
    if results:
        commands["against"] = apache_kafka.script_command(with_archive=True)
    elif against is not None:
        commands["against"] = tuple(shlex.split(against))
    if "against" in commands:
        rounds = max(rounds, 3)
    load = [os.getloadavg()[0]]
    values = measure_in_turn(commands, cells, seconds, rounds)
    load.append(os.getloadavg()[0])
    other_name, other = "Apache Kafka" if results else "against", values.get("against", {})
    if earlier is not None and not other:
        other_name, other = str(compare), earlier["values"]["ours"]
    show(f"one broker, {rounds} round(s) of {seconds:g} s", cells, values["ours"], other_name, other)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    path = output or RESULTS / f"{moment}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "at": moment,
        "command": " ".join(["python -m tests.bench", *map(shlex.quote, sys.argv[1:])]),
        "machine": machine(),
        "load": load,
        "rounds": rounds,
        "seconds": seconds,
        "against": against,
        "sides": sides() if results else {},
        "properties": PROPERTIES,
        "units": {each.name: each.unit for each in cells},
        "higher_is_better": {each.name: each.higher_is_better for each in cells},
        "values": values,
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    Console().print(f"written to {path}")
    if results:
        PAGE.write_text(page(content))
        PAGE.with_name(PICTURE).write_text(picture(content))
        Console().print(f"written to {PAGE}")
    if earlier is not None:
        lost = losses(earlier["values"]["ours"], values["ours"], content["higher_is_better"])
        if lost:
            told = ", ".join(f"{name} ({times:.2f} times what it was)" for name, times in lost.items())
            raise click.ClickException(f"lost more than a tenth: {told}")


if __name__ == "__main__":
    main()
