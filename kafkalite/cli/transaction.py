"""`kafkalite transaction list|describe|find-hanging|abort`: list and describe transactions, abort hanging ones (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkalite.administration.group_offsets import partitions_of
from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.kafka_words.options import named_argument
from kafkalite.cli.output import Exit, fail, note, output_option, partition_name, write_rows
from kafkalite.cli.partition.selection import parse_partition
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, HangingTransaction, ProducerState

_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
_MINUTE_MS = 60_000


@click.group()
def transaction() -> None:
    """Show transactions; find and abort hanging ones."""


@transaction.command("list", short_help="List transactional ids, states and coordinators.")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(_STATES, case_sensitive=False), help="Only in this state."
)
@click.option("--longer-than", "seconds", type=click.FloatRange(min=0), help="Only open for longer, in seconds.")
@bootstrap_option
@output_option()
def list_(states: tuple[str, ...], seconds: float | None, output: str) -> None:
    """List transactional ids, their states, producers and coordinators."""
    duration_ms = None if seconds is None else int(seconds * 1000)

    async def call(admin: Admin) -> list[dict[str, Any]]:
        return [each.to_dict() for each in await admin.list_transactions(states, duration_ms=duration_ms)]

    columns = ["transactional_id", "state", "producer_id", "coordinator"]
    write_rows(ask_cluster(call), output, columns=columns, name="transactional_id")


@transaction.command(short_help="Show transactions with their partitions.")
@named_argument("transactional_ids", "--transactional-id", nargs=-1, required=True)
@bootstrap_option
@output_option()
def describe(transactional_ids: tuple[str, ...], output: str) -> None:
    """Show what TRANSACTIONAL_IDS are doing, and the partitions that wait for the end of a transaction."""

    async def call(admin: Admin) -> list[dict[str, Any]]:
        return [each.to_dict() for each in (await admin.describe_transactions(transactional_ids)).values()]

    columns = [
        "transactional_id",
        "state",
        "producer_id",
        "producer_epoch",
        "timeout_ms",
        "start_time_ms",
        "partitions",
    ]
    rows = ask_cluster(call)
    write_rows(rows, output, columns=columns, wide=["coordinator"], name="transactional_id")


@transaction.command("find-hanging", short_help="Find transactions that no coordinator will end.")
@click.argument("topics", nargs=-1)
@click.option("--all", "every", is_flag=True, help="In all topics.")
@click.option("--broker", type=int, help="Ask this replica, not the leaders.")
@click.option(
    "--longest",
    "minutes",
    type=click.IntRange(min=0),
    default=15,
    show_default=True,
    help="How long a transaction may take, in minutes: the brokers' transaction.max.timeout.ms.",
)
@click.option("--check", is_flag=True, help="The exit code is 7 when there are some.")
@bootstrap_option
@output_option()
def find_hanging(
    topics: tuple[str, ...], every: bool, broker: int | None, minutes: int, check: bool, output: str
) -> None:
    """Show transactions in TOPICS that no coordinator will ever end: consumers of committed records wait there forever."""
    if every == bool(topics):
        raise click.UsageError("name topics, or give --all")

    async def call(admin: Admin) -> list[HangingTransaction]:
        names = await admin.list_topics(include_internal=True) if every else list(topics)
        described = await admin.describe_topics(names)
        wanted = [
            TopicPartition(topic.name, each.partition)
            for topic in described
            for each in topic.partitions
            if broker is None or broker in each.replicas
        ]
        return await admin.find_hanging_transactions(wanted, broker=broker, longest_transaction_ms=minutes * _MINUTE_MS)

    found = ask_cluster(call)
    columns = ["topic", "partition", "transaction_start_offset", "producer_id", "producer_epoch", "last_timestamp"]
    rows = [each.to_dict() for each in found]
    write_rows(rows, output, columns=columns, wide=["coordinator_epoch", "last_sequence"], name=partition_name)
    if check and found:
        raise SystemExit(int(Exit.CHECK_FAILED))


@transaction.command(short_help="Abort a hanging transaction in one partition.")
@click.argument("partition", metavar="TOPIC-N")
@click.option("--start-offset", type=int, required=True, help="Where the transaction begins, as find-hanging shows it.")
@click.option("--dry-run", is_flag=True, help="Only show which transaction would be aborted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@output_option()
def abort(partition: str, start_offset: int, dry_run: bool, yes: bool, output: str) -> None:
    """Abort a transaction that hangs in one partition, whatever its coordinator knows."""
    place = parse_partition(partition)

    async def find(admin: Admin) -> ProducerState | None:
        if place not in partitions_of(await admin.describe_topics([place.topic])):
            fail(f"there is no partition {place}", Exit.NOT_FOUND)
        known = (await admin.describe_producers([place]))[place]
        return next((each for each in known if each.transaction_start_offset == start_offset), None)

    found = ask_cluster(find)
    if found is None:
        fail(f"no transaction begins at offset {start_offset} of {place}", Exit.NOT_FOUND)
    row = {**place._asdict(), **found.to_dict()}
    columns = ["topic", "partition", "transaction_start_offset", "producer_id", "producer_epoch", "last_timestamp"]
    if not dry_run:
        confirm("Of a transaction that its coordinator knows this makes a half. Go on?", yes)
        ask_cluster(lambda admin: admin.abort_transaction(place, found))
    write_rows([row], output, columns=columns, wide=["coordinator_epoch", "last_sequence"], name=partition_name)
    if not dry_run:
        note("aborted")
