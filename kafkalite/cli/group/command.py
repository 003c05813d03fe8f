"""`kafkalite group list|describe|members|reset-offsets|delete-offsets|delete`: consumer groups, how far they are, and moving them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.group.in_zookeeper import KAFKA, described, find_old_groups, in_zookeeper_option, listed
from kafkalite.cli.group.in_zookeeper import summary as summary_of_old
from kafkalite.cli.group.reset_target import target_of
from kafkalite.cli.output import Exit, counted, fail, note, output_option, partition_name, write_rows
from kafkalite.cli.partition.selection import Topics, is_selected, parse_topics, partitions_of, selected_partitions
from kafkalite.offset_reset import Bounds, FromTime, Listed, Target, new_offset
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, GroupDescription
    from kafkalite.client.records import OffsetAndMetadata

    _Told: TypeAlias = tuple[GroupDescription, list[dict[str, Any]]]

_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


@click.group()
def group() -> None:
    """Consumer groups: how far they have read, who is in them; move or delete their offsets."""


_topic_option = click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,N]",
    help="A topic, or some partitions of it; may be repeated.",
)


@group.command("list")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(_STATES, case_sensitive=False), help="Only in this state."
)
@in_zookeeper_option
@bootstrap_option
@output_option()
def list_(
    states: tuple[str, ...], in_zookeeper: bool, zookeeper: str, bootstrap_server: str, timeout: float, output: str
) -> None:
    """List groups, their states and coordinators."""

    async def call(admin: Admin) -> list[dict[str, Any]]:
        return [_named(each.to_dict()) for each in await admin.list_groups(states)]

    columns = ["group", "state", "protocol_type", "coordinator"]
    rows = ask_cluster(bootstrap_server, timeout, call)
    if in_zookeeper:
        columns.append("kept_in")
        wanted = {each.lower() for each in states}
        old = [listed(each) for each in find_old_groups(zookeeper) if not wanted or each.state.lower() in wanted]
        rows = [{**row, "kept_in": KAFKA} for row in rows] + old
    write_rows(rows, output, columns=columns, name="group")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {"group": row.pop("group_id"), **row}


@group.command()
@click.argument("groups", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All groups.")
@click.option("--summary", is_flag=True, help="One line for each group: state, assignor, members, lag in all.")
@in_zookeeper_option
@bootstrap_option
@output_option()
def describe(
    groups: tuple[str, ...],
    every: bool,
    summary: bool,
    in_zookeeper: bool,
    zookeeper: str,
    bootstrap_server: str,
    timeout: float,
    output: str,
) -> None:
    """Show for each partition of GROUPS how far the group is, how far behind, and which member reads it."""
    if every == bool(groups):
        raise click.UsageError("name groups, or give --all")
    old_groups = find_old_groups(zookeeper, None if every else groups) if in_zookeeper else []
    kept_in = {"kept_in": KAFKA} if in_zookeeper else {}

    async def call(admin: Admin) -> tuple[list[_Told], list[list[dict[str, Any]]]]:
        wanted = [each.group_id for each in await admin.list_groups()] if every else list(groups)
        in_kafka = (await admin.describe_groups(wanted)).values()
        told = [(each, [{**row, **kept_in} for row in await _progress(admin, each)]) for each in in_kafka]
        places = {place for old in old_groups for place in old.places}
        ends = await _offsets(admin, await _existing(admin, sorted(places)), "latest")
        return told, [described(old, ends) for old in old_groups]

    found, old_rows = ask_cluster(bootstrap_server, timeout, call)
    is_old = {each.group.group_id for each in old_groups}
    missing = [each.group_id for each, rows in found if each.state == "Dead" and not rows]
    if not every:
        if absent := [each for each in missing if each not in is_old]:
            fail(f"there is no group {', '.join(absent)}", Exit.NOT_FOUND)
        found = [(each, rows) for each, rows in found if each.group_id not in missing]
    if summary:
        columns = ["group", "state", "members", "partitions", "lag", "assignor", "coordinator", *kept_in]
        rows = [{**_summary(each, partitions), **kept_in} for each, partitions in found]
        rows += [summary_of_old(*each) for each in zip(old_groups, old_rows, strict=True)]
        write_rows(rows, output, columns=columns, wide=["protocol_type"], name="group")
        return
    columns = [
        "group",
        "state",
        "topic",
        "partition",
        "committed_offset",
        "end_offset",
        "lag",
        "owner",
        "client_host",
        *kept_in,
    ]
    wide = ["client_id", "group_instance_id", "leader_epoch", "metadata"]
    rows = [row for _, partitions in found for row in partitions] + [row for each in old_rows for row in each]
    if rows or output not in ("table", "wide"):
        write_rows(rows, output, columns=columns, wide=wide, name="group")
    for each, partitions in found:
        if not partitions:
            note(f"{each.group_id} is {each.state}, has {counted(len(each.members), 'member')} and no partitions")


async def _progress(admin: Admin, described: GroupDescription) -> list[dict[str, Any]]:
    """A row for each partition that the group has committed for or that a member owns."""
    committed = await admin.list_group_offsets(described.group_id)
    owners = {partition: member for member in described.members for partition in member.partitions}
    partitions = sorted({*committed, *owners})
    ends = await _offsets(admin, await _existing(admin, partitions), "latest")
    rows = []
    for each in partitions:
        position, end, owner = committed.get(each), ends.get(each), owners.get(each)
        row = {
            "group": described.group_id,
            "state": described.state,
            **each._asdict(),
            "committed_offset": position.offset if position else None,
            "end_offset": end,
            "lag": None if position is None or end is None else end - position.offset,
            "owner": owner.member_id if owner else None,
            "client_id": owner.client_id if owner else None,
            "client_host": owner.client_host if owner else None,
            "group_instance_id": owner.group_instance_id if owner else None,
            "leader_epoch": position.leader_epoch if position else None,
            "metadata": position.metadata if position else None,
        }
        rows.append(row)
    return rows


def _summary(described: GroupDescription, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    row = _named(described.to_dict())
    lags = [each["lag"] for each in partitions if each["lag"] is not None]
    return {**row, "members": len(described.members), "partitions": len(partitions), "lag": sum(lags) if lags else None}


async def _existing(admin: Admin, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those that are there: a group may have committed for a topic that was deleted since."""
    wanted = list(partitions)
    if not wanted:
        return []
    found = set(partitions_of(await admin.describe_topics()))
    return [each for each in wanted if each in found]


