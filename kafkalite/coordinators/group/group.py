"""A consumer group (Kafka's GroupMetadata): state, members, generation and offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from kafkalite.coordinators.contract import Ticket, TimerKey
from kafkalite.coordinators.group import group_record
from kafkalite.coordinators.group.group_record import NO_TIMESTAMP, StoredGroup
from kafkalite.coordinators.group.member import Member
from kafkalite.coordinators.group.offset_table import OffsetTable
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.coordinators.group.subscription import CONSUMER_PROTOCOL, subscribed_topics
from kafkalite.errors import ErrorCode, ensure

T = TypeVar("T")


class GroupState(StrEnum):
    """The states of a group under their names in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREDECESSORS: Final = {
    GroupState.EMPTY: {GroupState.PREPARING},
    GroupState.PREPARING: {GroupState.STABLE, GroupState.COMPLETING, GroupState.EMPTY},
    GroupState.COMPLETING: {GroupState.PREPARING},
    GroupState.STABLE: {GroupState.COMPLETING},
    GroupState.DEAD: set(GroupState),
}
BALANCED_ONCE: Final = frozenset({GroupState.STABLE, GroupState.COMPLETING})


@dataclass(frozen=True, slots=True)
class InitialDelay:
    """The wait of a previously empty group for more members: `delay_ms` now, at most `remaining_ms` after that (KIP-134)."""

    delay_ms: int
    remaining_ms: int


def _same(value: T, other: T) -> T:
    """Return the other object if it is equal."""
    return other if other == value else value


