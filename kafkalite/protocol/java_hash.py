"""Java's `String.hashCode` and Kafka's `Utils.abs`: what Apache Kafka decides by them must fall alike here."""

from __future__ import annotations

_SMALLEST = -(1 << 31)


def java_hash(text: str) -> int:
    """`String.hashCode`: h = 31 h + unit over the UTF-16 code units, wrapped to a signed 32-bit number."""
    hashed = 0
    if text.isascii():
        for unit in text.encode():
            hashed = (31 * hashed + unit) & 0xFFFFFFFF
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(encoded[::2], encoded[1::2], strict=True):
            hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return _signed(hashed)


def java_abs(number: int) -> int:
    """`Utils.abs` of a Java int, which `number` is wrapped to: of the smallest number, which has no opposite, it is 0."""
    wrapped = _signed(number & 0xFFFFFFFF)
    return 0 if wrapped == _SMALLEST else abs(wrapped)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
