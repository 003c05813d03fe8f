"""How many times better than Apache Kafka each cell of `tests/bench/RESULTS.md` is, as bars on a logarithmic scale, losses too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from deploy.docs.drawings.facts import APACHE, OURS, RESULTS, Compared, compared
from deploy.docs.drawings.svg import WIDTH, document, line, rect, text

_LEFT, _RIGHT = 18, WIDTH - 18
_ROW: Final = 38
_TOP: Final = 62
_SCALE: Final = 32.0
"""The axis reaches to so many times; the figures stand beside the bars."""
_ZERO: Final = 70
"""Where neither is better; what is left of it is behind."""
_TICKS: Final = (1, 2, 4, 8, 16)
_NAMES: Final = {
    "produce-100B": "produce, records of 100 bytes",
    "produce-1kB": "produce, records of 1 kB",
    "produce-1kB-acks-all": "produce, 1 kB, acks=all, three brokers",
    "consume-100B": "consume, records of 100 bytes",
    "consume-1kB": "consume, records of 1 kB",
    "round-trip-p50": "a single record, median wait",
    "round-trip-p99": "a single record, 99 % wait at most",
    "resident-memory": "memory of a broker",
}


def draw() -> str:
    rows = compared(RESULTS.read_text())
    behind = [row.name for row in rows if row.ratio < 1]
    bottom = _TOP + _ROW * len(rows)
    return document(
        bottom + 12,
        [*_head(bottom), *(part for number, row in enumerate(rows) for part in _bar(_TOP + _ROW * number, row))],
        title=f"{OURS} beside {APACHE}",
        description=f"{OURS} is ahead in {len(rows) - len(behind)} of {len(rows)} cells; behind in {', '.join(behind) or 'none'}.",
    )


def _place(times: float) -> float:
    width = _RIGHT - 44 - _ZERO
    return _ZERO + width * max(-0.2, min(1.0, math.log(times) / math.log(_SCALE)))


def _head(bottom: float) -> Iterator[str]:
    yield text(_LEFT, 24, f"Times better than {APACHE}", size=14, bold=True)
    yield text(_RIGHT, 24, f"{APACHE} → {OURS}", size=12, fill="soft", anchor="end")
    for times in _TICKS:
        x = _place(times)
        yield line(x, 52, x, bottom, stroke="ink" if times == 1 else "line", width=1)
        yield text(x, 46, f"{times}×", size=12, fill="soft", anchor="middle")


def _bar(top: float, row: Compared) -> Iterator[str]:
    fill = "ours" if row.ratio >= 1 else "bad"
    end = _place(row.ratio)
    left, width = min(_ZERO, end), abs(end - _ZERO)
    yield rect(_LEFT - 4, top + 1, _RIGHT - _LEFT + 8, 16, fill="paper", radius=0)
    yield text(_LEFT, top + 13, _NAMES.get(row.name, row.name), size=12)
    told = f"{_figure(row.theirs)} → {_figure(row.ours)} {row.unit}"
    yield text(_RIGHT, top + 13, told, size=12, fill="soft", anchor="end")
    yield rect(left, top + 19, max(width, 1.5), 11, fill=fill, radius=2)
    yield text(max(end, _ZERO) + 6, top + 29, f"{row.ratio:.2f}×", size=12, bold=True, fill=fill)


def _figure(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
