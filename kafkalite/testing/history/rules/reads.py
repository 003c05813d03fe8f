"""C7: what one reader found, in its order."""

from __future__ import annotations

from bisect import bisect_left

from kafkalite.testing.history.facts import Facts, PartitionFacts
from kafkalite.testing.history.rules.findings import Findings


def reader_order(facts: Facts, partition: PartitionFacts) -> Findings:
    """Readers of committed records may skip what those of a drain of committed records do not find either."""
    everything = [offset for offset, _ in partition.list_drained()]
    committed = [offset for offset, _ in partition.list_drained(committed=True)]
    for reader, reads in partition.readers.items():
        there = committed if facts.reads_committed(reader) else everything
        position: int | None = None
        for read in reads:
            finding = None
            if position is not None and read.offset < position:
                finding = f"{reader} read {read.offset} after {position - 1}"
            elif position is not None and read.offset > position:
                skipped = there[bisect_left(there, position) : bisect_left(there, read.offset)]
                if skipped:
                    finding = f"{reader} read {read.offset} after {position - 1} and skipped {skipped[:5]}"
            yield finding
            position = max(position or 0, read.offset + 1)
