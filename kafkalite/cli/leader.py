"""`kafkalite leader elect`: move leadership back to the preferred replicas, or give partitions a leader at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option, refuse
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.output import note, output_option, partition_name, write_rows
from kafkalite.cli.partition.selection import parse_partition, require_partitions
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, TopicDescription
    from kafkalite.client.errors import ClientError


@click.group()
def leader() -> None:
    """Elect leaders of partitions."""


@leader.command(short_help="Elect preferred leaders, or unclean ones.")
@click.argument("partitions", nargs=-1, metavar="[TOPIC-N]...")
@click.option("--all", "every", is_flag=True, help="Wherever an election is needed.")
@click.option(
    "--unclean", is_flag=True, help="Any replica that lives, for partitions without a leader: may lose records."
)
@click.option("--dry-run", is_flag=True, help="Only show where an election would be tried.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an unclean election.")
@bootstrap_option
@output_option()
def elect(partitions: tuple[str, ...], every: bool, unclean: bool, dry_run: bool, yes: bool, output: str) -> None:
    """Make the preferred replica (the first one) of partitions their leader; with --unclean, any replica that lives.

    Shows for each partition whether it got a new leader.
    """
    if every == bool(partitions):
        raise click.UsageError("name partitions, or give --all")
    wanted = [parse_partition(each) for each in partitions] or None
    if dry_run:
        topics = None if wanted is None else sorted({each.topic for each in wanted})
        described = ask_cluster(lambda admin: admin.describe_topics(topics))
        require_partitions(wanted or [], described)
        rows = _candidates(described, wanted, unclean)
        columns = ["topic", "partition", "leader", "preferred_leader", "isr"]
        write_rows(rows, output, columns=columns, name=partition_name)
        return
    if unclean:
        confirm("An unclean election loses the records that the new leader does not have. Go on?", yes)

    async def call(admin: Admin) -> tuple[dict[TopicPartition, bool], dict[str, ClientError]]:
        from kafkalite.client import AdminError

        try:
            return await admin.elect_leaders("unclean" if unclean else "preferred", wanted), {}
        except AdminError as problem:
            return dict(problem.done.values()), problem.failures

    found, failures = ask_cluster(call)
    results = [{**each._asdict(), "elected": elected} for each, elected in sorted(found.items())]
    if results or (not failures and output not in ("table", "wide")):
        write_rows(results, output, columns=["topic", "partition", "elected"], name=partition_name)
    elif not failures:
        note("no election was needed")
    if failures:
        refuse(failures)


def _candidates(
    described: list[TopicDescription], wanted: list[TopicPartition] | None, unclean: bool
) -> list[dict[str, Any]]:
    """Return the partitions without the leader that the election would give them."""
    rows = []
    for topic in described:
        for each in topic.partitions:
            preferred = each.replicas[0] if each.replicas else NO_BROKER
            if wanted is not None and TopicPartition(topic.name, each.partition) not in wanted:
                continue
            if each.leader == NO_BROKER if unclean else each.leader != preferred:
                row = {"topic": topic.name, "partition": each.partition, "leader": each.leader}
                rows.append({**row, "preferred_leader": preferred, "isr": list(each.isr)})
    return rows
