"""The requests of a member of a consumer group, from what it knows of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.group.assignors import Assignor
from kafkalite.client.group.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kafkalite.errors import ensure
from kafkalite.protocol import messages
from kafkalite.types import TopicPartition


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """The part of the consumer's options that rules membership; `max_poll_interval_ms` is also the rebalance timeout."""

    group_id: str
    assignors: Sequence[Assignor]
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    retry_backoff_ms: float
    request_timeout_ms: int

    @classmethod
    def of(cls, options: ConsumerOptions) -> MembershipSettings:
        """Return the settings of a consumer that has a group. ValueError for an unknown assignor."""
        ensure(options.group_id is not None, "membership needs a group_id")
        return cls(
            str(options.group_id),
            options.assignors(),
            options.group_instance_id,
            options.session_timeout_ms,
            options.heartbeat_interval_ms,
            options.max_poll_interval_ms,
            options.retry_backoff_ms,
            options.request_timeout_ms,
        )


def join_group(
    settings: MembershipSettings, member_id: str, subscriptions: Mapping[str, Subscription], reason: str | None
) -> messages.join_group_request.JoinGroupRequest:
    """JoinGroup, with a subscription for each assignor that the member offers."""
    m = messages.join_group_request
    return m.JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            m.JoinGroupRequestProtocol(name=name, metadata=encode_subscription(subscription))
            for name, subscription in subscriptions.items()
        ],
        reason=reason,
    )


def sync_group(
    settings: MembershipSettings,
    member_id: str,
    generation: int,
    protocol_name: str | None,
    assignments: Mapping[str, Sequence[TopicPartition]],
) -> messages.sync_group_request.SyncGroupRequest:
    """SyncGroup; only the leader has `assignments`."""
    m = messages.sync_group_request
    return m.SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=[
            m.SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(Assignment(tuple(given))))
            for member, given in assignments.items()
        ],
    )


def heartbeat(
    settings: MembershipSettings, member_id: str, generation: int
) -> messages.heartbeat_request.HeartbeatRequest:
    """Heartbeat."""
    return messages.heartbeat_request.HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=settings.group_instance_id,
    )


def describe_group(settings: MembershipSettings) -> messages.describe_groups_request.DescribeGroupsRequest:
    """DescribeGroups, for what is assigned to the members."""
    return messages.describe_groups_request.DescribeGroupsRequest(groups=[settings.group_id])


def leave_group(
    settings: MembershipSettings, member_id: str, reason: str
) -> messages.leave_group_request.LeaveGroupRequest:
    """LeaveGroup, with a reason for the coordinator's log (KIP-800)."""
    m = messages.leave_group_request
    return m.LeaveGroupRequest(
        group_id=settings.group_id, members=[m.MemberIdentity(member_id=member_id, reason=reason)]
    )
