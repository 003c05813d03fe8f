"""What a rule says: for each thing that it looked at whether it is right, and of whom that is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from kafkalite.testing.history.facts import Facts, PartitionFacts

Findings: TypeAlias = Iterator[str | None]
"""For each thing judged None when it is right, else what is wrong."""
Rule: TypeAlias = Callable[[Facts], Iterator[tuple[object, str | None]]]
"""The same for a whole history; each finding has its subject: a partition, a group's partition, a process."""


def of_partitions(check: Callable[[Facts, PartitionFacts], Findings]) -> Rule:
    """Return the rule that holds each partition to a check."""

    def rule(facts: Facts) -> Iterator[tuple[object, str | None]]:
        for partition in facts.partitions.values():
            for finding in check(facts, partition):
                yield partition.name, finding

    return rule
