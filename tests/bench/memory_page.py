"""The page of memory: `python -m tests.bench.memory_page RESULT ...` makes `MEMORY.md` of result files of `tests.bench.memory --output`.

Of a size that several files have, the last one counts. Why a thing takes what it takes is written here by hand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from tests.bench.growth_page import LIMIT, growth
from tests.bench.page import in_cell

PAGE: Final = Path(__file__).with_name("MEMORY.md")
OURS: Final = "kafkalite"
APACHE: Final = "Apache Kafka"
NAMED_TYPES: Final = 6
FIGURES: Final = (
    (OURS, "resident", "kafkalite, in RAM"),
    (OURS, "live", "kafkalite, Python objects"),
    (APACHE, "live", "Apache Kafka, live objects"),
    (APACHE, "resident", "Apache Kafka, in RAM"),
)
"""Side, figure, and what it is called."""

CAUSES: Final[Mapping[str, str]] = {
    "connection": (
        "Ours is five objects (the connection, frames, order of requests, flow control, responses), beside the transport of uvloop and its"
        " handle in C, which has no Python type and is in RAM only. Java's is a channel of NIO with its locks, keys and addresses."
        " Nothing is kept of what was received: all connections receive into one buffer. Two empty deques, 760 bytes each, were a third of"
        " a connection until this was measured; they are lists now, of 56 bytes."
    ),
    "group member": (
        "Strings and bytes on both sides: member id, client id, host, the subscription for each assignor and the assignment. Python's have"
        " a header of 50 and 33 bytes. What a member has in common with the leader, such as the subscription, is there once. Ours keeps,"
        " beside the members, the group's last record as it was written, with all assignments."
    ),
    "producer id": (
        "Nearly all of it is the last five batches, by which duplicates are recognised, as Kafka has them: a tuple of four integers each,"
        " of which the offset and the timestamp are objects of their own."
    ),
    "fetch session": (
        "Two dictionaries of one entry are more than half: the partitions of the session by topic id, and their names. They pay with many"
        " partitions, not with one. Kafka keeps hash collections that link their elements, and finds the session to evict by trees."
    ),
    "topic": (
        "A partition with its log: leader state, the log's segment with three indexes, and the topic in the metadata cache and in the"
        " controller, since one broker is all of these here. Kafka has some ten metrics for each partition and its log, each with a name of"
        " its own, and maps two index files, which are not in its heap."
    ),
}
"""What is large of each kind, and why."""


class Measured(NamedTuple):
    """A kind at a size on one side: bytes for each by figure, bytes by type; or why it was left out."""

    each: Mapping[str, float]
    types: Mapping[str, float]
    left_out: str = ""


Kinds = Mapping[str, Mapping[str, Mapping[int, Measured]]]
"""By kind, side and size."""


def kinds_of(results: Sequence[Mapping[str, Any]]) -> Kinds:
    """Return what all result files have, sizes in ascending order."""
    found: dict[str, dict[str, dict[int, Measured]]] = {}
    for result in results:
        for row in result["measured"]:
            by_size = found.setdefault(row["kind"], {}).setdefault(row["side"], {})
            each = dict(row.get("each", {}))
            by_size[row["size"]] = Measured(each, each.pop("types", {}), row.get("left out", ""))
    return {
        kind: {side: dict(sorted(by_size.items())) for side, by_size in sides.items()} for kind, sides in found.items()
    }


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the page."""
    kinds = kinds_of(results)
    lines = [
        "# Memory of each thing that a broker keeps",
        "",
        "Made by `python -m tests.bench.memory_page` of the result files below; not to be edited. What each kind is says",
        f"`tests.bench.memory`. Bytes for each one are what a broker with so many has more than the same broker with {results[-1]['few']}.",
        "In RAM is what the system counts (VmRSS), after a collection of all garbage. Of a Java machine that has, besides what lives, what",
        "its heap was enlarged by, so its live objects after a full collection are what ours in RAM is compared with. Memory of the kernel",
        "for sockets is in no figure. Growth is the most times that one took what it had taken at least at a smaller size. Small sizes",
        "carry what is made or released once, such as samples of Kafka's metrics and tables that were just enlarged: the largest counts.",
        "",
        *_summary_lines(kinds),
    ]
    for kind, sides in kinds.items():
        lines += ["", f"## {kind.capitalize()}", "", *_kind_lines(sides), "", *_type_lines(sides)]
        if kind in CAUSES:
            lines += ["", CAUSES[kind]]
    lines += ["", "## Runs"]
    for result in results:
        lines += ["", "| | |", "|---|---|", *(f"| {name} | {in_cell(value)} |" for name, value in _where(result))]
    return "\n".join(lines) + "\n"


