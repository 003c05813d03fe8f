"""The page of many partitions: `python -m tests.bench.scale_page RESULT ...` makes `SCALE.md` and its picture of result files.

The files are those of `tests.bench.scale --output` and `tests.bench.scale_pairs --output`; of a size that several of them have, the last
one counts. What is beyond a bar is told with its cause, which is written here by hand.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tests.bench.growth_page import LIMIT, Axis, growth, picture
from tests.bench.page import in_cell
from tests.bench.scale_figures import for_one

PAGE: Final = Path(__file__).with_name("SCALE.md")
OURS: Final = "kafkalite"
SIZE: Final = 100_000
"""Partitions that the bars are about."""

Row = Mapping[str, Any]


class Group(NamedTuple):
    """Clusters that differ in their number of partitions only."""

    side: str
    factor: int
    stand_ins: int

    def __str__(self) -> str:
        return f"{self.side}, factor {self.factor}" + (f", {self.stand_ins} stand-ins" if self.stand_ins else "")


Groups = Mapping[Group, Mapping[int, Row]]


@dataclass(frozen=True)
class Bar:
    """What a figure of 100,000 partitions may be; `stages` are added where only a part of a step counts."""

    what: str
    limit: float
    figure: str = ""
    step: str = ""
    stages: Sequence[str] = ()
    stand_ins: int = 0
    cause: str = ""
    """Why it is missed."""

    def find_value(self, row: Row) -> float | None:
        if self.stages:
            known = row.get("steps", {}).get(self.step, {}).get("stages", {})
            return sum(known[each] for each in self.stages) if known else None
        return figures_of_row(row).get(self.figure)


_START: Final = (
    "the start asks for the state of each log's files and makes its objects; after a stop the other brokers still take up what it has left"
    " behind, on the same processors"
)
BARS: Final = (
    Bar("takeover after the verdict until all partitions are led, s", 5, "takeover until all are led, s"),
    Bar(
        "restart after a stop until the broker serves, s",
        20,
        step="restart after a stop",
        stages=("registered", "serving"),
        cause=_START,
    ),
    Bar(
        "restart after kill -9 until the broker serves, s",
        30,
        step="restart after kill -9",
        stages=("registered", "serving"),
        cause=_START,
    ),
    Bar(
        "1,000 topics of 100 partitions created, s",
        120,
        "creation, s",
        cause="two znodes, and for each replica a directory, a log and a fetch",
    ),
    Bar("memory of three brokers together, MB", 3000, "memory, together, MB"),
    Bar("takeover, 100 stand-ins, s", 10, "takeover, s", stand_ins=100),
    Bar("takeover, 100 stand-ins, MB sent", 100, "takeover, sent by the controller, MB", stand_ins=100),
)
UNTIL_NO_ISR: Final = Bar("until no ISR has the dead broker", math.inf, "takeover, s")
"""What no bar is about: by then clients have had leaders of all partitions for a while."""
_EVERY_REPLICA: Final = (
    "It is in the ISR of each partition that it had a replica of: each state is written to ZooKeeper, sent to its replicas, taken up there",
    "and logged, some 80 µs of processor with three replicas, six tenths the controller's, and all servers and the client share two cores.",
)
_SPEED_CAUSE: Final = (
    "measured in one run of some seconds after the creation, into which files and summaries of the new logs may fall (processor at rest,"
    " below), and whose figures differ by more than the bar allows"
)
AT_REST: Final = ("produced, processor µs a record", "consumed, processor µs a record")
BY_THE_CLOCK: Final = {
    "produced, time by the clock": "produced, records/s",
    "consumed, time by the clock": "consumed, records/s",
}
"""What pairs tell by the clock, and the speed that it is the reciprocal of."""
SPEED_LIMIT: Final = 1.05
"""So many times what a record costs beside few partitions it may cost beside many."""

DRAWN: Final = (
    "creation, s",
    "controlled stop, s",
    "restart after a stop, s",
    "restart after kill -9, s",
    "death, s",
    "takeover, s",
    "takeover, processor of the controller, s",
    "takeover, sent by the controller, MB",
    "memory, together, MB",
)
"""Figures in the picture, for one partition."""


def figures_of_row(row: Row) -> dict[str, float]:
    """Return what is expected to grow with the partitions of a row, by name."""
    memory_mb = {f"memory, {name}, MB": value for name, value in row.get("memory, MB", {}).items()}
    return row.get("figures", {}) | memory_mb


def groups_of(results: Sequence[Mapping[str, Any]]) -> dict[Group, dict[int, Row]]:
    """Return the rows of all result files by size, those of one side, factor and number of stand-ins together."""
    found: dict[Group, dict[int, Row]] = {}
    for result in results:
        for row in result["measured"]:
            if "figures" in row:
                by_size = found.setdefault(Group(row["side"], row["factor"], row["stand-ins"]), {})
                by_size[row["partitions"]] = row
    return {group: dict(sorted(by_size.items())) for group, by_size in sorted(found.items(), reverse=True)}


def page(results: Sequence[Mapping[str, Any]], picture_name: str) -> str:
    """Return the text of the page."""
    groups = groups_of(results)
    lines = [
        "# Many partitions",
        "",
        "Made by `python -m tests.bench.scale_page` of the result files below; not to be edited. The steps are those of",
        "`tests.bench.scale_rounds` and `tests.bench.stand_ins`: a death and a takeover begin when the dead broker's session has ended,",
        "and end when nobody tells of it as a leader or in an ISR with others; until all are led, when brokers tell of living leaders (of",
        "a sample of topics, the last one to be told among them). Growth is the most times that a partition cost what it had cost at",
        f"least at a smaller size; more than {LIMIT:g} is faster than its work.",
        "",
        f"![What a partition costs at each size]({picture_name})",
        "",
        "## Bars",
        "",
        f"At {SIZE:,} partitions, three brokers (two beside stand-ins) and one ZooKeeper, which share the processors with the clients.",
        "ZooKeeper has a heap of 1 GiB, from 300,000 partitions on one of 3 GiB.",
        "",
        "| Bar | Below | Measured | |",
        "|---|---|---|---|",
        *_bar_lines(groups, _pairs_of(results)),
        "",
        *_cause_lines(groups, _pairs_of(results)),
        *_isr_lines(groups),
        *_beside_lines(results),
        *_group_lines(groups),
        "## Published by others",
        "",
        "Not measured here: for 2 million partitions on KRaft its authors published 37 s for the recovery after an uncontrolled shutdown",
        "and 32 s for a controlled one, on machines of their own.",
        "",
        "## Runs",
    ]
    for result in results:
        lines += ["", "| | |", "|---|---|", *(f"| {name} | {in_cell(value)} |" for name, value in _where(result))]
    return "\n".join(lines) + "\n"


class Pairs(NamedTuple):
    """What a record cost beside many partitions, times what it cost beside few on a cluster that lived at the same time."""

    few: int
    many: int
    rounds: Mapping[str, Sequence[float]]
    """By figure."""


def _pairs_of(results: Sequence[Mapping[str, Any]]) -> dict[int, Pairs]:
    """Return what `tests.bench.scale_pairs` measured, by factor."""
    found = {}
    for result in results:
        if "pairs" in result:
            few, many = (row["partitions"] for row in result["measured"])
            found[result["measured"][0]["factor"]] = Pairs(few, many, result["pairs"])
    return found


def _bar_lines(groups: Groups, pairs: Mapping[int, Pairs]) -> list[str]:
    lines = [
        _bar_line(f"{bar.what}, factor {group.factor}", bar.limit, f"{value:.3g}", value < bar.limit)
        for bar, group, value in _judged(groups)
    ]
    for factor, (few, many, rounds) in pairs.items():
        ratios = {name: rounds[name] for name in AT_REST}
        ratios |= {time: [1 / each for each in rounds[speed]] for time, speed in BY_THE_CLOCK.items()}
        for name, found in ratios.items():
            times = statistics.median(found)
            what = f"{name}, {many:,} times {few:,} partitions, median of {len(found)} pairs, factor {factor}"
            lines.append(_bar_line(what, SPEED_LIMIT, f"{times:.2f}", times < SPEED_LIMIT))
    for group, by_size in groups.items():
        least = min(by_size)
        if group.side != OURS or SIZE not in by_size or least == SIZE or group.factor in pairs:
            continue
        for name in AT_REST:
            beside, alone = by_size[SIZE].get("at rest", {}).get(name), by_size[least].get("at rest", {}).get(name)
            if beside and alone:
                times = beside / alone
                what = f"{name}, times that beside {least:,} partitions, factor {group.factor}"
                lines.append(_bar_line(what, SPEED_LIMIT, f"{times:.2f}", times < SPEED_LIMIT))
    return lines


def _bar_line(what: str, limit: float, value: str, met: bool) -> str:
    return f"| {what} | {limit:g} | {value} | {'met' if met else '**missed**'} |"


def _cause_lines(groups: Groups, pairs: Mapping[int, Pairs]) -> list[str]:
    causes = {bar.what: bar.cause for bar, _, value in _judged(groups) if value >= bar.limit and bar.cause}
    if any("times that beside" in line and "missed" in line for line in _bar_lines(groups, pairs)):
        causes["what a record costs"] = _SPEED_CAUSE
    return [*(f"- {what}: {cause}." for what, cause in causes.items()), ""] if causes else []


def _isr_lines(groups: Groups) -> list[str]:
    told = [f"{value:.3g} s with factor {group.factor}" for _, group, value in _judged(groups, (UNTIL_NO_ISR,))]
    if not told:
        return []
    return [f"A takeover {UNTIL_NO_ISR.what} takes {', '.join(told)}.", *_EVERY_REPLICA, ""]


def _judged(groups: Groups, bars: Sequence[Bar] = BARS) -> list[tuple[Bar, Group, float]]:
    found = []
    for bar in bars:
        for group, by_size in groups.items():
            value = bar.find_value(by_size[SIZE]) if SIZE in by_size else None
            if value is not None and group.side == OURS and group.stand_ins == bar.stand_ins:
                found.append((bar, group, value))
    return found


def _beside_lines(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table for each size at which one run has both sides: their figures, and how many times as much the other side takes."""
    lines: list[str] = []
    for result in results:
        groups = groups_of([result])
        for group, by_size in groups.items():
            ours = groups.get(group._replace(side=OURS), {})
            for partitions in sorted(by_size.keys() & ours.keys()) if group.side != OURS else ():
                theirs, own = (figures_of_row(rows[partitions]) for rows in (by_size, ours))
                lines += [
                    f"## Beside {group.side}: {partitions:,} partitions, factor {group.factor}",
                    "",
                    f"| Figure | {group.side} | {OURS} | Times |",
                    "|---|---|---|---|",
                    *(
                        f"| {name} | {_figure(theirs[name])} | {_figure(own[name])} | {_times(theirs[name], own[name])} |"
                        for name in own
                        if name in theirs
                    ),
                    "",
                ]
    return lines


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _times(other: float, own: float) -> str:
    return f"{other / own:,.3g}" if own else ""


