"""Shared by all commands that move partitions to other brokers: read and print targets; start, await and verify moves."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalite.administration.replica_throttles import FOLLOWERS, LEADERS, RATES, throttle_changes, without_throttles
from kafkalite.cli.output import Exit, fail, format_count, note
from kafkalite.cli.partition.selection import parse_brokers, parse_partition
from kafkalite.cli.progress import wait_until_done
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, TopicDescription

Assignment = Mapping[TopicPartition, tuple[int, ...]]

PLAN_COLUMNS = ("topic", "partition", "replicas", "target", "adding", "removing")


def parse_move(text: str) -> tuple[TopicPartition, tuple[int, ...]]:
    """Return the move of "topic-3=101,102". Raises BadParameter."""
    name, equals, brokers = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not like topic-3=101,102,103")
    return parse_partition(name), parse_brokers(brokers)


def read_moves(file: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the moves in a file of Kafka's tools, or with rows that have a `target`, as `reassign plan -o json` prints. Raises
    BadParameter.
    """
    try:
        found = json.loads(file.read_text())
        rows = found if isinstance(found, list) else found["partitions"]
        return {
            TopicPartition(str(each["topic"]), int(each["partition"])): tuple(
                int(broker) for broker in each.get("target", each["replicas"])
            )
            for each in rows
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as problem:
        raise click.BadParameter(f"{file} has no moves in Kafka's form: {problem!r}", param_hint="--file") from None


def write_moves(file: Path, assignment: Assignment, option: str) -> None:
    """Write an assignment in the form of Kafka's tools. Ends the command when the file, which `option` names, cannot be written."""
    partitions = [{**partition._asdict(), "replicas": list(replicas)} for partition, replicas in assignment.items()]
    try:
        file.write_text(json.dumps({"version": 1, "partitions": partitions}, indent=1) + "\n")
    except OSError as problem:
        fail(f"{option}: cannot write {file}: {problem.strerror}")


def assignment_of(described: Iterable[TopicDescription]) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of every partition."""
    return {
        TopicPartition(topic.name, each.partition): each.replicas for topic in described for each in topic.partitions
    }


def plan_rows(current: Assignment, targets: Assignment) -> list[dict[str, Any]]:
    """Return a row for each move with the changes that it makes."""
    return [
        {
            **each._asdict(),
            "replicas": list(current[each]),
            "target": list(target),
            "adding": [broker for broker in target if broker not in current[each]],
            "removing": [broker for broker in current[each] if broker not in target],
        }
        for each, target in targets.items()
    ]


async def require_brokers(admin: Admin, brokers: Collection[int]) -> None:
    """End the command when one of the brokers is not there."""
    known = {broker.id for broker in (await admin.describe_cluster()).brokers}
    if unknown := set(brokers) - known:
        fail(f"no such brokers: {', '.join(map(str, sorted(unknown)))}", Exit.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class Execution:
    """Executes moves: with at most `throttle_bytes_s` from and to each broker, and waiting for `wait_s` when given."""

    throttle_bytes_s: int | None
    wait_s: float | None

    async def run(self, admin: Admin, current: Assignment, targets: Assignment) -> None:
        """Start the moves. Moves that are not done in time end the command."""
        if self.throttle_bytes_s is not None:
            moves = await admin.list_partition_reassignments()
            await admin.incremental_alter_configs(throttle_changes(current, targets, moves, self.throttle_bytes_s))
            note(
                f"throttled to {self.throttle_bytes_s} bytes/s; `partition reassign verify` ends that when all is moved"
            )
        await admin.alter_partition_reassignments(targets)
        if self.wait_s is not None:
            await until_moved(admin, list(targets), self.wait_s)
            if self.throttle_bytes_s is not None:
                await lift_throttles(admin, {each.topic for each in targets})

    def summary_text(self, count: int) -> str:
        return f"{format_count(count, 'move')} {'begun' if self.wait_s is None else 'done'}"


async def until_moved(admin: Admin, partitions: Sequence[TopicPartition], timeout_s: float) -> None:
    async def find_remaining() -> list[str]:
        return [str(each) for each in await admin.list_partition_reassignments(partitions)]

    await wait_until_done("moving partitions", [str(each) for each in partitions], find_remaining, timeout_s)


async def lift_throttles(admin: Admin, topics: Collection[str]) -> None:
    """Remove the throttles of brokers and of these topics, if there are any and no move is in progress."""
    from kafkalite.client import ConfigResource

    if await admin.list_partition_reassignments():
        return
    brokers = [broker.id for broker in (await admin.describe_cluster()).brokers]
    resources = [ConfigResource("topic", topic) for topic in sorted(topics)]
    resources += [ConfigResource("broker", str(broker)) for broker in brokers]
    settings = await admin.describe_resource_configs(resources, keys=[LEADERS, FOLLOWERS, *RATES])
    if any(entry.source.startswith("DYNAMIC") for entries in settings.values() for entry in entries.values()):
        await admin.incremental_alter_configs(without_throttles(topics, brokers))
        note("throttles taken away")


async def verify_moves(admin: Admin, targets: Assignment) -> list[dict[str, Any]]:
    """Return for each move whether it is done, in progress, or ended elsewhere. Removes throttles when no move is in progress."""
    moving = await admin.list_partition_reassignments(targets)
    described = await admin.describe_topics(sorted({each.topic for each in targets}))
    current = assignment_of(described)
    await lift_throttles(admin, {each.topic for each in targets})

    def state(partition: TopicPartition, target: tuple[int, ...]) -> str:
        if partition in moving:
            return "moving"
        return "done" if current[partition] == target else "different"

    return [
        {
            **each._asdict(),
            "target": list(target),
            "replicas": list(current.get(each, ())),
            "state": state(each, target) if each in current else "missing",
        }
        for each, target in targets.items()
    ]
