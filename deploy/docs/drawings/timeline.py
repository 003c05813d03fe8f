"""The time from `kill -9` of a leader to the next acknowledged record: beside Apache Kafka, and enlarged with what happens when.

All figures are of `tests/bench/FAILOVER.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from deploy.docs.drawings.facts import APACHE, FAILOVER, OURS, Failover, failover
from deploy.docs.drawings.svg import WIDTH, color, document, line, rect, text

MANY: Final = 10_000
SOME: Final = 300
STAGES: Final[Mapping[str, tuple[str, str]]] = {
    "exit": ("other", "The process has ended"),
    "session": ("zookeeper", "Its ZooKeeper session is ended, on evidence"),
    "election": ("ours", "The controller has elected another leader"),
    "client": ("line", "The client's next record is acknowledged"),
}
_LEFT, _RIGHT = 18, WIDTH - 18
_STEP: Final = 34
_ENLARGED: Final = 206
"""Where the second part begins."""


def draw() -> str:
    page = FAILOVER.read_text()
    theirs, ours, near = (
        failover(page, side, partitions, "leader") for side, partitions in ((APACHE, MANY), (OURS, MANY), (OURS, SOME))
    )
    parts = [*_beside(theirs, ours, top=16), *_enlarged(near, top=_ENLARGED)]
    return document(
        _ENLARGED + 88 + _STEP * (len(STAGES) + 1),
        parts,
        title="Timeline of an election",
        description=(
            f"With {MANY:,} partitions the next record is acknowledged {_seconds(ours.stages['total'])} after kill -9 of a leader, "
            f"with Apache Kafka after {_seconds(theirs.stages['total'])}; with {SOME} partitions after {near.stages['total']:.0f} ms."
        ),
    )


def _beside(theirs: Failover, ours: Failover, *, top: float) -> Iterator[str]:
    yield text(_LEFT, top + 12, "kill -9 of a leader: until the next record is acknowledged", bold=True, size=14)
    yield text(
        _LEFT, top + 30, f"{MANY:,} partitions, acks=all, the same run on the same machine", fill="soft", size=12
    )
    longest_ms = max(theirs.stages["total"], ours.stages["total"])
    scale = (_RIGHT - _LEFT) / longest_ms
    for number, (name, found) in enumerate(((APACHE, theirs), (OURS, ours))):
        y = top + 42 + 46 * number
        yield text(_LEFT, y + 12, name, bold=True, fill="ink" if found is theirs else "ours")
        yield text(_RIGHT, y + 12, f"{_seconds(found.stages['total'])}", anchor="end", bold=True)
        yield from _bar(found, y + 18, 14, scale)
    axis = top + 42 + 46 * 2
    step_s = 5
    for second in range(0, math.floor(longest_ms / 1e3) + 1, step_s):
        x = _LEFT + second * 1e3 * scale
        yield line(x, axis - 6, x, axis)
        yield text(x, axis + 13, f"{second} s", anchor="middle" if second else "start", fill="soft", size=12)
    for number, (name, (fill, _)) in enumerate(STAGES.items()):
        x = _LEFT + 112 * number
        yield rect(x, axis + 26, 11, 11, fill=fill, radius=2)
        yield text(x + 17, axis + 36, name, size=12)


def _bar(found: Failover, top: float, height: float, scale: float) -> Iterator[str]:
    at_ms = 0.0
    for name, (fill, _) in STAGES.items():
        took_ms = found.stages.get(name, 0.0)
        yield rect(_LEFT + at_ms * scale, top, max(took_ms * scale, 0.5), height, fill=fill, radius=0)
        at_ms += took_ms


def _seconds(took_ms: float) -> str:
    return f"{took_ms / 1e3:.1f} s" if took_ms >= 10_000 else f"{took_ms / 1e3:.2f} s"


def _enlarged(near: Failover, *, top: float) -> Iterator[str]:
    yield text(_LEFT, top + 12, f"The same with {OURS} and {SOME} partitions, enlarged", bold=True, size=14)
    told = f"median of {near.rounds} kills; the longest took {near.most:.0f} ms"
    yield text(_LEFT, top + 30, told, fill="soft", size=12)
    yield from _bar(near, top + 40, 18, (_RIGHT - _LEFT) / near.stages["total"])
    y, at_ms = top + 88.0, 0.0
    yield line(_LEFT + 74, y, _LEFT + 74, y + _STEP * len(STAGES), width=2)
    yield from _moment(y, 0, "bad", "kill -9 of the leader")
    for name, (fill, what) in STAGES.items():
        y += _STEP
        at_ms += near.stages[name]
        yield from _moment(y, at_ms, fill, what)


def _moment(y: float, at_ms: float, fill: str, what: str) -> Iterator[str]:
    yield text(_LEFT + 58, y + 5, f"{at_ms:.0f} ms", anchor="end", bold=True)
    yield (
        f'<circle cx="{_LEFT + 74}" cy="{y:g}" r="6.5" fill="{color(fill)}" stroke="{color("paper")}" stroke-width="2"/>'
    )
    yield text(_LEFT + 90, y + 4.5, what, size=12.5)
