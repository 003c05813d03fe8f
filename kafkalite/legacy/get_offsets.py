"""`kafka-get-offsets`: print the offsets of partitions at their end, at their start or at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.administration.group_offsets import partitions_of
from kafkalite.legacy.cluster.servers import HOST_AND_PORT
from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import BrokerFailure, TerseError, ToolError, UsageError
from kafkalite.legacy.command_line.option_parser import Options, declared_options, flag, text
from kafkalite.legacy.topics.filter import TopicFilter
from kafkalite.timestamps import check_int64
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.legacy.cluster.admin_session import AdminSession

TOOL: Final = "kafka-get-offsets"
HEADLINE: Final = "An interactive shell for getting topic-partition offsets."

BROKER_LIST: Final = text("broker-list")
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
TOPIC_PARTITIONS: Final = text("topic-partitions")
TOPIC: Final = text("topic")
PARTITIONS: Final = text("partitions")
TIME: Final = text("time", "latest")
COMMAND_CONFIG: Final = text("command-config")
EXCLUDE_INTERNAL: Final = flag("exclude-internal-topics")
OPTIONS: Final = declared_options(vars())

_NAMED_TIMES: Final = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_LARGEST_PARTITION: Final = 2**31 - 1


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments, "Error occurred: ")


def _run(arguments: Sequence[str]) -> int:
    options = _read_options(arguments)
    if options.has(TOPIC_PARTITIONS) and (options.has(TOPIC) or options.has(PARTITIONS)):
        raise TerseError("--topic-partitions cannot be used with --topic or --partitions")
    timestamp = _timestamp(options.value(TIME))
    rules = _rules(options)
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin

    servers = options.value_of_either(BOOTSTRAP_SERVER, BROKER_LIST)
    properties = {**admin_properties(options.value(COMMAND_CONFIG), servers), "client.id": "GetOffsetShell"}

    async def work(session: AdminSession) -> None:
        partitions = await _partitions(session, rules, include_internal=not options.has(EXCLUDE_INTERNAL))
        if not partitions:
            raise TerseError("Could not match any topic-partitions with the specified filters")
        for each, offset in sorted(await _offsets(session, partitions, timestamp), key=lambda found: str(found[0])):
            print(f"{each.topic}:{each.partition}:{offset}")

    with_admin(properties, work)
    return 0


def _read_options(arguments: Sequence[str]) -> Options:
    try:
        options = Options(TOOL, OPTIONS, arguments)
    except UsageError as problem:
        raise TerseError(problem.message) from None
    options.print_help_or_version(HEADLINE)
    if not options.has_any(BOOTSTRAP_SERVER, BROKER_LIST):
        raise TerseError("Missing required option(s) [bootstrap-server]")
    servers = options.value_of_either(BOOTSTRAP_SERVER, BROKER_LIST)
    _check_servers(options, servers)
    return options


def _check_servers(options: Options, servers: str) -> None:
    """End the tool when these are not addresses with ports."""
    if not servers.strip():
        options.refuse("Error while validating the bootstrap address\n")
    if not all(HOST_AND_PORT.fullmatch(each) for each in servers.split(",")):
        options.refuse("Please provide valid host:port like host1:9091,host2:9092\n")


def _timestamp(given: str) -> int:
    if given in _NAMED_TIMES:
        return _NAMED_TIMES[given]
    try:
        return check_int64(int(given))
    except ValueError:
        raise TerseError(
            f"Malformed time argument {given}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        ) from None


@dataclass(frozen=True, slots=True)
class _Rule:
    """Selects topics by name, and partitions by number."""

    topics: TopicFilter
    allows: Callable[[int], bool]

    def matches(self, partition: TopicPartition) -> bool:
        return self.topics.allows(partition.topic, exclude_internal=False) and self.allows(partition.partition)


def _rules(options: Options) -> list[_Rule]:
    if options.has(TOPIC_PARTITIONS):
        return [_rule(each) for each in options.value(TOPIC_PARTITIONS).split(",")]
    given = options.value(PARTITIONS)
    try:
        numbers = {int(each) for each in given.split(",")} if given else set()
    except ValueError:
        raise TerseError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {given}"
        ) from None
    named = options.value(TOPIC)
    return [_Rule(TopicFilter(".*" if named is None else named), lambda each: not numbers or each in numbers)]


def _rule(text_of_it: str) -> _Rule:
    match = _RULE.fullmatch(text_of_it)
    if match is None:
        message = f"Invalid rule specification: {text_of_it}"
        raise ToolError(f"org.apache.kafka.tools.TerseException: {message}", "java.lang.RuntimeException")
    topics, only, lower, upper = match.groups()
    wanted = range(int(only), int(only) + 1) if only else range(int(lower or 0), int(upper or _LARGEST_PARTITION))
    return _Rule(TopicFilter(topics or ".*"), wanted.__contains__)


async def _partitions(session: AdminSession, rules: Iterable[_Rule], *, include_internal: bool) -> list[TopicPartition]:
    names = await session.call("listTopics", lambda admin: admin.topics.list_topics(include_internal=include_internal))
    topics = [name for name in names if any(rule.topics.allows(name, exclude_internal=False) for rule in rules)]
    if not topics:
        return []
    described = await session.call("describeTopics", lambda admin: admin.topics.describe_topics(topics))
    return [each for each in partitions_of(described) if any(rule.matches(each) for rule in rules)]


async def _offsets(
    session: AdminSession, partitions: Sequence[TopicPartition], timestamp: int
) -> list[tuple[TopicPartition, int]]:
    """Return the offsets of the partitions that have one at that time. A partition with an error is named on stderr."""
    import sys

    async def of(asked: Sequence[TopicPartition]) -> list[tuple[TopicPartition, int]]:
        found = await session.call(
            "listOffsets", lambda admin: admin.records.list_offsets(dict.fromkeys(asked, timestamp))
        )
        return [(each, answer.offset) for each, answer in found.items() if answer is not None]

    try:
        return await of(partitions)
    except BrokerFailure:
        found = []
        for each in partitions:  # one by one, to know whose fault it is
            try:
                found += await of([each])
            except BrokerFailure as problem:
                print(
                    f"Skip getting offsets for topic-partition {each} due to error: {problem.of_future().message}",
                    file=sys.stderr,
                )
        return found
