"""Who a consumer is in its group, for a producer that commits its offsets within a transaction."""

from __future__ import annotations

from dataclasses import dataclass

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """`Consumer.group_metadata()` gives it (KIP-447). With a member id and generation the coordinator refuses the offsets of a member
    that the group went on without; the group's name alone is for programs that assign partitions themselves and keep others away."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
