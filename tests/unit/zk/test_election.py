"""Every strategy on the cases of Kafka's rules."""

import pytest

from zk import election
from zk.election import ElectionResult

ALL = {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("replicas", "isr", "live", "unclean", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], {1, 2}, False, ElectionResult(1, (1, 2), (1, 2))),
        ([1, 2, 3], [2, 3], {1, 3}, False, ElectionResult(3, (3,), (1, 3))),
        ([1, 2, 3], [2], {1, 3}, False, None),
        ([1, 2, 3], [2], {1, 3}, True, ElectionResult(1, (1,), (1, 3), recovering=True)),
        ([1, 2, 3], [2], {2, 3}, True, ElectionResult(2, (2,), (2, 3))),
        ([1, 2], [1, 2], set(), True, None),
        ([1, 2, 3], [3, 1], {1, 2, 3}, False, ElectionResult(1, (3, 1), (1, 2, 3))),
    ],
)
def test_offline(replicas, isr, live, unclean, expected):
    assert election.offline(replicas, isr, live, unclean) == expected


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (ALL, ElectionResult(3, (1, 2, 3, 4), (3, 4))),
        ({1, 2, 4}, ElectionResult(4, (1, 2, 3, 4), (3, 4))),
        ({1, 2}, None),
    ],
)
def test_reassignment(live, expected):
    assert election.reassignment([3, 4], [1, 2, 3, 4], live) == expected


@pytest.mark.parametrize(
    ("isr", "live", "expected"),
    [
        ([2, 3], ALL, None),
        ([3, 1], {1, 3}, ElectionResult(1, (3, 1), (1, 2, 3))),
        ([1, 2], {2}, None),
    ],
)
def test_preferred(isr, live, expected):
    assert election.elect_preferred([1, 2, 3], isr, live) == expected


@pytest.mark.parametrize(
    ("replicas", "isr", "shutting_down", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], {1}, ElectionResult(2, (2, 3), (1, 2, 3))),
        ([1, 2, 3], [1, 2, 3], {1, 2}, ElectionResult(3, (3,), (1, 2, 3))),
        ([1, 2], [1], {1}, None),
    ],
)
def test_controlled_shutdown(replicas, isr, shutting_down, expected):
    assert election.controlled_shutdown(replicas, isr, set(replicas), shutting_down) == expected


def test_new_partition():
    assert election.new_partition([3, 1, 2], {1, 2}) == ElectionResult(1, (1, 2), (1, 2))
    assert election.new_partition([3], {1}) is None
