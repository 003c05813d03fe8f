"""The options of `kafka-topics`, which of them go together, and the values that they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkalite.legacy.command_line.failures import CommandFailed, InvalidConfiguration, ToolError, operation_error
from kafkalite.legacy.command_line.option_parser import Option, Options, declared_options, flag, integer, text

BOOTSTRAP_SERVER: Final = text("bootstrap-server")
COMMAND_CONFIG: Final = text("command-config")
LIST: Final = flag("list")
CREATE: Final = flag("create")
DELETE: Final = flag("delete")
ALTER: Final = flag("alter")
DESCRIBE: Final = flag("describe")
TOPIC: Final = text("topic")
TOPIC_ID: Final = text("topic-id")
CONFIG: Final = text("config")
DELETE_CONFIG: Final = text("delete-config")
PARTITIONS: Final = integer("partitions")
REPLICATION_FACTOR: Final = integer("replication-factor")
REPLICA_ASSIGNMENT: Final = text("replica-assignment")
UNDER_REPLICATED: Final = flag("under-replicated-partitions")
UNAVAILABLE: Final = flag("unavailable-partitions")
UNDER_MIN_ISR: Final = flag("under-min-isr-partitions")
AT_MIN_ISR: Final = flag("at-min-isr-partitions")
WITH_OVERRIDES: Final = flag("topics-with-overrides")
IF_EXISTS: Final = flag("if-exists")
IF_NOT_EXISTS: Final = flag("if-not-exists")
EXCLUDE_INTERNAL: Final = flag("exclude-internal")
PARTITION_LIMIT: Final = integer("partition-size-limit-per-response")

OPTIONS: Final = declared_options(vars())
ZOOKEEPER: Final = text("zookeeper")
FORCE: Final = flag("force")
DISABLE_RACK_AWARE: Final = flag("disable-rack-aware")
OLD_OPTIONS: Final = (ZOOKEEPER, FORCE, DISABLE_RACK_AWARE)
"""Options of 2.8 that 3.0 removed. They still work, but no help names them."""
ACTIONS: Final = (ALTER, CREATE, DESCRIBE, LIST, DELETE)
REPORTS: Final = (UNDER_REPLICATED, UNDER_MIN_ISR, AT_MIN_ISR, UNAVAILABLE)
_MAX_REPLICATION_FACTOR: Final = 32767


def check(options: Options) -> None:
    if not options.count:
        options.refuse("Create, delete, describe, or change a topic.")
    options.print_help_or_version("This tool helps to create, delete, describe, or change a topic.")
    if sum(options.has(each) for each in ACTIONS) != 1:
        options.refuse("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if not options.has(BOOTSTRAP_SERVER) and not options.has(ZOOKEEPER):
        raise ToolError("--bootstrap-server must be specified")
    if options.has(DESCRIBE) and options.has(IF_EXISTS):
        if not options.has(TOPIC) and not options.has(TOPIC_ID):
            options.refuse("--topic or --topic-id is required to describe a topic")
        if options.has(TOPIC) and options.has(TOPIC_ID):
            print(
                "Only topic id will be used when both --topic and --topic-id are specified and topicId is not Uuid.ZERO_UUID"
            )
    if not options.has(LIST) and not options.has(DESCRIBE):
        options.require(TOPIC)
    if options.has(ALTER) and not options.has(ZOOKEEPER):
        _check_alter(options)
    _check_combinations(options)


def _check_alter(options: Options) -> None:
    if options.has(BOOTSTRAP_SERVER) and options.has(CONFIG):
        options.refuse(
            'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
            "(the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
        )
    options.require(PARTITIONS)


def _check_combinations(options: Options) -> None:
    def only_with(used: Option, *allowed: Option, also_not: Sequence[Option] = ()) -> None:
        options.forbid_with(used, [*(each for each in ACTIONS if each not in allowed), *also_not])

    only_with(CONFIG, ALTER, CREATE)
    only_with(DELETE_CONFIG, ALTER, also_not=[BOOTSTRAP_SERVER])
    only_with(PARTITIONS, ALTER, CREATE)
    only_with(REPLICATION_FACTOR, CREATE)
    only_with(REPLICA_ASSIGNMENT, ALTER, CREATE)
    if options.has(CREATE):
        options.forbid_with(REPLICA_ASSIGNMENT, [PARTITIONS, REPLICATION_FACTOR])
    for report in REPORTS:
        only_with(report, DESCRIBE, also_not=[WITH_OVERRIDES])
    only_with(WITH_OVERRIDES, DESCRIBE, also_not=REPORTS)
    only_with(IF_EXISTS, ALTER, DELETE, DESCRIBE)
    only_with(IF_NOT_EXISTS, CREATE)
    only_with(EXCLUDE_INTERNAL, LIST, DESCRIBE)


# what was asked for, read and checked


def replica_assignment(options: Options) -> dict[int, list[int]]:
    """Return the replicas by partition of "1:2,2:3", none when not given. Raises ToolError."""
    given = options.value(REPLICA_ASSIGNMENT)
    assignment: dict[int, list[int]] = {}
    for partition, item in enumerate(given.split(",") if given else ()):
        try:
            brokers = [int(each.strip()) for each in item.split(":")]
        except ValueError:
            wrong = next(each.strip() for each in item.split(":") if not each.strip().isdigit())
            raise ToolError(f'For input string: "{wrong}"', "java.lang.NumberFormatException") from None
        twice = [each for position, each in enumerate(brokers) if each in brokers[:position]]
        if twice:
            raise CommandFailed(
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, dict.fromkeys(twice)))}",
            )
        assignment[partition] = brokers
        if len(brokers) != len(assignment[0]):
            raise operation_error(f"Partition {partition} has different replication factor: {brokers}")
    return assignment


def topic_configs(options: Options) -> dict[str, str]:
    """Return the settings of --config, checked before any request. Raises ToolError."""
    pairs = [[part.strip() for part in each.rstrip("= ").split("=")] for each in options.values(CONFIG)]
    if any(len(pair) != 2 for pair in pairs):
        raise ToolError(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    configs = dict(pairs)
    if configs:
        from kafkalite.config.topic import TopicConfig
        from kafkalite.errors import KafkaError

        try:
            TopicConfig.from_overrides(TopicConfig(), configs)
        except KafkaError as problem:
            raise InvalidConfiguration(problem.message or "") from None
    return configs


def check_counts(options: Options) -> None:
    factor, partitions = options.value(REPLICATION_FACTOR), options.value(PARTITIONS)
    if factor is not None and not 1 <= factor <= _MAX_REPLICATION_FACTOR:
        raise ToolError(f"The replication factor must be between 1 and {_MAX_REPLICATION_FACTOR} inclusive")
    if partitions is not None and partitions < 1:
        raise ToolError("The partitions must be greater than 0")


def warn_of_collisions(topic: str) -> None:
    if "." in topic or "_" in topic:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
            "To avoid issues it is best to use either, but not both."
        )


def select_topics(options: Options, all_topics: Sequence[str]) -> list[str]:
    """Return the topics that the command is about. Raises ToolError when --topic must match one and does not."""
    from kafkalite.legacy.topics.filter import TopicFilter

    exclude_internal = options.has(EXCLUDE_INTERNAL)
    named = options.value(TOPIC)
    wanted = TopicFilter(named if named is not None else ".*")
    return [each for each in all_topics if wanted.allows(each, exclude_internal=exclude_internal)]


def ensure_found(options: Options, topics: Sequence[str]) -> None:
    named = options.value(TOPIC)
    if named and not options.has(IF_EXISTS) and not topics:
        raise ToolError(f"Topic 'Optional[{named}]' does not exist as expected")
