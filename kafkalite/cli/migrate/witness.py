"""Takes the evidence of a migration from a cluster: digests of what is readable, the groups' offsets, and the records of a probe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.administration.group_offsets import partitions_of
from kafkalite.cli.migrate.digests import digest_record, split_range
from kafkalite.cli.migrate.evidence import Ledger, Moment, PartitionBounds, ProbeRecord, RangeDigest, Span
from kafkalite.cli.migrate.replica_reader import read_copies
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, ConsumerRecord
    from kafkalite.client.errors import ClientError

RANGE_RECORDS: Final = 1000
"""Offsets of a range: what differs is found to that precision."""
_PARTITIONS_AT_ONCE: Final = 8
_POLL_MS: Final = 200
_ATTEMPTS: Final = 10
"""How often what is deleted while it is read is read again from the new start of the log."""
_READ_EVERYTHING: Final[Mapping[str, Any]] = {
    "group_id": None,
    "isolation_level": "read_uncommitted",
    "auto_offset_reset": "earliest",
    "max_poll_records": 2000,
}
"""Options that win over those of contexts and the command line."""

_POLICY_KEYS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")

Ranges = Mapping[TopicPartition, Sequence[tuple[int, int]]]
Bounds = Mapping[TopicPartition, PartitionBounds]
Digested = tuple[list[RangeDigest], Mapping[TopicPartition, "ClientError"]]


async def take_before(
    admin: Admin,
    consumer_options: Mapping[str, Any],
    topics: Collection[str],
    last: int,
    *,
    without_epochs: bool = False,
) -> Moment:
    """Return digests of the `last` offsets of each partition of the topics. Raises ClientError."""
    groups = await find_group_offsets(admin)
    bounds = await find_bounds(admin, topics)
    ranges = {
        place: list(split_range(max(each.log_start, each.end - last), each.committed, RANGE_RECORDS))
        for place, each in bounds.items()
    }

    def choose_spans(bounds: Bounds) -> dict[TopicPartition, Span]:
        return {
            place: Span(max(each.log_start, each.end - last), each.end, each.stable or 0)
            for place, each in bounds.items()
            if not each.is_compacted and each.log_start < each.end
        }

    moment = await _take_moment(admin, consumer_options, bounds, ranges, choose_spans, groups, None, without_epochs)
    return replace(moment, last=last)


async def take_after(
    admin: Admin, consumer_options: Mapping[str, Any], before: Moment, ledger: Ledger | None
) -> Moment:
    """Return digests of the ranges of `before`, as far as they are there, and what is there of the ledger's probe. Raises ClientError."""
    known = {group for group, _ in before.groups}
    groups = await find_group_offsets(admin, known)  # before the ends, which are not behind them then
    there = set(await admin.list_topics(include_internal=True))
    wanted = {place.topic for place in before.partitions} | (set() if ledger is None else {ledger.topic})
    bounds = await find_bounds(admin, wanted & there)
    ranges: dict[TopicPartition, list[tuple[int, int]]] = {}
    for (place, start), each in sorted(before.ranges.items()):
        now = bounds.get(place)
        if now is not None and now.log_start <= start and each.end <= now.committed:
            ranges.setdefault(place, []).append((start, each.end))
    spans = {
        TopicPartition(each.topic, each.partition): Span(each.start, each.end, each.stable) for each in before.copies
    }

    def keep_spans(bounds: Bounds) -> dict[TopicPartition, Span]:
        return {
            place: each
            for place, each in spans.items()
            if place in bounds and bounds[place].holds(each.start, each.end)
        }

    return await _take_moment(
        admin, consumer_options, bounds, ranges, keep_spans, groups, ledger, before.without_epochs
    )


