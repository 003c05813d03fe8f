"""The auditor of a migration's evidence: what was there before and was acknowledged meanwhile has to be there after. Pure.

It knows nothing of what was done between, and asks no cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from kafkalite.cli.doctor.findings import Finding, join_first, ok, problem, skip_check, warning
from kafkalite.cli.migrate.evidence import CopyDigest, Ledger, Moment, ProbeRecord, RangeDigest
from kafkalite.cli.output import format_count
from kafkalite.types import TopicPartition

_REMEDY: Final = "go no further, keep all log directories, and compare them: kafkalite log compare"


class ForeignEvidenceError(Exception):
    """Raised for evidence that does not belong together."""


def audit(before: Moment, after: Moment, ledger: Ledger | None, *, is_copy: bool = False) -> list[Finding]:
    """Return what differs, and what agrees. Raises ForeignEvidenceError when the three are not about the same cluster and probe, or were
    not taken one after the other. For a copy `after` has to be of another cluster.
    """
    if before.taken_ms >= after.taken_ms:
        raise ForeignEvidenceError("what was taken after is not younger than what was taken before")
    if is_copy and before.cluster_id == after.cluster_id:
        raise ForeignEvidenceError(f"before and after are of the same cluster, {before.cluster_id}: that is no copy")
    if not is_copy and before.cluster_id != after.cluster_id:
        raise ForeignEvidenceError(f"before is of cluster {before.cluster_id}, after of {after.cluster_id}")
    if ledger is not None and after.probe != ledger.probe:
        raise ForeignEvidenceError(
            f"the ledger is of probe {ledger.probe}, and after looked for {after.probe or 'none'}"
        )
    findings = [
        *_audit_partitions(before, after),
        *_audit_transactions(before, after),
        *_audit_ranges(before, after),
        *_audit_emptied(before, after),
        *_audit_copies(before, after),
        *_audit_groups(before, after),
    ]
    return findings + ([] if ledger is None else list(_audit_probe(ledger, after.probed)))


def _audit_partitions(before: Moment, after: Moment) -> Iterator[Finding]:
    check, well = "partitions", 0
    for place, was in before.partitions.items():
        now = after.partitions.get(place)
        if now is None:
            yield problem(check, f"{place} is not there after", _REMEDY)
        elif now.end < was.end:
            yield problem(check, f"{place} ended at offset {was.end} and ends at {now.end}", _REMEDY)
        else:
            well += 1
    yield ok(check, f"{format_count(well, 'partition')} reach as far as before")


def _audit_transactions(before: Moment, after: Moment) -> Iterator[Finding]:
    """Judge last stable offsets: they never go back, and one that stays before records of then is of a transaction that has not ended."""
    check, well = "transactions", 0
    for place, was in before.partitions.items():
        now = after.partitions.get(place)
        if now is None or now.stable is None or was.stable is None:
            continue
        if now.stable < was.stable:
            yield problem(check, f"{place} was stable up to offset {was.stable}, and is up to {now.stable}", _REMEDY)
        elif now.stable == was.stable < was.end:
            found = f"the transaction at offset {was.stable} of {place} was open before, and is still"
            yield warning(check, found, "see whether its producer lives: kafkalite transaction find-hanging --all")
        else:
            well += 1
    opened = [
        str(place) for place, each in after.partitions.items() if each.stable is not None and each.stable < each.end
    ]
    told = f"; open ones in {join_first(opened)}" if opened else ""
    if well:
        yield ok(check, f"{format_count(well, 'last stable offset')} where they were, or further{told}")


def _audit_copies(before: Moment, after: Moment) -> Iterator[Finding]:
    """Compare all replicas' batches with each other and with those of before."""
    check, same, gone = "copies", 0, 0
    copies, earlier = _by_place(after.copies), _by_place(before.copies)
    for place, was in sorted(earlier.items()):
        bounds, now = after.partitions.get(place), copies.get(place, [])
        if bounds is None:
            continue  # the partition is reported
        if not bounds.holds(was[0].start, was[0].end):
            gone += 1
            continue
        if apart := _find_difference(was):
            yield warning(check, f"{place} differed before already: {apart}", "compare its logs: kafkalite log compare")
        found = [
            f"broker {each.broker}'s copy of {place} has not all that was there before: {each.why}"
            for each in after.unread
            if each.is_lacking and (each.topic, each.partition) == place
        ] + [f"{place} {differ}" for differ in _compare_copies(was, now, are_alike=not apart)]
        if not now and not found:
            found = [f"no copy of {place} was read after"]
        for text in found:
            yield problem(check, text, _REMEDY)
        same += 0 if found else len(now)
    if same:
        yield ok(
            check, f"{format_count(same, 'replica')} with the same batches, markers and aborted transactions as before"
        )
    if gone:
        yield skip_check(
            check,
            f"{format_count(gone, 'partition')} that lost batches meanwhile by retention or compaction not compared",
        )
    for moment, each in [("before", each) for each in before.unread] + [("after", each) for each in after.unread]:
        place = TopicPartition(each.topic, each.partition)
        yield skip_check(check, f"broker {each.broker}'s copy of {place} was not read {moment}: {each.why}")


