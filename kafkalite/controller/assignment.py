"""The replicas of a partition, and the set arithmetic of a reassignment (KIP-455), as Kafka's ReplicaAssignment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kafkalite.types import BrokerId

_SHARED: Final = 10_000
"""Lists of brokers that partitions share, of those used last; there are many partitions and few lists."""


@lru_cache(maxsize=_SHARED)
def share_brokers(brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """Return these brokers, the same object for equal ones."""
    return brokers


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """Broker ids in order of preference; `adding` and `removing` are empty unless a reassignment is under way.

    During a reassignment `replicas` holds all of them: `origin` is without the adding ones, `target` without the removing ones.
    """

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
        """Return the assignment while the partition moves from its origin, also that of an interrupted move, to `target`."""
        wanted = tuple(target)
        origin = self.origin
        replicas = tuple(dict.fromkeys((*wanted, *origin)))
        return ReplicaAssignment(
            replicas,
            adding=tuple(broker for broker in replicas if broker not in origin),
            removing=tuple(broker for broker in replicas if broker not in wanted),
        )

    def complete(self) -> ReplicaAssignment:
        """Return the assignment after the reassignment."""
        return ReplicaAssignment(self.target)

    def remove_replicas(self, brokers: Iterable[BrokerId]) -> ReplicaAssignment:
        """Return the assignment without these brokers."""
        gone = set(brokers)
        return ReplicaAssignment(
            *(tuple(b for b in part if b not in gone) for part in (self.replicas, self.adding, self.removing))
        )


@lru_cache(maxsize=_SHARED)
def _share_settled(replicas: tuple[BrokerId, ...]) -> ReplicaAssignment:
    return ReplicaAssignment(replicas)


def make_assignment(
    replicas: tuple[BrokerId, ...], adding: tuple[BrokerId, ...] = (), removing: tuple[BrokerId, ...] = ()
) -> ReplicaAssignment:
    """Return an assignment, the same object for partitions with the same replicas that are under no reassignment."""
    return (
        ReplicaAssignment(replicas, adding, removing) if adding or removing else _share_settled(share_brokers(replicas))
    )
