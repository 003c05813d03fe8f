"""Whether two logs are the same up to an offset is seen by the batches there."""

from __future__ import annotations

from typing import Any

from kafkalite.cli.mirror.back.seam import compare_batches
from kafkalite.protocol.record_batches.records import NewRecord, build_batch, set_offset_and_epoch_in_place


def batch(offset: int, count: int = 2, epoch: int = 0, value: bytes = b"v", **fields: Any) -> bytes:
    made = build_batch([NewRecord(b"k", value, 1000)] * count, **fields)
    set_offset_and_epoch_in_place(made, 0, offset, epoch)
    return bytes(made)


def test_only_the_leader_epoch_may_differ() -> None:
    assert compare_batches(batch(8, epoch=3), batch(8, epoch=70) + batch(10), 9) == ""
    for other in (batch(8, value=b"w"), batch(8, count=3), batch(7, count=3), batch(8, producer_id=7)):
        assert "different records at offset 9" in compare_batches(batch(8), other, 9)


def test_a_batch_that_is_gone_proves_nothing() -> None:
    assert (
        compare_batches(batch(8), batch(10), 9)
        == "the target has no batch at offset 9 any more, so that it cannot be compared"
    )
    assert "the source has no batch" in compare_batches(batch(4), batch(8), 9)
    assert "the source has no batch" in compare_batches(batch(8)[:-1], batch(8), 9)
    assert "the target has no batch" in compare_batches(batch(8), b"", 9)