def _compare_copies(was: Sequence[CopyDigest], now: Sequence[CopyDigest], *, are_alike: bool) -> list[str]:
    """Return in what copies of after differ. Those that differed before (not `are_alike`) are each compared with the same broker's."""
    if not are_alike:
        own = {each.broker: each for each in was}
        pairs = [(own[each.broker], each) for each in now if each.broker in own]
        return [f"is not as before: {differ}" for pair in pairs if (differ := _find_difference(pair))]
    if differ := _find_difference(now):
        return [f"differs: {differ}"]
    differ = _find_difference([was[0], *now[:1]])
    return [f"is not as before: {differ}"] if differ else []


def _by_place(copies: Iterable[CopyDigest]) -> dict[TopicPartition, list[CopyDigest]]:
    found: dict[TopicPartition, list[CopyDigest]] = {}
    for each in copies:
        found.setdefault(TopicPartition(each.topic, each.partition), []).append(each)
    return found


def _find_difference(copies: Sequence[CopyDigest]) -> str:
    """Return in what copies of the same span differ, an empty text when they are the same."""
    groups: dict[tuple[int, int, int, str], list[str]] = {}
    for each in copies:
        groups.setdefault((each.batches, each.markers, each.aborted, each.digest), []).append(str(each.broker))
    if len(groups) < 2:
        return ""
    span = f"offsets {copies[0].start} to {copies[0].end}"
    told = [
        f"{batches} batches, {markers} markers, {aborted} aborted transactions on broker {', '.join(brokers)}"
        for (batches, markers, aborted, _), brokers in groups.items()
    ]
    return f"{span}: {'; '.join(told)}"


def _audit_ranges(before: Moment, after: Moment) -> Iterator[Finding]:
    check, same, records, deleted, compacted = "records", 0, 0, 0, 0
    unexplained: Counter[TopicPartition] = Counter()
    for (place, start), was in before.ranges.items():
        bounds = after.partitions.get(place)
        if bounds is None:
            continue  # the partition is reported
        now = after.ranges.get((place, start))
        if start < bounds.log_start:
            may_expire = bounds.may_expire or before.partitions[place].may_expire
            deleted, unexplained[place] = deleted + may_expire, unexplained[place] + (not may_expire)
        elif now == was:
            same, records = same + 1, records + was.records
        elif bounds.is_compacted and now is not None and now.end == was.end and now.records < was.records:
            compacted += 1
        else:
            yield problem(check, f"{place}, offsets {start} to {was.end}: {_difference(was, now)}", _REMEDY)
    yield ok(check, f"{format_count(records, 'record')} in {format_count(same, 'range')} as before")
    for place, count in sorted((+unexplained).items()):
        found = f"{place} begins at offset {after.partitions[place].log_start}: {format_count(count, 'range')} gone without retention"
        yield warning(
            check,
            found,
            f"see whether somebody deleted records there, as Kafka Streams does in repartition topics; if nobody did, {_REMEDY}",
        )
    if deleted:
        yield skip_check(check, f"{format_count(deleted, 'range')} deleted by retention meanwhile, and not compared")
    if compacted:
        yield skip_check(
            check,
            f"{format_count(compacted, 'range')} of compacted topics have fewer records, as compaction may leave them, and prove nothing",
        )


