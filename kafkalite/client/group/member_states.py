"""Where a member of a consumer group is in its life, and how its errors are reported."""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkalite.client.errors import ClientError
from kafkalite.errors import ErrorCode


class MemberState(Enum):
    """Where a member is in its life."""

    OUT = "out"
    JOINING = "joining"
    LEADING = "leading"
    SYNCING = "syncing"
    STABLE = "stable"


PREDECESSORS: Final = {
    MemberState.OUT: set(MemberState),
    MemberState.JOINING: {MemberState.OUT, MemberState.STABLE},
    MemberState.LEADING: {MemberState.JOINING},
    MemberState.SYNCING: {MemberState.JOINING, MemberState.LEADING},
    MemberState.STABLE: {MemberState.SYNCING},
}

IN_REBALANCE: Final = frozenset({MemberState.JOINING, MemberState.LEADING, MemberState.SYNCING})
"""From a JoinGroup until it failed, or the assignment of its generation is there."""


def assignor_failed(problem: Exception) -> ClientError:
    """Return the error for `problem`, its cause, which the program's own assignor raised."""
    error = ClientError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignor failed: {problem!r}")
    error.__cause__ = problem
    return error
