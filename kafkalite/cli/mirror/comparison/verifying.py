"""`kafkalite mirror verify`: whether source and target have the same records, by digests, and where they differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalite.cli.calls import admin_options, bootstrap_option, run_long
from kafkalite.cli.migrate.evidence import PartitionBounds
from kafkalite.cli.mirror.back.returning import load_switched_state
from kafkalite.cli.mirror.running import switched_mirror, target_options
from kafkalite.cli.output import Exit, fail, format_count, note, output_option, partition_name, write_rows
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.cli.mirror.comparison.differences import Difference, Pair
    from kafkalite.cli.mirror.files import MirrorDirectory
    from kafkalite.cli.mirror.plan import KnownTopic
    from kafkalite.client import Admin

_COLUMNS: Final = ("topic", "partition", "from", "to", "source", "target", "problem")
_AT_ONCE: Final = 8
"""Partitions that are compared together."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one cluster has of the mirrored topics: their ids, and where their partitions begin and end."""

    ids: Mapping[str, str]
    bounds: Mapping[TopicPartition, PartitionBounds]


@dataclass(slots=True)
class Comparison:
    """What is to be compared: the range of each partition that both sides have. `problems` are found without digests, by topic or
    partition; `notes` say what is not compared.
    """

    ranges: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    problems: dict[tuple[str, int | None], str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    compacted: set[TopicPartition] = field(default_factory=set)


def plan_comparison(known: Mapping[str, KnownTopic], source: Side, target: Side) -> Comparison:
    """Return what of the mirrored topics is to be compared."""
    plan = Comparison()
    for name, ids in sorted(known.items()):
        if ids.is_unconfirmed:
            plan.notes.append(f"topic {name} is not known to be the source's copy of the target's, and not compared")
        elif why := _judge_topic(name, ids, source, target):
            plan.problems[name, None] = why
        else:
            places = {each for side in (source, target) for each in side.bounds if each.topic == name}
            for place in sorted(places):
                _plan_partition(plan, place, source.bounds.get(place), target.bounds.get(place))
    return plan


def _judge_topic(name: str, ids: KnownTopic, source: Side, target: Side) -> str:
    """Return why a topic is not that of the mirror on both sides."""
    for side, found, wanted in (("source", source, ids.source_id), ("target", target, ids.target_id)):
        if name not in found.ids:
            return f"not in the {side} any more"
        if found.ids[name] != wanted:
            return f"deleted in the {side} and made again"
    return ""


def _plan_partition(
    plan: Comparison, place: TopicPartition, source: PartitionBounds | None, target: PartitionBounds | None
) -> None:
    if source is None:
        plan.notes.append(f"{place} is in the target only: it was added there since the switch")
        return
    if target is None:
        plan.problems[place] = "not in the target"
        return
    start, end = max(source.log_start, target.log_start), min(source.end, target.end)
    stable = min(end, *(each.stable for each in (source, target) if each.stable is not None))
    plan.ranges[place] = start, max(start, stable)
    if source.is_compacted or target.is_compacted:
        plan.compacted.add(place)
    if source.end > target.end:
        plan.problems[place] = f"the source ends at offset {source.end}, the target at {target.end}"
    if target.end > source.end:
        plan.notes.append(
            f"{place}: offsets {source.end} to {target.end - 1} are in the target only, which takes records since the switch"
        )
    if source.log_start != target.log_start:
        side = "source" if source.log_start < target.log_start else "target"
        first = min(source.log_start, target.log_start)
        plan.notes.append(
            f"{place}: offsets {first} to {start - 1} are in the {side} only, as retention or DeleteRecords leave them, and not compared"
        )
    if stable < end:
        plan.notes.append(f"{place}: a transaction is open since offset {stable}, and what is behind it not compared")


def leave_out_compacted(plan: Comparison, place: TopicPartition, found: list[Difference]) -> list[Difference]:
    """Return the differences that compaction of one side before the other does not explain, and note how many it does."""
    if place not in plan.compacted:
        return found
    kept = [each for each in found if each.is_change]
    if others := len(found) - len(kept):
        plan.notes.append(
            f"{place}: {format_count(others, 'range')} where one side has more records, as compaction may leave them, prove nothing"
        )
    return kept


class Comparer:
    """Compares ranges of partitions of two clusters."""

    def __init__(self, source: Admin, target: Admin, *, fresh: bool) -> None:
        self._source, self._target, self._fresh = source, target, fresh
        import asyncio

        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.records: dict[TopicPartition, int] = {}
        """Of the source, those that were compared."""
        self.problems: dict[TopicPartition, str] = {}
        """Why a partition could not be compared."""

    async def compare(self, place: TopicPartition, start: int, end: int) -> list[Difference]:
        """Return where the sides differ, as far as they can be compared."""
        from kafkalite.cli.mirror.comparison.differences import search_differences
        from kafkalite.client.errors import ClientError

        search, pair = search_differences(start, end), None
        self.records[place], at = 0, start
        async with self._slots:
            try:
                while True:
                    span = search.send(pair) if pair is not None else next(search)
                    pair = await self._digest(place, *span)
                    if span[0] == at:  # a chunk, and no half of one
                        self.records[place], at = self.records[place] + pair.source.records, span[1]
            except StopIteration as finished:
                found: list[Difference] = finished.value
                return found
            except ClientError as problem:
                self.problems[place] = f"not compared: {problem}"
                return []

    async def _digest(self, place: TopicPartition, start: int, end: int) -> Pair:
        """Return the digests of a range on both sides. Raises ClientError."""
        import asyncio

        from kafkalite.cli.mirror.comparison.differences import Digest, Pair

        ranges = {place: (start, end)}
        found = await asyncio.gather(
            *(each.digest_records(ranges, fresh=self._fresh) for each in (self._source, self._target))
        )
        sides = [
            Digest(one.records, one.content_bytes, int(one.fingerprint, 16), one.first_offset, one.last_offset)
            for (one,) in found
        ]
        return Pair(*sides)


@click.command(short_help="Compare source and target after the switch.")
@switched_mirror
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic; may be repeated.")
@click.option(
    "--fresh", is_flag=True, help="Read all records again, also where brokers have kept digests of earlier readings."
)
@bootstrap_option
@output_option()
def verify(
    directory: Path, target: str, to_config: Path | None, topics: tuple[str, ...], fresh: bool, output: str
) -> None:
    """Compare the records of source and target after the switch of DIRECTORY, and name the offsets at which they differ.

    Committed records with offsets, timestamps and headers, as far as both sides have them; brokers of kafkalite answer with digests, of
    others the records are read. A range that differs is halved until its place is known. Changes nothing in either cluster.
    Exits with 7 when something differs, or cannot be compared.
    """
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorFileError

    options, to_options = admin_options(), target_options(target, to_config)
    try:
        compared, plan = run_long(_compare(MirrorDirectory(directory), options, to_options, topics, fresh=fresh))
    except MirrorFileError as problem:
        fail(str(problem))
    rows = list(_list_rows(compared, plan))
    write_rows(rows, output, columns=_COLUMNS, name=partition_name)
    for each in plan.notes:
        note(f"Note: {each}")
    problems = sum(row["problem"] is not None for row in rows)
    note(
        f"{format_count(sum(compared.records.values()), 'record')} of {format_count(len(plan.ranges), 'partition')} compared"
    )
    if problems:
        note(f"Error: {format_count(problems, 'difference')}")
        raise SystemExit(int(Exit.CHECK_FAILED))


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found: how many records of each partition were compared, differences, and why some partitions were not compared."""

    records: Mapping[TopicPartition, int]
    differences: Mapping[TopicPartition, list[Difference]]
    failed: Mapping[TopicPartition, str]


async def _compare(
    files: MirrorDirectory,
    source_options: dict[str, Any],
    to_options: dict[str, Any],
    topics: Collection[str],
    *,
    fresh: bool,
) -> tuple[Compared, Comparison]:
    """Connect both sides and compare them. Raises MirrorFileError, ClientError, OSError."""
    import asyncio

    from kafkalite.client import Admin

    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(Admin(**source_options))
        target = await stack.enter_async_context(Admin(**to_options))
        ids = [(await each.describe_cluster()).cluster_id or "" for each in (source, target)]
        state = load_switched_state(files, *ids)
        known = _choose_topics(state.topics, topics)
        sides = await asyncio.gather(*(_read_side(each, known) for each in (source, target)))
        plan = plan_comparison(known, *sides)
        comparer = Comparer(source, target, fresh=fresh)
        found = await asyncio.gather(*(comparer.compare(place, *span) for place, span in plan.ranges.items()))
        differences = {
            place: leave_out_compacted(plan, place, some) for place, some in zip(plan.ranges, found, strict=True)
        }
        return Compared(comparer.records, differences, comparer.problems), plan


def _choose_topics(known: Mapping[str, KnownTopic], wanted: Collection[str]) -> Mapping[str, KnownTopic]:
    """Return the topics that are wanted; one that was not mirrored ends the command."""
    from kafkalite.suggestions import did_you_mean

    for name in wanted:
        if name not in known:
            fail(f"--topic {name}: it was not mirrored{did_you_mean(name, known)}", Exit.NOT_FOUND)
    return {name: each for name, each in known.items() if not wanted or name in wanted}


async def _read_side(admin: Admin, names: Collection[str]) -> Side:
    """Return what one side has of the topics. Raises ClientError."""
    from kafkalite.cli.migrate.witness import find_bounds

    there = sorted(set(names) & set(await admin.list_topics(include_internal=True)))
    described = await admin.describe_topics(there) if there else []
    return Side({each.name: each.topic_id for each in described}, await find_bounds(admin, there))


def _list_rows(compared: Compared, plan: Comparison) -> Iterator[dict[str, Any]]:
    """Yield a row for each problem, and one for each partition without any."""
    for (topic, partition), problem in sorted(plan.problems.items(), key=lambda each: (each[0][0], each[0][1] or 0)):
        yield _make_row(topic, partition, None, None, None, None, problem)
    for place, (start, end) in sorted(plan.ranges.items()):
        differences = compared.differences[place]
        if why := compared.failed.get(place):
            yield _make_row(*place, start, end, None, None, why)
        for each in differences:
            yield _make_row(*place, each.start, each.end, each.source, each.target, each.problem)
        if not why and not differences and place not in plan.problems:
            count = compared.records[place]
            yield _make_row(*place, start, end, count, count, None)


def _make_row(
    topic: str,
    partition: int | None,
    start: int | None,
    end: int | None,
    source: int | None,
    target: int | None,
    problem: str | None,
) -> dict[str, Any]:
    values = (topic, partition, start, end, source, target, problem)
    return dict(zip(_COLUMNS, values, strict=True))