def _audit_emptied(before: Moment, after: Moment) -> Iterator[Finding]:
    """Name the partitions whose logs begin where they ended: retention does that, and so does a log that was lost."""
    held = {place for (place, _), each in before.ranges.items() if each.records}
    emptied = [
        str(place)
        for place, was in sorted(before.partitions.items())
        if place in held and (now := after.partitions.get(place)) is not None and now.log_start >= was.end
    ]
    if emptied:
        found = f"nothing that was there before is left in {join_first(emptied)}"
        yield warning("records", found, f"see whether retention is that short there; if it is not, {_REMEDY}")


def _difference(was: RangeDigest, now: RangeDigest | None) -> str:
    if now is None or now.end != was.end:
        return "they were not read after"
    if now.records < was.records:
        return f"{was.records - now.records} of {format_count(was.records, 'record')} left out"
    if now.records > was.records:
        return f"{format_count(now.records - was.records, 'record')} more than the {was.records} before"
    return "records are changed, or at other offsets"


def _audit_groups(before: Moment, after: Moment) -> Iterator[Finding]:
    check, well = "groups", 0
    for (group, place), was in before.groups.items():
        now, bounds = after.groups.get((group, place)), after.partitions.get(place)
        if now is None:
            yield problem(check, f"group {group} had committed {was} for {place}, and has nothing now", _REMEDY)
        elif now < was:
            yield problem(check, f"group {group} had committed {was} for {place}, and is back at {now}", _REMEDY)
        elif bounds is not None and now > bounds.end:
            yield problem(check, f"group {group} has committed {now} for {place}, which ends at {bounds.end}", _REMEDY)
        else:
            well += 1
    yield ok(check, f"{format_count(well, 'committed offset')} where they were, or further")


def _audit_probe(ledger: Ledger, probed: tuple[ProbeRecord, ...]) -> Iterator[Finding]:
    check = "acknowledged"
    found: dict[int, list[ProbeRecord]] = {}
    for each in probed:
        found.setdefault(each.number, []).append(each)
    known = {each.number for each in ledger.acknowledged} | ledger.unresolved
    problems = [
        *(_judge_record(ledger.topic, each, found.get(each.number, [])) for each in ledger.acknowledged),
        *(_judge_unresolved(ledger.topic, each, found.get(each, [])) for each in sorted(ledger.unresolved)),
        *(f"record {each} is there, and was never sent" for each in sorted(found.keys() - known)),
        *_find_disorder(ledger.topic, probed),
    ]
    told = [each for each in problems if each]
    for text in told:
        yield problem(check, text, _REMEDY)
    if not told:
        where = f"{len(ledger.unresolved)} without an answer" if ledger.unresolved else "none without an answer"
        yield ok(check, f"{format_count(len(ledger.acknowledged), 'record')} there once, in order; {where}")


def _judge_record(topic: str, was: ProbeRecord, found: list[ProbeRecord]) -> str:
    place = TopicPartition(topic, was.partition)
    if not found:
        return f"record {was.number}, acknowledged at offset {was.offset} of {place}, is left out"
    if len(found) > 1:
        return f"record {was.number} is there {len(found)} times: {_places(topic, found)}"
    (now,) = found
    if now.digest != was.digest:
        return f"record {was.number} at offset {now.offset} of {TopicPartition(topic, now.partition)} is changed"
    if (now.partition, now.offset) != (was.partition, was.offset):
        return (
            f"record {was.number} was acknowledged at offset {was.offset} of {place}, and is at {_places(topic, found)}"
        )
    return ""


def _judge_unresolved(topic: str, number: int, found: list[ProbeRecord]) -> str:
    return f"record {number} is there {len(found)} times: {_places(topic, found)}" if len(found) > 1 else ""


def _places(topic: str, found: list[ProbeRecord]) -> str:
    return ", ".join(f"offset {each.offset} of {TopicPartition(topic, each.partition)}" for each in found)


def _find_disorder(topic: str, probed: tuple[ProbeRecord, ...]) -> Iterator[str]:
    """Find records that stand behind a later one of the same partition. The probe sends those of a partition in order."""
    partitions: dict[int, list[ProbeRecord]] = {}
    for each in probed:
        partitions.setdefault(each.partition, []).append(each)
    for partition, records in sorted(partitions.items()):
        for first, second in pairwise(sorted(records, key=lambda each: each.offset)):
            if second.number < first.number:
                place = TopicPartition(topic, partition)
                yield f"record {second.number} stands behind record {first.number} in {place}, at offset {second.offset}"
