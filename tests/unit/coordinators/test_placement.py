"""The partitions that groups and transactions belong to."""

from __future__ import annotations

from kafkalite.coordinators.placement import partition_for


def test_partitions_of_groups() -> None:
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0
