"""A leader's knowledge of one follower of a partition: its offsets, and when it last fetched. Only `partition` changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from kafkalite.types import BrokerId

UNKNOWN_OFFSET = -1
NEVER_MS = float("-inf")
"""A moment before all others; monotonic time may begin at 0."""


class FetchRequester(Protocol):
    """Has the time of a follower's last fetch, which counts for partitions that an incremental fetch did not name too."""

    @property
    def last_fetch_ms(self) -> float: ...


@dataclass(frozen=True, slots=True)
class NeverFetched:
    """The requester of a follower that has not fetched yet."""

    last_fetch_ms: float = NEVER_MS


_NEVER_FETCHED: Final = NeverFetched()


@dataclass(slots=True)
class FollowerState:
    """The leader's knowledge of a follower (Kafka's Replica and ReplicaState)."""

    broker_id: BrokerId
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: float = NEVER_MS
    leader_end_at_last_fetch: int = 0
    last_caught_up_ms: float = NEVER_MS
    requester: FetchRequester = _NEVER_FETCHED

    def caught_up_ms(self, leader_end_offset: int) -> float:
        """Return when the follower last had all that the leader had, as far as its fetches tell."""
        if self.log_end_offset == leader_end_offset:
            return max(self.last_caught_up_ms, self.requester.last_fetch_ms)
        return self.last_caught_up_ms


NO_FOLLOWERS: Final[Mapping[BrokerId, FollowerState]] = {}
