"""Finds the epochs of partitions, which a leader has to name when it alters an ISR, by asking. Pure.

A broker learns a partition's epoch from the metadata log; no other API tells it. The controller refuses a lower one with
INVALID_UPDATE_VERSION and a higher one with NOT_CONTROLLER (ReplicationControlManager.validateAlterPartitionData), so it can be searched
for: only the right one changes anything. It is no lower than the leader epoch, since each election is a change of the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

_FIRST_STEP: Final = 4


@dataclass(frozen=True, slots=True)
class HandOver:
    """A partition that is handed to its followers. Its epoch is `guess`, or between `low` and `high`, both included; `high` is None before
    one was too high.
    """

    place: TopicPartition
    topic_id: bytes
    leader_epoch: int
    followers: tuple[int, ...]
    low: int
    guess: int
    high: int | None = None


def begin(place: TopicPartition, topic_id: bytes, leader_epoch: int, followers: tuple[int, ...]) -> HandOver:
    """Return the first guess. A partition that was created and then reassigned has changed once more than it was elected."""
    return HandOver(place, topic_id, leader_epoch, followers, leader_epoch, leader_epoch + 1)


def guess_again(answers: Mapping[HandOver, int]) -> tuple[list[HandOver], dict[TopicPartition, int]]:
    """Return those to be tried again, with another guess, and the error codes of those that failed for good.

    NEW_LEADER_ELECTED is what a success looks like: the reassignment has ended, and the mirror is no replica any more.
    """
    again: list[HandOver] = []
    failed: dict[TopicPartition, int] = {}
    for each, code in answers.items():
        if code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
            continue
        following = None
        if code == ErrorCode.INVALID_UPDATE_VERSION:
            following = _guess_higher(each)
        elif code == ErrorCode.NOT_CONTROLLER:
            following = _guess_lower(each)
        if following is None:
            failed[each.place] = code
        else:
            again.append(following)
    return again, failed


def _guess_higher(each: HandOver) -> HandOver | None:
    low = each.guess + 1
    if each.high is None:
        return replace(each, low=low, guess=each.guess + max(_FIRST_STEP, 2 * (each.guess - each.leader_epoch)))
    return None if low > each.high else replace(each, low=low, guess=(low + each.high) // 2)


def _guess_lower(each: HandOver) -> HandOver | None:
    high = each.guess - 1
    return None if each.low > high else replace(each, high=high, guess=(each.low + high) // 2)


def places_of(some: Iterable[HandOver]) -> list[TopicPartition]:
    """Return the partitions, in order."""
    return sorted(each.place for each in some)
