"""`kafka-topics`: create, list, alter, describe and delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.entry import log, run_tool
from kafkalite.legacy.command_line.failures import BrokerFailure, ToolError
from kafkalite.legacy.command_line.option_parser import Options
from kafkalite.legacy.topics import options as tool

if TYPE_CHECKING:
    from kafkalite.legacy.cluster.admin_session import AdminSession

TOOL: Final = "kafka-topics"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = Options(TOOL, (*tool.OPTIONS, *tool.OLD_OPTIONS), arguments)
    tool.check(options)
    if options.has(tool.ZOOKEEPER):
        from kafkalite.legacy.topics.zookeeper import run

        return run(options)
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin

    properties = admin_properties(options.value(tool.COMMAND_CONFIG), options.value(tool.BOOTSTRAP_SERVER))
    action = next(run for option, run in _ACTIONS.items() if options.has(option))
    try:
        with_admin(properties, lambda session: action(options, session))
    except ToolError as problem:
        print(f"Error while executing topic command : {problem.message}")
        log("ERROR", str(problem), "org.apache.kafka.tools.TopicCommand")
        return 1
    return 0


# actions


async def _topics(options: Options, session: AdminSession) -> list[str]:
    names = await session.call(
        "listTopics", lambda admin: admin.topics.list_topics(include_internal=not options.has(tool.EXCLUDE_INTERNAL))
    )
    return tool.select_topics(options, names)


async def _create(options: Options, session: AdminSession) -> None:
    from kafkalite.client.admin.topics import NewTopic
    from kafkalite.errors import ErrorCode

    name = options.value(tool.TOPIC)
    partitions, factor = options.value(tool.PARTITIONS), options.value(tool.REPLICATION_FACTOR)
    assignment, configs = tool.replica_assignment(options), tool.topic_configs(options)
    tool.warn_of_collisions(name)
    tool.check_counts(options)
    new = NewTopic(
        name, -1 if partitions is None else partitions, -1 if factor is None else factor, assignment or None, configs
    )
    try:
        await session.call("createTopics", lambda admin: admin.topics.create_topics([new]))
    except BrokerFailure as problem:
        if problem.code != ErrorCode.TOPIC_ALREADY_EXISTS or not options.has(tool.IF_NOT_EXISTS):
            raise
        return
    print(f"Created topic {name}.")


async def _list(options: Options, session: AdminSession) -> None:
    print("\n".join(await _topics(options, session)))


async def _alter(options: Options, session: AdminSession) -> None:
    from kafkalite.client.admin.partitions import NewPartitions

    count = options.value(tool.PARTITIONS)
    assignment = tool.replica_assignment(options)
    tool.topic_configs(options)
    topics = await _topics(options, session)
    tool.ensure_found(options, topics)
    if not topics:
        return
    wanted: Mapping[str, NewPartitions | int] = dict.fromkeys(topics, count)
    if assignment:
        described = await session.call("describeTopics", lambda admin: admin.topics.describe_topics(topics))
        wanted = {
            each.name: NewPartitions(count, list(assignment.values())[len(each.partitions) :]) for each in described
        }
    await session.call("createPartitions", lambda admin: admin.partitions.create_partitions(wanted))


async def _delete(options: Options, session: AdminSession) -> None:
    topics = await _topics(options, session)
    tool.ensure_found(options, topics)
    await session.call("deleteTopics", lambda admin: admin.topics.delete_topics(topics))


async def _describe(options: Options, session: AdminSession) -> None:
    from kafkalite.legacy.topics.descriptions import describe

    await describe(options, session)


_ACTIONS: Final = {
    tool.CREATE: _create,
    tool.ALTER: _alter,
    tool.LIST: _list,
    tool.DESCRIBE: _describe,
    tool.DELETE: _delete,
}