async def find_bounds(admin: Admin, topics: Collection[str]) -> dict[TopicPartition, PartitionBounds]:
    """Return where each partition of the topics begins, and up to where it can be read. Raises ClientError."""
    from kafkalite.client import ConfigResource

    described = await admin.describe_topics(sorted(topics)) if topics else []
    places = partitions_of(described)
    earliest = await admin.list_offsets(dict.fromkeys(places, "earliest"))
    latest = await admin.list_offsets(dict.fromkeys(places, "latest"))
    stable = await admin.list_offsets(dict.fromkeys(places, "latest"), isolation_level="read_committed")
    resources = [ConfigResource("topic", each.name) for each in described]
    described_policies = await admin.describe_resource_configs(resources, keys=_POLICY_KEYS)
    policies = {
        resource.name: judge_policy({name: each.value for name, each in entries.items()})
        for resource, entries in described_policies.items()
    }

    def offset_of(found: Any) -> int:
        return 0 if found is None else int(found.offset)

    return {
        place: PartitionBounds(
            *place,
            offset_of(earliest[place]),
            offset_of(latest[place]),
            *policies.get(place.topic, (False, True)),
            min(offset_of(stable[place]), offset_of(latest[place])),
        )
        for place in places
    }


def judge_policy(settings: Mapping[str, str | None]) -> tuple[bool, bool]:
    """Return whether a topic with these settings is compacted, and whether retention may delete its oldest records, also when they do not
    tell.
    """
    policy = settings.get("cleanup.policy")
    is_endless = all(settings.get(name) == "-1" for name in ("retention.ms", "retention.bytes"))
    return "compact" in (policy or ""), not is_endless and "delete" in (policy or "delete")


async def _take_moment(
    admin: Admin,
    consumer_options: Mapping[str, Any],
    bounds: Bounds,
    ranges: Ranges,
    choose_spans: Callable[[Bounds], Mapping[TopicPartition, Span]],
    groups: Mapping[tuple[str, TopicPartition], int],
    ledger: Ledger | None,
    without_epochs: bool,
) -> Moment:
    from kafkalite.cli.doctor.cluster import security_options

    bounds, digests = await digest_while_deleted(admin, partial(_digest_ranges, admin), bounds, ranges)
    timeout_s = consumer_options["request_timeout_ms"] / 1000
    security = security_options(consumer_options)
    copies, unread = await read_copies(admin, choose_spans(bounds), security, timeout_s, without_epochs=without_epochs)
    probed = [] if ledger is None else await _find_probed(consumer_options, bounds, ledger)
    described = await admin.describe_cluster()
    return Moment(
        int(time.time() * 1000),
        described.cluster_id or "",
        bounds,
        {(TopicPartition(each.topic, each.partition), each.start): each for each in digests},
        {(group, place): offset for (group, place), offset in groups.items() if place in bounds},
        None if ledger is None else ledger.probe,
        tuple(probed),
        copies=tuple(copies),
        unread=tuple(unread),
        without_epochs=without_epochs,
    )


async def find_group_offsets(admin: Admin, known: Collection[str] = ()) -> dict[tuple[str, TopicPartition], int]:
    """Return what groups have committed: those that are listed, and `known` ones.

    A coordinator that has just been elected does not list a group that it has not loaded, and says nothing of that; asked for a group by
    its id, it has the client ask again.
    """
    return {
        (group, place): committed.offset
        for group in sorted({each.group_id for each in await admin.list_groups()} | set(known))
        for place, committed in (await admin.list_group_offsets(group)).items()
        if committed is not None
    }


async def digest_while_deleted(
    admin: Admin, digest: Callable[[Ranges], Awaitable[Digested]], bounds: Bounds, ranges: Ranges
) -> tuple[Bounds, list[RangeDigest]]:
    """Return the digests of ranges, and the bounds with the log starts that they were read behind. `digest` returns those that it found,
    and of which partitions offsets were not there.

    Retention, and Kafka Streams in its repartition topics, may delete records while they are read: then a partition is read again from
    where its log starts now. Raises ClientError, also where that goes on.
    """
    from kafkalite.client.errors import ClientTimeoutError

    found: list[RangeDigest] = []
    for _ in range(_ATTEMPTS):
        digests, refused = await digest(ranges)
        starts = await admin.list_offsets({place: "earliest" for place, some in ranges.items() if some})
        moved = {place: each.offset for place, each in starts.items() if each and each.offset > ranges[place][0][0]}
        for place, problem in refused.items():
            if place not in moved:  # nothing was deleted that explains it
                raise problem
        found += [each for each in digests if TopicPartition(each.topic, each.partition) not in moved]
        if not moved:
            return bounds, found
        bounds = {**bounds, **{place: replace(bounds[place], log_start=start) for place, start in moved.items()}}
        ranges = {
            place: [(max(first, start), end) for first, end in ranges[place] if start < end]
            for place, start in moved.items()
        }
    raise ClientTimeoutError(f"records of {next(iter(ranges))} are deleted quicker than they are read")


