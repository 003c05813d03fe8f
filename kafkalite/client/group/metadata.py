"""Who a consumer is in its group, for a producer that commits its offsets within a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.client.errors import CommitFailedError
from kafkalite.client.group.consumer_protocol import NO_GENERATION
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.group.membership import Membership


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """`Consumer.group_metadata()` gives it (KIP-447). With a member id and generation the coordinator refuses the offsets of a member
    that the group went on without; the group's name alone is for programs that assign partitions themselves and keep others away."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


def metadata_of(group_id: str, member: Membership | None, tenures: Mapping[TopicPartition, int]) -> GroupMetadata:
    """Return what the coordinator knows `member` by; None is a consumer whose partitions were assigned by hand.

    CommitFailedError when it is no member now, or gave up partitions since `tenures`. The coordinator would take the offsets then: without
    a generation it checks none (Kafka's GroupCoordinator), and in the next one it cannot see that another member
    had the partition meanwhile.
    """
    if member is None:
        return GroupMetadata(group_id)
    if not member.is_member:
        raise CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID, group_id)
    if not member.partitions.still_in(tenures, tenures):
        raise CommitFailedError(ErrorCode.ILLEGAL_GENERATION, group_id)
    return GroupMetadata(group_id, member.generation, member.member_id, member.settings.group_instance_id)
