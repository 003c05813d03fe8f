"""Java's `String.hashCode` and `HashMap`, and Kafka's `Utils.abs`: what Apache Kafka decides by them must fall alike here."""

from __future__ import annotations

from collections.abc import Sequence

_SMALLEST = -(1 << 31)


def java_hash(text: str) -> int:
    """Return `String.hashCode`: h = 31 h + unit over the UTF-16 code units, wrapped to a signed 32-bit number."""
    hashed = 0
    if text.isascii():
        for unit in text.encode():
            hashed = (31 * hashed + unit) & 0xFFFFFFFF
    else:
        encoded = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(encoded[::2], encoded[1::2], strict=True):
            hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    return _to_signed(hashed)


def java_abs(number: int) -> int:
    """Return `Utils.abs` of `number` wrapped to a Java int: 0 for the smallest int, which has no opposite."""
    wrapped = _to_signed(number & 0xFFFFFFFF)
    return 0 if wrapped == _SMALLEST else abs(wrapped)


def in_hash_map_order(names: Sequence[str]) -> list[str]:
    """Return the names in the order in which a `java.util.HashMap` that they were put into one by one iterates over them.

    It goes by bucket, and doubles the buckets when more than three quarters of them would be taken.
    """
    buckets = 16
    while len(names) > buckets * 3 // 4:
        buckets *= 2

    def bucket(name: str) -> int:
        hashed = java_hash(name) & 0xFFFFFFFF
        return (hashed ^ hashed >> 16) & (buckets - 1)

    return sorted(names, key=bucket)


def _to_signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