def _group_lines(groups: Groups) -> list[str]:
    lines: list[str] = []
    for group, by_size in groups.items():
        sizes = list(by_size)
        figures = {size: figures_of_row(row) for size, row in by_size.items()}
        lines += [
            f"## {group}",
            "",
            f"| Figure | {' | '.join(f'{size:,}' for size in sizes)} | Growth |",
            f"|---|{'---|' * (len(sizes) + 1)}",
        ]
        for name, costs in for_one(figures).items():
            lines.append(f"| {name} | {_cells(figures, sizes, name)} | {_format_growth(growth(costs))} |")
        at_rest = {size: row.get("at rest", {}) for size, row in by_size.items()}
        for name in dict.fromkeys(name for known in at_rest.values() for name in known):
            lines.append(f"| at rest: {name} | {_cells(at_rest, sizes, name)} | |")
        lines.append("")
    return lines


def _cells(by_size: Mapping[int, Mapping[str, float]], sizes: Sequence[int], name: str) -> str:
    return " | ".join(_figure(by_size[size][name]) if name in by_size[size] else "" for size in sizes)


def _format_growth(times: float) -> str:
    if math.isnan(times):
        return ""
    return f"**{times:.2f}**, faster than its work" if times > LIMIT else f"{times:.2f}"


def _where(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    loads = ", ".join(" to ".join(f"{each:.1f}" for each in row["load"]) for row in result["measured"])
    settings = result["properties"] | result["properties of ours"]
    sides = {row["side"] for row in result["measured"]}
    return [
        ("when", result["at"]),
        ("measured", ", ".join(f"{row['partitions']:,} (factor {row['factor']})" for row in result["measured"])),
        *((side, version) for side, version in result["sides"].items() if side in sides),
        *((name, str(value)) for name, value in result["machine"].items()),
        ("file system of logs", result.get("file system", "not noted")),
        ("load of the machine, with what was measured", loads),
        ("settings", ", ".join(f"`{key}={value}`" for key, value in settings.items())),
    ]


def axes_of(groups: Groups) -> list[Axis]:
    """Return what is drawn: the costs of one partition in ms or kB, of each group with two sizes at least."""
    axes = []
    for group, by_size in groups.items():
        costs = for_one({size: figures_of_row(row) for size, row in by_size.items()})
        drawn = {
            f"{name.removesuffix(', s').removesuffix(', MB')}, {'ms' if name.endswith(', s') else 'kB'}": {
                size: cost * 1e3 for size, cost in costs[name].items()
            }
            for name in DRAWN
            if len(costs.get(name, ())) > 1
        }
        if drawn:
            axes.append(Axis(str(group), str(group), drawn))
    return axes


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--output", type=click.Path(path_type=Path), default=PAGE, help="The page.  [default: SCALE.md here]")
def main(paths: Sequence[Path], output: Path) -> None:
    results = [json.loads(path.read_text()) for path in paths]
    beside = output.with_name(output.stem.lower() + ".svg")
    output.write_text(page(results, beside.name))
    beside.write_text(picture(axes_of(groups_of(results))))
    click.echo(f"written to {output}")


if __name__ == "__main__":
    main()
