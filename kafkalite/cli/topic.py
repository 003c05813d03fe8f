"""`kafkalite topic create|list|describe|delete`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.admin_call import ask_topics
from kafkalite.cli.calls import bootstrap_option, given_timeout_s, refuse
from kafkalite.cli.config.values import plain_setting
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.kafka_words.options import named_argument
from kafkalite.cli.output import Exit, format_count, note, output_option, write_rows
from kafkalite.cli.visibility import until_seen
from kafkalite.errors import ErrorCode
from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.client import CreatedTopic, TopicDescription
    from kafkalite.client.admin.topics import TopicAdmin
    from kafkalite.client.cluster.view import PartitionView
    from kafkalite.client.errors import ClientError


@click.group()
def topic() -> None:
    """Create, list, describe and delete topics."""


def _pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = {}
    for each in values:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{each!r} is not key=value", param_hint=option)
        pairs[key] = plain_setting(key, value, option)
    return pairs


def _assignment(text: str | None) -> dict[int, list[int]] | None:
    """Return the replicas by partition of "101:102,102:103": one item per partition, replicas separated by colons, as in Kafka's tools."""
    if text is None:
        return None
    try:
        return {number: [int(each) for each in item.split(":")] for number, item in enumerate(text.split(","))}
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 101:102,102:103", param_hint="--replica-assignment") from None


@topic.command()
@named_argument("names", "--topic", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=int, default=-1, help="Number of partitions; the brokers' default if not given."
)
@click.option("-r", "--replication-factor", type=int, default=-1, help="Replicas of each partition; likewise.")
@click.option(
    "--replica-assignment", metavar="B:B,B:B", help="Replicas of each partition in order, instead of the two above."
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the topic; 7d and 64MiB are values.",
)
@click.option("--if-not-exists", is_flag=True, help="It is no error when the topic is there already.")
@click.option("--dry-run", "--validate-only", "dry_run", is_flag=True, help="Only check that it could be created.")
@click.option("--wait", is_flag=True, help="Until every broker knows of them, for --timeout seconds at most.")
@bootstrap_option
@output_option()
def create(
    names: tuple[str, ...],
    partitions: int,
    replication_factor: int,
    replica_assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    wait: bool,
    output: str,
) -> None:
    """Create topics. Those that can be are created, also when others cannot."""
    settings = _pairs(configs, "--config")
    replicas = _assignment(replica_assignment)

    async def call(admin: TopicAdmin) -> tuple[list[CreatedTopic], dict[str, ClientError]]:
        from kafkalite.client import AdminError, NewTopic

        wanted = [NewTopic(name, partitions, replication_factor, replicas, settings) for name in dict.fromkeys(names)]
        failures: dict[str, ClientError] = {}
        try:
            created = await admin.create_topics(wanted, validate_only=dry_run)
        except AdminError as problem:
            created, failures = list(problem.done.values()), problem.failures
        if wait and created and not dry_run:
            await until_seen(admin, {each.name: max(1, each.num_partitions) for each in created}, given_timeout_s())
        return created, failures

    created, failures = ask_topics(call)
    if if_not_exists:
        failures = _excuse(failures, ErrorCode.TOPIC_ALREADY_EXISTS, "exists already")
    rows = [each.to_dict() for each in created]
    columns = ["name", "num_partitions", "replication_factor"]
    if rows or (not failures and output not in ("table", "wide")):
        write_rows(rows, output, columns=columns, wide=["topic_id"], name="name")
    if failures:
        refuse(failures)


def _excuse(failures: dict[str, ClientError], code: ErrorCode, text: str) -> dict[str, ClientError]:
    """Return the failures without those of a code, whose topics are noted with a text."""
    left = {name: error for name, error in failures.items() if error.code is not code}
    for name in failures.keys() - left.keys():
        note(f"topic {name} {text}")
    return left


@topic.command("list")
@click.option("--internal", is_flag=True, help="Also internal topics.")
@bootstrap_option
@output_option("name")
def list_(internal: bool, output: str) -> None:
    """List topics."""
    described = [each for each in _describe_topics() if internal or not each.is_internal]
    rows = [
        {
            "name": each.name,
            "partitions": len(each.partitions),
            "replication_factor": each.replication_factor,
            "topic_id": each.topic_id,
            "is_internal": each.is_internal,
        }
        for each in described
    ]
    columns = ["name", "partitions", "replication_factor"]
    write_rows(rows, output, columns=columns, wide=["topic_id", "is_internal"], name="name")


