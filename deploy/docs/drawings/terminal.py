"""What a recording of a terminal shows: lines with styles, and when each appears. Pure.

A recording is a file of asciinema (asciicast v2): a line with its size, then events. An input event is a command typed at a prompt,
an output event is what programs wrote, with colours. Pauses longer than `idle_time_limit` seconds, where the first line has that, are
shown as so long.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PROMPT: Final = "$ "
TYPED_S: Final = 0.035
"""A typed character takes so long; a recording waits for it."""

_SEQUENCE: Final = re.compile(r"\x1b\[([\d;]*)m|\x1b\[([?\d;]*[A-Za-z])|\x1b\][^\x07]*\x07")
_ERASE_LINE: Final = "2K"
_UP: Final = re.compile(r"(\d*)A")
"""Progress bars go up and erase themselves; other movements of the cursor are not known here."""
_COLORS: Final = {1: "bad", 2: "ours", 3: "zookeeper", 4: "ours", 5: "zookeeper", 6: "ours"}


class Style(NamedTuple):
    color: str = "ink"
    is_bold: bool = False


class Span(NamedTuple):
    text: str
    style: Style


@dataclass
class Line:
    """A line of the screen. `typed` is the length of what is typed at its end, character by character."""

    at_s: float
    spans: list[Span] = field(default_factory=list)
    typed: int = 0

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


class Recording(NamedTuple):
    width: int
    title: str
    lines: list[Line]
    length_s: float


class NotARecording(ValueError):
    """Raised for a file that is no recording of a terminal."""


def read(text: str) -> Recording:
    """Return what a recording shows. Raises NotARecording."""
    try:
        header, *events = map(json.loads, text.splitlines())
        width, title = int(header["width"]), str(header["title"])
        idle_s = float(header.get("idle_time_limit", math.inf))
        moments = list(_without_pauses([(float(at_s), str(kind), str(data)) for at_s, kind, data in events], idle_s))
    except (ValueError, KeyError, TypeError) as problem:
        raise NotARecording(f"this is no asciicast with width and title: {problem}") from None
    lines: list[Line] = []
    style = Style()
    for at_s, kind, data in moments:
        if kind == "i":
            lines.append(Line(at_s, [Span(PROMPT, Style("ours", True)), Span(data, Style(is_bold=True))], len(data)))
            lines.append(Line(at_s + TYPED_S * len(data)))
        elif kind == "o":
            style = _write(lines, data, at_s, style, width)
    while lines and not lines[-1].text:
        lines.pop()
    return Recording(width, title, lines, max((at_s for at_s, _, _ in moments), default=0.0))


def _without_pauses(moments: list[tuple[float, str, str]], idle_s: float) -> Iterator[tuple[float, str, str]]:
    """Yield the events, none longer after the one before it than that, or than it takes to type it."""
    before_s, shown_s = 0.0, 0.0
    typing_s = 0.0
    for at_s, kind, data in moments:
        shown_s += min(at_s - before_s, idle_s + typing_s)
        before_s, typing_s = at_s, TYPED_S * len(data) if kind == "i" else 0.0
        yield shown_s, kind, data


def _write(lines: list[Line], data: str, at_s: float, style: Style, width: int) -> Style:
    """Add output to the lines, and return the style with which the next output begins."""
    done = 0
    for found in [*_SEQUENCE.finditer(data), None]:
        for piece in re.split(r"(\r?\n|\r)", data[done : found.start() if found else len(data)]):
            _write_piece(lines, piece, at_s, style, width)
        if found is None:
            break
        done = found.end()
        if found[1] is not None:
            style = _changed(style, [int(number or 0) for number in found[1].split(";")])
        elif found[2] == _ERASE_LINE and lines:
            lines[-1].spans.clear()
        elif found[2] and (up := _UP.fullmatch(found[2])):
            _go_up(lines, int(up[1] or 1))
    return style


def _go_up(lines: list[Line], count: int) -> None:
    """Go back to an earlier line. Raises NotARecording where that would leave text below the cursor."""
    for _ in range(min(count, len(lines) - 1)):
        if lines[-1].text:
            raise NotARecording(f"the cursor goes up from {lines[-1].text!r}, which this picture cannot show")
        lines.pop()


def _write_piece(lines: list[Line], piece: str, at_s: float, style: Style, width: int) -> None:
    if not lines:
        lines.append(Line(at_s))
    if piece in ("\n", "\r\n"):
        lines.append(Line(at_s))
    elif piece == "\r":
        lines[-1].spans.clear()
    while piece.strip("\r\n"):
        room = width - len(lines[-1].text)
        if room <= 0:
            lines.append(Line(at_s))
            room = width
        if not lines[-1].spans:
            lines[-1].at_s = max(lines[-1].at_s, at_s)
        lines[-1].spans.append(Span(piece[:room], style))
        piece = piece[room:]


def _changed(style: Style, numbers: list[int]) -> Style:
    if numbers[:2] == [38, 5]:  # one of 256 colours
        return style
    for number in numbers:
        if number == 0:
            style = Style()
        elif number == 1:
            style = style._replace(is_bold=True)
        elif number == 2:
            style = style._replace(color="soft")
        elif number == 22:
            style = style._replace(is_bold=False, color="ink" if style.color == "soft" else style.color)
        elif number == 39:
            style = style._replace(color="ink")
        elif number == 90:
            style = style._replace(color="soft")
        elif 30 <= number <= 37 or 91 <= number <= 97:
            style = style._replace(color=_COLORS.get(number % 10, "ink"))
    return style
