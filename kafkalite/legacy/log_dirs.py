"""`kafka-log-dirs`: print the contents of brokers' log directories as one line of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import TerseError, ToolError
from kafkalite.legacy.command_line.option_parser import Option, Options, declared_options, flag, text

if TYPE_CHECKING:
    from kafkalite.client.admin.log_dirs import LogDir
    from kafkalite.legacy.cluster.admin_session import AdminSession

TOOL: Final = "kafka-log-dirs"
HEADLINE: Final = "This tool helps to query log directory usage on the specified brokers."
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
COMMAND_CONFIG: Final = text("command-config")
DESCRIBE: Final = flag("describe")
TOPIC_LIST: Final = text("topic-list", "")
BROKER_LIST: Final = text("broker-list", "")
OPTIONS: Final = declared_options(vars())


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = Options(TOOL, OPTIONS, arguments)
    options.print_help_or_version(HEADLINE)
    options.require(BOOTSTRAP_SERVER, DESCRIBE)
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin

    properties = admin_properties(
        options.value(COMMAND_CONFIG), options.value(BOOTSTRAP_SERVER), client_id="log-dirs-tool"
    )
    topics = _items(options, TOPIC_LIST)
    with_admin(properties, lambda session: _describe(session, options, topics))
    return 0


def _items(options: Options, option: Option) -> list[str]:
    return [each for each in options.value(option).split(",") if each]


def _broker_ids(options: Options) -> set[int]:
    given = _items(options, BROKER_LIST)
    for each in given:
        if not each.removeprefix("-").isdigit():
            raise ToolError(f'For input string: "{each}"', "java.lang.NumberFormatException")
    return {int(each) for each in given}


async def _describe(session: AdminSession, options: Options, topics: Sequence[str]) -> None:
    from kafkalite.legacy.java.json_documents import as_json

    cluster = await session.call("listNodes", lambda admin: admin.topics.describe_cluster())
    live = {each.id for each in cluster.brokers}
    asked = _broker_ids(options)
    if asked - live:
        raise TerseError(
            f"ERROR: The given brokers do not exist from --broker-list: {_join_brokers(asked - live)}. "
            f"Current existent brokers: {_join_brokers(live)}"
        )
    brokers = sorted(asked or live)
    print("Querying brokers for log directories information")
    found = await session.call("describeLogDirs", lambda admin: admin.log_dirs.describe_log_dirs(brokers))
    print(f"Received log directory information from brokers {_join_brokers(brokers)}")
    shown = [{"broker": broker, "logDirs": [_directory(each, topics) for each in found[broker]]} for broker in brokers]
    print(as_json({"brokers": shown, "version": 1}))


def _directory(directory: LogDir, topics: Sequence[str]) -> dict[str, Any]:
    from kafkalite.legacy.java.errors import class_of

    partitions = [
        {
            "partition": str(each.topic_partition),
            "size": each.size_bytes,
            "offsetLag": each.offset_lag,
            "isFuture": each.is_future,
        }
        for each in directory.replicas
        if not topics or each.topic_partition.topic in topics
    ]
    error = None if directory.error is None else class_of(directory.error)
    return {"partitions": partitions, "error": error, "logDir": directory.path}


def _join_brokers(brokers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(brokers)))
