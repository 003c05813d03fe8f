"""The page of growth: what a unit of work costs at each size, as a table and a picture, and which costs grow faster than their work.

Pure: the figures of a run go in, the text of the page and of its picture come out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

from deploy.docs.drawings.svg import color
from tests.bench.page import BAD, GOOD, drawn, in_cell, where

LIMIT: Final = 1.5
"""So many times the least that a unit cost at smaller sizes it may cost at a larger one."""

_COLUMNS, _PANEL_WIDTH, _PANEL_HEIGHT = 3, 320, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 32, 32, 56, 28
_LEAST_SPAN: Final = 4.0
"""A panel's highest cost is at least so many times its lowest, so that noise does not look like growth."""

Costs = Mapping[int, float]
"""What a unit of work costs, by size in ascending order; a size at which there is no such work is missing."""


@dataclass(frozen=True)
class Axis:
    """What grows, in units such as partitions, and the costs by what is measured."""

    name: str
    unit: str
    costs: Mapping[str, Costs]

    @property
    def sizes(self) -> list[int]:
        return sorted({size for costs in self.costs.values() for size in costs})

    def label(self, size: int) -> str:
        return str(size) if self.unit == self.name else f"{size} {self.unit}"


def growth(costs: Costs) -> float:
    """The most times that a unit cost what it had cost at least at a smaller size; NaN of fewer than two sizes.

    It is not the first size that all are compared with: the smallest has fixed costs to carry, which would hide growth beyond it.
    """
    most, least = math.nan, math.inf
    for cost in costs.values():
        if least < math.inf and not most >= cost / least:
            most = cost / least
        least = min(least, cost)
    return most


def too_fast(axes: Sequence[Axis]) -> dict[str, float]:
    """What grows faster than its work, and how many times."""
    found = {f"{axis.name}: {what}": growth(costs) for axis in axes for what, costs in axis.costs.items()}
    return {name: times for name, times in found.items() if times > LIMIT}


def page(result: Mapping[str, Any], axes: Sequence[Axis], picture_name: str) -> str:
    """The text of the page; `result` has what was run, when, where and with which load."""
    grown = too_fast(axes)
    told = ", ".join(f"{name} ({times:.2f} times)" for name, times in grown.items())
    lines = [
        "# Growth",
        "",
        f"Made by `{result['command']}`; not to be edited. A figure is the processor time that one unit of work costs the brokers: it",
        "stays or falls where a cost grows no faster than its work. Growth is the most times that a unit cost what it had cost at",
        f"least at a smaller size; more than {LIMIT:g} is too much.",
        "",
        "| | |",
        "|---|---|",
        f"| when | {result['at']}, the least of {result['rounds']} rounds |",
        f"| kafkalite | {in_cell(result['ours'])} |",
        *(f"| {name} | {in_cell(value)} |" for name, value in where(result)),
        "",
        f"![What a unit of work costs at each size]({picture_name})",
        "",
        f"Grows faster than its work: {told}." if grown else "Nothing grows faster than its work.",
    ]
    for axis in axes:
        sizes = axis.sizes
        lines += [
            "",
            f"## {axis.name.capitalize()}",
            "",
            f"| Cost | {' | '.join(map(axis.label, sizes))} | Growth |",
            f"|---|{'---|' * (len(sizes) + 1)}",
        ]
        for what, costs in axis.costs.items():
            cells = [f"{costs[size]:.3g}" if size in costs else "" for size in sizes]
            lines.append(f"| {in_cell(what)} | {' | '.join(cells)} | {_told(growth(costs))} |")
    return "\n".join(lines) + "\n"


def picture(axes: Sequence[Axis]) -> str:
    """A panel for each cost, on logarithmic scales; red is what grows faster than its work."""
    panels = [(axis, what, costs) for axis in axes for what, costs in axis.costs.items()]
    rows = math.ceil(len(panels) / _COLUMNS)
    parts = []
    for number, (axis, what, costs) in enumerate(panels):
        left, top = number % _COLUMNS * _PANEL_WIDTH, number // _COLUMNS * _PANEL_HEIGHT
        parts += [f'<g transform="translate({left} {top})">', *_panel(axis, what, costs), "</g>"]
    return drawn(_COLUMNS * _PANEL_WIDTH, rows * _PANEL_HEIGHT, parts)


def _panel(axis: Axis, what: str, costs: Costs) -> list[str]:
    curve = BAD if growth(costs) > LIMIT else GOOD
    across = _places(list(costs), _LEFT, _PANEL_WIDTH - _RIGHT, 1.0)
    up = _places(list(costs.values()), _PANEL_HEIGHT - _BOTTOM - 8, _TOP, _LEAST_SPAN)
    bottom = _PANEL_HEIGHT - _BOTTOM
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, up, strict=True))
    parts = [
        f'<text x="{_LEFT - 20}" y="16" font-weight="bold">{escape(axis.name)}</text>',
        f'<text x="{_LEFT - 20}" y="31" font-size="11">{escape(what)}</text>',
        f'<line x1="{_LEFT - 20}" y1="{bottom}" x2="{_PANEL_WIDTH - _RIGHT + 20}" y2="{bottom}" stroke="{color("line")}"/>',
        f'<polyline points="{line}" fill="none" stroke="{curve}" stroke-width="2"/>',
    ]
    for (size, cost), x, y in zip(costs.items(), across, up, strict=True):
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{curve}"/>',
            f'<text x="{x:.1f}" y="{y - 6:.1f}" text-anchor="middle" font-size="10">{cost:.3g}</text>',
            f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle" font-size="10">{escape(axis.label(size))}</text>',
        ]
    return parts


def _places(values: Sequence[float], begin: float, end: float, least_span: float) -> list[float]:
    """Where values stand between two ends of a logarithmic scale; what spans little stands around its middle."""
    logs = [math.log(max(each, 1e-9)) for each in values]
    middle, half = (min(logs) + max(logs)) / 2, max(max(logs) - min(logs), math.log(least_span)) / 2
    return [begin + (end - begin) * ((each - middle) / half + 1) / 2 if half else (begin + end) / 2 for each in logs]


def _told(times: float) -> str:
    if math.isnan(times):
        return ""
    return f"**{times:.2f}**" if times > LIMIT else f"{times:.2f}"
