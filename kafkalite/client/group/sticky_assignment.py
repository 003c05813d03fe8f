"""Sticky assignment (KIP-54, KIP-341, KIP-429): balanced, with as little moved as possible. Pure, with the Java client's results.

Two algorithms, as in Java. When all members subscribe to the same topics, quotas decide: everyone gets the floor of the average, and
the remainder goes one each to some. Otherwise partitions are given to the member with the fewest, and then moved one by one from
members with more to members with fewer, until nothing is gained.

Where several results would be equally good, Java's choice follows from the order in which its hash maps give their keys.
`java_hash_order` is that order, so that ties fall alike. One thing is different on purpose: a partition never goes back to a member that
owned it in an older generation and does not subscribe to its topic any more, as it may in Java.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kafkalite.errors import ensure
from kafkalite.protocol.java_hash import java_hash
from kafkalite.types import TopicPartition

Key = TypeVar("Key")
Assignments = dict[str, list[TopicPartition]]

_NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Claim:
    """What one member subscribes to, and what it says that it owned in `generation` (None when it does not say).

    `protocol_generation` is the generation of the subscription itself (-1 below version 2), by which Java settles disputes.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    protocol_generation: int = _NO_GENERATION


@dataclass(slots=True)
class StickyResult:
    """`transferred`: partitions that move from a member that owned them to another; None where it was not kept track of."""

    assignments: Assignments
    transferred: dict[TopicPartition, str] | None = None


# Java's order of hash maps


def java_partition_hash(partition: TopicPartition) -> int:
    """TopicPartition.hashCode."""
    return 31 * (31 + partition.partition) + java_hash(partition.topic)


def java_hash_order(keys: Iterable[Key], hash_of: Callable[[Key], int], size: int = 0) -> list[Key]:
    """`keys`, given in the order of insertion, as a java.util.HashMap iterates over them; `size` is the most it ever held."""
    listed = list(keys)
    capacity = 16
    while max(len(listed), size) > capacity * 3 // 4:
        capacity *= 2

    def bucket(key: Key) -> int:
        hashed = hash_of(key) & 0xFFFFFFFF
        return (hashed ^ (hashed >> 16)) & (capacity - 1)

    return sorted(listed, key=bucket)


# both algorithms


def assign_sticky(partition_counts: Mapping[str, int], claims: Mapping[str, Claim]) -> StickyResult:
    """Assign all partitions of the topics in `partition_counts` to members that subscribe to them."""
    if not claims:
        return StickyResult({})
    members = java_hash_order(claims, java_hash)
    owned, disputed = _owned_partitions(partition_counts, claims, members)
    if _subscribe_alike([claims[each].topics for each in members]):
        return _Quotas(partition_counts, owned, disputed).build()
    return StickyResult(_Balance(partition_counts, {each: claims[each] for each in members}, owned).build())


def _subscribe_alike(subscriptions: list[tuple[str, ...]]) -> bool:
    """True if all members subscribe to the same topics, for Java: those without any do not count before the first with topics."""
    first: set[str] = set()
    for topics in subscriptions:
        if not first:
            first.update(topics)
        elif len(topics) != len(first) or not first.issuperset(topics):
            return False
    return True


def _owned_partitions(
    partition_counts: Mapping[str, int], claims: Mapping[str, Claim], members: list[str]
) -> tuple[Assignments, set[TopicPartition]]:
    """(what each member owns, partitions that several claim in one generation); the newest generation wins a dispute."""
    owned: Assignments = {}
    disputed: set[TopicPartition] = set()
    owner_of: dict[TopicPartition, str] = {}
    for member in members:
        claim = claims[member]
        generation = _NO_GENERATION if claim.generation is None else claim.generation
        mine = owned[member] = []
        for each in claim.owned:
            if each.topic not in partition_counts:
                continue
            other = owner_of.get(each)
            if other is not None:
                other_generation = claims[other].protocol_generation
                if generation < other_generation:
                    continue
                if generation == other_generation:
                    disputed.add(each)
                if each in owned[other]:
                    owned[other].remove(each)
                owner_of[each] = member
                if generation == other_generation:
                    continue
            mine.append(each)
            owner_of[each] = member
    return owned, disputed


