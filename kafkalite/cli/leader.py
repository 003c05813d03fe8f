"""`kafkalite leader elect`: give partitions their preferred leaders back, or a leader at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.calls import admin_options, bootstrap_option, run
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.output import note, output_option, write_rows
from kafkalite.cli.partition import parse_partition
from kafkalite.types import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.admin import TopicDescription


@click.group()
def leader() -> None:
    """Elect leaders of partitions."""


@leader.command()
@click.argument("partitions", nargs=-1, metavar="[TOPIC-N]...")
@click.option("--all", "every", is_flag=True, help="Wherever an election is needed.")
@click.option(
    "--unclean", is_flag=True, help="Any replica that lives, for partitions without a leader: may lose records."
)
@click.option("--dry-run", is_flag=True, help="Only show where an election would be tried.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an unclean election.")
@bootstrap_option
@output_option()
def elect(
    partitions: tuple[str, ...],
    every: bool,
    unclean: bool,
    dry_run: bool,
    yes: bool,
    bootstrap_server: str,
    timeout: float,
    output: str,
) -> None:
    """Make the preferred replica (the first one) of partitions their leader; with --unclean, any replica that lives.

    Shows for each partition whether it got a new leader.
    """
    if every == bool(partitions):
        raise click.UsageError("name partitions, or give --all")
    wanted = [parse_partition(each) for each in partitions] or None
    if dry_run:
        rows = _candidates(run(_described(wanted, bootstrap_server, timeout)), wanted, unclean)
        columns = ["topic", "partition", "leader", "preferred_leader", "isr"]
        write_rows(rows, output, columns=columns, name="topic")
        return
    if unclean:
        confirm("An unclean election loses the records that the new leader does not have. Go on?", yes)

    async def call() -> dict[TopicPartition, bool]:
        from kafkalite.client.admin import Admin

        async with Admin(**admin_options(bootstrap_server, timeout)) as admin:
            return await admin.elect_leaders("unclean" if unclean else "preferred", wanted)

    results = [{**each._asdict(), "elected": elected} for each, elected in sorted(run(call()).items())]
    if results or output not in ("table", "wide"):
        write_rows(results, output, columns=["topic", "partition", "elected"], name="topic")
    else:
        note("no election was needed")


async def _described(
    wanted: list[TopicPartition] | None, bootstrap_server: str, timeout: float
) -> list[TopicDescription]:
    from kafkalite.client.admin import Admin

    async with Admin(**admin_options(bootstrap_server, timeout)) as admin:
        return await admin.describe_topics(None if wanted is None else sorted({each.topic for each in wanted}))


def _candidates(
    described: list[TopicDescription], wanted: list[TopicPartition] | None, unclean: bool
) -> list[dict[str, Any]]:
    """The partitions that are not led as they should be."""
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
