"""The output of `kafka-topics --describe`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.topics import options as tool
from kafkalite.protocol.java_hash import in_hash_map_order
from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.client.admin.configs import ConfigEntry
    from kafkalite.client.admin.partitions import PartitionReassignment
    from kafkalite.client.cluster.view import PartitionView
    from kafkalite.legacy.cluster.admin_session import AdminSession
    from kafkalite.legacy.command_line.option_parser import Options

_NO_TOPIC_ID: Final = "A" * 22


async def describe(options: Options, session: AdminSession) -> None:
    """Print the descriptions. Raises ToolError when a required topic does not exist."""
    names = await _names(options, session)
    if not names:
        return
    described = await session.call("describeTopics", lambda admin: admin.topics.describe_topics(names))
    settings = await _settings(session, names)
    live = {
        each.id for each in (await session.call("listNodes", lambda admin: admin.topics.describe_cluster())).brokers
    }
    moving = await session.call(
        "listPartitionReassignments",
        lambda admin: admin.partitions.list_partition_reassignments(
            [(topic.name, each.partition) for topic in described for each in topic.partitions]  # type: ignore[misc]
        ),
    )
    reports = Reports(options, live)
    for topic in described:
        entries = settings[topic.name]
        moves = {each.partition: move for each, move in moving.items() if each.topic == topic.name}
        shown = [entries[name] for name in in_hash_map_order(list(entries))]
        overrides = [f"{each.name}={each.value}" for each in shown if not each.is_default]
        if reports.whole_topics and (overrides or not reports.only_overridden):
            first = topic.partitions[0]
            factor = replication_factor(first, moves.get(first.partition))
            print(headline(topic.name, topic.topic_id, len(topic.partitions), factor, overrides))
        for partition in topic.partitions if not reports.only_overridden else ():
            move = moves.get(partition.partition)
            if reports.wants(partition, move, entries):
                print(partition_line(topic.name, partition, move))


async def _names(options: Options, session: AdminSession) -> list[str]:
    topic_id = _topic_id(options)
    internal = not options.has(tool.EXCLUDE_INTERNAL)
    if topic_id is None:
        names = tool.select_topics(
            options, await session.call("listTopics", lambda admin: admin.topics.list_topics(include_internal=internal))
        )
        tool.ensure_found(options, names)
        return names
    every = await session.call("listTopics", lambda admin: admin.topics.describe_topics())
    found = [each.name for each in every if each.topic_id == topic_id and (internal or not each.is_internal)]
    if not found and not options.has(tool.IF_EXISTS):
        raise ToolError(f"TopicId '{topic_id}' does not exist as expected")
    return found


def _topic_id(options: Options) -> str | None:
    """Return the --topic-id, None when none or the reserved one was given."""
    given = options.value(tool.TOPIC_ID)
    if given is None:
        return None
    if len(given) > 24:
        raise ToolError(f"Input string with prefix `{given[:24]}` is too long to be decoded as a base64 UUID")
    try:
        length = len(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    except (binascii.Error, ValueError):
        raise ToolError(
            f"Input string `{given}` decoded as 0 bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID"
        ) from None
    if length != 16:
        raise ToolError(
            f"Input string `{given}` decoded as {length} bytes, which is not equal to the expected 16 bytes "
            "of a base64-encoded UUID"
        )
    return None if given == _NO_TOPIC_ID else str(given)


async def _settings(session: AdminSession, names: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
    from kafkalite.client.admin.configs import ConfigResource

    resources = [ConfigResource("topic", name) for name in names]
    found = await session.call("describeConfigs", lambda admin: admin.configs.describe_resource_configs(resources))
    return {each.name: entries for each, entries in found.items()}


@dataclass(frozen=True, slots=True)
class Reports:
    """Selects the topics and partitions that a command prints."""

    options: Options
    live: set[int]

    @property
    def whole_topics(self) -> bool:
        return not any(self.options.has(each) for each in tool.REPORTS)

    @property
    def only_overridden(self) -> bool:
        return self.options.has(tool.WITH_OVERRIDES)

    def wants(
        self, partition: PartitionView, move: PartitionReassignment | None, settings: Mapping[str, ConfigEntry]
    ) -> bool:
        if self.whole_topics:
            return True
        has, in_sync = self.options.has, len(partition.isr)
        led = partition.leader != NO_BROKER
        min_isr = int(settings["min.insync.replicas"].value or 1)
        return (
            (has(tool.UNDER_REPLICATED) and replication_factor(partition, move) > in_sync)
            or (has(tool.UNAVAILABLE) and not (led and partition.leader in self.live))
            or (has(tool.UNDER_MIN_ISR) and (not led or in_sync < min_isr))
            or (has(tool.AT_MIN_ISR) and in_sync == min_isr)
        )


def replication_factor(partition: PartitionView, move: PartitionReassignment | None) -> int:
    """Return the number of replicas without those that are being added. A move that has ended meanwhile does not count."""
    if move is None or not {*move.adding_replicas, *move.removing_replicas} & set(partition.replicas):
        return len(partition.replicas)
    return len(move.replicas) - len(move.adding_replicas)


def headline(topic: str, topic_id: str | None, partitions: int, factor: int, overrides: Iterable[str]) -> str:
    """Return the line of a topic; `overrides` are texts like "retention.ms=1"."""
    identity = f"\tTopicId: {topic_id}" if topic_id and topic_id != _NO_TOPIC_ID else ""
    return (
        f"Topic: {topic}{identity}\tPartitionCount: {partitions}\tReplicationFactor: {factor}\t"
        f"Configs: {','.join(overrides)}"
    )


def partition_head(topic: str, number: int, leader: int, replicas: Sequence[int], isr: Sequence[int]) -> str:
    """Return the columns of a partition that all versions of the tool have."""
    return (
        f"\tTopic: {topic}\tPartition: {number}\tLeader: {'none' if leader == NO_BROKER else leader}\t"
        f"Replicas: {','.join(map(str, replicas))}\tIsr: {','.join(map(str, isr))}"
    )


def partition_line(topic: str, partition: PartitionView, move: PartitionReassignment | None) -> str:
    line = partition_head(topic, partition.partition, partition.leader, partition.replicas, partition.isr)
    if move is not None:
        line += f"\tAdding Replicas: {','.join(map(str, move.adding_replicas))}"
        line += f"\tRemoving Replicas: {','.join(map(str, move.removing_replicas))}"
    return f"{line}\tElr: N/A\tLastKnownElr: N/A"
