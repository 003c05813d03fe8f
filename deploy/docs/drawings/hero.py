"""The picture at the top: the name, what it is, and three figures beside Apache Kafka, of `tests/bench/FAILOVER.md` and `RESULTS.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from deploy.docs.drawings.facts import APACHE, FAILOVER, OURS, RESULTS, MissingFact, compared, failover
from deploy.docs.drawings.svg import WIDTH, color, document, line, rect, text

PARTITIONS: Final = 10_000
_LEFT: Final = 22
_TILE: Final = 140
_HEIGHT: Final = 234


class Tile(NamedTuple):
    ours: str
    theirs: str
    meaning: tuple[str, str]


def tiles() -> list[Tile]:
    """Return the figures, as they are shown."""
    kills = FAILOVER.read_text()
    ours_ms, theirs_ms = (failover(kills, side, PARTITIONS, "leader").p50 for side in (OURS, APACHE))
    cells = {each.name: each for each in compared(RESULTS.read_text())}
    memory, start = cells["resident-memory"], cells["start-up"]
    return [
        Tile(f"{ours_ms / 1e3:.2f} s", f"{theirs_ms / 1e3:.0f} s", ("after kill -9 to", "the next record")),
        Tile(f"{start.ours:.2f} s", f"{start.theirs:.2f} s", ("from its start until", "a broker serves")),
        Tile(f"{memory.ours:.0f} MB", f"{memory.theirs / 1e3:.1f} GB", ("a broker's memory", "after its load")),
    ]


def draw() -> str:
    shown = tiles()
    said = (
        "; ".join(f"{' '.join(each.meaning)}: {each.ours}, {APACHE} {each.theirs}" for each in shown)
        + f" ({PARTITIONS:,} partitions)"
    )
    return document(
        _HEIGHT,
        [*_name(), *_mark(), *(part for number, tile in enumerate(shown) for part in _tile(number, tile))],
        title="kafkalite: a cluster in Python that speaks Apache Kafka's protocol",
        description=said,
    )


def _name() -> Iterator[str]:
    yield text(_LEFT, 56, OURS, size=40, bold=True)
    yield text(_LEFT, 84, "Apache Kafka's protocol. Brokers in Python.", size=15)
    yield text(_LEFT, 105, "Coordinated by a real ZooKeeper.", size=15)


def _mark() -> Iterator[str]:
    """A leader, which two followers fetch from."""
    x, y = WIDTH - 118, 24
    for number, fill in enumerate(("ours", "pale", "pale")):
        top = y + 30 * number
        yield rect(x + 16 * (number > 0), top, 96 - 16 * (number > 0), 22, fill=fill, radius=4)
        for record in range(4):
            left = x + 16 * (number > 0) + 8 + 18 * record
            yield (
                f'<rect x="{left}" y="{top + 6}" width="13" height="10" rx="2" '
                f'fill="{color("on-ours" if fill == "ours" else "ours")}" opacity="{0.9 if record < 3 or number == 0 else 0.35}"/>'
            )
        if number:
            yield line(x + 6, top + 11, x + 14, top + 11, stroke="ours", width=2)
    yield line(x + 6, y + 24, x + 6, y + 71, stroke="ours", width=2)


def _tile(number: int, tile: Tile) -> Iterator[str]:
    left, top = _LEFT - 4 + 152 * number, 124
    yield rect(left, top, _TILE, 96)
    yield text(left + 10, top + 29, tile.ours, size=22, bold=True, fill="ours")
    yield text(left + 10, top + 47, tile.meaning[0], size=12)
    yield text(left + 10, top + 62, tile.meaning[1], size=12)
    yield text(left + 10, top + 84, f"Kafka {_version()}: {tile.theirs}", size=12, fill="soft")


def _version() -> str:
    """Apache Kafka's, as the page of results has it."""
    found = re.search(rf"^\| {APACHE} \| ([\d.]+) ", RESULTS.read_text(), re.MULTILINE)
    if found is None:
        raise MissingFact(f"{RESULTS.name} does not say which {APACHE} was measured")
    return found[1]
