"""`kafka-leader-election`: elect the preferred leaders, or any live replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import BrokerFailure, CommandFailed, ToolError, operation_error
from kafkalite.legacy.command_line.option_parser import Argument, Option, Options, declared_options, flag, integer, text
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import ElectionType
    from kafkalite.legacy.cluster.admin_session import AdminSession

TOOL: Final = "kafka-leader-election"
HEADLINE: Final = (
    "This tool attempts to elect a new leader for a set of topic partitions. "
    "The type of elections supported are preferred replicas and unclean replicas."
)
_TIMEOUT_MS: Final = 30_000
_ELECTIONS: Final[dict[str, ElectionType]] = {"PREFERRED": "preferred", "UNCLEAN": "unclean"}


def _election_type(value: str) -> str:
    if value.upper() not in _ELECTIONS:
        raise ValueError(value)
    return value.upper()


BOOTSTRAP_SERVER: Final = text("bootstrap-server")
ADMIN_CONFIG: Final = text("admin.config")
PATH_TO_JSON_FILE: Final = text("path-to-json-file")
TOPIC: Final = text("topic")
PARTITION: Final = integer("partition")
ALL_PARTITIONS: Final = flag("all-topic-partitions")
ELECTION_TYPE: Final = Option("election-type", Argument.REQUIRED, _election_type)
OPTIONS: Final = declared_options(vars())


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = Options(TOOL, OPTIONS, arguments)
    options.print_help_or_version(HEADLINE)
    _check(options)
    election_type = options.value(ELECTION_TYPE)
    partitions: list[TopicPartition] | None = None
    if options.has(PATH_TO_JSON_FILE):
        partitions = _partitions_of_file(options.value(PATH_TO_JSON_FILE))
    elif options.has(TOPIC):
        partitions = [TopicPartition(options.value(TOPIC), options.value(PARTITION))]
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin

    properties = admin_properties(
        options.value(ADMIN_CONFIG),
        options.value(BOOTSTRAP_SERVER),
        default_api_timeout_ms=str(_TIMEOUT_MS),
        request_timeout_ms=str(_TIMEOUT_MS // 2),
    )
    with_admin(properties, lambda session: elect(session, election_type, partitions))
    return 0


def _check(options: Options) -> None:
    missing = [each.name for each in (BOOTSTRAP_SERVER, ELECTION_TYPE) if not options.has(each)]
    if missing:
        raise CommandFailed(f"Missing required option(s): {', '.join(missing)}")
    which = (TOPIC, ALL_PARTITIONS, PATH_TO_JSON_FILE)
    if sum(options.has(each) for each in which) != 1:
        raise CommandFailed(
            f"One and only one of the following options is required: {', '.join(each.name for each in which)}"
        )
    if options.has(TOPIC) and not options.has(PARTITION):
        raise CommandFailed(f"Missing required option(s): {PARTITION.name}")
    if options.has(PARTITION) and not options.has(TOPIC):
        raise CommandFailed(f"Option {PARTITION.name} is only allowed if {TOPIC.name} is used")


def _partitions_of_file(path: str) -> list[TopicPartition]:
    from kafkalite.legacy.java.json_documents import read_text

    try:
        return read_partitions(read_text(path))
    except ToolError as problem:
        if problem.java_class.startswith("org.apache.kafka."):
            raise
        raise ToolError(str(problem), "java.lang.RuntimeException", problem) from None


def read_partitions(document: str) -> list[TopicPartition]:
    """Return the partitions that a file names. Raises ToolError."""
    from kafkalite.legacy.java.json_documents import elements, fields, member, number, parse, string

    parsed = parse(document)
    if parsed is None:
        raise operation_error("Replica election data is empty")
    if "partitions" not in fields(parsed):
        raise operation_error('Replica election data is missing "partitions" field')
    found = [
        TopicPartition(string(member(each, "topic")), number(member(each, "partition")))
        for each in elements(parsed["partitions"])
    ]
    twice = dict.fromkeys(str(each) for each in found if found.count(each) > 1)
    if twice:
        raise operation_error(f"Replica election data contains duplicate partitions: [{', '.join(twice)}]")
    return found


async def elect(session: AdminSession, election_type: str, partitions: Sequence[TopicPartition] | None) -> None:
    """Elect leaders and print the results. Raises CommandFailed when a partition got no leader."""
    failed: dict[str, BrokerFailure] = {}
    try:
        done = await session.call(
            "electLeaders", lambda admin: admin.partitions.elect_leaders(_ELECTIONS[election_type], partitions)
        )
    except BrokerFailure as problem:
        if not problem.failures:
            raise _election_error(problem) from None
        failed, done = problem.failures, dict(problem.done.values())
    elected = [str(each) for each, new in done.items() if new]
    unneeded = [str(each) for each, new in done.items() if not new]
    if elected:
        print(f"Successfully completed leader election ({election_type}) for partitions {', '.join(sorted(elected))}")
    if unneeded:
        print(f"Valid replica already elected for partitions {', '.join(sorted(unneeded))}")
    for name, reason in failed.items():
        print(f"Error completing leader election ({election_type}) for partition: {name}: {reason}")
    if failed:
        raise CommandFailed(f"{len(failed)} replica(s) could not be elected")


def _election_error(problem: BrokerFailure) -> ToolError:
    from kafkalite.errors import ErrorCode

    if problem.code == ErrorCode.REQUEST_TIMED_OUT:
        message = "Timeout waiting for election results"
    elif problem.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        message = "Not authorized to perform leader election"
    else:
        return ToolError(str(problem.of_future()), "java.lang.RuntimeException")
    print(message)
    return CommandFailed(message)
