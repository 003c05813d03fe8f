"""`kafkalite record digest TOPIC`: counts, bytes and fingerprints of the committed records of ranges of offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.group.reset_target import parse_datetime
from kafkalite.cli.output import fail, output_option, partition_name, write_rows
from kafkalite.cli.partition.selection import require_partitions
from kafkalite.timestamps import LEAST_INT64, check_int64, parse_time
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin

_NAMED = ("earliest", "latest")
_EARLIEST, _LATEST = _NAMED


@click.command(short_help="Show counts, bytes and fingerprints of records.")
@click.argument("topic")
@click.option("-p", "--partition", "partitions", type=int, multiple=True, help="Only this partition; may be repeated.")
@click.option(
    "--from",
    "start",
    default=_EARLIEST,
    show_default=True,
    metavar="WHERE",
    help="An offset, or a time like 2013-01-31T12:00:00Z (UTC if no zone): that of the first record at or after it.",
)
@click.option(
    "--to",
    "end",
    default=_LATEST,
    show_default=True,
    metavar="WHERE",
    help="The offset or the time before which the range ends; latest is the last stable offset.",
)
@click.option("--since", metavar="TIME", help="Only records with timestamps at or after this time, wherever they lie.")
@click.option("--until", metavar="TIME", help="Only records with timestamps before this time.")
@click.option(
    "--fresh",
    is_flag=True,
    help="Read the records again, also where brokers have kept the digests of earlier readings.",
)
@bootstrap_option
@output_option()
def digest(
    topic: str,
    partitions: tuple[int, ...],
    start: str,
    end: str,
    since: str | None,
    until: str | None,
    fresh: bool,
    output: str,
) -> None:
    """Show how many committed records ranges of TOPIC have, of how many bytes, and their fingerprints.

    Ranges with the same records, offsets and timestamps have the same fingerprint, in whichever cluster they are and however batches are
    cut or compressed. It finds accidents: records that are changed, left out, doubled, at other offsets. It is no signature.
    """
    first, behind = _parse_place(start, "--from"), _parse_place(end, "--to")
    since_ms = LEAST_INT64 if since is None else parse_datetime(since, "--since")
    until_ms = None if until is None else parse_datetime(until, "--until")

    async def call(admin: Admin) -> list[dict[str, Any]]:
        described = await admin.describe_topics([topic])
        chosen = [TopicPartition(topic, number) for number in sorted(set(partitions))]
        require_partitions(chosen, described)
        chosen = chosen or [TopicPartition(topic, each.partition) for each in described[0].partitions]
        ranges = await _find_ranges(admin, chosen, first, behind)
        found = await admin.digest_records(ranges, since_ms=since_ms, until_ms=until_ms, fresh=fresh)
        return [_row(each.to_dict()) for each in found]

    columns = ["topic", "partition", "from", "to", "records", "content_bytes", "fingerprint"]
    rows = ask_cluster(call)
    write_rows(
        rows,
        output,
        columns=columns,
        wide=["first_offset", "last_offset", "least_timestamp", "largest_timestamp"],
        name=partition_name,
    )


def _row(digest: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a range, whose ends are named as the options are."""
    topic, partition = digest.pop("topic"), digest.pop("partition")
    return {"topic": topic, "partition": partition, "from": digest.pop("start"), "to": digest.pop("end"), **digest}


def _parse_place(text: str, option: str) -> int | str:
    """Return an offset, "earliest" or "latest", or a time as "@ms". Raises BadParameter, which names the option."""
    if text in _NAMED:
        return text
    try:
        return check_int64(int(text)) if text.isdecimal() else f"@{max(0, parse_time(text))}"
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no offset and no time like 2013-01-31T12:00:00Z", param_hint=option
        ) from None


async def _find_ranges(
    admin: Admin, partitions: Sequence[TopicPartition], first: int | str, behind: int | str
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the range of each partition, within what is committed; one that is not ends the command."""
    earliest = await _find_offsets(admin, partitions, _EARLIEST, {})
    latest = await _find_offsets(admin, partitions, _LATEST, {})
    known = {_EARLIEST: earliest, _LATEST: latest}
    starts, ends = [
        known.get(str(each)) or await _find_offsets(admin, partitions, each, latest) for each in (first, behind)
    ]
    for each in partitions:
        if not earliest[each] <= starts[each] <= ends[each] <= latest[each]:
            fail(
                f"{each} has committed records from offset {earliest[each]} to before {latest[each]}; "
                f"{starts[each]} to {ends[each]} is no range of them"
            )
    return {each: (starts[each], ends[each]) for each in partitions}


async def _find_offsets(
    admin: Admin, partitions: Sequence[TopicPartition], where: int | str, latest: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offset of each partition at a place; where no record is that young, the latest."""
    if isinstance(where, int):
        return dict.fromkeys(partitions, where)
    wanted = int(where[1:]) if where.startswith("@") else where
    found = await admin.list_offsets(dict.fromkeys(partitions, wanted), isolation_level="read_committed")
    return {each: latest.get(each, 0) if at is None else at.offset for each, at in found.items()}
