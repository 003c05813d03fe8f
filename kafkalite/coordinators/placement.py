"""Which partition of an internal topic a group or a transactional id belongs to: Java's string hash, as Kafka has it."""

from __future__ import annotations


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
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_for(key: str, partition_count: int) -> int:
    """The partition of the key; the absolute value of the smallest number is 0 in Kafka."""
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partition_count
