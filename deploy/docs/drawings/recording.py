"""A recording of a terminal as a moving picture: lines appear when they appeared, commands are typed, and it begins again at its end.

Where the reader wants no motion (`prefers-reduced-motion`) its end is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from deploy.docs.drawings.facts import ROOT
from deploy.docs.drawings.svg import MONO, WIDTH, color, document, rect, text
from deploy.docs.drawings.terminal import PROMPT, TYPED_S, Line, Recording, read

CAST: Final = ROOT / "deploy" / "docs" / "pictures" / "first-minute.cast"
ROWS: Final = 21
_HOLD_S: Final = 6.0
"""Its end stays so long."""

_MARGIN, _HEAD = 12, 30
_WIDTH: Final = WIDTH - 2 * _MARGIN


def draw() -> str:
    return draw_recording(read(CAST.read_text()))


def draw_recording(shown: Recording) -> str:
    """Return the picture; letters are as large as the width allows."""
    letter = _WIDTH / shown.width
    size, row = letter / 0.602, letter / 0.602 * 1.45
    total_s = shown.length_s + _HOLD_S
    lines = list(shown.lines)
    rules = [_scrolling(lines, row, total_s)]
    parts = [
        rect(0.75, 0.75, WIDTH - 1.5, _HEAD + ROWS * row + _MARGIN - 1.5, fill="box", stroke="line", radius=8),
        *(f'<circle cx="{18 + 14 * number}" cy="16" r="4.5" fill="{color("line")}"/>' for number in range(3)),
        text(WIDTH / 2, 20.5, shown.title, fill="soft", size=12, anchor="middle"),
        f'<svg x="{_MARGIN}" y="{_HEAD}" width="{_WIDTH}" height="{ROWS * row:.1f}">',
        f'<g class="rec rec-scroll" font-family="{MONO}" font-size="{size:.2f}" xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        drawn, keyframes = _line(number, line, letter, row, total_s)
        parts += drawn
        rules += keyframes
    parts += ["</g>", "</svg>"]
    style = "".join(rules) + (
        f".rec{{white-space:pre;animation-duration:{total_s:.1f}s;animation-iteration-count:infinite;animation-timing-function:step-end}}"
        "@media (prefers-reduced-motion:reduce){.rec{animation:none!important}}"
    )
    said = " ".join(line.text.strip() for line in lines if line.typed)
    return document(
        _HEAD + ROWS * row + _MARGIN,
        parts,
        title=f"Recording of a terminal: {shown.title}",
        description=said,
        style=style,
    )


def _scrolling(lines: list[Line], row: float, total_s: float) -> str:
    """The group of all lines goes up when a line appears below the last row."""
    stops = {0.0: 0.0}
    for number, line in enumerate(lines):
        if number >= ROWS:
            stops[_percent(line.at_s, total_s)] = (ROWS - 1 - number) * row
    frames = "".join(f"{at:g}%{{transform:translateY({up:.1f}px)}}" for at, up in stops.items())
    last = min(0.0, (ROWS - len(lines)) * row)
    return (
        f"@keyframes rec-scroll{{{frames}100%{{transform:translateY({last:.1f}px)}}}}"
        f".rec-scroll{{animation-name:rec-scroll;transform:translateY({last:.1f}px)}}"
    )


def _percent(at_s: float, total_s: float) -> float:
    return round(100 * at_s / total_s, 2)


def _line(number: int, line: Line, letter: float, row: float, total_s: float) -> tuple[list[str], list[str]]:
    """Return the elements of a line, and the rules by which it appears."""
    if not line.text.strip():
        return [], []
    y = row * (number + 0.75)
    spans = "".join(_spans(line))
    at = _percent(line.at_s, total_s)
    name = f"rec-{number}"
    parts = [f'<text class="rec {name}" y="{y:.1f}" textLength="{len(line.text.rstrip()) * letter:.1f}">{spans}</text>']
    rules = [f"@keyframes {name}{{0%{{opacity:0}}{at:g}%,100%{{opacity:1}}}}.{name}{{animation-name:{name}}}"]
    if line.typed:
        begin, end = at, _percent(line.at_s + TYPED_S * line.typed, total_s)
        parts.append(
            f'<rect class="rec {name}t" x="{len(PROMPT) * letter:.1f}" y="{y - row * 0.75:.1f}" width="{_WIDTH}" '
            f'height="{row:.1f}" fill="{color("box")}"/>'
        )
        away = f"transform:translateX({line.typed * letter:.1f}px)"
        rules.append(
            f"@keyframes {name}t{{0%{{transform:none}}{begin:g}%{{transform:none;animation-timing-function:steps({line.typed})}}"
            f"{end:g}%,100%{{{away};visibility:hidden}}}}.{name}t{{animation-name:{name}t;{away};visibility:hidden}}"
        )
    return parts, rules


def _spans(line: Line) -> Iterator[str]:
    left = len(line.text.rstrip())
    for content, style in line.spans:
        kept = content[:left]
        left -= len(kept)
        if kept:
            weight = ' font-weight="600"' if style.is_bold else ""
            yield f'<tspan fill="{color(style.color)}"{weight}>{escape(kept)}</tspan>'