async def _offsets(
    admin: Admin, partitions: Iterable[TopicPartition], asked: int | str
) -> dict[TopicPartition, int | None]:
    found = await admin.list_offsets(dict.fromkeys(partitions, asked))
    return {partition: each.offset if each else None for partition, each in found.items()}


@group.command()
@click.argument("groups", nargs=-1, required=True)
@bootstrap_option
@output_option()
def members(groups: tuple[str, ...], bootstrap_server: str, timeout: float, output: str) -> None:
    """Show the members of GROUPS and the partitions that each one owns."""

    async def call(admin: Admin) -> list[GroupDescription]:
        return list((await admin.describe_groups(groups)).values())

    found = ask_cluster(bootstrap_server, timeout, call)
    missing = [each.group_id for each in found if each.state == "Dead"]
    if missing:
        fail(f"there is no group {', '.join(missing)}", Exit.NOT_FOUND)
    rows = [
        {
            "group": each.group_id,
            "state": each.state,
            **member.to_dict(),
            "partitions": [str(partition) for partition in member.partitions],
        }
        for each in found
        for member in each.members
    ]
    columns = ["group", "member_id", "client_host", "partitions"]
    wide = ["client_id", "group_instance_id", "topics", "state"]
    if rows or output not in ("table", "wide"):
        write_rows(rows, output, columns=columns, wide=wide, name="member_id")
    else:
        note(f"no members in {', '.join(groups)}")


@group.command("reset-offsets")
@click.argument("group_id", metavar="GROUP")
@_topic_option
@click.option("--all-topics", is_flag=True, help="All partitions that the group has committed for.")
@click.option("--to-earliest", is_flag=True, help="To the first record that there is.")
@click.option("--to-latest", is_flag=True, help="To the end: only what comes from now on.")
@click.option(
    "--to-datetime", metavar="TIME", help="To the first record at or after a time (ISO 8601, UTC if no zone)."
)
@click.option("--by-duration", metavar="DURATION", help="To the first record at most so old (ISO 8601: PT15M, P1DT2H).")
@click.option("--shift-by", type=int, metavar="N", help="N records further from where the group is; back if negative.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="To this offset.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="To the offsets in a file: lines of topic,partition,offset, or what a dry run shows with -o csv.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--execute", is_flag=True, help="Change it.")
@bootstrap_option
@output_option()
def reset_offsets(
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    dry_run: bool,
    execute: bool,
    bootstrap_server: str,
    timeout: float,
    output: str,
    **target_options: Any,
) -> None:
    """Move GROUP, which must have no members, to other offsets.

    Say where to with one of --to-earliest, --to-latest, --to-datetime, --by-duration, --shift-by, --to-offset, --from-file, and
    whether it is to be shown (--dry-run) or done (--execute). Offsets that partitions do not have become the nearest ones that they
    have.
    """
    from kafkalite.clock import SystemClock

    target = target_of(**target_options, now_ms=SystemClock().now_ms())
    if dry_run == execute:
        raise click.UsageError("give either --dry-run or --execute")
    selected = parse_topics(topics, "--topic")
    if isinstance(target, Listed):
        if selected or all_topics:
            raise click.UsageError("the partitions are those in the file; leave out --topic and --all-topics")
    elif bool(selected) == all_topics:
        raise click.UsageError("give either --topic or --all-topics")

    async def call(admin: Admin) -> list[dict[str, Any]]:
        _refuse_members((await admin.describe_groups([group_id]))[group_id])
        plan = await _plan(admin, group_id, target, selected)
        if execute:
            moved = {TopicPartition(row["topic"], row["partition"]): row["new_offset"] for row in plan}
            await admin.alter_group_offsets(group_id, moved)
        return plan

    rows = ask_cluster(bootstrap_server, timeout, call)
    columns = ["group", "topic", "partition", "committed_offset", "new_offset"]
    if rows or output not in ("table", "wide"):
        write_rows(rows, output, columns=columns, name=partition_name)
    note(
        f"{counted(len(rows), 'offset')} of {group_id} {'changed' if execute else 'would be changed; --execute does it'}"
    )


