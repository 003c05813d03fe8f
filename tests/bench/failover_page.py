"""The page of failovers: `python -m tests.bench.failover_page RESULT ...` makes `FAILOVER.md` of result files.

The files are those of `tests.bench.failover --output`; of a side, number of partitions and victim that several of them have, the last one
counts. The timelines of the documentation are drawn of the page, which has the stages of a whole round for that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tests.bench.failover_figures import STAGES, VICTIMS, summarize_stages
from tests.bench.page import in_cell, where

PAGE: Final = Path(__file__).with_name("FAILOVER.md")

Round = Mapping[str, float]
"""Milliseconds by stage, with `total`, and `newcomer` where a host vanished."""


class Case(NamedTuple):
    """Which broker of which cluster is killed."""

    side: str
    partitions: int
    victim: str


def cases_of(results: Sequence[Mapping[str, Any]]) -> dict[Case, list[Round]]:
    """Return the rounds of all result files: victims in their order, fewest partitions first, ours before Apache Kafka."""
    found = {
        Case(row["side"], row["partitions"], row["victim"]): row["rounds, ms"]
        for result in results
        for row in result["measured"]
    }
    sides = list(dict.fromkeys(side for result in results for side in result["sides"]))
    return dict(
        sorted(
            found.items(),
            key=lambda each: (VICTIMS.index(each[0].victim), each[0].partitions, sides.index(each[0].side)),
        )
    )


def median_round(rounds: Sequence[Round]) -> Round:
    """Return the round whose total is the median (nearest rank), so that its stages add up. Raises ValueError without rounds."""
    if not rounds:
        raise ValueError("nothing was measured")
    return sorted(rounds, key=lambda each: each["total"])[math.ceil(len(rounds) / 2) - 1]


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the page."""
    cases = cases_of(results)
    lines = [
        "# Failover",
        "",
        "Made by `python -m tests.bench.failover_page` of the result files below; not to be edited. What is measured, and where a stage",
        "ends, is described in `tests/bench/failover.py`. All figures are milliseconds from `kill -9`, or from the last packet of a",
        "host that vanishes.",
        "",
        "## To the next acknowledged record",
        "",
        "A client sends one record at a time with acks=all; of a host that vanishes the column is that of a client that connects after the",
        "election, because one that waits for the lost host spends its own time-outs of a minute.",
        "",
        "| Victim | Partitions | Cluster | Rounds | p50 | p90 | Most |",
        "|---|---|---|---|---|---|---|",
        *(_total_line(case, rounds) for case, rounds in cases.items()),
        "",
        "## Stages of a median round",
        "",
        "The round whose total is the median of its row above. Stages end when the process has exited, when its session has ended, when",
        "another broker is the controller, when the partition has a new state, and when the client has its acknowledgement.",
        "",
        f"| Victim | Partitions | Cluster | {' | '.join(STAGES)} | total |",
        f"|---|---|---|{'---|' * (len(STAGES) + 1)}",
        *(_stages_line(case, median_round(rounds)) for case, rounds in cases.items() if case.victim != "vanish"),
        "",
        "## Runs",
    ]
    for result in results:
        lines += [
            "",
            "| | |",
            "|---|---|",
            *(f"| {name} | {in_cell(value)} |" for name, value in _circumstances(result)),
        ]
    return "\n".join(lines) + "\n"


def _total_line(case: Case, rounds: Sequence[Round]) -> str:
    found = summarize_stages(rounds)
    total = found["newcomer" if case.victim == "vanish" else "total"]
    figures = " | ".join(f"{each:,.0f}" for each in total)
    return f"| {case.victim} | {case.partitions:,} | {case.side} | {len(rounds)} | {figures} |"


def _stages_line(case: Case, stages: Round) -> str:
    figures = " | ".join(f"{stages[name]:,.1f}" if name in stages else "" for name in (*STAGES, "total"))
    return f"| {case.victim} | {case.partitions:,} | {case.side} | {figures} |"


def _circumstances(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings = result["settings"]
    sides = {row["side"] for row in result["measured"]}
    given = settings["properties"] | settings["properties of ours"]
    options = [word for word in result["command"].split(" --output ")[0].split() if word != "--verbose"]
    return [
        ("when", result["at"]),
        ("command", f"`{' '.join(options)}`"),
        *((side, version) for side, version in result["sides"].items() if side in sides),
        *where({**result, "load": settings["load"]}),
        (
            "client",
            f"{settings['client']}, {settings['zookeepers']} ZooKeeper server{'s' * (settings['zookeepers'] > 1)}",
        ),
        ("settings", ", ".join(f"`{key}={value}`" for key, value in given.items())),
    ]


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--output", type=click.Path(path_type=Path), default=PAGE, help="The page.  [default: FAILOVER.md here]")
def main(paths: Sequence[Path], output: Path) -> None:
    output.write_text(page([json.loads(path.read_text()) for path in paths]))
    click.echo(f"written to {output}")


if __name__ == "__main__":
    main()
