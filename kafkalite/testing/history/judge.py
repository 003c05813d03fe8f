"""Does a history keep the promises of the cluster? One pure function per rule in `rules`, numbered as usual for such judges.

    C1  an acknowledged record (acks=all) is in the final drain at exactly the offset of its acknowledgement, unless somebody deleted it
    C2  what is read was sent, and did not certainly fail
    C3  a record is there twice only if its producer, not an idempotent one, may have sent it twice
    C4  an offset holds one record, for all acknowledgements (acks=all), all readers, at all times
    C5  the records of a producer first appear in its order, in each partition
    C6  what is sent after an acknowledgement gets a higher offset
    C7  a reader's offsets increase, and it skips none that is there
    C8  the replicas' logs are the same, batch for batch and byte for byte
    C9  within a leader epoch the high watermark never goes back, what it covered stays, the last stable offset is not above it
    C10 an epoch has one leader, and nobody sees an epoch lower than one seen before
    C11 OffsetFetch tells the last acknowledged commit, or one of open fate, and offsets never go back
    C12 a partition has one member in a generation, and earlier generations do not commit any more
    C13 a transaction is seen as a whole or not at all, its offsets too, as its producer was answered
    C14 nothing is read as committed before its commit was asked for, nor behind a transaction that is open
    C15 once everything is healed, what is asked for is done in time
    C16 files, tasks, waiting requests and watches come back to what they were
    C17 controller epochs increase, and nothing is written in an older one
    C18 what lies on disk can be read back by itself

`Verdict.judged` counts what each rule looked at, so that a test can tell a good run from an empty one. A producer with acks
other than all is held to C2, C3 and C5 only: the cluster promised nothing about its acknowledgements. The same rules judge simulations,
processes and containers; they differ in what they record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkalite.testing.history.events import Event
from kafkalite.testing.history.facts import Facts, facts_of
from kafkalite.testing.history.rules import appends, cluster, groups, reads, replication, transactions
from kafkalite.testing.history.rules.findings import Rule, of_partitions

_SHOWN: Final = 20

RULES: Final[dict[str, Rule]] = {
    "C1": of_partitions(appends.acknowledged_is_there),
    "C2": of_partitions(appends.read_was_sent),
    "C3": of_partitions(appends.duplicates_are_retries),
    "C4": of_partitions(appends.offset_holds_one_record),
    "C5": of_partitions(appends.producer_order),
    "C6": of_partitions(appends.real_time_order),
    "C7": of_partitions(reads.reader_order),
    "C8": of_partitions(replication.replicas_are_equal),
    "C9": of_partitions(replication.high_watermark_stays),
    "C10": of_partitions(replication.one_leader_per_epoch),
    "C11": groups.offsets_are_those_committed,
    "C12": groups.partitions_have_one_owner,
    "C13": transactions.transactions_are_whole,
    "C14": transactions.nothing_is_read_early,
    "C15": cluster.healed_cluster_serves,
    "C16": cluster.resources_come_back,
    "C17": cluster.one_controller_writes,
    "C18": of_partitions(replication.segments_are_sound),
}
RECORD_RULES: Final = tuple(f"C{number}" for number in range(1, 11))
"""Those that every workload of writers and readers feeds."""


class Violation(NamedTuple):
    """One promise broken; `rule` is C1 to C18, `subject` a partition, a group's partition, a transaction or a process."""

    rule: str
    subject: object
    text: str

    def __str__(self) -> str:
        return f"{self.rule} {self.subject}: {self.text}"


@dataclass(frozen=True)
class Verdict:
    """`judged` counts, per rule, the things that were held to it; `duplicates` are those that C3 allows."""

    violations: list[Violation]
    judged: dict[str, int]
    duplicates: int

    def idle(self, rules: Iterable[str] = RECORD_RULES) -> list[str]:
        """Return those of `rules` to which nothing was held."""
        return [rule for rule in rules if not self.judged[rule]]

    def __str__(self) -> str:
        counts = ", ".join(f"{rule} {count}" for rule, count in self.judged.items() if count)
        if not self.violations:
            return f"kept: {counts}; {self.duplicates} duplicates by retries"
        shown = "\n".join(f"  {violation}" for violation in self.violations[:_SHOWN])
        return f"{len(self.violations)} violations ({counts}):\n{shown}"


def judge(events: Iterable[Event]) -> Verdict:
    """Hold a history to all rules. Raises ValueError for one that cannot be: an end of what did not begin."""
    facts = facts_of(events)
    violations: list[Violation] = []
    judged: dict[str, int] = {}
    for rule, check in RULES.items():
        count = 0
        for subject, finding in check(facts):
            count += 1
            if finding is not None:
                violations.append(Violation(rule, subject, finding))
        judged[rule] = count
    return Verdict(violations, judged, _count_duplicates(facts))


def _count_duplicates(facts: Facts) -> int:
    duplicates = 0
    for partition in facts.partitions.values():
        times = Counter(value for _, value in partition.list_drained())
        duplicates += sum(count - 1 for count in times.values())
    return duplicates
