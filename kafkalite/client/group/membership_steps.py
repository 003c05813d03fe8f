"""What a membership asks its caller to do: one step at a time, each reported back by the method that it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.protocol import messages

    MembershipRequest = (
        messages.join_group_request.JoinGroupRequest
        | messages.sync_group_request.SyncGroupRequest
        | messages.leave_group_request.LeaveGroupRequest
    )
    HeartbeatOrLeave = messages.heartbeat_request.HeartbeatRequest | messages.leave_group_request.LeaveGroupRequest


@dataclass(frozen=True, slots=True)
class Send:
    """Send `message` to the coordinator; report by `handle_response` or `handle_no_response`."""

    message: MembershipRequest
    timeout_ms: float


@dataclass(frozen=True, slots=True)
class Lead:
    """Find the number of partitions of `topics`; report by `lead`. With `skips_assignment` the coordinator keeps what is assigned, which
    may be less: partitions that came while this member was away."""

    topics: frozenset[str]
    skips_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Revoke:
    """Stop reading `partitions` after committing; report by `complete_revocation`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """Tell the program that `partitions`, which are owned no more, were lost: nothing can be committed. Report by `complete_loss`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """Begin to read `added`, beside what is owned already; nothing to report."""

    added: tuple[TopicPartition, ...]


Step = Send | Lead | Revoke | Lose | Assign
