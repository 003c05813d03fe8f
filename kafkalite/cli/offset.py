"""`kafkalite offset list`: the offsets of partitions, and the offset of a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kafkalite.administration.group_offsets import partitions_of
from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.group.reset_target import parse_datetime
from kafkalite.cli.kafka_words.options import named_argument
from kafkalite.cli.output import output_option, partition_name, write_rows
from kafkalite.cli.partition.selection import (
    Topics,
    parse_topics,
    require_partitions,
    selected_partitions,
)
from kafkalite.timestamps import check_int64
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, IsolationLevel
    from kafkalite.client.records import OffsetAndTimestamp

Found = Mapping[TopicPartition, "OffsetAndTimestamp | None"]

_NAMED = ("earliest", "latest", "max-timestamp")


@click.group()
def offset() -> None:
    """Offsets of partitions."""


@offset.command("list", short_help="Show earliest and latest offsets of partitions.")
@named_argument("topics", "--topic", nargs=-1, metavar="[TOPIC[:N,N]]...")
@click.option(
    "--at",
    metavar="WHERE",
    help="One offset of each partition instead: earliest, latest, max-timestamp (of the record with the largest one), or that of "
    "the first record at or after a time (ISO 8601, UTC if no zone; or ms since 1970).",
)
@click.option("--internal", is_flag=True, help="Without TOPIC: also internal topics.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="With read_committed the latest offset is the last stable one.",
)
@bootstrap_option
@output_option()
def list_(
    topics: tuple[str, ...], at: str | None, internal: bool, isolation_level: IsolationLevel, output: str
) -> None:
    """Show the earliest and the latest offset of each partition of TOPICS (default: of all), and how many lie between them."""
    selected = parse_topics(topics, "TOPIC")
    where = None if at is None else _where(at)

    async def call(admin: Admin) -> list[dict[str, Any]]:
        partitions = await _partitions(admin, selected, internal)

        async def find_offsets(place: int | str) -> Found:
            return await admin.list_offsets(dict.fromkeys(partitions, place), isolation_level=isolation_level)

        if where is not None:
            answers = await find_offsets(where)
            return [_offset_row(each, answers[each]) for each in partitions]
        earliest, latest = await find_offsets("earliest"), await find_offsets("latest")
        return [_bounds(each, earliest[each], latest[each]) for each in partitions]

    rows = ask_cluster(call)
    shown = ["earliest", "latest", "records"] if where is None else ["offset", "timestamp"]
    write_rows(rows, output, columns=["topic", "partition", *shown], wide=["leader_epoch"], name=partition_name)


def _where(text: str) -> int | str:
    """Return the admin client's value for `--at`. Raises BadParameter."""
    if text in _NAMED:
        return text
    if not text.isdecimal():
        return max(0, parse_datetime(text, "--at"))
    try:
        return check_int64(int(text))
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="--at") from None


async def _partitions(admin: Admin, selected: Topics, internal: bool) -> list[TopicPartition]:
    described = await admin.describe_topics(sorted(selected) or None)
    if not selected:
        return partitions_of(each for each in described if internal or not each.is_internal)
    wanted = selected_partitions(described, selected)
    require_partitions(wanted, described)
    return wanted


def _offset_row(partition: TopicPartition, found: OffsetAndTimestamp | None) -> dict[str, Any]:
    """Return the row of a partition, with nulls where no record is that young."""
    return {
        **partition._asdict(),
        "offset": found.offset if found else None,
        "timestamp": found.timestamp if found and found.timestamp >= 0 else None,
        "leader_epoch": found.leader_epoch if found else None,
    }


def _bounds(
    partition: TopicPartition, earliest: OffsetAndTimestamp | None, latest: OffsetAndTimestamp | None
) -> dict[str, Any]:
    first, last = earliest.offset if earliest else 0, latest.offset if latest else 0
    return {
        **partition._asdict(),
        "earliest": first,
        "latest": last,
        "records": last - first,
        "leader_epoch": latest.leader_epoch if latest else None,
    }
