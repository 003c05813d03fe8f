"""Digests of records, and of ranges of offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final

from kafkalite.cli.migrate.evidence import RangeDigest
from kafkalite.types import TopicPartition

_BYTES: Final = 16
_MODULUS: Final = 1 << 8 * _BYTES
_NULL: Final = b"\xff" * 4


def digest_record(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    timestamp_ms: int | None = None,
) -> bytes:
    """Return sixteen bytes that depend on all that a record holds, and not on where it is."""
    parts = [b"" if timestamp_ms is None else timestamp_ms.to_bytes(8, "big", signed=True)]
    for field in (key, value, *(each for name, content in headers for each in (name.encode(), content))):
        parts += [_NULL] if field is None else [len(field).to_bytes(4, "big"), field]
    return blake2b(b"".join(parts), digest_size=_BYTES).digest()


def split_range(first: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `first` to `end`, each to the next multiple of `size`, so that they are the same wherever one begins."""
    while first < end:
        after = min(end, (first // size + 1) * size)
        yield first, after
        first = after


class PartitionDigester:
    """Digests the records of one partition, in the order of offsets, by ranges that follow each other."""

    def __init__(self, place: TopicPartition, ranges: Sequence[tuple[int, int]]) -> None:
        self._place = place
        self._ranges = ranges
        self._at = 0
        self._finished: list[RangeDigest] = []
        self._records = self._content = 0
        self._chain = blake2b(digest_size=_BYTES)

    @property
    def end(self) -> int:
        """Return the offset before which all is digested."""
        return self._ranges[-1][1]

    def add_record(self, offset: int, digest: bytes) -> None:
        """Add a record; those behind the last range are left out."""
        while self._at < len(self._ranges) and offset >= self._ranges[self._at][1]:
            self._finish_range()
        if self._at < len(self._ranges):
            self._records += 1
            self._content = (self._content + int.from_bytes(digest, "big")) % _MODULUS
            self._chain.update(offset.to_bytes(8, "big") + digest)

    def finish(self) -> list[RangeDigest]:
        """Return the digests of all ranges, also of those without records."""
        while self._at < len(self._ranges):
            self._finish_range()
        return self._finished

    def _finish_range(self) -> None:
        start, end = self._ranges[self._at]
        content = self._content.to_bytes(_BYTES, "big").hex()
        self._finished.append(RangeDigest(*self._place, start, end, self._records, content, self._chain.hexdigest()))
        self._at += 1
        self._records = self._content = 0
        self._chain = blake2b(digest_size=_BYTES)
