"""What keeps a switch from happening, and how the epoch of a partition is found."""

from __future__ import annotations

import pytest

from kafkalite.cli.mirror.partition_epochs import begin, guess_again
from kafkalite.cli.mirror.positions import Positions, find_obstacles
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

T0 = TopicPartition("t", 0)


def followed(*offsets: int) -> Positions:
    positions = Positions()
    for broker, offset in enumerate(offsets, 1):
        positions.note_follower(T0, broker, 50 + broker, offset)
    return positions


def obstacles(positions: Positions, end: int = 10, stable: int = 10) -> str:
    return find_obstacles(positions, {T0: (1, 2)}, {T0: end}, {T0: stable}).get(T0, "")


def test_every_follower_has_to_be_where_the_source_ends() -> None:
    assert obstacles(followed(10, 10)) == ""
    assert obstacles(followed(10, 9)) == "the source ends at offset 10: broker 2 at 9"
    assert obstacles(followed(10)) == "the source ends at offset 10: broker 2 at 0", "it never asked"
    assert "broker 1 at 11" in obstacles(followed(11, 10)), "nor may it have more"
    positions = followed(10, 10)
    positions.forget_followers()
    assert "broker 1 at 0" in obstacles(positions), "what was noted before the freeze counts no more"


def test_an_empty_partition_is_no_obstacle_once_its_followers_have_asked() -> None:
    assert obstacles(followed(0, 0), 0, 0) == ""
    assert "broker 2 at 0" in obstacles(followed(0), 0, 0)


def test_open_transactions_and_refused_partitions_are_named() -> None:
    assert obstacles(followed(10, 10), stable=4) == "a transaction is open in the source since offset 4"
    positions = followed(10, 10)
    positions.refused[T0] = "why"
    assert obstacles(positions) == "why"
    positions.note_source(T0, 0, 10)
    assert obstacles(positions) == ""


def test_the_slowest_follower_tells_how_far_the_copy_is() -> None:
    positions = followed(10, 4)
    positions.note_source(T0, 2, 12)
    (row,) = positions.describe({T0: (1, 2)})
    assert (row["source_end"], row["copied_to"], row["lag"], row["brokers"]) == (12, 4, 8, [1, 2])
    assert positions.broker_epochs == {1: 51, 2: 52} and positions.bounds_of(T0) == (2, 12)
    (unknown,) = Positions().describe({T0: (1,)})
    assert (unknown["source_end"], unknown["copied_to"], unknown["lag"]) == (-1, 0, None)


@pytest.mark.parametrize("epoch", [7, 8, 9, 11, 12, 30, 1000, 70_001])
def test_a_partition_epoch_is_found_by_guessing(epoch: int) -> None:
    """The controller says whether a guess is too low or too high."""
    left = [begin(T0, b"id", 7, (1, 2))]
    for _ in range(64):
        guess = left[0].guess
        code = ErrorCode.NEW_LEADER_ELECTED
        if guess != epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION if guess < epoch else ErrorCode.NOT_CONTROLLER
        left, failed = guess_again({left[0]: code})
        assert not failed
        if not left:
            assert guess == epoch
            return
    raise AssertionError("not found")


def test_what_is_not_about_the_epoch_fails_for_good() -> None:
    first = begin(T0, b"id", 7, (1,))
    assert guess_again({first: ErrorCode.INELIGIBLE_REPLICA}) == ([], {T0: ErrorCode.INELIGIBLE_REPLICA})
    assert guess_again({first: ErrorCode.NONE}) == ([], {})
    lower, _ = guess_again({first: ErrorCode.NOT_CONTROLLER})
    assert guess_again({lower[0]: ErrorCode.NOT_CONTROLLER}) == ([], {T0: ErrorCode.NOT_CONTROLLER})