def _describe_topics(names: tuple[str, ...] | None = None) -> list[TopicDescription]:
    return ask_topics(lambda admin: admin.describe_topics(names))


def partition_rows(described: list[TopicDescription]) -> list[dict[str, Any]]:
    """Return one row per partition."""
    return [
        {"topic": each.name, **_partition_fields(partition), "topic_id": each.topic_id}
        for each in described
        for partition in each.partitions
    ]


def _partition_fields(partition: PartitionView) -> dict[str, Any]:
    if partition.leader == NO_BROKER:
        state = "unavailable"
    else:
        state = "under-replicated" if partition.under_replicated else "ok"
    return {**partition.to_dict(), "state": state}


PARTITION_COLUMNS = ("topic", "partition", "leader", "replicas", "isr")


@topic.command(short_help="Show partitions, leaders and replicas.")
@named_argument("names", "--topic", nargs=-1)
@click.option("--under-replicated", is_flag=True, help="Only partitions with replicas that are not in sync.")
@click.option("--unavailable", is_flag=True, help="Only partitions without a leader.")
@click.option(
    "--check",
    is_flag=True,
    help="Exit with 7 when there are such partitions; without the two above: when there are under-replicated ones.",
)
@bootstrap_option
@output_option()
def describe(names: tuple[str, ...], under_replicated: bool, unavailable: bool, check: bool, output: str) -> None:
    """Show partitions, leaders and replicas of topics; of all topics when none is named."""
    described = _describe_topics(names or None)
    if under_replicated or unavailable or check:
        described = _select_unwell(described, only_unavailable=unavailable and not under_replicated)
    if output in ("json", "yaml", "jsonl", "name"):
        rows = [
            {**each.to_dict(), "partitions": [_partition_fields(partition) for partition in each.partitions]}
            for each in described
        ]
        write_rows(rows, output, columns=[], name="name")
    else:
        columns = [*PARTITION_COLUMNS, "offline_replicas", "state"]
        write_rows(partition_rows(described), output, columns=columns, wide=["leader_epoch", "topic_id"], name="topic")
    if check and described:
        raise SystemExit(int(Exit.CHECK_FAILED))


def _select_unwell(described: list[TopicDescription], *, only_unavailable: bool) -> list[TopicDescription]:
    """Return the topics with those of their partitions that have problems; topics without such partitions are left out."""
    found = []
    for each in described:
        partitions = tuple(
            partition
            for partition in each.partitions
            if partition.leader == NO_BROKER or (partition.under_replicated and not only_unavailable)
        )
        if partitions:
            found.append(replace(each, partitions=partitions))
    return found


@topic.command()
@named_argument("names", "--topic", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="It is no error when the topic is not there.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Until no broker knows of them any more, for --timeout seconds at most.")
@bootstrap_option
def delete(names: tuple[str, ...], if_exists: bool, dry_run: bool, yes: bool, wait: bool) -> None:
    """Delete topics with all their records. Asks first; a script must give --yes."""
    if dry_run:
        for each in _describe_topics(names):
            note(f"{each.name} with {format_count(len(each.partitions), 'partition')} would be deleted")
        return
    confirm(f"Delete {', '.join(names)} with all records?", yes)

    async def call(admin: TopicAdmin) -> dict[str, ClientError]:
        from kafkalite.client import AdminError

        failures: dict[str, ClientError] = {}
        try:
            await admin.delete_topics(names)
        except AdminError as problem:
            failures = problem.failures
        done = set(names) - failures.keys()
        if wait and done:
            await until_seen(admin, dict.fromkeys(done, 0), given_timeout_s())
        return failures

    failures = ask_topics(call)
    deleted = [name for name in dict.fromkeys(names) if name not in failures]
    if deleted:
        note(f"deleted {', '.join(deleted)}")
    if if_exists:
        failures = _excuse(failures, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "is not there")
    if failures:
        refuse(failures)
