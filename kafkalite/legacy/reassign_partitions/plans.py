"""The JSON files that `kafka-reassign-partitions` reads and prints, and the texts that it prints over brokers and over ZooKeeper alike."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafkalite.client.admin.log_dirs import TopicPartitionReplica
from kafkalite.legacy.command_line.failures import CommandFailed, operation_error
from kafkalite.legacy.java.json_documents import as_json, elements, fields, member, number, string
from kafkalite.types import TopicPartition

ANY_LOG_DIR: Final = "any"
_VERSION: Final = 1


@dataclass(slots=True)
class Plan:
    """The content of a reassignment file, unchecked: it may name a partition twice."""

    partitions: list[tuple[TopicPartition, list[int]]] = field(default_factory=list)
    log_dirs: dict[TopicPartitionReplica, str] = field(default_factory=dict)

    @property
    def targets(self) -> dict[TopicPartition, list[int]]:
        return dict(self.partitions)


def read_plan(document: str) -> Plan:
    """Return the plan of a --reassignment-json-file. Raises ToolError."""
    try:
        parsed = fields(json.loads(document))
    except (ValueError, RecursionError) as problem:
        raise operation_error(str(problem)) from None
    _check_version(parsed)
    plan = Plan()
    for each in elements(parsed.get("partitions", [])):
        _read_partition(each, plan)
    return plan


def _check_version(document: Mapping[str, Any]) -> None:
    version = number(document.get("version", _VERSION))
    if version != _VERSION:
        raise operation_error(f"Not supported version field value {version}")


def _read_partition(entry: Any, plan: Plan) -> None:
    partition = TopicPartition(string(member(entry, "topic")), number(member(entry, "partition")))
    replicas = [number(broker) for broker in elements(member(entry, "replicas"))]
    log_dirs = [string(each) for each in elements(entry.get("log_dirs", [ANY_LOG_DIR] * len(replicas)))]
    if len(replicas) != len(log_dirs):
        raise CommandFailed(
            f"Size of replicas list {replicas} is different from size of log dirs list [{', '.join(log_dirs)}] "
            f"for partition {partition}"
        )
    plan.partitions.append((partition, replicas))
    for broker, directory in zip(replicas, log_dirs, strict=True):
        if directory != ANY_LOG_DIR:
            plan.log_dirs[TopicPartitionReplica(*partition, broker)] = directory


def check_executable(plan: Plan) -> None:
    """Raise ToolError for a plan that is empty or has duplicates."""
    if not plan.partitions:
        raise CommandFailed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in plan.partitions):
        raise CommandFailed("Partition replica list cannot be empty")
    twice = _duplicates([partition for partition, _ in plan.partitions])
    if twice:
        raise CommandFailed(f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}")
    repeated = [
        f"{partition} contains multiple entries for {','.join(map(str, _duplicates(replicas)))}"
        for partition, replicas in plan.partitions
        if _duplicates(replicas)
    ]
    if repeated:
        raise CommandFailed(f"Partition replica lists may not contain duplicate entries: {'. '.join(repeated)}")


def read_topics(document: str) -> list[str]:
    """Return the topics of a --topics-to-move-json-file. Raises ToolError."""
    try:
        parsed = fields(json.loads(document))
    except (ValueError, RecursionError):
        raise operation_error("The input string is not a valid JSON") from None
    _check_version(parsed)
    topics = [string(member(each, "topic")) for each in elements(parsed.get("topics", []))]
    twice = _duplicates(topics)
    if twice:
        raise CommandFailed(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def read_brokers(given: str) -> list[int]:
    """Return the ids of a --broker-list. Raises ToolError."""
    from kafkalite.legacy.command_line.failures import ToolError

    brokers = []
    for each in given.split(","):
        if not each.removeprefix("-").isdigit():
            raise ToolError(f'For input string: "{each}"', "java.lang.NumberFormatException")
        brokers.append(int(each))
    twice = _duplicates(brokers)
    if twice:
        raise CommandFailed(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return brokers


def _duplicates(items: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(each for position, each in enumerate(items) if each in items[:position]))


def state_line(partition: TopicPartition, target: Sequence[int], current: Sequence[int], *, is_moving: bool) -> str:
    """Return what --verify prints about a partition; `current` is empty for one that does not exist."""
    if is_moving:
        return f"Reassignment of partition {partition} is still in progress."
    if list(current) == list(target):
        return f"Reassignment of partition {partition} is completed."
    return (
        f"There is no active reassignment of partition {partition}, "
        f"but replica set is {join_brokers(current)} rather than {join_brokers(target)}."
    )


def print_current(assignment: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Print what --execute replaces."""
    print(
        f"Current partition replica assignment\n\n{assignment_json(assignment)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def check_brokers(plan: Plan, live: Collection[int]) -> None:
    """Raise ToolError for a target that is not registered."""
    for broker in sorted({each for target in plan.targets.values() for each in target}):
        if broker not in live:
            raise CommandFailed(f"Unknown broker id {broker}")


def join_brokers(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def plural(items: Collection[object]) -> str:
    return "" if len(items) == 1 else "s"


def assignment_json(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return an assignment as the JSON that the tool prints and can execute later."""
    partitions = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY_LOG_DIR] * len(replicas),
        }
        for each, replicas in sorted(assignment.items())
    ]
    return as_json({"version": _VERSION, "partitions": partitions})
