"""Measures one broker: `python -m tests.bench [--only CELL] [--baseline FILE] [--against COMMAND]`.

Results go to `tests/bench/results/<moment>.json` and to a table. `--baseline` compares with such a file. `--against` runs
a second broker command and measures both in turn, A B A B ..., so that a change of the machine's mood hits both; the
medians of the rounds are compared. For the broker of another checkout COMMAND is
`/path/to/checkout/.venv/bin/python -P -m kafkalite broker --config`: without -P, Python would take the modules of the current directory.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from kafkalite.local.broker_process import BROKER_COMMAND
from kafkalite.local.cluster import LocalCluster
from tests.bench import clusters, groups, observation, old_consumers, storage, transactions  # noqa: F401 -- they register their cells
from tests.bench.cells import CELLS, Cell, Target, wait_for_controller

RESULTS: Final = Path(__file__).parent / "results"
PROPERTIES: Final = {"log.retention.check.interval.ms": "3600000"}

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


def machine() -> dict[str, Any]:
    return {"processors": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(sorted(CELLS)), help="Measure this cell; can be repeated.")
@click.option("--seconds", default=5.0, show_default=True, help="Length of each throughput cell.")
@click.option("--rounds", default=1, show_default=True, help="Fresh brokers to measure.")
@click.option("--baseline", type=click.Path(path_type=Path, exists=True), help="Compare with an earlier result file.")
@click.option("--against", help="Another broker command; the path of a properties file is appended to it.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Result file.  [default: a new one in tests/bench/results]"
)
def main(
    only: tuple[str, ...], seconds: float, rounds: int, baseline: Path | None, against: str | None, output: Path | None
) -> None:
    cells = [each for name, each in CELLS.items() if not only or name in only]
    commands = {"ours": tuple(BROKER_COMMAND)}
    if against is not None:
        commands["against"] = tuple(shlex.split(against))
        rounds = max(rounds, 3)
    values = measure_in_turn(commands, cells, seconds, rounds)
    other_name, other = "against", values.get("against", {})
    if baseline is not None and against is None:
        other_name, other = baseline.stem, json.loads(baseline.read_text())["values"]["ours"]
    show(f"one broker, {rounds} round(s) of {seconds:g} s", cells, values["ours"], other_name, other)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    path = output or RESULTS / f"{moment}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    units = {each.name: each.unit for each in cells}
    content = {"at": moment, "machine": machine(), "against": against, "units": units, "values": values}
    path.write_text(json.dumps(content, indent=2) + "\n")
    Console().print(f"written to {path}")


if __name__ == "__main__":
    main()
