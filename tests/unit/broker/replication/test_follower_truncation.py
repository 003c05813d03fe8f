"""Where a follower truncates its log to agree with its leader's (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

import pytest

from kafkalite.broker.replication.follower_truncation import truncation_offset
from tests.unit.broker.fake_log import FakeLog

OWN = FakeLog(log_end_offset=20, epochs=[(1, 0), (3, 8), (5, 15)])
"""Epoch 1 at 0 to 7, 3 at 8 to 14, 5 at 15 to 19."""


@pytest.mark.parametrize(
    ("leader_epoch", "leader_end", "wanted"),
    [
        (-1, -1, 6),  # the leader knows nothing: the fallback, which is the high watermark
        (5, -1, 6),
        (-1, 12, 12),  # an old leader names no epoch
        (-1, 99, 20),
        (5, 17, 17),  # the leader has less of our epoch
        (5, 99, 20),  # and more
        (3, 12, 12),
        (3, 14, 14),
        (3, 99, 15),  # our epoch 3 ends at 15
        (2, 12, 8),  # epoch 2 we do not have: cut behind epoch 1, and ask again
        (4, 12, 15),
        (7, 18, 18),  # an epoch that is newer than all of ours
        (0, 4, 0),
    ],
)
def test_where_a_log_is_cut(leader_epoch: int, leader_end: int, wanted: int) -> None:
    assert truncation_offset(OWN.end_offset_for_epoch, leader_epoch, leader_end, 20, 6) == wanted


def test_a_log_without_epochs_is_cut_where_the_leader_says() -> None:
    assert truncation_offset(FakeLog().end_offset_for_epoch, 3, 12, 20, 6) == 12
    assert truncation_offset(FakeLog().end_offset_for_epoch, -1, -1, 4, 6) == 4