class Group:
    """State and rules of membership, without decisions. Times of states are wall time in ms.

    The durable part is `stored_value`, the value of the group's last committed record, and the offsets; `restore` makes the rest.

    Invariants:
    - The generation only grows, and members have assignments of the present generation only.
    - `leader_id` is a member, or None without members. `static_ids` has the present member id of each instance id.
    - A state is entered only from its predecessors in `PREDECESSORS`.
    """

    def __init__(self, group_id: str, settings: GroupSettings) -> None:
        self.group_id = group_id
        self.settings = settings
        self.state = GroupState.EMPTY
        self.state_timestamp = NO_TIMESTAMP
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        self.pending_ids: set[str] = set()
        """Member ids returned with MEMBER_ID_REQUIRED, whose second JoinGroup is awaited (KIP-394)."""
        self.pending_syncs: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.initial_delay: InitialDelay | None = None
        self.new_member_added = False
        self.subscribed_topics: frozenset[str] | None = frozenset()
        """Topics of the present generation; None when a subscription is unreadable."""
        self.offsets = OffsetTable()
        self.stored_value: bytes | None = None
        self._awaited_joins = 0
        self._support: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"Group({self.group_id}, {self.state}, generation {self.generation}, {len(self.members)} members)"

    # Timers

    def session_timer(self, member_id: str) -> TimerKey:
        return ("session", self.group_id, member_id)

    def pending_timer(self, member_id: str) -> TimerKey:
        return ("pending", self.group_id, member_id)

    @property
    def rebalance_timer(self) -> TimerKey:
        return ("rebalance", self.group_id)

    @property
    def sync_timer(self) -> TimerKey:
        return ("sync", self.group_id)

    # State

    def transition_to(self, state: GroupState, wall_ms: int) -> None:
        ensure(self.state in PREDECESSORS[state], f"group {self.group_id} cannot go from {self.state} to {state}")
        self.state, self.state_timestamp = state, wall_ms

    @property
    def is_blank(self) -> bool:
        """True if the group has no state, in memory or in the log."""
        return (
            self.state is GroupState.EMPTY
            and not self.generation
            and not self.pending_ids
            and self.stored_value is None
            and self.offsets.is_empty
        )

    @property
    def is_finished(self) -> bool:
        """True if the group is dead and the log has nothing of it."""
        return self.state is GroupState.DEAD and self.stored_value is None and self.offsets.is_empty

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    def is_subscribed(self, topic: str) -> bool:
        """True if a member is, or may be, subscribed to the topic."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Members

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return FENCED_INSTANCE_ID if the instance has another member id, UNKNOWN_MEMBER_ID for no member, else NONE."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE if current == member_id else ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def accepts_joining_member(self, member_id: str) -> bool:
        """True if group.max.size allows the member; during a rebalance only members that rejoined count."""
        limit = self.settings.max_size
        if self.state is GroupState.PREPARING:
            member = self.members.get(member_id)
            return (member is not None and member.awaits_join) or self._awaited_joins < limit
        if self.state in BALANCED_ONCE:
            return member_id in self.members or len(self.members) < limit
        return True

    def supports_protocols(self, protocol_type: str, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """True if all present members support one of the protocols."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(self._support[name] == everybody for name, _ in protocols)

    def add_member(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self.pending_ids.discard(member.member_id)
        self._share_values(member)
        self._support.update({name for name, _ in member.protocols})
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove_member(self, member_id: str) -> Member | None:
        """Remove and return a member, with its open tickets."""
        self.pending_ids.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._withdraw_support(member)
        if member.awaits_join:
            self._awaited_joins -= 1
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static_member(self, member: Member, member_id: str) -> None:
        """Give a static member that rejoined a new member id."""
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = member_id
        self.members[member_id] = member
        self.static_ids[member.instance_id or ""] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(member_id)

    def update_member(
        self,
        member: Member,
        protocols: Sequence[tuple[str, bytes]],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._withdraw_support(member)
        member.protocols = protocols
        self._share_values(member)
        self._support.update({name for name, _ in protocols})
        member.rebalance_timeout_ms, member.session_timeout_ms = rebalance_timeout_ms, session_timeout_ms

    def _share_values(self, member: Member) -> None:
        """Keep once what a member has in common with the leader, as most members of most groups do."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader is not member:
            member.client_id = _same(member.client_id, leader.client_id)
            member.client_host = _same(member.client_host, leader.client_host)
            member.protocols = _same(member.protocols, leader.protocols)

    def _withdraw_support(self, member: Member) -> None:
        self._support.subtract({name for name, _ in member.protocols})
        self._support += Counter()  # forgets names without support

    # Joins

    def park_join(self, member: Member, ticket: Ticket) -> Ticket | None:
        """Park a member's JoinGroup until the join phase ends; return its earlier ticket, which is to be refused."""
        older, member.join_ticket = member.join_ticket, ticket
        if older is None:
            self._awaited_joins += 1
        return older

    def unpark_join(self, member: Member) -> Ticket | None:
        ticket, member.join_ticket = member.join_ticket, None
        if ticket is not None:
            self._awaited_joins -= 1
        return ticket

    @property
    def all_joined(self) -> bool:
        return self._awaited_joins == len(self.members) and not self.pending_ids

    def absent_members(self) -> list[Member]:
        """Return dynamic members that did not rejoin; static ones stay until their session ends."""
        if self._awaited_joins == len(self.members):
            return []
        return [each for each in self.members.values() if not each.awaits_join and each.instance_id is None]

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it rejoined, else choose a member that did; False if none did."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.awaits_join:
            return True
        joined = next((member for member in self.members.values() if member.awaits_join), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def choose_protocol(self) -> str:
        """Return the protocol with most votes of those that all members support; earlier votes decide a tie."""
        everybody = len(self.members)
        candidates = {name for name, support in self._support.items() if support == everybody}
        ensure(candidates, f"the members of {self.group_id} have no protocol in common")
        if len(candidates) == 1:
            return next(iter(candidates))
        return Counter(member.vote(candidates) for member in self.members.values()).most_common(1)[0][0]

    def init_next_generation(self, wall_ms: int) -> None:
        """End the join phase: raise the generation and choose its protocol."""
        self.generation += 1
        if self.members:
            self.protocol = self.choose_protocol()
            self.transition_to(GroupState.COMPLETING, wall_ms)
            self.pending_syncs = set(self.members)
        else:
            self.protocol = self.leader_id = None
            self.transition_to(GroupState.EMPTY, wall_ms)
            self.pending_syncs = set()
        self.find_subscribed_topics()

    def find_subscribed_topics(self) -> None:
        if not self.uses_consumer_protocol:
            self.subscribed_topics = None
        else:
            self.subscribed_topics = subscribed_topics(m.metadata(self.protocol) for m in self.members.values())

    # The log

    def to_value(self, assignments: Mapping[str, bytes]) -> bytes:
        """Encode the record of this generation with these assignments."""
        stored = StoredGroup(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.leader_id,
            self.state_timestamp,
            tuple(m.to_record(self.protocol, assignments.get(m.member_id, b"")) for m in self.members.values()),
        )
        return group_record.encode_value(stored, self.settings.group_value_version)

    def assignments(self) -> dict[str, bytes]:
        return {member.member_id: member.assignment for member in self.members.values()}

    def restore(self) -> None:
        """Restore the group from its stored record: Stable with members, else Empty. Raises ValueError if it is unreadable."""
        ensure(not self.members, f"group {self.group_id} is in use")
        if self.stored_value is None:
            return
        stored = group_record.decode_value(self.stored_value)
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol = stored.protocol
        self.state_timestamp = stored.state_timestamp
        for each in stored.members:
            self.add_member(Member.from_record(each, stored.protocol or ""), stored.protocol_type)
        self.leader_id = stored.leader if stored.leader in self.members else next(iter(self.members), None)
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.find_subscribed_topics()
