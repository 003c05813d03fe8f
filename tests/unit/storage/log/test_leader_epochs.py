"""The table of leader epochs: assignments, answers to OffsetForLeaderEpoch, truncation at both ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.storage.log.leader_epochs import LeaderEpochs

TABLE = [(2, 10), (4, 20), (7, 30)]


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (6, (4, 30)),
        (7, (7, 99)),
        (8, (-1, -1)),
    ],
)
def test_end_offsets(epoch, answer):
    assert LeaderEpochs(TABLE).end_offset_for(epoch, 99) == answer


def test_an_empty_table_knows_nothing():
    assert LeaderEpochs().end_offset_for(0, 5) == (-1, -1)
    assert LeaderEpochs().latest is None and LeaderEpochs().epoch_for_offset(3) is None


@pytest.mark.parametrize(
    ("epoch", "start", "after"),
    [
        (8, 40, [*TABLE, (8, 40)]),
        (7, 40, TABLE),
        (5, 40, TABLE),
        (-1, 40, TABLE),
        (8, 30, [(2, 10), (4, 20), (8, 30)]),
        (8, 15, [(2, 10), (8, 15)]),
        (8, 0, [(8, 0)]),
    ],
)
def test_assignments(epoch, start, after):
    table = LeaderEpochs(TABLE)
    assert table.assign(epoch, start) == (after != TABLE)
    assert table.entries() == after


@pytest.mark.parametrize(("end", "kept"), [(31, 3), (30, 2), (29, 2), (20, 1), (11, 1), (10, 0), (0, 0)])
def test_truncation_from_the_end(end, kept):
    table = LeaderEpochs(TABLE)
    assert table.truncate_from_end(end) == (kept < 3)
    assert table.entries() == TABLE[:kept]


@pytest.mark.parametrize(
    ("start", "after"),
    [
        (5, TABLE),
        (10, TABLE),
        (15, [(2, 15), (4, 20), (7, 30)]),
        (20, [(4, 20), (7, 30)]),
        (29, [(4, 29), (7, 30)]),
        (50, [(7, 50)]),
    ],
)
def test_truncation_from_the_start(start, after):
    table = LeaderEpochs(TABLE)
    assert table.truncate_from_start(start) == (after != TABLE)
    assert table.entries() == after


@given(st.lists(st.tuples(st.integers(-1, 20), st.integers(0, 100)), max_size=30))
def test_both_columns_always_grow(assignments):
    table = LeaderEpochs()
    for epoch, start in assignments:
        table.assign(epoch, start)
        for column in zip(*table.entries(), strict=True):
            assert list(column) == sorted(set(column))


def test_epoch_for_offset():
    table = LeaderEpochs(TABLE)
    assert [table.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 30, 1000)] == [None, 2, 2, 4, 7, 7]
