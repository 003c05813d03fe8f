"""What a single record waits for at half of the possible rate: one in the middle, and one of which 99 % are quicker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deploy.docs.drawings.facts import BENCHMARKS, waits
from deploy.docs.drawings.svg import WIDTH, document, line, rect, text

FILLS: Final = ("line", "ours", "zookeeper", "bad", "other")
"""Colours of the legs, in the order of the table."""
_LEFT, _RIGHT = 18, WIDTH - 18
_ROW: Final = 48
_TOP: Final = 54
_STEP: Final = 22
_TICK_MS: Final = 5


def draw() -> str:
    legs = waits(BENCHMARKS.read_text())
    middle, slow = sum(leg.middle_ms for leg in legs), sum(leg.slow_ms for leg in legs)
    scale = (_RIGHT - _LEFT) / max(middle, slow)
    axis = _TOP + 2 * _ROW
    parts = [
        text(_LEFT, 24, "What a single record waits for", size=14, bold=True),
        text(_LEFT, 42, "acks=all, half of the possible rate; everything on two processors", size=12, fill="soft"),
        *_bar(_TOP, "one in the middle", [leg.middle_ms for leg in legs], scale),
        *_bar(_TOP + _ROW, "one of a hundred", [leg.slow_ms for leg in legs], scale),
        *_ticks(axis, max(middle, slow), scale),
        *_legend(axis + 34, [leg.name for leg in legs]),
    ]
    return document(
        axis + 34 + _STEP * len(legs),
        parts,
        title="What a single record waits for",
        description=(
            f"A record in the middle waits {middle:.1f} ms, one of a hundred {slow:.1f} ms, "
            f"most of it until {max(legs, key=lambda leg: leg.slow_ms).name}."
        ),
    )


def _bar(top: float, name: str, legs_ms: list[float], scale: float) -> Iterator[str]:
    yield text(_LEFT, top + 12, name, bold=True)
    yield text(_RIGHT, top + 12, f"{sum(legs_ms):.1f} ms", anchor="end", bold=True)
    at_ms = 0.0
    for leg_ms, fill in zip(legs_ms, FILLS, strict=True):
        yield rect(_LEFT + at_ms * scale, top + 18, max(leg_ms * scale, 0.5), 14, fill=fill, radius=0)
        at_ms += leg_ms


def _ticks(y: float, most_ms: float, scale: float) -> Iterator[str]:
    for ms in range(0, int(most_ms) + 1, _TICK_MS):
        x = _LEFT + ms * scale
        yield line(x, y - 8, x, y - 2)
        yield text(
            x, y + 12, f"{ms} ms" if not ms else str(ms), anchor="middle" if ms else "start", fill="soft", size=12
        )


def _legend(top: float, names: list[str]) -> Iterator[str]:
    for number, (name, fill) in enumerate(zip(names, FILLS, strict=True)):
        y = top + _STEP * number
        yield rect(_LEFT, y - 10, 11, 11, fill=fill, radius=2)
        yield text(_LEFT + 18, y, f"until {name}", size=12)