class _Quotas:
    """All members subscribe to the same topics."""

    def __init__(self, partition_counts: Mapping[str, int], owned: Assignments, disputed: set[TopicPartition]) -> None:
        self._partition_counts = partition_counts
        self._owned = owned
        self._disputed = disputed
        total = sum(partition_counts.values())
        self._low, self._fuller_wanted = divmod(total, len(owned))
        self._high = self._low + (self._fuller_wanted > 0)
        self._fuller = 0
        self._assignments: Assignments = {member: [] for member in owned}
        self._revoked: set[TopicPartition] = set()
        self._below_low: list[str] = []
        self._at_low: list[str] = []
        self._transferred: dict[TopicPartition, str] = {}

    def build(self) -> StickyResult:
        self._keep_owned()
        kept = {each for partitions in self._assignments.values() for each in partitions}
        unassigned = [
            partition
            for topic in sorted(self._partition_counts)
            for number in range(self._partition_counts[topic])
            if (partition := TopicPartition(topic, number)) not in kept
        ]
        self._below_low.sort()
        self._at_low.sort()
        self._hand_out(unassigned)
        return StickyResult(self._assignments, self._transferred)

    def _keep_owned(self) -> None:
        for member, partitions in self._owned.items():
            mine = sorted((each for each in partitions if each not in self._disputed), key=lambda p: (p[1], p[0]))
            if len(mine) < self._low:
                self._below_low.append(member)
                keep = len(mine)
            elif len(mine) >= self._high and self._fuller < self._fuller_wanted:
                self._fuller += 1
                if self._fuller == self._fuller_wanted:
                    self._at_low.clear()
                keep = self._high
            else:
                keep = self._low
                if self._fuller < self._fuller_wanted:
                    self._at_low.append(member)
            self._assignments[member] += mine[:keep]
            self._revoked.update(mine[keep:])

    def _hand_out(self, unassigned: list[TopicPartition]) -> None:
        """Deal partitions out in rounds to members below the lower quota; those that reach it wait for one of the remainder."""
        turn = 0
        for partition in unassigned:
            if self._below_low:
                turn = turn if turn < len(self._below_low) else 0
                member = self._below_low[turn]
            else:
                ensure(bool(self._at_low), "partitions are left, and every member has its quota")
                member = self._at_low.pop(0)
            self._assignments[member].append(partition)
            if partition in self._revoked or partition in self._disputed:
                self._transferred[partition] = member
            if len(self._assignments[member]) == self._low and self._below_low:
                self._below_low.pop(turn)
                self._at_low.append(member)
            else:
                turn += 1