def _summary_lines(kinds: Kinds) -> list[str]:
    """Return a table of the largest size that both sides have, of each kind."""
    lines = ["| Bytes for each | at | kafkalite | Apache Kafka | times |", "|---|---|---|---|---|"]
    for kind, sides in kinds.items():
        both = [
            size
            for size, ours in sides.get(OURS, {}).items()
            if ours.each and sides.get(APACHE, {}).get(size, ours._replace(each={})).each
        ]
        if both:
            size = max(both)
            ours, theirs = sides[OURS][size].each["resident"], sides[APACHE][size].each["live"]
            lines.append(f"| {kind} | {size:,} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |")
    return lines


def _kind_lines(sides: Mapping[str, Mapping[int, Measured]]) -> list[str]:
    sizes = sorted({size for by_size in sides.values() for size in by_size})
    lines = [
        f"| Bytes for each | {' | '.join(f'{size:,}' for size in sizes)} | Growth |",
        f"|---|{'---|' * (len(sizes) + 1)}",
    ]
    for side, figure, name in FIGURES:
        costs = {size: known.each[figure] for size, known in sides.get(side, {}).items() if known.each}
        if costs:
            cells = " | ".join(f"{costs[size]:,.0f}" if size in costs else "" for size in sizes)
            lines.append(f"| {name} | {cells} | {_format_growth(growth(costs))} |")
    for side, by_size in sides.items():
        lines += [
            f"\n{size:,} at {side} are left out: {known.left_out}." for size, known in by_size.items() if known.left_out
        ]
    return lines


def _type_lines(sides: Mapping[str, Mapping[int, Measured]]) -> list[str]:
    """Return what most of the bytes are, by type, at the largest size of each side."""
    lines = []
    for side in (OURS, APACHE):
        by_size = {size: known for size, known in sides.get(side, {}).items() if known.types}
        if by_size:
            types = list(by_size[max(by_size)].types.items())[:NAMED_TYPES]
            told = ", ".join(f"`{_short(name)}` {size:,.0f}" for name, size in types)
            lines.append(f"- {side}, bytes by type at {max(by_size):,}: {told}.")
    return lines


def _short(name: str) -> str:
    """Return the name of a type without its package; an array of Java as its source has it."""
    if name == "[B":
        return "byte[]"
    is_array = name.startswith("[L")
    return name.rstrip(";").rpartition(".")[2] + ("[]" if is_array else "")


def _format_growth(times: float) -> str:
    if math.isnan(times):
        return ""
    return f"**{times:.2f}**" if times > LIMIT else f"{times:.2f}"


def _where(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    sides = {row["side"] for row in result["measured"]}
    loads = [load for row in result["measured"] for load in row.get("load", ())]
    return [
        ("when", result["at"]),
        ("made by", f"`{result['command']}`"),
        *((side, version) for side, version in result["sides"].items() if side in sides),
        *((name, str(value)) for name, value in result["machine"].items()),
        *([("load of the machine", f"{min(loads):.1f} to {max(loads):.1f}")] if loads else []),
        ("settings of both", ", ".join(f"`{key}={value}`" for key, value in result["properties"].items())),
    ]


@click.command(help=__doc__)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--output", type=click.Path(path_type=Path), default=PAGE, help="The page.  [default: MEMORY.md here]")
def main(paths: Sequence[Path], output: Path) -> None:
    results = [json.loads(path.read_text()) for path in paths]
    output.write_text(page(results))
    click.echo(f"written to {output}")


if __name__ == "__main__":
    main()
