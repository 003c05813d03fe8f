"""Which brokers hold a partition, and the set arithmetic of a reassignment (KIP-455).

`replicas` is the full list while a reassignment runs. The origin is what was there before (without `adding`), the
target what will be there after (without `removing`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkalite.types import BrokerId


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Broker ids in order of preference; both subsets are empty unless a reassignment is under way."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def preferred(self) -> BrokerId:
        return self.replicas[0]

    def reassign_to(self, target: Iterable[BrokerId]) -> ReplicaAssignment:
        """The assignment while brokers move from the origin, also of an interrupted move, to `target`."""
        wanted = tuple(target)
        origin = self.origin
        replicas = tuple(dict.fromkeys((*wanted, *origin)))
        return ReplicaAssignment(
            replicas,
            adding=tuple(broker for broker in replicas if broker not in origin),
            removing=tuple(broker for broker in replicas if broker not in wanted),
        )

    def completed(self) -> ReplicaAssignment:
        """The assignment once the reassignment is done."""
        return ReplicaAssignment(self.target)

    def without(self, brokers: Iterable[BrokerId]) -> ReplicaAssignment:
        """The assignment after these replicas are gone."""
        gone = set(brokers)
        return ReplicaAssignment(
            *(tuple(b for b in part if b not in gone) for part in (self.replicas, self.adding, self.removing))
        )
