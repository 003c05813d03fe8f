"""Digests of single records, and of the batches of replicas. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Final

from kafkalite.cli.migrate.evidence import CopyDigest, Span, UnreadCopy
from kafkalite.protocol.record_batches.records import LEADER_EPOCH_BYTES, LOG_OVERHEAD, iter_batches
from kafkalite.types import Buffer, TopicPartition

_BYTES: Final = 16
_NULL: Final = b"\xff" * 4


def digest_record(key: bytes | None, value: bytes | None) -> bytes:
    """Return sixteen bytes that depend on key and value of a record, and not on where it is."""
    parts: list[bytes] = []
    for field in (key, value):
        parts += [_NULL] if field is None else [len(field).to_bytes(4, "big"), field]
    return blake2b(b"".join(parts), digest_size=_BYTES).digest()


def split_range(first: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `first` to `end`, each to the next multiple of `size`, so that they are the same wherever one begins."""
    while first < end:
        after = min(end, (first // size + 1) * size)
        yield first, after
        first = after


class CopyDigester:
    """Digests the batches of one replica's copy of a partition, in the order of its log, whole batches at both ends of the span."""

    def __init__(self, place: TopicPartition, broker: int, span: Span, *, without_epochs: bool = False) -> None:
        self.place, self._without_epochs = place, without_epochs
        self._broker, self._span = broker, span
        self.position = span.start
        """The offset that is to be read next."""
        self._batches = self._markers = 0
        self._aborted: set[tuple[int, int]] = set()
        self._chain = blake2b(digest_size=_BYTES)

    @property
    def is_complete(self) -> bool:
        return self.position >= self._span.end

    @property
    def is_stable(self) -> bool:
        """True if what is next lies before the last stable offset, up to which a broker tells of aborted transactions."""
        return self.position < self._span.stable

    def add_batches(self, data: Buffer) -> bool:
        """Add the whole batches that a broker sent; returns whether there were any that had not been added."""
        began = self.position
        for header in iter_batches(data):
            if header.next_offset <= self.position:
                continue
            if self.is_complete:
                break
            self._batches += 1
            self._markers += header.is_control
            batch = memoryview(data)[header.position : header.end]
            if self._without_epochs:
                self._chain.update(batch[:LOG_OVERHEAD])
                batch = batch[LOG_OVERHEAD + LEADER_EPOCH_BYTES :]
            self._chain.update(batch)
            self.position = header.next_offset
        return self.position > began

    def add_aborted(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Add producer and first offset of transactions; those that began later than the last stable offset are left out."""
        self._aborted.update(each for each in transactions if each[1] < self._span.stable)

    def finish(self) -> CopyDigest:
        chain = self._chain.copy()
        chain.update(repr(sorted(self._aborted)).encode())
        span, counts = self._span, (self._batches, self._markers, len(self._aborted))
        return CopyDigest(*self.place, self._broker, span.start, span.end, span.stable, *counts, chain.hexdigest())

    def give_up(self, why: str, *, is_lacking: bool = False) -> UnreadCopy:
        """Return why the copy was not read; `is_lacking` as in `UnreadCopy`."""
        return UnreadCopy(*self.place, self._broker, why, is_lacking)
