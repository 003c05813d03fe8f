"""Counts of what went in and out, by topic, for metrics and status pages."""

from __future__ import annotations

from collections import Counter


class Traffic:
    """Bytes of records; counted once for each partition of a request, never for each record."""

    def __init__(self) -> None:
        self.bytes_in: Counter[str] = Counter()
        self.bytes_out: Counter[str] = Counter()

    def produced(self, topic: str, size_bytes: int) -> None:
        self.bytes_in[topic] += size_bytes

    def fetched(self, topic: str, size_bytes: int) -> None:
        self.bytes_out[topic] += size_bytes
