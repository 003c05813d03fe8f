"""The page of results: what was measured beside Apache Kafka as a table and a picture, losses and all.

Pure: the figures of a run go in, the text of `RESULTS.md` and of the picture come out, so that a page can be made again of a result file.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

from deploy.docs.drawings.svg import color, own_style

PICTURE: Final = "results.svg"
LOSS: Final = 0.10
"""So much of a figure may be lost before a comparison fails: a tenth, which is beyond what a machine's mood does to a median."""

_SCALE: Final = 8.0
"""The picture reaches from an eighth to eight times Apache Kafka's figure; what is beyond is cut, and told in the table."""
_WIDTH, _LABELS, _ROW = 900, 380, 22
GOOD, BAD = color("ours"), color("bad")

Values = Mapping[str, Sequence[float]]
"""A side's figures by cell, one for each round."""


def ratio(ours: float, theirs: float, *, higher_is_better: bool) -> float:
    """How many times better ours is; below 1 it is behind. NaN where one of them is nothing."""
    if not ours or not theirs:
        return math.nan
    return ours / theirs if higher_is_better else theirs / ours


def losses(before: Values, now: Values, higher: Mapping[str, bool]) -> dict[str, float]:
    """The cells whose median lost more than `LOSS`, with how many times better they are now."""
    found = {}
    for name, values in now.items():
        if not (earlier := before.get(name)):
            continue
        times = ratio(statistics.median(values), statistics.median(earlier), higher_is_better=higher[name])
        if times < 1 - LOSS:
            found[name] = times
    return found


def page(result: Mapping[str, Any]) -> str:
    """The text of the page, of the content of a result file."""
    units, higher = result["units"], result["higher_is_better"]
    ours, theirs = result["values"]["ours"], result["values"]["against"]
    rows = [(name, _times(name, ours, theirs, higher)) for name in ours]
    behind = [name for name, times in rows if times < 1]
    lines = [
        "# Results",
        "",
        f"Made by `{result['command']}`; not to be edited. Every figure is of one run in which both brokers took turns, on fresh",
        "clusters with the same ZooKeeper, clients and topics. A figure is the median of its rounds, with the lowest and the highest.",
        "Ratios above 1 are better than Apache Kafka.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {in_cell(value)} |" for name, value in _circumstances(result)),
        "",
        f"![Times better than Apache Kafka, by cell]({PICTURE})",
        "",
        f"Ahead in {len(rows) - len(behind)} of {len(rows)} cells"
        + (f"; behind in: {', '.join(behind)}." if behind else "."),
        "",
        "| Cell | Unit | Apache Kafka | kafkalite | Ratio |",
        "|---|---|---|---|---|",
    ]
    for name, times in rows:
        told = f"{times:.2f}" if times >= 1 else f"**{times:.2f}**"
        lines.append(f"| {in_cell(name)} | {units[name]} | {_spread(theirs[name])} | {_spread(ours[name])} | {told} |")
    return "\n".join(lines) + "\n"


def picture(result: Mapping[str, Any]) -> str:
    """The ratios as bars on a logarithmic scale: to the right of the line ours is better."""
    ours, theirs = result["values"]["ours"], result["values"]["against"]
    rows = [(name, _times(name, ours, theirs, result["higher_is_better"])) for name in ours]
    middle, half = _LABELS + (_WIDTH - _LABELS) / 2, (_WIDTH - _LABELS) / 2 - 50
    height = _ROW * (len(rows) + 2)
    parts = [f'<text x="{middle}" y="15" text-anchor="middle">times better than Apache Kafka</text>']
    for number, (name, times) in enumerate(rows, 1):
        top = number * _ROW + 4
        length = half * _place(times)
        begin, fill = (middle, GOOD) if length >= 0 else (middle + length, BAD)
        beside, anchor = (middle + length + 4, "start") if length >= 0 else (middle + length - 4, "end")
        parts += [
            f'<text x="{_LABELS - 8}" y="{top + 12}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{begin:.1f}" y="{top}" width="{abs(length):.1f}" height="{_ROW - 8}" fill="{fill}"/>',
            f'<text x="{beside:.1f}" y="{top + 12}" text-anchor="{anchor}">{times:.2f}</text>',
        ]
    parts.append(f'<line x1="{middle}" y1="{_ROW}" x2="{middle}" y2="{height - 8}" stroke="{color("ink")}"/>')
    return drawn(_WIDTH, height, parts)


def drawn(width: int, height: int, parts: Iterable[str]) -> str:
    """A picture in the colours of the documentation's drawings, light and dark. It is wider than a phone: the site lets it scroll."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="{color("ink")}">',
        f"<style>{own_style()}</style>",
        f'<rect width="{width}" height="{height}" fill="{color("paper")}"/>',
    )
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def where(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The machine, and how busy it was."""
    load = " to ".join(f"{each:.1f}" for each in result["load"])
    return [
        *((name, str(value)) for name, value in result["machine"].items()),
        ("load of the machine, with what was measured", load),
    ]


def in_cell(text: str) -> str:
    """Of a table in Markdown."""
    return text.replace("|", "\\|")


def _times(name: str, ours: Values, theirs: Values, higher: Mapping[str, bool]) -> float:
    return ratio(statistics.median(ours[name]), statistics.median(theirs[name]), higher_is_better=higher[name])


def _place(times: float) -> float:
    """Between -1 and 1; nothing at all for what is no number."""
    if math.isnan(times):
        return 0.0
    return max(-1.0, min(1.0, math.log(times) / math.log(_SCALE)))


def _circumstances(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("when", f"{result['at']}, {result['rounds']} rounds, throughput cells of {result['seconds']:g} s"),
        *where(result),
        *result["sides"].items(),
        ("settings of both", ", ".join(f"`{key}={value}`" for key, value in result["properties"].items())),
    ]


def _spread(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    middle = f"{statistics.median(values):.3g}"
    return middle if len(values) == 1 else f"{middle} ({low:.3g} to {high:.3g})"
