"""Numbers as Java prints them."""

from __future__ import annotations

import math
from typing import Final

_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7


def double(value: float) -> str:
    """Return a number as `Double.toString`: plain between 0.001 and ten million, else with one digit before the point and an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(float(value))
    from decimal import Decimal

    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    written = "".join(map(str, digits))
    return f"{'-' if sign else ''}{written[0]}.{written[1:] or '0'}E{int(exponent) + len(digits) - 1}"


def single(value: float) -> str:
    """Return a number as `Float.toString`: the shortest digits that give the same 32 bits."""
    import struct

    for digits in range(1, 10):
        shortest = float(f"{value:.{digits}g}")
        if struct.pack(">f", shortest) == struct.pack(">f", value):
            return double(shortest)
    return double(value)
