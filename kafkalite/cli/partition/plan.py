"""Plans which brokers hold partitions, for `partition reassign plan` and `partition set-replication-factor`. Pure.

A plan moves as little as it can. Replicas stay on brokers that may keep them; missing ones go to the brokers with the fewest replicas, and
to racks that have none of the partition; then replicas move from the brokers with the most to those with the fewest until they differ by
one at most, where racks allow it; at last preferred leaders are spread in the same way by reordering replicas, which moves no data. The
same input gives the same plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kafkalite.types import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]
Racks = Mapping[int, str]


class PlanError(ValueError):
    """Raised when there is no such plan. The message says why."""


def balance(
    current: Assignment, brokers: Collection[int], racks: Racks, replication_factor: int | None = None
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return `current` spread evenly over `brokers`, with as many replicas unless `replication_factor` is given. Raises PlanError."""
    plan = _Plan(brokers, racks)
    for partition, replicas in sorted(current.items()):
        wanted = replication_factor or len(replicas)
        _check(wanted, brokers)
        plan.replicas[partition] = [broker for broker in replicas if broker in plan.brokers][:wanted]
    plan.count()
    for partition, replicas in sorted(current.items()):
        plan.fill(partition, replication_factor or len(replicas))
    plan.level()
    plan.spread_leaders()
    return {partition: tuple(replicas) for partition, replicas in plan.replicas.items()}


def with_replication_factor(
    current: Assignment,
    wanted: Collection[TopicPartition],
    replication_factor: int,
    brokers: Collection[int],
    racks: Racks,
    in_sync: Mapping[TopicPartition, Collection[int]],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the `wanted` partitions of `current`, which has all of the cluster, with more or fewer replicas. Raises PlanError.

    The preferred leader stays; what is dropped first is on brokers that are not there, then what is not in sync.
    """
    _check(replication_factor, brokers)
    plan = _Plan(brokers, racks)
    plan.replicas = {partition: list(replicas) for partition, replicas in current.items()}
    plan.count()
    for partition in sorted(wanted):
        while len(plan.replicas[partition]) > replication_factor:
            plan.drop(partition, in_sync.get(partition, ()))
        plan.fill(partition, replication_factor)
    return {partition: tuple(plan.replicas[partition]) for partition in sorted(wanted)}


def _check(replication_factor: int, brokers: Collection[int]) -> None:
    if replication_factor < 1:
        raise PlanError(f"replication factor is {replication_factor}, must be at least 1")
    if replication_factor > len(brokers):
        raise PlanError(f"replication factor {replication_factor} is larger than the {len(brokers)} brokers")


class _Plan:
    """Replicas by partition while they are being moved, and their number on each broker."""

    def __init__(self, brokers: Collection[int], racks: Racks) -> None:
        self.brokers = frozenset(brokers)
        self.replicas: dict[TopicPartition, list[int]] = {}
        self.load: Counter[int] = Counter()
        self._racks = racks
        self._on: dict[int, set[TopicPartition]] = {broker: set() for broker in brokers}

    def count(self) -> None:
        for partition, replicas in self.replicas.items():
            for broker in replicas:
                self._note(partition, broker)

    def _note(self, partition: TopicPartition, broker: int) -> None:
        self.load[broker] += 1
        self._on.setdefault(broker, set()).add(partition)

    def _forget(self, partition: TopicPartition, broker: int) -> None:
        self.load[broker] -= 1
        self._on[broker].discard(partition)

    def _rack(self, broker: int) -> str | int:
        """Return the rack of a broker. One without a rack counts as a rack of its own."""
        return self._racks.get(broker, broker)

    def _rack_count(self, replicas: Sequence[int]) -> int:
        return len({self._rack(broker) for broker in replicas})

    def fill(self, partition: TopicPartition, replication_factor: int) -> None:
        """Add the best brokers until there are enough replicas."""
        replicas = self.replicas[partition]
        while len(replicas) < replication_factor:
            used = Counter(self._rack(broker) for broker in replicas)
            candidates = self.brokers.difference(replicas)
            best = min(candidates, key=lambda broker: (used[self._rack(broker)], self.load[broker], broker))
            replicas.append(best)
            self._note(partition, best)

    def drop(self, partition: TopicPartition, in_sync: Collection[int]) -> None:
        """Remove the most dispensable replica; never the preferred leader unless its broker is down."""
        replicas = self.replicas[partition]

        def worth(broker: int) -> tuple[bool, bool, bool, int, int, int]:
            others = [other for other in replicas if other != broker]
            return (
                broker in self.brokers,
                broker in in_sync,
                broker == replicas[0],
                -self._rack_count(others),
                -self.load[broker],
                -replicas.index(broker),
            )

        gone = min(replicas, key=worth)
        replicas.remove(gone)
        self._forget(partition, gone)

    def level(self) -> None:
        """Move replicas until no broker has two more than another that could take one."""
        _until_none(lambda: self._uneven(self.load), self._move)

    def _uneven(self, load: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield pairs of brokers of which the first has at least two more than the second, the most uneven first."""
        ordered = sorted(self.brokers, key=lambda broker: (load[broker], broker))
        for full in reversed(ordered):
            for empty in ordered:
                if load[full] - load[empty] < 2:
                    break
                yield full, empty

    def _move(self, full: int, empty: int) -> bool:
        """Move a replica if one can go without putting more replicas of a partition into one rack."""
        for partition in sorted(self._on[full] - self._on[empty]):
            replicas = self.replicas[partition]
            moved = [empty if broker == full else broker for broker in replicas]
            if self._rack_count(moved) >= self._rack_count(replicas):
                self.replicas[partition] = moved
                self._forget(partition, full)
                self._note(partition, empty)
                return True
        return False

    def spread_leaders(self) -> None:
        """Reorder replicas until no broker is preferred two times more than another of the same partition."""
        leads: Counter[int] = Counter(replicas[0] for replicas in self.replicas.values() if replicas)

        def hand_over(full: int, empty: int) -> bool:
            for partition in sorted(self._on[full] & self._on[empty]):
                replicas = self.replicas[partition]
                if replicas[0] == full:
                    other = replicas.index(empty)
                    replicas[0], replicas[other] = empty, full
                    leads[full] -= 1
                    leads[empty] += 1
                    return True
            return False

        _until_none(lambda: self._uneven(leads), hand_over)


def _until_none(pairs: Callable[[], Iterator[tuple[int, int]]], improve: Callable[[int, int], bool]) -> None:
    """Improve the first pair that can be improved, repeatedly, until none can."""
    while any(improve(full, empty) for full, empty in pairs()):
        pass