@dataclass(slots=True)
class _Movements:
    """Which partitions moved from whom to whom in this assignment: a later move the other way takes back one of them."""

    pair_of: dict[TopicPartition, tuple[str, str]] = field(default_factory=dict)
    by_topic: dict[str, dict[tuple[str, str], dict[TopicPartition, None]]] = field(default_factory=dict)
    most: dict[tuple[str, tuple[str, str]], int] = field(default_factory=dict)

    def _add(self, partition: TopicPartition, pair: tuple[str, str]) -> None:
        self.pair_of[partition] = pair
        moved = self.by_topic.setdefault(partition.topic, {}).setdefault(pair, {})
        moved[partition] = None
        key = (partition.topic, pair)
        self.most[key] = max(self.most.get(key, 0), len(moved))

    def _remove(self, partition: TopicPartition) -> tuple[str, str]:
        pair = self.pair_of.pop(partition)
        pairs = self.by_topic[partition.topic]
        del pairs[pair][partition]
        if not pairs[pair]:
            del pairs[pair]
            self.most.pop((partition.topic, pair))
        if not pairs:
            del self.by_topic[partition.topic]
        return pair

    def record(self, partition: TopicPartition, source: str, target: str) -> None:
        if partition in self.pair_of:
            first_source = self._remove(partition)[0]
            if first_source != target:
                self._add(partition, (first_source, target))
        else:
            self._add(partition, (source, target))

    def better_choice(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition of the same topic to move instead, when one came from `target` to `source` before."""
        pairs = self.by_topic.get(partition.topic)
        if pairs is None:
            return partition
        if partition in self.pair_of:
            source = self.pair_of[partition][0]
        reverse = (target, source)
        if reverse not in pairs:
            return partition
        most = self.most[(partition.topic, reverse)]
        return java_hash_order(pairs[reverse], java_partition_hash, most)[0]


class _Balance:
    """Members subscribe to different topics."""

    def __init__(self, partition_counts: Mapping[str, int], claims: Mapping[str, Claim], owned: Assignments) -> None:
        self._partition_counts = partition_counts
        self._claims = claims
        self._current = owned
        self._readers: dict[str, list[str]] = {topic: [] for topic in partition_counts}
        self._topics: dict[str, list[str]] = {}
        for member, claim in claims.items():
            self._topics[member] = [topic for topic in claim.topics if topic in partition_counts]
            for topic in self._topics[member]:
                self._readers[topic].append(member)
        self._most = {
            member: sum(partition_counts[topic] for topic in topics) for member, topics in self._topics.items()
        }
        self._owner = {each: member for member, partitions in owned.items() for each in partitions}
        self._all = [
            TopicPartition(topic, number)
            for topic in sorted(self._readers, key=lambda name: (len(self._readers[name]), name))
            for number in range(partition_counts[topic])
        ]
        self._by_load: list[tuple[int, str]] = []
        self._movements = _Movements()
        self._must_revoke = False

    def build(self) -> Assignments:
        previous = self._previous_owners()
        kept = self._keep_owned()
        unassigned = [each for each in self._all if each not in kept]
        self._by_load = sorted((len(partitions), member) for member, partitions in self._current.items())
        fresh = self._by_load[-1][0] == 0
        for partition in unassigned:
            self._give_to_least_loaded(partition)
        movable = [each for each in self._all if len(self._readers[each.topic]) >= 2]
        unassigned = [each for each in unassigned if len(self._readers[each.topic]) >= 2]
        fixed = {member: self._current.pop(member) for member in self._topics if not self._may_change(member)}
        self._by_load = [entry for entry in self._by_load if entry[1] not in fixed]
        before = {member: list(partitions) for member, partitions in self._current.items()}
        if not self._must_revoke:
            self._improve(unassigned, previous)
        changed = self._improve(movable, previous)
        if not fresh and changed and _unevenness(self._current) >= _unevenness(before):
            self._current = before
        self._current.update(fixed)
        return self._current

    def _previous_owners(self) -> dict[TopicPartition, str]:
        """Return the owners of partitions in the newest generation before the last, by what members with older data say."""
        newest = max((c.generation for c in self._claims.values() if c.generation is not None), default=_NO_GENERATION)
        found: dict[TopicPartition, tuple[int, str]] = {}
        for member, claim in self._claims.items():
            generation = _NO_GENERATION if claim.generation is None else claim.generation
            if generation >= newest:
                continue
            for each in claim.owned:
                if each not in found or generation > found[each][0]:
                    found[each] = (generation, member)
        return {each: member for each, (_, member) in found.items()}

    def _keep_owned(self) -> set[TopicPartition]:
        kept = set()
        for member, partitions in self._current.items():
            mine = [each for each in partitions if each.topic in self._topics[member]]
            self._must_revoke = self._must_revoke or len(mine) < len(partitions)
            partitions[:] = mine
            kept.update(mine)
        return kept

    def _give_to_least_loaded(self, partition: TopicPartition) -> None:
        for load, member in self._by_load:
            if partition.topic in self._topics[member]:
                self._current[member].append(partition)
                self._owner[partition] = member
                self._reload(member, load, load + 1)
                return

    def _reload(self, member: str, old: int, new: int) -> None:
        del self._by_load[bisect_left(self._by_load, (old, member))]
        insort(self._by_load, (new, member))

    def _may_change(self, member: str) -> bool:
        partitions = self._current[member]
        if len(partitions) < self._most[member]:
            return True
        return any(len(self._readers[each.topic]) >= 2 for each in partitions)

    def _is_balanced(self) -> bool:
        """True if no member with fewer partitions could take one of a member that has at least two more."""
        if not self._by_load or self._by_load[0][0] >= self._by_load[-1][0] - 1:
            return True
        owner = {each: member for member, partitions in self._current.items() for each in partitions}
        for load, member in self._by_load:
            if load == self._most[member]:
                continue
            for topic in self._topics[member]:
                for number in range(self._partition_counts[topic]):
                    other = owner.get(TopicPartition(topic, number))
                    if other is not None and other != member and load + 1 < len(self._current[other]):
                        return False
        return True

    def _improve(self, partitions: list[TopicPartition], previous: Mapping[TopicPartition, str]) -> bool:
        """Move partitions to members with fewer until nothing is gained; True if any was moved."""
        ever = False
        changed = True
        while changed:
            changed = False
            for partition in partitions:
                if self._is_balanced():
                    break
                load = len(self._current[self._owner[partition]])
                earlier = previous.get(partition)
                if earlier in self._readers[partition.topic] and load > len(self._current[earlier]) + 1:
                    self._move(partition, earlier)
                elif any(load > len(self._current[other]) + 1 for other in self._readers[partition.topic]):
                    self._move(partition, self._least_loaded_reader(partition.topic))
                else:
                    continue
                changed = ever = True
        return ever

    def _least_loaded_reader(self, topic: str) -> str:
        return next(member for _, member in self._by_load if topic in self._topics[member])

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self._movements.better_choice(partition, self._owner[partition], target)
        source = self._owner[partition]
        self._movements.record(partition, source, target)
        source_load, target_load = len(self._current[source]), len(self._current[target])
        self._current[source].remove(partition)
        self._current[target].append(partition)
        self._owner[partition] = target
        self._reload(source, source_load, source_load - 1)
        self._reload(target, target_load, target_load + 1)


def _unevenness(assignments: Assignments) -> int:
    """Return the sum of the differences of all pairs of members."""
    sizes = sorted(map(len, assignments.values()))
    return sum(size * (2 * index - len(sizes) + 1) for index, size in enumerate(sizes))
