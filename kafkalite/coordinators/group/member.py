"""One member of a group: what it told about itself, what it was assigned, and which of its requests wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkalite.coordinators.contract import Ticket
from kafkalite.coordinators.group.group_record import StoredMember


@dataclass(slots=True, eq=False)
class Member:
    """`instance_id` is set for static members (KIP-345). `protocols` are names and metadata, the member's favourite first."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]
    assignment: bytes = b""
    is_new: bool = False
    """Added in this rebalance: its first join is not answered yet, and a timer of its own bounds the wait."""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    @property
    def awaits_join(self) -> bool:
        return self.join_ticket is not None

    @property
    def may_be_silent(self) -> bool:
        """It waits for us, so its session does not run out; a new member's bounded wait does."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """What the member said with this protocol; empty when it did not name it."""
        return next((content for name, content in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """Its favourite among the candidates, of which it supports all."""
        return next(name for name, _ in self.protocols if name in candidates)

    def to_record(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    @classmethod
    def from_record(cls, stored: StoredMember, protocol: str) -> Member:
        return cls(
            stored.member_id,
            stored.instance_id,
            stored.client_id,
            stored.client_host,
            stored.rebalance_timeout_ms,
            stored.session_timeout_ms,
            ((protocol, stored.subscription),),
            stored.assignment,
        )
