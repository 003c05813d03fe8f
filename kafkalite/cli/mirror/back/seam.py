"""Compares the last batch of the source with what the target has at its offset: behind it both may only be the same. Pure."""

from __future__ import annotations

from kafkalite.protocol.record_batches.records import LEADER_EPOCH_BYTES, LOG_OVERHEAD, BatchHeader, header_at
from kafkalite.types import Buffer


def compare_batches(source: Buffer, target: Buffer, offset: int) -> str:
    """Return why the batches that hold `offset` are not the same, empty when they are; both buffers begin with one."""
    ours, theirs = _find(source, offset), _find(target, offset)
    if ours is None or theirs is None:
        side = "source" if ours is None else "target"
        return f"the {side} has no batch at offset {offset} any more, so that it cannot be compared"
    if _without_epoch(source, ours) != _without_epoch(target, theirs):
        return f"source and target have different records at offset {offset}: the source has got records of its own"
    return ""


def _find(records: Buffer, offset: int) -> BatchHeader | None:
    header = header_at(records)
    if header is None or header.end > len(records) or not header.base_offset <= offset <= header.last_offset:
        return None
    return header


def _without_epoch(records: Buffer, header: BatchHeader) -> bytes:
    batch = bytes(records[header.position : header.end])
    return batch[:LOG_OVERHEAD] + batch[LOG_OVERHEAD + LEADER_EPOCH_BYTES :]
