"""C13 and C14: transactions are seen as a whole, or not at all, and not before their end was asked for.

What a transaction moved is neither made nor lost when all of its records are seen or none; so sums over accounts need no rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kafkalite.testing.history.events import Value
from kafkalite.testing.history.facts import Facts, Outcome, Transaction
from kafkalite.testing.history.rules.appends import numbers_ascend
from kafkalite.testing.history.rules.findings import Findings
from kafkalite.types import TopicPartition


def transactions_are_whole(facts: Facts) -> Iterator[tuple[object, str | None]]:
    """C13: a reader of committed records has all records of a transaction or none, as its producer was answered; in the order sent."""
    seen: dict[TopicPartition, set[Value]] = {
        name: {value for _, value in partition.list_drained(committed=True)}
        for name, partition in facts.partitions.items()
        if partition.committed_drains
    }
    for transaction in facts.transactions.values():
        yield transaction, _wrong_with(facts, transaction, seen)
        for finding in _offsets_as_ended(facts, transaction):
            yield transaction, finding
    for partition in facts.partitions.values():
        for finding in numbers_ascend(partition.list_drained(committed=True)):
            yield partition.name, finding


def _wrong_with(facts: Facts, transaction: Transaction, seen: dict[TopicPartition, set[Value]]) -> str | None:
    found, missing = [], []
    for name, value in transaction.values:
        sent = facts.partition(*name).sent.get(value)
        if name not in seen or sent is None:
            continue
        if value in seen[name]:
            found.append(f"{value} in {name}")
        elif (
            sent.offset is not None or transaction.outcome is Outcome.OK
        ):  # a commit fails unless every record was delivered
            missing.append(f"{value} in {name}")
    if transaction.outcome is Outcome.FAILED and found:
        return f"was aborted, and {', '.join(found)} can be read"
    if transaction.outcome is Outcome.OK and missing:
        return f"was committed, and {', '.join(missing)} cannot be read"
    if found and missing:
        return f"is there in part: {', '.join(found)} can be read, {', '.join(missing)} cannot"
    return None


def _offsets_as_ended(facts: Facts, transaction: Transaction) -> Findings:
    """Compare an aborted one, which leaves no offset behind that nobody else committed; C11 judges committed ones."""
    if transaction.outcome is not Outcome.FAILED:
        return
    for offset in transaction.offsets:
        place = TopicPartition(offset.topic, offset.partition)
        others = {
            each.offset
            for other in facts.transactions.values()
            if other.outcome is not Outcome.FAILED
            for each in other.offsets
            if (each.group, each.topic, each.partition) == (offset.group, offset.topic, offset.partition)
        }
        for subject, group in facts.groups.items():
            if subject != (offset.group, place):
                continue
            others |= {commit.offset for commit in group.commits if commit.outcome is not Outcome.FAILED}
            told = [each for each in group.fetches if each.offset == offset.offset and offset.offset not in others]
            text = f"was aborted, and {offset.group} was told of its offset {offset.offset} in {place}"
            yield text if told else None


def nothing_is_read_early(facts: Facts) -> Iterator[tuple[object, str | None]]:
    """C14: nothing of a transaction before a commit was asked for, and nothing behind one that is open (the last stable offset)."""
    homes: dict[tuple[TopicPartition, Value], Transaction] = {}
    first: dict[TopicPartition, list[tuple[int, Transaction]]] = defaultdict(list)
    for transaction in facts.transactions.values():
        offsets: dict[TopicPartition, list[int]] = defaultdict(list)
        for name, value in transaction.values:
            homes[name, value] = transaction
            sent = facts.partition(*name).sent.get(value)
            if sent is not None and sent.offset is not None and sent.offset >= 0:
                offsets[name].append(sent.offset)
        for name, found in offsets.items():
            if transaction.outcome is Outcome.OK:
                first[name].append((min(found), transaction))
    for name, partition in facts.partitions.items():
        for reader, reads in partition.readers.items():
            if not facts.reads_committed(reader):
                continue
            for read in reads:
                home = homes.get((name, Value(read.producer, read.number)))
                yield name, _read_too_early(reader, read.at_ns, read.offset, home, first[name])


def _read_too_early(
    reader: str, at_ns: int, offset: int, home: Transaction | None, first: list[tuple[int, Transaction]]
) -> str | None:
    if home is not None and (home.end_invoked_ns is None or at_ns < home.end_invoked_ns):
        return f"{reader} read {offset} of {home} before a commit was asked for"
    for beginning, transaction in first:
        if beginning < offset and transaction.end_invoked_ns is not None and at_ns < transaction.end_invoked_ns:
            return f"{reader} read {offset} behind {beginning} of {transaction}, which was open"
    return None
