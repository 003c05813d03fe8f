"""`kafkalite partition add|reassign|list`: more partitions, and the brokers that hold them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.calls import admin_options, bootstrap_option, run
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.output import Exit, fail, note, output_option, write_rows
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.admin import Admin, TopicDescription

Targets = Mapping[TopicPartition, tuple[int, ...] | None]

_POLL_S = 0.2


@click.group()
def partition() -> None:
    """Add partitions, move them to other brokers, see what is being moved."""


def parse_partition(text: str) -> TopicPartition:
    """ "topic-3" as a partition. BadParameter."""
    topic, dash, number = text.rpartition("-")
    if not topic or not dash or not number.isdecimal():
        raise click.BadParameter(f"{text!r} is not like topic-3")
    return TopicPartition(topic, int(number))


@partition.command()
@click.argument("topic")
@click.argument("total", type=click.IntRange(1))
@click.option("--replica-assignment", metavar="B:B,B:B", help="Replicas of each new partition, in order.")
@click.option("--dry-run", is_flag=True, help="Only check that it could be done.")
@bootstrap_option
def add(
    topic: str, total: int, replica_assignment: str | None, dry_run: bool, bootstrap_server: str, timeout: float
) -> None:
    """Give TOPIC more partitions, TOTAL in all. Keys go to other partitions from then on."""
    from kafkalite.client.admin import Admin, NewPartitions

    replicas = None
    if replica_assignment is not None:
        replicas = [_brokers(each, ":") for each in replica_assignment.split(",")]

    async def call() -> None:
        async with Admin(**admin_options(bootstrap_server, timeout)) as admin:
            await admin.create_partitions({topic: NewPartitions(total, replicas)}, validate_only=dry_run)

    run(call())
    note(f"{topic} {'could have' if dry_run else 'has'} {total} partitions")


def _brokers(text: str, separator: str = ",") -> tuple[int, ...]:
    try:
        return tuple(int(each) for each in text.split(separator))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of broker ids") from None


@partition.command("list")
@click.argument("partitions", nargs=-1)
@bootstrap_option
@output_option()
def list_(partitions: tuple[str, ...], bootstrap_server: str, timeout: float, output: str) -> None:
    """Show the partitions (TOPIC-N; default: all) whose replicas are being moved."""
    from kafkalite.client.admin import Admin, PartitionReassignment

    wanted = [parse_partition(each) for each in partitions] or None

    async def call() -> dict[TopicPartition, PartitionReassignment]:
        async with Admin(**admin_options(bootstrap_server, timeout)) as admin:
            return await admin.list_partition_reassignments(wanted)

    rows = [each.to_dict() for each in run(call()).values()]
    columns = ["topic", "partition", "replicas", "adding_replicas", "removing_replicas"]
    if rows or output not in ("table", "wide"):
        write_rows(rows, output, columns=columns, name="topic")
    else:
        note("nothing is being moved")


@partition.command()
@click.argument("moves", nargs=-1, metavar="[TOPIC-N=B,B,B]...")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Moves as JSON, in the form of Kafka\'s tools: {"partitions": [{"topic": …, "partition": …, "replicas": […]}]}.',
)
@click.option("--cancel", is_flag=True, help="Stop the moves of the named partitions (TOPIC-N) and undo them.")
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Until all is moved, for --timeout seconds at most.")
@bootstrap_option
@output_option()
def reassign(
    moves: tuple[str, ...],
    file: Path | None,
    cancel: bool,
    dry_run: bool,
    yes: bool,
    wait: bool,
    bootstrap_server: str,
    timeout: float,
    output: str,
) -> None:
    """Move partitions to other brokers: the first one named is the preferred leader.

    Shows what changes, asks (--yes for scripts), and begins the moves; `partition list` shows those that go on.
    """
    targets = _targets(moves, file, cancel)

    async def described() -> list[TopicDescription]:
        from kafkalite.client.admin import Admin

        async with Admin(**admin_options(bootstrap_server, timeout)) as admin:
            cluster = await admin.describe_cluster()
            known = {broker.id for broker in cluster.brokers}
            unknown = {broker for target in targets.values() for broker in target or ()} - known
            if unknown:
                fail(f"no such brokers: {', '.join(map(str, sorted(unknown)))}", Exit.NOT_FOUND)
            return await admin.describe_topics(sorted({each.topic for each in targets}))

    rows = _plan(run(described()), targets)
    columns = ["topic", "partition", "replicas", "target", "adding", "removing"]
    write_rows(rows, output, columns=columns, name="topic")
    if dry_run:
        return
    confirm(f"{'Cancel' if cancel else 'Begin'} {len(rows)} moves?", yes)

    async def call() -> None:
        from kafkalite.client.admin import Admin

        async with Admin(**admin_options(bootstrap_server, timeout)) as admin:
            await admin.alter_partition_reassignments(targets)
            if wait:
                await _until_moved(admin, targets, timeout)

    run(call())
    note(f"{len(rows)} moves {'cancelled' if cancel else 'done' if wait else 'begun'}")


def _targets(moves: tuple[str, ...], file: Path | None, cancel: bool) -> Targets:
    found: dict[TopicPartition, tuple[int, ...] | None] = _from_file(file) if file is not None else {}
    for move in moves:
        name, equals, brokers = move.partition("=")
        if bool(equals) == cancel:
            raise click.BadParameter(f"{move!r} is not like {'topic-3' if cancel else 'topic-3=101,102,103'}")
        found[parse_partition(name)] = None if cancel else _brokers(brokers)
    if not found:
        raise click.UsageError("name what is to be moved, or give --file")
    return dict.fromkeys(found) if cancel else found


def _from_file(file: Path) -> dict[TopicPartition, tuple[int, ...] | None]:
    try:
        partitions = json.loads(file.read_text())["partitions"]
        return {
            TopicPartition(str(each["topic"]), int(each["partition"])): tuple(map(int, each["replicas"]))
            for each in partitions
        }
    except (KeyError, TypeError, ValueError) as problem:
        raise click.BadParameter(f"{file} has no moves in Kafka's form: {problem!r}", param_hint="--file") from None


def _plan(described: list[TopicDescription], targets: Targets) -> list[dict[str, Any]]:
    """What each move changes. Ends the command for partitions that do not exist."""
    now = {(topic.name, each.partition): each.replicas for topic in described for each in topic.partitions}
    rows = []
    for each, target in targets.items():
        if each not in now:
            fail(f"there is no partition {each}", Exit.NOT_FOUND)
        replicas = now[each]
        rows.append(
            {
                **each._asdict(),
                "replicas": list(replicas),
                "target": None if target is None else list(target),
                "adding": [broker for broker in target or () if broker not in replicas],
                "removing": [broker for broker in replicas if target is not None and broker not in target],
            }
        )
    return rows


async def _until_moved(admin: Admin, targets: Targets, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while left := await admin.list_partition_reassignments(targets):
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        fail(f"{len(left)} moves go on after {timeout_s:g} s: {', '.join(map(str, left))}", Exit.UNREACHABLE)
