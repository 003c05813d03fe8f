"""Charts of the page as HTML and inline SVG: columns, bars, a map of hours and partitions. All figures are in the text too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

HOUR_MS: Final = 3_600_000
ROWS_MAX: Final = 40
"""Rows of the map; of more partitions several share a row."""

_WIDTH, _HEIGHT = 720, 150
_LENGTHS: Final = (("day", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


class Bar(NamedTuple):
    """One bar: `note` follows the number."""

    label: str
    value: int
    note: str = ""


class Segment(NamedTuple):
    """A part of a stacked bar."""

    name: str
    value_ms: int


def hours_of_day(day: date, zone: ZoneInfo) -> list[int]:
    """Return the hours of a date in a zone, as Unix ms in UTC; 23 or 25 where clocks change, one more where they differ by half an hour."""
    start, end = (
        round(datetime(each.year, each.month, each.day, tzinfo=zone).timestamp() * 1000)
        for each in (day, day + timedelta(days=1))
    )
    return list(range(start - start % HOUR_MS, end, HOUR_MS))


def hour_label(hour_ms: int, zone: ZoneInfo) -> str:
    """Return a time like 07:00, on the clocks of the zone."""
    return datetime.fromtimestamp(hour_ms / 1000, UTC).astimezone(zone).strftime("%H:%M")


def column_chart(hours: Sequence[tuple[str, int]], caption: str) -> str:
    """Return columns by hour with a scale; a column of nothing is a line at the bottom."""
    largest = max((count for _, count in hours), default=0)
    step = _WIDTH / max(1, len(hours))
    parts = []
    for number, (label, count) in enumerate(hours):
        height = max(3.0, count / largest * _HEIGHT) if count else 1.0
        kind = "top" if count and count == largest else "none" if not count else ""
        parts.append(
            f'<rect class="{kind}" x="{number * step + step * 0.12:.1f}" y="{_HEIGHT - height:.1f}" '
            f'width="{step * 0.76:.1f}" height="{height:.1f}" rx="2"><title>{label}: {count:,}</title></rect>'
        )
    grid = "".join(f'<line x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>' for y in (0.5, _HEIGHT / 2))
    marks = "".join(
        f'<span style="left:{(number + 0.5) / len(hours) * 100:.2f}%">{label[:2]}</span>'
        for number, (label, _) in enumerate(hours)
        if number % 3 == 0
    )
    return (
        f'<figure class="columns"><figcaption>{escape(caption)}</figcaption><div class="scale" aria-hidden="true">'
        f"<span>{shorten(largest)}</span><span>{shorten(largest / 2)}</span></div>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(caption)}">'
        f'<g class="grid">{grid}</g>{"".join(parts)}</svg><div class="marks" aria-hidden="true">{marks}</div></figure>'
    )


def trend_chart(history: Sequence[tuple[date, int | None]], day: date) -> str:
    """Return a column for each night, hollow where there was none, this night in the accent colour."""
    largest = max((records for _, records in history if records), default=0)
    items = []
    for each, records in history:
        kind = "missing" if records is None else "this" if each == day else ""
        height = 100 if records is None else max(2.0, records / largest * 100) if largest else 2.0
        told = "no run" if records is None else f"{records:,}"
        current = ' aria-current="date"' if each == day else ""
        items.append(
            f'<li class="{kind}"{current} title="{each}: {told}"><i style="height:{height:.1f}%"></i>'
            f'<span class="hidden">{each}: {told}</span></li>'
        )
    first, last = history[0][0], history[-1][0]
    return (
        f'<figure class="trend"><figcaption>The last {len(history)} nights</figcaption><ol>{"".join(items)}</ol>'
        f'<div class="ends" aria-hidden="true"><span>{first:%-d %b}</span><span>{last:%-d %b}</span></div></figure>'
    )


def bar_list(bars: Sequence[Bar], kind: str = "") -> str:
    """Return horizontal bars, each with its label and its number in text."""
    largest = max((each.value for each in bars), default=0) or 1
    rows = "".join(
        f'<li><span class="label">{escape(each.label)}</span><span class="number">{each.value:,}{escape(each.note)}</span>'
        f'<i class="{kind}" style="width:{max(0.6, each.value / largest * 100) if each.value else 0:.2f}%"></i></li>'
        for each in bars
    )
    return f'<ul class="bars">{rows}</ul>'


def stacked_bars(rows: Sequence[tuple[str, Sequence[Segment]]], names: Sequence[str]) -> str:
    """Return a bar for each row on one scale of time, and a legend with the durations; `names` gives each segment its colour."""
    longest = max((sum(each.value_ms for each in segments) for _, segments in rows), default=0) or 1
    parts = []
    for label, segments in rows:
        total = sum(each.value_ms for each in segments)
        pieces = "".join(
            f'<i class="stage-{names.index(each.name) + 1}" style="width:{each.value_ms / longest * 100:.2f}%" '
            f'title="{each.name}: {duration(each.value_ms)}"></i>'
            for each in segments
        )
        legend = "".join(
            f'<li><i class="stage-{names.index(each.name) + 1}"></i>{each.name} <b>{duration(each.value_ms)}</b></li>'
            for each in segments
        )
        parts.append(
            f'<div class="stages"><div><span class="label">{escape(label)}</span><span class="number">{duration(total)}</span>'
            f'</div><div class="stack" aria-hidden="true">{pieces}</div><ul class="legend">{legend}</ul></div>'
        )
    return "".join(parts)


def heat_map(hours: Mapping[int, Mapping[int, int]], partitions: Sequence[int], day: date, zone: ZoneInfo) -> str:
    """Return a table of partitions by hours whose cells are coloured by their number of records."""
    columns = hours_of_day(day, zone)
    groups = _groups(partitions)
    cells = [[sum(hours.get(hour, {}).get(p, 0) for p in group) for hour in columns] for group in groups]
    largest = max((count for row in cells for count in row), default=0) or 1
    totals = [sum(row) for row in cells]
    head = "".join(f'<th scope="col"><span>{hour_label(hour, zone)[:2]}</span></th>' for hour in columns)
    body = []
    for group, row, total in zip(groups, cells, totals, strict=True):
        name = f"{group[0]}" if len(group) == 1 else f"{group[0]}–{group[-1]}"
        shown = "".join(
            f'<td style="--share:{_share(count, largest)}%" title="partition {name}, {hour_label(hour, zone)}: {count:,}">'
            f"<span>{count:,}</span></td>"
            for hour, count in zip(columns, row, strict=True)
        )
        width = total / (max(totals) or 1) * 100
        sum_cell = f'<td class="sum"><i style="width:{width:.1f}%"></i><b>{shorten(total)}</b></td>'
        body.append(f'<tr><th scope="row">{name}</th>{shown}{sum_cell}</tr>')
    return (
        '<table class="heat"><caption>Records by partition (down) and hour (across)</caption>'
        f'<thead><tr><th scope="col"><span class="hidden">Partition</span></th>{head}<th scope="col" class="sum">all</th></tr>'
        f"</thead><tbody>{''.join(body)}</tbody></table>"
        f'<p class="ramp" aria-hidden="true">0 <i></i> {largest:,} an hour</p>'
    )


def _groups(partitions: Sequence[int]) -> list[Sequence[int]]:
    size = max(1, -(-len(partitions) // ROWS_MAX))
    edges = [*range(0, len(partitions), size), len(partitions)]
    return [partitions[start:end] for start, end in pairwise(edges) if start < end]


def _share(count: int, largest: int) -> int:
    """Return how much of the colour a cell has, in percent; any record is seen."""
    return round(12 + 88 * (count / largest)) if count else 0


def shorten(number: float) -> str:
    """Return a number for little room: 950, 1.2k, 35M."""
    letters = iter(("", "k", "M", "G", "T"))
    letter = next(letters)
    while number >= 999.5 and letter != "T":
        number, letter = number / 1000, next(letters)
    return f"{number:.1f}{letter}" if letter and number < 10 else f"{number:.0f}{letter}"


def size(count: int) -> str:
    """Return bytes in a unit that people read."""
    value, units = float(count), iter(_UNITS)
    unit = next(units)
    while value >= 1000 and unit != _UNITS[-1]:
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def duration(ms: float) -> str:
    """Return a duration as people say it: 35 ms, 4.2 s, 3 min 5 s, 1 h 2 min, 2 days 3 h."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    unit, length, lesser, below = next(each for each in _LENGTHS if seconds >= each[1])
    count, rest = seconds // length, seconds % length // below
    many = "s" if unit == "day" and count > 1 else ""
    return f"{count} {unit}{many}" + (f" {rest} {lesser}" if rest else "")
