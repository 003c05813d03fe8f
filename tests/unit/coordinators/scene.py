"""A group machine driven by hand, and members that speak to it, in virtual milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, Self

from kafkalite.coordinators.group.group import Group
from kafkalite.coordinators.group.machine import GroupMachine
from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.coordinators.group.requests import (
    CommitOffsets,
    Heartbeat,
    Join,
    JoinReply,
    Leave,
    LeavingMember,
    OffsetToCommit,
    Sync,
)
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.errors import ErrorCode
from tests.unit.coordinators.machine_scene import Call, MachineScene

QUICK = GroupSettings(initial_rebalance_delay_ms=0)
GROUP = "g"


@dataclass
class Scene(MachineScene[GroupMachine]):
    """See `MachineScene`."""

    settings: GroupSettings = QUICK
    first_id: int = 1

    def __post_init__(self) -> None:
        self._ids = count(self.first_id)
        super().__post_init__()

    def new_machine(self) -> GroupMachine:
        return GroupMachine(self.settings)

    def successor(self, **arguments: Any) -> Self:
        return type(self)(settings=self.settings, first_id=1000, **arguments)

    # Asking

    def group(self, group_id: str = GROUP) -> Group:
        return self.machine.groups[group_id]

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        group_id: str = GROUP,
        client: str = "c",
        version: int = 9,
        metadata: bytes = b"",
        protocol_type: str = "consumer",
    ) -> Call:
        return self.ask(
            Join(
                group_id=group_id,
                member_id=member_id,
                instance_id=instance,
                client_id=client,
                client_host="/127.0.0.1",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=protocol_type,
                protocols=[(name, metadata or b"\0\0\0\0\0\1\0\1t" + name.encode()) for name in protocols],
                fresh_id=str(next(self._ids)),
                requires_member_id=version >= 4,
                skips_assignment=version >= 9,
            )
        )

    def enter(self, **settings: Any) -> tuple[str, Call]:
        """Join as a newcomer does: get an id, come back with it. The id and the second call."""
        if settings.get("instance") is not None or settings.get("version", 9) < 4:
            call = self.join(**settings)
            return "", call
        first: JoinReply = self.join(**settings).reply
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, **settings)

    def sync(self, member_id: str, generation: int | None = None, /, **assignments: bytes) -> Call:
        """With the group's present generation unless another is given."""
        known = self.machine.groups.get(GROUP)
        generation = generation if generation is not None else (known.generation if known else 1)
        named = {name.replace("_", "-"): content for name, content in assignments.items()}
        return self.ask(Sync(GROUP, generation, member_id, assignments=named))

    def heartbeat(self, member_id: str, generation: int | None = None, instance: str | None = None) -> ErrorCode:
        generation = self.group().generation if generation is None else generation
        reply: ErrorCode = self.ask(Heartbeat(GROUP, generation, member_id, instance)).reply
        return reply

    def leave(self, member_id: str = "", instance: str | None = None) -> ErrorCode:
        reply = self.ask(Leave(GROUP, [LeavingMember(member_id, instance)])).reply
        return reply.error or reply.member_errors[0]

    def commit_offsets(
        self,
        *offsets: tuple[str, int, int],
        member_id: str = "",
        generation: int = -1,
        group_id: str = GROUP,
        metadata: str = "",
        retention_ms: int = -1,
    ) -> Call:
        wanted = [OffsetToCommit(topic, partition, offset, 5, metadata) for topic, partition, offset in offsets]
        return self.ask(CommitOffsets(group_id, generation, member_id, None, wanted, retention_ms))

    def offset(self, topic: str, partition: int, group_id: str = GROUP) -> int | None:
        found: CommittedOffset | None = self.machine.offsets_of(group_id).get(topic, {}).get(partition)
        return None if found is None else found.offset

    def balance(self, *calls: tuple[str, Call]) -> dict[str, bytes]:
        """The joins are answered: everybody syncs, the leader assigns each member its own id. The assignments by member."""
        replies = [call.reply for _, call in calls]
        assert all(reply is not None and not reply.error for reply in replies)
        leader = replies[0].leader
        ids = [reply.member_id for reply in replies]
        assigned = {member_id: member_id.encode() for member_id in ids}
        generation = replies[0].generation
        syncs = {
            each: self.ask(Sync(GROUP, generation, each, assignments=assigned if each == leader else {}))
            for each in ids
        }
        return {member_id: call.reply.assignment for member_id, call in syncs.items()}
