"""Who reads what: the assignors of Kafka's Java client, by name, with its results. Pure.

- `range`: each topic's partitions in runs over the members that subscribe to it; the first members get one more.
- `roundrobin`: all partitions in turn over the members.
- `sticky`: balanced, and as much as possible stays where it was; eager.
- `cooperative-sticky`: the same in steps: a partition that must change hands is first given to nobody (KIP-429).

Members are sorted as Java does: those with a group instance id first, by it, then the others by member id (KIP-345). Racks
(KIP-881) are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from kafkalite.client.group.consumer_protocol import (
    Subscription,
    decode_generation,
    decode_sticky_data,
    encode_generation,
    encode_sticky_data,
)
from kafkalite.client.group.metadata import NO_GENERATION
from kafkalite.client.group.sticky_assignment import Claim, StickyResult, assign_sticky
from kafkalite.types import TopicPartition

AssignorName = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
Assignments = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """One strategy. All members must share one; `name` is what they compare."""

    @property
    def name(self) -> str:
        """Return the protocol's name in JoinGroup."""

    @property
    def cooperative(self) -> bool:
        """True if members keep reading what they own while the group rebalances."""

    def user_data(self, last_assignment: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return what a member sends beside its topics: `last_assignment` is what it got in `generation` (-1 when none yet)."""
        return None

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
        """Return partitions for each member; `partition_counts` has the topics that exist."""


def _sorted_members(members: Mapping[str, Subscription]) -> list[str]:
    def order(member_id: str) -> tuple[bool, str]:
        instance = members[member_id].group_instance_id
        return (False, instance) if instance is not None else (True, member_id)

    return sorted(members, key=order)


class RangeAssignor(Assignor):
    """Assigns ranges of each topic's partitions to members in order ("range", Kafka's RangeAssignor)."""

    name = "range"
    cooperative = False

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
        result: Assignments = {member_id: [] for member_id in members}
        in_order = _sorted_members(members)
        for topic, count in sorted(partition_counts.items()):
            readers = [each for each in in_order if topic in members[each].topics]
            if not readers:
                continue
            share, extra = divmod(count, len(readers))
            first = 0
            for index, member_id in enumerate(readers):
                end = first + share + (index < extra)
                result[member_id] += [TopicPartition(topic, number) for number in range(first, end)]
                first = end
        return result


class RoundRobinAssignor(Assignor):
    """Deals partitions out in turn ("roundrobin", Kafka's RoundRobinAssignor)."""

    name = "roundrobin"
    cooperative = False

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
        result: Assignments = {member_id: [] for member_id in members}
        in_order = _sorted_members(members)
        wanted = {topic for each in members.values() for topic in each.topics}
        turn = 0
        for topic in sorted(wanted & partition_counts.keys()):
            for number in range(partition_counts[topic]):
                while topic not in members[in_order[turn % len(in_order)]].topics:
                    turn += 1
                result[in_order[turn % len(in_order)]].append(TopicPartition(topic, number))
                turn += 1
        return result


class StickyAssignor(Assignor):
    """Keeps what members had, eagerly ("sticky", KIP-54).

    What a member had travels in the user data, because eager members own nothing when they join.
    """

    name = "sticky"
    cooperative = False

    def user_data(self, last_assignment: Sequence[TopicPartition], generation: int) -> bytes | None:
        return encode_sticky_data(last_assignment, generation) if generation >= 0 else None

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
        claims = {member_id: self._claim(each) for member_id, each in members.items()}
        return assign_sticky(partition_counts, claims).assignments

    @staticmethod
    def _claim(subscription: Subscription) -> Claim:
        owned: tuple[TopicPartition, ...] = ()
        generation: int | None = None
        if subscription.user_data:
            try:
                owned, generation = decode_sticky_data(subscription.user_data)
            except ValueError:
                pass  # another client's own data: as if it had owned nothing
        return Claim(subscription.topics, owned, generation, subscription.generation_id)


class CooperativeStickyAssignor(Assignor):
    """Keeps what members own, cooperatively ("cooperative-sticky", KIP-429).

    What a member owns is in its subscription, with the generation (from version 2, else in the user data).
    """

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, last_assignment: Sequence[TopicPartition], generation: int) -> bytes | None:
        return encode_generation(generation)

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignments:
        claims = {member_id: self._claim(each) for member_id, each in members.items()}
        result = assign_sticky(partition_counts, claims)
        for partition, member_id in self._changing_hands(result, members).items():
            result.assignments[member_id].remove(partition)
        return result.assignments

    @staticmethod
    def _claim(subscription: Subscription) -> Claim:
        generation: int | None = None
        if subscription.generation_id != NO_GENERATION:
            generation = subscription.generation_id
        elif subscription.user_data is not None:
            try:
                generation = decode_generation(subscription.user_data)
            except ValueError:
                generation = NO_GENERATION
        return Claim(subscription.topics, subscription.owned_partitions, generation, subscription.generation_id)

    @staticmethod
    def _changing_hands(result: StickyResult, members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
        """Return partitions that somebody still owns and another one is to get."""
        if result.transferred is not None:
            return result.transferred
        added: dict[TopicPartition, str] = {}
        revoked: set[TopicPartition] = set()
        for member_id, partitions in result.assignments.items():
            owned = set(members[member_id].owned_partitions)
            added.update({each: member_id for each in partitions if each not in owned})
            revoked |= owned.difference(partitions)
        return {each: member_id for each, member_id in added.items() if each in revoked}


ASSIGNORS: dict[str, Assignor] = {
    each.name: each for each in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}


def assignors_named(choice: str | Assignor | Sequence[str | Assignor]) -> list[Assignor]:
    """Return the assignors for `partition_assignment_strategy`: names (also "a,b"), Java's class names, or objects. ValueError."""
    items = choice.split(",") if isinstance(choice, str) else choice if isinstance(choice, Sequence) else [choice]
    found: list[Assignor] = []
    for item in items:
        if not isinstance(item, str):
            if not callable(getattr(item, "assign", None)):
                raise ValueError(f"{item!r} is no assignor, neither by name ({', '.join(ASSIGNORS)}) nor as an object")
            found.append(item)
            continue
        name = item.strip()
        known = ASSIGNORS.get(name) or ASSIGNORS.get(_NAME_OF_JAVA_CLASS.get(name.rpartition(".")[2], ""))
        if known is None:
            raise ValueError(f"no assignor {name!r}; there are {', '.join(ASSIGNORS)}")
        found.append(known)
    if not found or len({each.name for each in found}) != len(found):
        raise ValueError("partition_assignment_strategy needs at least one assignor, and none twice")
    return found


_NAME_OF_JAVA_CLASS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
