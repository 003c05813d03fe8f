"""Digests of a replica's batches, and the evidence that holds them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kafkalite.cli.migrate.digests import CopyDigester
from kafkalite.cli.migrate.evidence import Span, read_moment, write_moment
from kafkalite.protocol.record_batches.records import NewRecord, build_batch, set_offset_and_epoch_in_place
from tests.unit.cli.migrate.moments import BEFORE, T0


def digest(epoch: int, value: bytes = b"v", *, without_epochs: bool) -> str:
    batch = build_batch([NewRecord(b"k", value, 1000)])
    set_offset_and_epoch_in_place(batch, 0, 0, epoch)
    digester = CopyDigester(T0, 1, Span(0, 1, 1), without_epochs=without_epochs)
    digester.add_batches(batch)
    return digester.finish().digest


def test_leader_epochs_count_unless_they_are_left_out() -> None:
    assert digest(1, without_epochs=False) != digest(2, without_epochs=False)
    assert digest(1, without_epochs=True) == digest(2, without_epochs=True)
    assert digest(1, without_epochs=True) != digest(1, b"w", without_epochs=True)


def test_evidence_tells_whether_they_were_left_out(tmp_path: Path) -> None:
    for name, is_left_out in (("with", False), ("without", True)):
        write_moment(tmp_path / name, replace(BEFORE, without_epochs=is_left_out))
        assert read_moment(tmp_path / name, to_the_end=False).without_epochs is is_left_out
