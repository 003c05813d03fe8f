"""What a recording of a terminal shows: lines with styles, and when each appears. Pure.

A recording is a file of asciinema (asciicast v2): a line with its size, then events. An input event is a command typed at a prompt,
an output event is what programs wrote, with colours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

PROMPT: Final = "$ "
TYPED_S: Final = 0.035
"""A typed character takes so long; a recording waits for it."""

_SEQUENCE: Final = re.compile(r"\x1b\[([\d;]*)m|\x1b\[[?\d;]*[A-Za-z]|\x1b\][^\x07]*\x07")
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
        moments = [(float(at_s), str(kind), str(data)) for at_s, kind, data in events]
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


def _write(lines: list[Line], data: str, at_s: float, style: Style, width: int) -> Style:
    """Add output to the lines, and return the style with which the next output begins."""
    for part in _parts(data):
        if isinstance(part, str):
            for piece in re.split(r"(\r?\n|\r)", part):
                _write_piece(lines, piece, at_s, style, width)
        else:
            style = _changed(style, part)
    return style


def _parts(data: str) -> Iterator[str | list[int]]:
    """Yield texts, and the numbers of the sequences between them that change the style; others are left out."""
    done = 0
    for found in _SEQUENCE.finditer(data):
        yield data[done : found.start()]
        if found[1] is not None:
            yield [int(number or 0) for number in found[1].split(";")]
        done = found.end()
    yield data[done:]


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
