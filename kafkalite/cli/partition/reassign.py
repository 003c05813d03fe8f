"""`kafkalite partition reassign plan|execute|verify|cancel|list`: move partitions to other brokers (KIP-455)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import bootstrap_option, given_timeout_s
from kafkalite.cli.confirmation import confirm
from kafkalite.cli.output import Exit, fail, format_count, note, output_option, partition_name, write_rows
from kafkalite.cli.partition.moves import (
    PLAN_COLUMNS,
    Assignment,
    Execution,
    assignment_of,
    lift_throttles,
    parse_move,
    plan_rows,
    read_moves,
    require_brokers,
    verify_moves,
    write_moves,
)
from kafkalite.cli.partition.selection import parse_brokers, parse_partition, require_partitions
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, PartitionReassignment

_file_option = click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Moves as JSON: what `plan -o json` prints, or Kafka\'s form {"partitions": [{"topic": …, "partition": …, "replicas": […]}]}.',
)
_moves_argument = click.argument("moves", nargs=-1, metavar="[TOPIC-N=B,B,B]...")


@click.group(short_help="Move partitions to other brokers.")
def reassign() -> None:
    """Move partitions to other brokers: plan, execute, verify, cancel, list."""


@reassign.command(short_help="Propose an even distribution over brokers.")
@click.argument("topics", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All topics.")
@click.option(
    "--brokers", metavar="B,B,...", help="Brokers that are to hold the partitions; all live ones if not given."
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1),
    help="Replicas of each partition; as many as now if not given.",
)
@click.option("--ignore-racks", is_flag=True, help="Do not spread replicas over racks.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the plan to a file, in the form of Kafka's tools.",
)
@bootstrap_option
@output_option()
def plan(
    topics: tuple[str, ...],
    every: bool,
    brokers: str | None,
    replication_factor: int | None,
    ignore_racks: bool,
    save: Path | None,
    output: str,
) -> None:
    """Propose how TOPICS are spread evenly over brokers with as little moved as possible. Changes nothing; `execute --file` takes it."""
    from kafkalite.cli.partition.plan import balance

    if every == bool(topics):
        raise click.UsageError("name topics, or give --all")
    wanted = None if brokers is None else parse_brokers(brokers)

    async def call(admin: Admin) -> tuple[Assignment, Assignment]:
        nodes = (await admin.describe_cluster()).brokers
        if wanted is not None:
            await require_brokers(admin, wanted)
        racks = {} if ignore_racks else {node.id: node.rack for node in nodes if node.rack is not None}
        current = assignment_of(await admin.describe_topics(topics or None))
        chosen = wanted if wanted is not None else [node.id for node in nodes]
        return current, balance(current, chosen, racks, replication_factor)

    current, proposed = ask_cluster(call)
    changed = {each: target for each, target in proposed.items() if target != current[each]}
    if save is not None:
        write_moves(save, changed, "--save")
    write_rows(plan_rows(current, changed), output, columns=PLAN_COLUMNS, name=partition_name)
    note(f"{len(changed)} of {format_count(len(proposed), 'partition')} would change")


@reassign.command(short_help="Move partitions to other brokers.")
@_moves_argument
@_file_option
@click.option(
    "--throttle", type=click.IntRange(1), metavar="BYTES", help="Bytes a second from and to each broker, at most."
)
@click.option(
    "--save-current",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write how it is now to a file, which moves everything back.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Until all is moved, for --timeout seconds at most.")
@bootstrap_option
@output_option()
def execute(
    moves: tuple[str, ...],
    file: Path | None,
    throttle: int | None,
    save_current: Path | None,
    dry_run: bool,
    yes: bool,
    wait: bool,
    output: str,
) -> None:
    """Move partitions to other brokers: the first one named is the preferred leader.

    Asks first; a script must give --yes. A move that goes on already is given its new target.
    """
    targets = _targets(moves, file)

    async def describe_current(admin: Admin) -> Assignment:
        await require_brokers(admin, {broker for target in targets.values() for broker in target})
        topics = await admin.describe_topics(sorted({each.topic for each in targets}))
        require_partitions(targets, topics)
        return assignment_of(topics)

    current = ask_cluster(describe_current) if targets else {}
    rows = plan_rows(current, targets)
    if save_current is not None:
        write_moves(save_current, {each: current[each] for each in targets}, "--save-current")
    told = f"{format_count(len(rows), 'move')} could begin" if targets else _nothing_in(file)
    if targets and not dry_run:
        confirm(f"Move {', '.join(_move_text(row) for row in rows)}?", yes)
        execution = Execution(throttle, given_timeout_s() if wait else None)
        ask_cluster(lambda admin: execution.run(admin, current, targets))
        told = execution.summary_text(len(rows))
    write_rows(rows, output, columns=PLAN_COLUMNS, name=partition_name)
    note(told)


def _move_text(row: dict[str, Any]) -> str:
    return f"{partition_name(row)} from {row['replicas']} to {row['target']}"


def _nothing_in(file: Path | None) -> str:
    return f"{file} has no moves: there is nothing to do"


def _targets(moves: tuple[str, ...], file: Path | None) -> Assignment:
    """Return the targets, empty only for a file without moves, which `plan --save` writes when nothing is to be moved."""
    if file is None and not moves:
        raise click.UsageError("name what is to be moved, or give --file")
    return {**(read_moves(file) if file is not None else {}), **dict(parse_move(each) for each in moves)}


@reassign.command(short_help="Check whether moves are done.")
@_moves_argument
@_file_option
@bootstrap_option
@output_option()
def verify(moves: tuple[str, ...], file: Path | None, output: str) -> None:
    """Check whether moves are done; the exit code is 7 while they are not.

    When nothing is being moved any more, throttles of the brokers and of these topics are taken away.
    """
    targets = _targets(moves, file)
    rows = ask_cluster(lambda admin: verify_moves(admin, targets)) if targets else []
    write_rows(rows, output, columns=["topic", "partition", "target", "replicas", "state"], name=partition_name)
    if not targets:
        note(_nothing_in(file))
    if any(row["state"] != "done" for row in rows):
        raise SystemExit(int(Exit.CHECK_FAILED))


@reassign.command()
@click.argument("partitions", nargs=-1, metavar="[TOPIC-N]...")
@click.option("--all", "every", is_flag=True, help="All moves that go on.")
@_file_option
@click.option("--dry-run", is_flag=True, help="Only show what would be cancelled.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@output_option()
def cancel(partitions: tuple[str, ...], every: bool, file: Path | None, dry_run: bool, yes: bool, output: str) -> None:
    """Stop the moves of PARTITIONS and undo what they have added. Asks first; a script must give --yes."""
    wanted = [*(read_moves(file) if file is not None else ()), *map(parse_partition, partitions)]
    if every == (bool(partitions) or file is not None):
        raise click.UsageError("name partitions, give --file, or give --all")
    if not every and not wanted:
        note(_nothing_in(file))
        return

    async def moving(admin: Admin) -> dict[TopicPartition, PartitionReassignment]:
        return await admin.list_partition_reassignments(None if every else wanted)

    found = ask_cluster(moving)
    missing = [str(each) for each in wanted if each not in found]
    if missing:
        fail(f"nothing to cancel: {', '.join(missing)} is not being moved", Exit.NOT_FOUND)
    if found and not dry_run:
        confirm(f"Cancel the moves of {', '.join(map(str, found))}?", yes)

        async def call(admin: Admin) -> None:
            await admin.alter_partition_reassignments(dict.fromkeys(found))
            await lift_throttles(admin, {each.topic for each in found})

        ask_cluster(call)
    _write_moving(found, output)
    note(f"{format_count(len(found), 'move')} {'would be ' if dry_run else ''}cancelled")


def _write_moving(found: dict[TopicPartition, PartitionReassignment], output: str) -> None:
    rows = [each.to_dict() for each in found.values()]
    columns = ["topic", "partition", "replicas", "adding_replicas", "removing_replicas"]
    if rows or output not in ("table", "wide"):
        write_rows(rows, output, columns=columns, name=partition_name)


@reassign.command("list", short_help="Show the moves in progress.")
@click.argument("partitions", nargs=-1, metavar="[TOPIC-N]...")
@bootstrap_option
@output_option()
def list_(partitions: tuple[str, ...], output: str) -> None:
    """Show the partitions (default: all) whose replicas are being moved."""
    wanted = [parse_partition(each) for each in partitions] or None
    found = ask_cluster(lambda admin: admin.list_partition_reassignments(wanted))
    _write_moving(found, output)
    if not found:
        note("nothing is being moved")
