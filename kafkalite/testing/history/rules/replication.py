"""C8 to C10 and C18: replicas, high watermarks, leaders, and what lies on their disks."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.testing.history.events import ReplicaBatch
from kafkalite.testing.history.facts import Facts, PartitionFacts
from kafkalite.testing.history.rules.findings import Findings
from kafkalite.types import NO_BROKER


def replicas_are_equal(facts: Facts, partition: PartitionFacts) -> Findings:
    yield from replica_findings(partition.replicas)


def replica_findings(replicas: dict[int, tuple[ReplicaBatch, ...]]) -> Findings:
    """Compare each broker's batches with those of the first, from the highest of their first offsets on.

    Retention and DeleteRecords may have cut the replicas' beginnings at different batches; all else must be the same.
    """
    if len(replicas) < 2:
        return
    start = max((batches[0].base_offset for batches in replicas.values() if batches), default=0)
    (first, reference), *others = ((broker, _from(start, batches)) for broker, batches in sorted(replicas.items()))
    for broker, batches in others:
        yield _first_difference(first, reference, broker, batches)


def _from(start: int, batches: Sequence[ReplicaBatch]) -> list[ReplicaBatch]:
    return [batch for batch in batches if batch.base_offset >= start]


def _first_difference(
    first: int, reference: Sequence[ReplicaBatch], broker: int, batches: Sequence[ReplicaBatch]
) -> str | None:
    for ours, theirs in zip(reference, batches, strict=False):
        if ours != theirs:
            return f"brokers {first} and {broker} differ: {_describe_batch(ours)} and {_describe_batch(theirs)}"
    if len(reference) != len(batches):
        longer, more = (first, reference) if len(reference) > len(batches) else (broker, batches)
        extra = more[min(len(reference), len(batches))]
        return f"only broker {longer}, of {first} and {broker}, has {_describe_batch(extra)}"
    return None


def _describe_batch(batch: ReplicaBatch) -> str:
    return (
        f"the batch at {batch.base_offset} of epoch {batch.leader_epoch} "
        f"(crc {batch.crc:08x}, {batch.size_bytes} bytes, digest {batch.digest[:4].hex()})"
    )


def high_watermark_stays(facts: Facts, partition: PartitionFacts) -> Findings:
    highest: dict[tuple[str, int], int] = {}
    for seen in partition.high_watermarks:
        key = seen.observer, seen.leader_epoch
        before = highest.get(key, -1)
        back = f"{seen.observer} saw {seen.high_watermark} after {before} in epoch {seen.leader_epoch}"
        beyond = f"{seen.observer} saw the last stable offset {seen.last_stable_offset} above {seen.high_watermark}"
        if seen.high_watermark < before:
            yield back
        else:
            yield beyond if seen.last_stable_offset > seen.high_watermark else None
        highest[key] = max(before, seen.high_watermark)
    if partition.drains and highest:
        exposed, end = max(highest.values()), partition.drains[-1].end_offset
        yield None if end >= exposed else f"the log ends at {end}; the high watermark had been {exposed}"


def one_leader_per_epoch(facts: Facts, partition: PartitionFacts) -> Findings:
    leaders: dict[int, tuple[int, str]] = {}
    latest: dict[str, int] = {}
    for seen in partition.leaders:
        finding = None
        before = latest.get(seen.observer, -1)
        if seen.leader_epoch < before:
            finding = f"{seen.observer} saw epoch {seen.leader_epoch} after {before}"
        latest[seen.observer] = max(before, seen.leader_epoch)
        if seen.leader != NO_BROKER:  # a broker that knows of no live leader says nothing about who it was
            leader, observer = leaders.setdefault(seen.leader_epoch, (seen.leader, seen.observer))
            if leader != seen.leader:
                who = f"broker {leader} for {observer} and broker {seen.leader} for {seen.observer}"
                finding = f"epoch {seen.leader_epoch} is led by {who}"
        yield finding


def segments_are_sound(facts: Facts, partition: PartitionFacts) -> Findings:
    """C18."""
    for checked in partition.segments:
        where = f"{checked.file} of broker {checked.broker}"
        yield f"{where}: {'; '.join(checked.faults)}" if checked.faults else None
