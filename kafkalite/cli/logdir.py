"""`kafkalite logdir list|describe|move`: the brokers' log directories, the replicas in them, and moves between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option, given_timeout_s
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.output import Exit, fail, format_count, note, output_option, partition_name, write_rows
from kafkalite.cli.partition.selection import parse_partition, parse_topics, require_partitions, selected_partitions
from kafkalite.cli.progress import wait_until_done
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, LogDir

Found = Mapping[int, "tuple[LogDir, ...]"]


@click.group()
def logdir() -> None:
    """The brokers' log directories, online; `log` inspects files, offline."""


_broker_option = click.option("--broker", "brokers", type=int, multiple=True, help="Only this one; may be repeated.")


@logdir.command("list", short_help="List log directories with their sizes and free space.")
@_broker_option
@click.option("--check", is_flag=True, help="Exit with 7 when a directory has failed.")
@bootstrap_option
@output_option()
def list_(brokers: tuple[int, ...], check: bool, output: str) -> None:
    """List the log directories with their replicas, bytes, and the free space of their disks."""
    found = ask_cluster(lambda admin: admin.describe_log_dirs(brokers or None))
    rows = [_directory_row(each) for directories in found.values() for each in directories]
    columns = ["broker", "path", "state", "replicas", "size_bytes", "usable_bytes", "total_bytes"]
    write_rows(rows, output, columns=columns, name="path")
    if check and any(row["state"] != "online" for row in rows):
        raise SystemExit(int(Exit.CHECK_FAILED))


def _directory_row(directory: LogDir) -> dict[str, Any]:
    return {
        "broker": directory.broker,
        "path": directory.path,
        "state": directory.error or "online",
        "replicas": len(directory.replicas),
        "size_bytes": sum(each.size_bytes for each in directory.replicas),
        "usable_bytes": directory.usable_bytes if directory.usable_bytes >= 0 else None,
        "total_bytes": directory.total_bytes if directory.total_bytes >= 0 else None,
    }


@logdir.command(short_help="Show replicas with their directories, and moves.")
@click.argument("topics", nargs=-1, metavar="[TOPIC[:N,N]]...")
@_broker_option
@bootstrap_option
@output_option()
def describe(topics: tuple[str, ...], brokers: tuple[int, ...], output: str) -> None:
    """Show the replicas of TOPICS (default: all) with the directories that they lie in, and those that are being moved."""
    selected = parse_topics(topics, "TOPIC")

    async def call(admin: Admin) -> Found:
        if not selected:
            return await admin.describe_log_dirs(brokers or None)
        described = await admin.describe_topics(sorted(selected))
        wanted = selected_partitions(described, selected)
        require_partitions(wanted, described)
        return await admin.describe_log_dirs(brokers or None, wanted)

    rows = replica_rows(ask_cluster(call))
    columns = ["topic", "partition", "broker", "path", "size_bytes", "offset_lag", "is_future"]
    write_rows(rows, output, columns=columns, name=partition_name)


def replica_rows(found: Found) -> list[dict[str, Any]]:
    """Return a row for each replica, those of a partition together."""
    rows = [
        {"broker": directory.broker, "path": directory.path, **replica.to_dict()}
        for directories in found.values()
        for directory in directories
        for replica in directory.replicas
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["broker"], row["is_future"]))


@logdir.command(short_help="Move replicas to another log directory of a broker.")
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC-N...")
@click.option("--broker", type=int, required=True, help="The broker whose replicas are moved.")
@click.option("--to", "path", required=True, metavar="PATH", help="One of the broker's log.dirs.")
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Until all is moved, for --timeout seconds at most.")
@bootstrap_option
@output_option()
def move(
    partitions: tuple[str, ...], broker: int, path: str, dry_run: bool, yes: bool, wait: bool, output: str
) -> None:
    """Move a broker's replicas of PARTITIONS to another of its log directories.

    The replica serves on while it is copied. Asks first; a script must give --yes.
    """
    wanted = [parse_partition(each) for each in partitions]
    rows = ask_cluster(lambda admin: _plan(admin, wanted, broker, path))
    if not dry_run:
        confirm(f"Move {format_count(len(rows), 'replica')} of broker {broker} to {path}?", yes)

        async def call(admin: Admin) -> None:
            from kafkalite.client import TopicPartitionReplica

            await admin.alter_replica_log_dirs({TopicPartitionReplica(*each, broker): path for each in wanted})
            if wait:
                await _until_moved(admin, wanted, broker, path, given_timeout_s())

        ask_cluster(call)
    columns = ["topic", "partition", "broker", "path", "target", "size_bytes"]
    write_rows(rows, output, columns=columns, name=partition_name)
    note(f"{format_count(len(rows), 'move')} {'could begin' if dry_run else 'done' if wait else 'begun'}")


async def _plan(admin: Admin, wanted: Iterable[TopicPartition], broker: int, path: str) -> list[dict[str, Any]]:
    """Return the present directories of the replicas. An unknown replica or directory ends the command."""
    directories = (await admin.describe_log_dirs([broker]))[broker]
    if path not in {each.path for each in directories}:
        known = ", ".join(each.path for each in directories)
        fail(f"broker {broker} has no log directory {path}; there are {known}", Exit.NOT_FOUND)
    current = {
        replica.topic_partition: (directory.path, replica.size_bytes)
        for directory in directories
        for replica in directory.replicas
        if not replica.is_future
    }
    rows = []
    for each in wanted:
        if each not in current:
            fail(f"broker {broker} has no replica of {each}", Exit.NOT_FOUND)
        where, size_bytes = current[each]
        rows.append({**each._asdict(), "broker": broker, "path": where, "target": path, "size_bytes": size_bytes})
    return rows


async def _until_moved(admin: Admin, wanted: list[TopicPartition], broker: int, path: str, timeout_s: float) -> None:
    async def find_remaining() -> list[str]:
        directories = (await admin.describe_log_dirs([broker], wanted))[broker]
        there = {
            replica.topic_partition
            for directory in directories
            if directory.path == path
            for replica in directory.replicas
            if not replica.is_future
        }
        return [str(each) for each in wanted if each not in there]

    await wait_until_done("moving replicas", [str(each) for each in wanted], find_remaining, timeout_s)
