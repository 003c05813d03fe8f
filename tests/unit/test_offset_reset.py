"""Where offsets are moved to."""

from __future__ import annotations

import pytest

from kafkalite.offset_reset import Bounds, FromTime, Listed, Named, Shift, Target, ToOffset, new_offset
from kafkalite.types import TopicPartition

P = TopicPartition("t", 0)


def test_every_target_stays_within_what_the_partition_has() -> None:
    bounds = Bounds(earliest=10, latest=50)
    cases: list[tuple[Target, int | None, int]] = [
        (Named("earliest"), None, 10),
        (Named("latest"), None, 50),
        (FromTime(0), 33, 33),
        (FromTime(0), None, 50),
        (Shift(5), None, 25),
        (Shift(-100), None, 10),
        (ToOffset(7), None, 10),
        (ToOffset(70), None, 50),
        (Listed({P: 42}), None, 42),
    ]
    for target, at_time, expected in cases:
        assert new_offset(target, P, 20, bounds, at_time) == expected, target


def test_there_is_no_shift_from_nowhere() -> None:
    with pytest.raises(ValueError, match="nothing is committed for t-0"):
        new_offset(Shift(1), P, None, Bounds(0, 9), None)
