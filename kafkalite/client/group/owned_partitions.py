"""The partitions of one group member, and what is to change about them (KIP-429). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkalite.types import TopicPartition


class OwnedPartitions:
    """What a member reads, what it lost without the program's knowledge, and what it is to give up and to begin to read.

    `tenures` has the partitions that are read now, each with the assignment that brought it: whoever gave a partition up, or lost it,
    and has it again, has another tenure. The mapping is never changed, only replaced, so it can be kept as a picture of a moment.
    """

    def __init__(self) -> None:
        self.tenures: Mapping[TopicPartition, int] = {}
        self.to_lose: tuple[TopicPartition, ...] = ()
        self.to_revoke: tuple[TopicPartition, ...] = ()
        self.to_assign: tuple[TopicPartition, ...] | None = None
        """None where there is no assignment to apply; () for one that adds nothing."""

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that are read now, in the order in which they came."""
        return tuple(self.tenures)

    def still_in(self, tenures: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]) -> bool:
        """True if none of `partitions` that was read at the time of `tenures` has been given up since."""
        return all(each not in tenures or self.tenures.get(each) == tenures[each] for each in partitions)

    def plan_changes(self, assignment: Sequence[TopicPartition]) -> None:
        """Plan what is to be given up and what is to be read for `assignment`."""
        owned, wanted = set(self.owned), set(assignment)
        self.to_revoke = tuple(each for each in self.owned if each not in wanted)
        self.to_assign = tuple(each for each in assignment if each not in owned)

    def lose_all(self) -> None:
        """Own nothing any more: the group went on without the member. The program has yet to hear of it (`to_lose`)."""
        self.to_lose += self.owned
        self.tenures = {}

    def drop_plan(self) -> None:
        """Forget what is to be given up, and the assignment that is to be applied."""
        self.to_assign, self.to_revoke = None, ()

    def complete_assignment(self, tenure: int) -> tuple[TopicPartition, ...]:
        """Own what was to be read, and return it."""
        added, self.to_assign = self.to_assign or (), None
        self.tenures = {**self.tenures, **dict.fromkeys(added, tenure)}
        return added

    def complete_revocation(self) -> None:
        """Own no more what was to be given up."""
        ended, self.to_revoke = set(self.to_revoke), ()
        self.tenures = {each: tenure for each, tenure in self.tenures.items() if each not in ended}

    def complete_loss(self) -> None:
        """The program has heard of what was lost."""
        self.to_lose = ()