async def _digest_ranges(admin: Admin, ranges: Ranges) -> Digested:
    """Return the digests of ranges, each partition's of which follow each other, made of what lies on the leaders' disks now. Raises
    ClientError, but for offsets that are not there.
    """
    from kafkalite.client.admin.calls import all_of
    from kafkalite.client.errors import AdminError
    from kafkalite.errors import ErrorCode

    found: list[RangeDigest] = []
    refused: dict[TopicPartition, ClientError] = {}
    slots = asyncio.Semaphore(_PARTITIONS_AT_ONCE)

    async def digest(place: TopicPartition, span: tuple[int, int]) -> None:
        try:
            async with slots:
                digests = await admin.digest_records({place: span}, fresh=True, part_offsets=RANGE_RECORDS)
        except AdminError as problem:
            if problem.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            refused[place] = problem
            return
        found.extend(
            RangeDigest(*place, each.start, each.end, each.records, each.content_bytes, each.fingerprint)
            for each in digests
        )

    await all_of(digest(place, (some[0][0], some[-1][1])) for place, some in ranges.items() if some)
    return found, refused


async def _find_probed(
    consumer_options: Mapping[str, Any], bounds: Mapping[TopicPartition, PartitionBounds], ledger: Ledger
) -> list[ProbeRecord]:
    """Return the probe's records from the first offset that was acknowledged in each partition, and all of partitions without one."""
    firsts: dict[int, int] = {}
    for each in ledger.acknowledged:
        firsts[each.partition] = min(each.offset, firsts.get(each.partition, each.offset))
    spans = {
        place: (max(each.log_start, firsts.get(place.partition, 0)), each.end)
        for place, each in bounds.items()
        if place.topic == ledger.topic
    }
    found: list[ProbeRecord] = []

    def add(record: ConsumerRecord) -> None:
        number = number_of(ledger.probe, record.key)
        if number is not None:
            digest = digest_record(record.key, record.value).hex()
            found.append(ProbeRecord(number, record.partition, record.offset, digest))

    await read_spans(consumer_options, spans, add)
    return found


def probe_key(probe: str, number: int) -> bytes:
    """Return the key of a probe's record."""
    return f"{probe}:{number}".encode()


def number_of(probe: str, key: bytes | None) -> int | None:
    """Return the number of a probe's record by its key, None for a record of somebody else."""
    text = (key or b"").decode("utf-8", "replace")
    found = text.removeprefix(f"{probe}:")
    return int(found) if found != text and found.isdecimal() and found.isascii() else None


async def read_spans(
    consumer_options: Mapping[str, Any],
    spans: Mapping[TopicPartition, tuple[int, int]],
    add: Callable[[ConsumerRecord], None],
) -> None:
    """Hand over all records of each partition from its first offset to before its end, in order.

    ClientTimeoutError when nothing more comes for as long as a request may take, and the errors of consumers.
    """
    from kafkalite.client import Consumer
    from kafkalite.client.errors import ClientTimeoutError

    ends = {place: end for place, (first, end) in spans.items() if first < end}
    if not ends:
        return
    async with Consumer(**{**consumer_options, **_READ_EVERYTHING}) as consumer:
        consumer.assign(ends)
        for place in ends:
            consumer.seek(place, spans[place][0])
        timeout_s = consumer_options["request_timeout_ms"] / 1000
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while ends:
            got = await consumer.getmany(timeout_ms=_POLL_MS)
            for place, records in got.items():
                for record in records:
                    if record.offset < spans[place][1]:
                        add(record)
            finished = [each for each, end in ends.items() if await consumer.position(each) >= end]
            for place in finished:  # where its last offsets are markers of transactions, no record says so
                del ends[place]
                consumer.pause(place)
            if got or finished:
                deadline_s = loop.time() + timeout_s
            elif loop.time() > deadline_s:
                raise ClientTimeoutError(f"nothing came of {next(iter(ends))} within {timeout_s:g} s")
