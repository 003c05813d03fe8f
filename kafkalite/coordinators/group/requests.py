"""What the group machine is asked and what it replies, free of API versions; names are the wire's, durations in ms.

Replies carry an error code; where there is an error the other fields have their defaults unless a docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kafkalite.coordinators.group.offset_record import NO_LEADER_EPOCH
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

NO_MEMBER_ID = ""
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Join:
    """`fresh_id` is a random text that no other request has; `requires_member_id` (KIP-394) and `skips_assignment` (KIP-814) follow
    from the API version."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    fresh_id: str
    requires_member_id: bool = True
    skips_assignment: bool = True


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    """`members` is for the leader only. With MEMBER_ID_REQUIRED `member_id` is the one to come back with."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER_ID
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """`assignments` by member id comes from the leader."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SyncReply:
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Answered with an ErrorCode."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeavingMember:
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """Answered with a LeaveReply."""

    group_id: str
    members: Sequence[LeavingMember]


@dataclass(frozen=True, slots=True)
class LeaveReply:
    """`member_errors` in the order of the request."""

    error: ErrorCode = ErrorCode.NONE
    member_errors: Sequence[ErrorCode] = ()


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Answered with an ErrorCode for each offset, in order. `retention_ms` is -1 unless an old client gives one."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: Sequence[OffsetToCommit]
    retention_ms: int = -1


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    """Answered with a DeleteOffsetsReply."""

    group_id: str
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class DeleteOffsetsReply:
    """An error of the whole request, or an error for each partition, in order."""

    error: ErrorCode = ErrorCode.NONE
    partition_errors: Sequence[ErrorCode] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Answered with an ErrorCode."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ForgetPartitions:
    """These partitions were deleted; their offsets go in all groups. Answered with None."""

    partitions: Sequence[TopicPartition]


Request: TypeAlias = Join | Sync | Heartbeat | Leave | CommitOffsets | DeleteOffsets | DeleteGroup | ForgetPartitions


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """`metadata` and `assignment` are empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[DescribedMember] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
