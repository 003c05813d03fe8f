"""`kafkalite record delete`: delete the records before an offset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.output import fail, format_count, note, output_option, partition_name, write_rows
from kafkalite.cli.partition.selection import parse_partition, require_partitions
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin

_ALL_COMMITTED = -1
"""Stands for the high watermark in place of an offset, in Kafka's files and requests."""

Wanted = Mapping[TopicPartition, int]


@click.command(short_help="Delete records before an offset.")
@click.argument("offsets", nargs=-1, metavar="[TOPIC-N=OFFSET|latest]...")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="All records of all partitions of a topic; may be repeated.",
)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Offsets as JSON, in the form of Kafka\'s tools: {"partitions": [{"topic": …, "partition": …, "offset": …}]}.',
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@output_option()
def delete(
    offsets: tuple[str, ...], topics: tuple[str, ...], file: Path | None, dry_run: bool, yes: bool, output: str
) -> None:
    """Delete the records of partitions before an offset; "latest" (-1 in files) stands for all that are committed.

    Asks first; a script must give --yes. Shows the first offset that each partition still has.
    """
    wanted = {**(_from_file(file) if file is not None else {}), **dict(_parse(text) for text in offsets)}
    if not wanted and not topics:
        raise click.UsageError("say which records: partitions with offsets, --topic, or --file")
    plan = ask_cluster(lambda admin: _plan(admin, wanted, topics))
    columns = ["topic", "partition", "earliest", "latest", "before", "records"]
    if dry_run:
        write_rows(plan, output, columns=columns, name=partition_name)
        return
    count = sum(row["records"] for row in plan)
    confirm(f"Delete {format_count(count, 'record')} of {', '.join(map(partition_name, plan))}?", yes)
    targets = {TopicPartition(row["topic"], row["partition"]): row["before"] for row in plan}

    async def call(admin: Admin) -> list[dict[str, Any]]:
        deleted = {each.topic_partition: each.low_watermark for each in await admin.delete_records(targets)}
        return [{**row, "low_watermark": deleted[TopicPartition(row["topic"], row["partition"])]} for row in plan]

    rows = ask_cluster(call)
    columns = ["topic", "partition", "low_watermark", "records"]
    write_rows(rows, output, columns=columns, wide=["earliest", "latest", "before"], name=partition_name)
    note(f"{format_count(count, 'record')} deleted")


def _parse(text: str) -> tuple[TopicPartition, int]:
    name, equals, offset = text.partition("=")
    if not equals or not (offset == "latest" or offset.isdecimal()):
        raise click.BadParameter(f"{text!r} is not like topic-3=1000 or topic-3=latest")
    return parse_partition(name), _ALL_COMMITTED if offset == "latest" else int(offset)


def _from_file(file: Path) -> dict[TopicPartition, int]:
    try:
        partitions = json.loads(file.read_text())["partitions"]
        return {TopicPartition(str(each["topic"]), int(each["partition"])): int(each["offset"]) for each in partitions}
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise click.BadParameter(f"{file} has no offsets in Kafka's form: {problem!r}", param_hint="--file") from None


async def _plan(admin: Admin, wanted: Wanted, topics: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the present offsets of each partition, and how many records would be deleted. Unknown partitions end the command."""
    described = await admin.describe_topics(sorted({*topics, *(each.topic for each in wanted)}))
    require_partitions(wanted, described)
    whole = {
        TopicPartition(topic.name, each.partition): _ALL_COMMITTED
        for topic in described
        if topic.name in topics
        for each in topic.partitions
    }
    targets = {**whole, **wanted}
    earliest = await admin.list_offsets(dict.fromkeys(targets, "earliest"))
    latest = await admin.list_offsets(dict.fromkeys(targets, "latest"))
    return [_row(each, offset, earliest[each], latest[each]) for each, offset in sorted(targets.items())]


def _row(partition: TopicPartition, asked: int, first: Any, last: Any) -> dict[str, Any]:
    """Return a row in which `before` is always an offset, so that exactly what is shown is deleted."""
    earliest, latest = first.offset if first else 0, last.offset if last else 0
    before = latest if asked == _ALL_COMMITTED else asked
    if before > latest:
        fail(f"{partition} ends at {latest}, before the offset {before}; give latest for all of it")
    row = {**partition._asdict(), "earliest": earliest, "latest": latest, "before": before}
    return {**row, "records": max(0, before - earliest)}
