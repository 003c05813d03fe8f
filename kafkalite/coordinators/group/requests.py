"""Requests and replies of the group machine, free of API versions; names are those of the protocol, durations in ms.

Replies carry an error code; where there is an error the other fields have their defaults unless a docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from kafkalite.coordinators.contract import Transaction
from kafkalite.coordinators.group.group_record import NO_TIMESTAMP
from kafkalite.coordinators.group.offset_record import NO_LEADER_EPOCH
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

NO_MEMBER_ID = ""
NO_GENERATION = -1


class Join(NamedTuple):
    """Answered with a JoinReply. `fresh_id` is a random text, unique for each request; `requires_member_id` (KIP-394) and
    `skips_assignment` (KIP-814) follow from the API version."""

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


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinReply(NamedTuple):
    """The reply to Join; `members` is for the leader only. With MEMBER_ID_REQUIRED `member_id` is the one to join with."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER_ID
    members: Sequence[JoinedMember] = ()
    skip_assignment: bool = False


class Sync(NamedTuple):
    """Answered with a SyncReply. `assignments` by member id are the leader's."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = MappingProxyType({})


class SyncReply(NamedTuple):
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Heartbeat(NamedTuple):
    """Answered with an ErrorCode."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


class LeavingMember(NamedTuple):
    member_id: str
    instance_id: str | None = None


class Leave(NamedTuple):
    """Answered with a LeaveReply."""

    group_id: str
    members: Sequence[LeavingMember]


class LeaveReply(NamedTuple):
    """`member_errors` in the order of the request."""

    error: ErrorCode = ErrorCode.NONE
    member_errors: Sequence[ErrorCode] = ()


class OffsetToCommit(NamedTuple):
    """An offset to commit; `timestamp_ms` is set by old clients, else NO_TIMESTAMP for the present time."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    timestamp_ms: int = NO_TIMESTAMP


class CommitOffsets(NamedTuple):
    """Answered with an ErrorCode for each offset, in order. `retention_ms` is -1 unless an old client gives one.

    With a `transaction` the offsets are pending until that ends.
    """

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: Sequence[OffsetToCommit]
    retention_ms: int = -1
    transaction: Transaction | None = None


class DeleteOffsets(NamedTuple):
    """Answered with a DeleteOffsetsReply."""

    group_id: str
    partitions: Sequence[TopicPartition]


class DeleteOffsetsReply(NamedTuple):
    """An error of the whole request, or an error for each partition, in order."""

    error: ErrorCode = ErrorCode.NONE
    partition_errors: Sequence[ErrorCode] = ()


class DeleteGroup(NamedTuple):
    """Answered with an ErrorCode."""

    group_id: str


class ForgetPartitions(NamedTuple):
    """These partitions, by topic, were deleted; their offsets go in all groups. Answered with None."""

    by_topic: Mapping[str, Sequence[TopicPartition]]


Request: TypeAlias = Join | Sync | Heartbeat | Leave | CommitOffsets | DeleteOffsets | DeleteGroup | ForgetPartitions


class DescribedMember(NamedTuple):
    """A member in a GroupDescription; `metadata` and `assignment` are empty unless the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


class GroupDescription(NamedTuple):
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[DescribedMember] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
