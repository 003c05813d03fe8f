"""A member of a consumer group (Kafka's MemberMetadata): its protocols, assignment and parked requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkalite.coordinators.contract import Ticket
from kafkalite.coordinators.group.group_record import StoredMember


@dataclass(slots=True, eq=False)
class Member:
    """A member; `instance_id` is set for static ones (KIP-345). `protocols` are names and metadata in order of preference."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]
    assignment: bytes = b""
    is_new: bool = False
    """True until its first JoinGroup is answered; a timer bounds that wait."""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    @property
    def awaits_join(self) -> bool:
        return self.join_ticket is not None

    @property
    def may_be_silent(self) -> bool:
        """True if a parked request keeps the session alive; that of a new member does not."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata for a protocol, empty if the member does not support it."""
        return next((content for name, content in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """Return the preferred one of the candidates, of which the member supports all."""
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
