"""`kafkalite partition add|set-replication-factor|reassign`: more partitions, more replicas, and the brokers that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option, given_timeout_s
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.output import format_count, note, output_option, partition_name, write_rows
from kafkalite.cli.partition.moves import PLAN_COLUMNS, Assignment, Execution, assignment_of, plan_rows
from kafkalite.cli.partition.reassign import reassign
from kafkalite.cli.partition.selection import parse_brokers
from kafkalite.cli.visibility import until_seen
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin


@click.group()
def partition() -> None:
    """Add partitions, change how many replicas they have, move them to other brokers."""


partition.add_command(reassign)


@partition.command()
@click.argument("topic")
@click.argument("total", type=click.IntRange(1))
@click.option("--replica-assignment", metavar="B:B,B:B", help="Replicas of each new partition, in order.")
@click.option("--dry-run", is_flag=True, help="Only check that it could be done.")
@click.option("--wait", is_flag=True, help="Until every broker knows of them, for --timeout seconds at most.")
@bootstrap_option
def add(topic: str, total: int, replica_assignment: str | None, dry_run: bool, wait: bool) -> None:
    """Give TOPIC more partitions, TOTAL in all. Keys go to other partitions from then on."""
    replicas = None
    if replica_assignment is not None:
        replicas = [parse_brokers(each, ":") for each in replica_assignment.split(",")]

    async def call(admin: Admin) -> None:
        from kafkalite.client import NewPartitions

        await admin.create_partitions({topic: NewPartitions(total, replicas)}, validate_only=dry_run)
        if wait and not dry_run:
            await until_seen(admin, {topic: total}, given_timeout_s())

    ask_cluster(call)
    note(f"{topic} {'could have' if dry_run else 'has'} {format_count(total, 'partition')}")


@partition.command("set-replication-factor")
@click.argument("topics", nargs=-1, required=True)
@click.option("-r", "--replication-factor", type=click.IntRange(1), required=True, help="Replicas of each partition.")
@click.option(
    "--throttle", type=click.IntRange(1), metavar="BYTES", help="Bytes a second from and to each broker, at most."
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Until all is moved, for --timeout seconds at most.")
@bootstrap_option
@output_option()
def set_replication_factor(
    topics: tuple[str, ...],
    replication_factor: int,
    throttle: int | None,
    dry_run: bool,
    yes: bool,
    wait: bool,
    output: str,
) -> None:
    """Give every partition of TOPICS so many replicas.

    New ones come to the brokers with the fewest replicas, in racks that have none; preferred leaders stay. Asks first; a script must
    give --yes.
    """
    from kafkalite.cli.partition.plan import with_replication_factor

    async def make_plan(admin: Admin) -> tuple[Assignment, Assignment]:
        named = await admin.describe_topics(topics)
        nodes = (await admin.describe_cluster()).brokers
        described = await admin.describe_topics()
        in_sync = {TopicPartition(each.topic, each.partition): each.isr for topic in named for each in topic.partitions}
        racks = {node.id: node.rack for node in nodes if node.rack is not None}
        current = assignment_of(described)
        brokers = [node.id for node in nodes]
        targets = with_replication_factor(current, list(in_sync), replication_factor, brokers, racks, in_sync)
        return current, {each: target for each, target in targets.items() if target != current[each]}

    current, targets = ask_cluster(make_plan)
    rows = plan_rows(current, targets)
    if targets and not dry_run:
        confirm(f"Change the replicas of {format_count(len(rows), 'partition')} of {', '.join(topics)}?", yes)
        execution = Execution(throttle, given_timeout_s() if wait else None)
        ask_cluster(lambda admin: execution.run(admin, current, targets))
    write_rows(rows, output, columns=PLAN_COLUMNS, name=partition_name)
    if targets and not dry_run:
        note(execution.summary_text(len(rows)))
    else:
        note(
            f"{format_count(len(rows), 'partition')} would change"
            if rows
            else f"all have {replication_factor} replicas already"
        )