def _refuse_members(described: GroupDescription) -> None:
    """End the command when somebody is in the group: members would commit over the new offsets."""
    if described.has_members:
        names = ", ".join(f"{each.member_id} at {each.client_host}" for each in described.members)
        fail(f"group {described.group_id} is {described.state}; stop its members first: {names or 'not known yet'}")


async def _plan(admin: Admin, group_id: str, target: Target, selected: Topics) -> list[dict[str, Any]]:
    """A row for each partition, with the offset that it has and the one that it gets. Ends the command for what is not there."""
    committed = await admin.list_group_offsets(group_id)
    if isinstance(target, Listed):
        wanted = sorted(target.offsets)
    elif selected:
        wanted = selected_partitions(await admin.describe_topics(sorted(selected)), selected)
    else:
        wanted = sorted(committed)
        if not wanted:
            fail(f"group {group_id} has committed nothing, or is not there", Exit.NOT_FOUND)
    existing = await _existing(admin, wanted)
    missing = sorted(set(wanted) - set(existing))
    if missing:
        fail(f"there is no partition {', '.join(map(str, missing))}", Exit.NOT_FOUND)
    earliest, latest = await _offsets(admin, wanted, "earliest"), await _offsets(admin, wanted, "latest")
    at_time = await _offsets(admin, wanted, target.timestamp_ms) if isinstance(target, FromTime) else {}
    rows = []
    for each in wanted:
        current = _committed_offset(committed.get(each))
        bounds = Bounds(earliest[each] or 0, latest[each] or 0)
        row = {"group": group_id, **each._asdict(), "committed_offset": current}
        rows.append({**row, "new_offset": new_offset(target, each, current, bounds, at_time.get(each))})
    return rows


def _committed_offset(committed: OffsetAndMetadata | None) -> int | None:
    return committed.offset if committed else None


@group.command("delete-offsets")
@click.argument("group_id", metavar="GROUP")
@_topic_option
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@output_option()
def delete_offsets(
    group_id: str,
    topics: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    bootstrap_server: str,
    timeout: float,
    output: str,
) -> None:
    """Forget what GROUP has committed for topics that nobody in it is subscribed to.

    Asks first; a script must give --yes. Shows the offsets that there were.
    """
    selected = parse_topics(topics, "--topic")
    if not selected:
        raise click.UsageError("give --topic")

    async def found(admin: Admin) -> list[dict[str, Any]]:
        committed = await admin.list_group_offsets(group_id)
        return [
            {"group": group_id, **each._asdict(), "committed_offset": _committed_offset(position)}
            for each, position in committed.items()
            if is_selected(each, selected)
        ]

    rows = ask_cluster(bootstrap_server, timeout, found)
    if not rows:
        fail(f"group {group_id} has committed nothing for {', '.join(topics)}", Exit.NOT_FOUND)
    if not dry_run:
        confirm(f"Delete the offsets of {group_id} for {', '.join(map(partition_name, rows))}?", yes)
        partitions = [TopicPartition(row["topic"], row["partition"]) for row in rows]
        ask_cluster(bootstrap_server, timeout, lambda admin: admin.delete_group_offsets(group_id, partitions))
    write_rows(rows, output, columns=["group", "topic", "partition", "committed_offset"], name=partition_name)
    note(f"{counted(len(rows), 'offset')} of {group_id} {'would be ' if dry_run else ''}deleted")


@group.command()
@click.argument("groups", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def delete(groups: tuple[str, ...], dry_run: bool, yes: bool, bootstrap_server: str, timeout: float) -> None:
    """Delete GROUPS, which must have no members, and all that they have committed."""
    if dry_run:

        async def check(admin: Admin) -> None:
            for each in (await admin.describe_groups(groups)).values():
                if each.state == "Dead":
                    fail(f"there is no group {each.group_id}", Exit.NOT_FOUND)
                _refuse_members(each)
                committed = await admin.list_group_offsets(each.group_id)
                note(f"{each.group_id} with {counted(len(committed), 'committed offset')} would be deleted")

        ask_cluster(bootstrap_server, timeout, check)
        return
    confirm(f"Delete {', '.join(groups)} and what they have committed?", yes)

    async def call(admin: Admin) -> None:
        await admin.delete_groups(groups)

    ask_cluster(bootstrap_server, timeout, call)
    note(f"{', '.join(groups)} deleted")
