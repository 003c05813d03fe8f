"""What the leader of a generation knows of the members, and assigns to them (Java's `ConsumerCoordinator.onLeaderElected`). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkalite.client.errors import ClientError, raise_error
from kafkalite.client.group.assignors import Assignor
from kafkalite.client.group.consumer_protocol import Subscription, decode_assignment, decode_subscription
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Leadership:
    """The subscriptions of all members of a generation, by member id.

    `skips_assignment` is true of a static leader that comes back to a stable group, whose assignment the coordinator keeps (KIP-814).
    """

    subscriptions: Mapping[str, Subscription]
    skips_assignment: bool = False

    @classmethod
    def of(cls, response: Any) -> Leadership:
        """Return what a JoinGroup response tells the leader. ClientError for a subscription that cannot be read."""
        try:
            return cls(
                {
                    each.member_id: decode_subscription(each.metadata, each.group_instance_id)
                    for each in response.members
                },
                bool(response.skip_assignment),
            )
        except ValueError as problem:
            raise ClientError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"a member's subscription: {problem}") from None

    @property
    def topics(self) -> frozenset[str]:
        """Return the topics that any member wants to read."""
        return frozenset(topic for each in self.subscriptions.values() for topic in each.topics)

    def assign(self, assignor: Assignor, partition_counts: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member, of the topics that exist. Raises what the assignor raises."""
        counts = {topic: count for topic, count in partition_counts.items() if topic in self.topics and count}
        return assignor.assign(counts, self.subscriptions)


def count_assigned(response: Any) -> dict[str, int]:
    """Return how many partitions of each topic the members of a group have, from a DescribeGroups response; none while it rebalances.

    ClientError for a group that was not described, ValueError for an assignment that cannot be read.
    """
    assigned: set[TopicPartition] = set()
    for group in response.groups:
        raise_error(group, f"describing group {group.group_id}")
        for member in group.members:
            assigned.update(decode_assignment(member.member_assignment).partitions)
    return dict(Counter(each.topic for each in assigned))


def chosen_assignor(assignors: Sequence[Assignor], name: str | None) -> Assignor:
    """Return the assignor that the coordinator chose. ClientError for one that this member did not offer."""
    for each in assignors:
        if each.name == name:
            return each
    chosen = f"the coordinator chose {name}, which this member did not offer"
    raise ClientError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, chosen)
