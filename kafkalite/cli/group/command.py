"""`kafkalite group list|describe|members|reset-offsets|delete-offsets|delete`: consumer groups, their lag, and changes of their offsets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from kafkalite.administration.group_offsets import (
    HasMembersError,
    NothingThereError,
    committed_offset,
    execute_plan,
    existing,
    offsets,
    partition_totals,
    progress,
    require_no_members,
    reset_plan,
)
from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.group.in_zookeeper import (
    KAFKA,
    describe_rows,
    find_old_groups,
    in_zookeeper_option,
    list_row,
    summary_row,
)
from kafkalite.cli.group.reset_target import target_of
from kafkalite.cli.kafka_words.options import named_argument
from kafkalite.cli.output import Exit, fail, format_count, note, output_option, partition_name, write_rows
from kafkalite.cli.partition.selection import Topics, is_selected, parse_topics, selected_partitions
from kafkalite.offset_reset import Listed, Target
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, GroupDescription

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
def list_(states: tuple[str, ...], in_zookeeper: bool, zookeeper: str, output: str) -> None:
    """List groups, their states and coordinators."""

    async def call(admin: Admin) -> list[dict[str, Any]]:
        return [_name_group(each.to_dict()) for each in await admin.list_groups(states)]

    columns = ["group", "state", "protocol_type", "coordinator"]
    rows = ask_cluster(call)
    if in_zookeeper:
        columns.append("kept_in")
        wanted = {each.lower() for each in states}
        old = [list_row(each) for each in find_old_groups(zookeeper) if not wanted or each.state.lower() in wanted]
        rows = [{**row, "kept_in": KAFKA} for row in rows] + old
    write_rows(rows, output, columns=columns, name="group")


def _name_group(row: dict[str, Any]) -> dict[str, Any]:
    return {"group": row.pop("group_id"), **row}


@group.command(short_help="Show offsets, lag and owner of each partition.")
@named_argument("groups", "--group", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All groups.")
@click.option("--summary", is_flag=True, help="One line for each group: state, assignor, members, lag in all.")
@in_zookeeper_option
@bootstrap_option
@output_option()
def describe(
    groups: tuple[str, ...], every: bool, summary: bool, in_zookeeper: bool, zookeeper: str, output: str
) -> None:
    """Show for each partition of GROUPS how far the group is, how far behind, and which member reads it."""
    if every == bool(groups):
        raise click.UsageError("name groups, or give --all")
    old_groups = find_old_groups(zookeeper, None if every else groups) if in_zookeeper else []
    kept_in = {"kept_in": KAFKA} if in_zookeeper else {}

    async def call(admin: Admin) -> tuple[list[_Told], list[list[dict[str, Any]]]]:
        wanted = [each.group_id for each in await admin.list_groups()] if every else list(groups)
        in_kafka = (await admin.describe_groups(wanted)).values()
        told = [(each, [{**row, **kept_in} for row in await progress(admin, each)]) for each in in_kafka]
        places = {place for old in old_groups for place in old.places}
        ends = await offsets(admin, await existing(admin, sorted(places)), "latest")
        return told, [describe_rows(old, ends) for old in old_groups]

    found, old_rows = ask_cluster(call)
    is_old = {each.group.group_id for each in old_groups}
    missing = [each.group_id for each, rows in found if each.state == "Dead" and not rows]
    if not every:
        if absent := [each for each in missing if each not in is_old]:
            fail(f"there is no group {', '.join(absent)}", Exit.NOT_FOUND)
        found = [(each, rows) for each, rows in found if each.group_id not in missing]
    if summary:
        columns = ["group", "state", "members", "partitions", "lag", "assignor", "coordinator", *kept_in]
        rows = [{**_summary(each, partitions), **kept_in} for each, partitions in found]
        rows += [summary_row(*each) for each in zip(old_groups, old_rows, strict=True)]
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
            note(f"{each.group_id} is {each.state}, has {format_count(len(each.members), 'member')} and no partitions")


def _summary(described: GroupDescription, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    return {**_name_group(described.to_dict()), "members": len(described.members), **partition_totals(partitions)}


@group.command(short_help="Show members and the partitions that they own.")
@named_argument("groups", "--group", nargs=-1, required=True)
@bootstrap_option
@output_option()
def members(groups: tuple[str, ...], output: str) -> None:
    """Show the members of GROUPS and the partitions that each one owns."""

    async def call(admin: Admin) -> list[GroupDescription]:
        return list((await admin.describe_groups(groups)).values())

    found = ask_cluster(call)
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


@group.command("reset-offsets", short_help="Move a group without members to other offsets.")
@named_argument("group_id", "--group", metavar="GROUP")
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
        plan = await _plan(admin, group_id, target, selected)
        if execute:
            await execute_plan(admin, group_id, plan)
        return plan

    rows = ask_cluster(call)
    columns = ["group", "topic", "partition", "committed_offset", "new_offset"]
    if rows or output not in ("table", "wide"):
        write_rows(rows, output, columns=columns, name=partition_name)
    note(
        f"{format_count(len(rows), 'offset')} of {group_id} {'changed' if execute else 'would be changed; --execute does it'}"
    )


def _refuse_members(described: GroupDescription) -> None:
    """End the command when the group has members."""
    try:
        require_no_members(described)
    except HasMembersError as problem:
        fail(str(problem))


async def _plan(admin: Admin, group_id: str, target: Target, selected: Topics) -> list[dict[str, Any]]:
    """Return the `reset_plan`. Missing partitions, and members of the group, end the command."""
    _refuse_members((await admin.describe_groups([group_id]))[group_id])
    try:
        return await reset_plan(
            admin, group_id, target, selected, lambda described: selected_partitions(described, selected)
        )
    except NothingThereError as problem:
        fail(str(problem), Exit.NOT_FOUND)


@group.command("delete-offsets", short_help="Delete a group's committed offsets of topics.")
@named_argument("group_id", "--group", metavar="GROUP")
@_topic_option
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@output_option()
def delete_offsets(group_id: str, topics: tuple[str, ...], dry_run: bool, yes: bool, output: str) -> None:
    """Delete the offsets that GROUP has committed for topics to which none of its members is subscribed.

    Asks first; a script must give --yes. Shows the offsets that there were.
    """
    selected = parse_topics(topics, "--topic")
    if not selected:
        raise click.UsageError("give --topic")

    async def find_committed(admin: Admin) -> list[dict[str, Any]]:
        committed = await admin.list_group_offsets(group_id)
        return [
            {"group": group_id, **each._asdict(), "committed_offset": committed_offset(position)}
            for each, position in committed.items()
            if is_selected(each, selected)
        ]

    rows = ask_cluster(find_committed)
    if not rows:
        fail(f"group {group_id} has committed nothing for {', '.join(topics)}", Exit.NOT_FOUND)
    if not dry_run:
        confirm(f"Delete the offsets of {group_id} for {', '.join(map(partition_name, rows))}?", yes)
        partitions = [TopicPartition(row["topic"], row["partition"]) for row in rows]
        ask_cluster(lambda admin: admin.delete_group_offsets(group_id, partitions))
    write_rows(rows, output, columns=["group", "topic", "partition", "committed_offset"], name=partition_name)
    note(f"{format_count(len(rows), 'offset')} of {group_id} {'would be ' if dry_run else ''}deleted")


@group.command(short_help="Delete groups without members, with their offsets.")
@named_argument("groups", "--group", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
def delete(groups: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete GROUPS, which must have no members, and all that they have committed."""
    if dry_run:

        async def check(admin: Admin) -> None:
            for each in (await admin.describe_groups(groups)).values():
                if each.state == "Dead":
                    fail(f"there is no group {each.group_id}", Exit.NOT_FOUND)
                _refuse_members(each)
                committed = await admin.list_group_offsets(each.group_id)
                note(f"{each.group_id} with {format_count(len(committed), 'committed offset')} would be deleted")

        ask_cluster(check)
        return
    confirm(f"Delete {', '.join(groups)} and what they have committed?", yes)

    async def call(admin: Admin) -> None:
        await admin.delete_groups(groups)

    ask_cluster(call)
    note(f"{', '.join(groups)} deleted")
