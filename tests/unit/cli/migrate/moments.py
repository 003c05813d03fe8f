"""Moments of a cluster with two partitions, as a migration's evidence has them, for the tests of its auditor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafkalite.cli.migrate.audit import audit
from kafkalite.cli.migrate.digests import CopyDigester, split_range
from kafkalite.cli.migrate.evidence import (
    CopyDigest,
    Ledger,
    Moment,
    PartitionBounds,
    ProbeRecord,
    RangeDigest,
    Span,
)
from kafkalite.protocol.record_batches.record_digest import hash_record
from kafkalite.protocol.record_batches.records import CONTROL, TRANSACTIONAL, NewRecord, build_batch
from kafkalite.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
VALUES = tuple(f"value {number}".encode() for number in range(25))
PROBED = tuple(ProbeRecord(number, number % 2, 100 + number // 2, f"{number:032x}") for number in range(6))
LEDGER = Ledger("probe-1", "probed", 6, PROBED, frozenset())


def digests(values: Sequence[bytes | None], end: int = 25) -> dict[tuple[TopicPartition, int], RangeDigest]:
    """Of partition t-0, in ranges of ten offsets; None for an offset without a record."""
    found = {}
    for first, after in split_range(0, end, 10):
        some = {offset: value for offset, value in enumerate(values) if first <= offset < after and value is not None}
        total = sum(hash_record(offset, 0, None, value) for offset, value in some.items()) % (1 << 128)
        content_bytes = sum(map(len, some.values()))
        found[T0, first] = RangeDigest(*T0, first, after, len(some), content_bytes, f"{total:032x}")
    return found


def moment(
    values: Sequence[bytes | None] = VALUES, *, end: int | None = None, log_start: int = 0, is_compacted: bool = False
) -> Moment:
    bounds = {
        T0: PartitionBounds("t", 0, log_start, len(values) if end is None else end, is_compacted),
        T1: PartitionBounds("t", 1, 0, 0, False),
    }
    return Moment(2000, "id", bounds, digests(values), {("g", T0): 20}, "probe-1", PROBED, last=25)


def before_of(values: Sequence[bytes | None]) -> Moment:
    return replace(moment(values), taken_ms=1000)


BEFORE = before_of(VALUES)


def problems_of(after: Moment, before: Moment = BEFORE, ledger: Ledger | None = LEDGER) -> list[str]:
    """The problems, in words."""
    return [each.found for each in audit(before, after, ledger) if each.remedy is not None]


def log_of(*, markers: str = "ca", value: bytes = b"value") -> bytes:
    """Two transactions of three records, each ended by a marker: c for commit, a for abort."""
    data, offset = b"", 0
    for number, marker in enumerate(markers):
        some = [NewRecord(b"key", value, number)] * 3
        data += build_batch(some, base_offset=offset, producer_id=number, producer_epoch=0, base_sequence=0)
        marked = [NewRecord(bytes([0, 0, 0, marker == "c"]), bytes(6), 0)]
        end = build_batch(marked, base_offset=offset + 3, producer_id=number, attributes=CONTROL | TRANSACTIONAL)
        data, offset = data + end, offset + 4
    return data


def copy(broker: int, data: bytes, aborted: Sequence[tuple[int, int]] = ((1, 4),), stable: int = 8) -> CopyDigest:
    digester = CopyDigester(T0, broker, Span(0, 8, stable))
    assert digester.add_batches(data[:-5]) and not digester.is_complete
    assert digester.add_batches(data) and digester.is_complete and not digester.add_batches(data)
    digester.add_aborted(aborted)
    return digester.finish()


WHOLE = copy(1, log_of())


def with_stable(of: Moment, stable: int | None) -> Moment:
    return replace(of, partitions=of.partitions | {T0: replace(of.partitions[T0], stable=stable)})
