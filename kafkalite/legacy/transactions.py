"""`kafka-transactions`: list and describe transactions and producers, find hanging transactions and abort them."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.legacy.command_line.argument_parser import (
    Argument,
    Misuse,
    check_required,
    justify,
    read_arguments,
)
from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import BrokerFailure, TerseError, ToolError, uncaught
from kafkalite.legacy.command_line.option_parser import java_integer
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.admin.transactions import ProducerState
    from kafkalite.legacy.cluster.admin_parts import AdminParts
    from kafkalite.legacy.cluster.admin_session import AdminSession

Result = TypeVar("Result")

TOOL: Final = "kafka-transactions"
_TRANSACTIONAL_ID_NOT_FOUND: Final = 105


def _integer(name: str, *, required: bool = False, default: int | None = None) -> Argument:
    return Argument(name, "Integer", java_integer(32), required, default)


def _long(name: str) -> Argument:
    return Argument(name, "Long", java_integer(64))


_SERVERS: Final = Argument("--bootstrap-server", required=True)
_CONFIG: Final = Argument("--command-config")
_TOPIC, _PARTITION = Argument("--topic", required=True), _integer("--partition", required=True)
_COMMANDS: Final[dict[str, Sequence[Argument]]] = {
    "list": (_long("--duration-filter"),),
    "describe": (Argument("--transactional-id", required=True),),
    "describe-producers": (_integer("--broker-id"), _TOPIC, _PARTITION),
    "abort": (
        *(_TOPIC, _PARTITION, _long("--start-offset"), _long("--producer-id")),
        *(Argument("--producer-epoch", "Short", java_integer(16)), _integer("--coordinator-epoch")),
    ),
    "find-hanging": (
        *(_integer("--broker-id"), _integer("--max-transaction-timeout", default=15)),
        *(Argument("--topic"), _integer("--partition")),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    command = ""
    try:
        given, left = _read(arguments, (_CONFIG, _SERVERS), "")
        if not left:
            raise Misuse("too few arguments")
        command = left[0]
        if command not in _COMMANDS:
            choices = ", ".join(f"'{each}'" for each in _COMMANDS)
            wrong, command = command, ""
            raise Misuse(f"invalid choice: '{wrong}' (choose from {choices})")
        wanted, more = _read(left[1:], _COMMANDS[command], command)
        if more:
            raise Misuse(f"unrecognized arguments: '{more[0]}'")
        check_required(_COMMANDS[command], wanted)
        command = ""
        check_required((_SERVERS,), given)
    except Misuse as problem:
        usage = _help(command).split("\n\n")[0]
        print(f"{usage.rstrip()}\n{justify(f'{TOOL}.sh: error: {problem}')}", file=sys.stderr)
        return 1
    _ask(left[0], given, wanted)
    return 0


def _read(arguments: Sequence[str], declared: Sequence[Argument], command: str) -> tuple[dict[str, Any], list[str]]:
    """Read options, and end the tool where --help or --version is given."""
    for position, each in enumerate(arguments):
        if each in ("-h", "--help"):
            print(_help(command), end="")
            raise SystemExit(1)
        if not command and each in ("-v", "--version"):
            from kafkalite.legacy import KAFKA_COMMIT, KAFKA_VERSION

            print(f"{KAFKA_VERSION} (Commit:{KAFKA_COMMIT})")
            raise SystemExit(0)
        if not each.startswith("-") and not (position and _takes_value(arguments[position - 1])):
            break
    return read_arguments(declared, arguments)


def _takes_value(word: str) -> bool:
    return word.startswith("--") and "=" not in word


def _help(command: str) -> str:
    from kafkalite.legacy.command_line.help_texts import option_table

    own, *others = option_table(TOOL).split("%% ")
    return next((text for name, _, text in (each.partition("\n") for each in others) if name == command), own)


def _ask(command: str, given: dict[str, Any], wanted: dict[str, Any]) -> None:
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin
    from kafkalite.legacy.cluster.client_settings import read_properties_file

    path = given["--command-config"]
    if path is not None:
        try:
            read_properties_file(path)
        except ToolError as problem:
            raise _terse_failure("Failed to load admin client properties", problem) from None
    try:
        properties = admin_properties(path, given["--bootstrap-server"])
    except ToolError as problem:
        raise uncaught(problem, with_cause=True) from None
    with_admin(properties, lambda session: _ACTIONS[command](_Calls(session), wanted))


def _terse_failure(what: str, problem: ToolError) -> ToolError:
    return TerseError(f"{what}: {problem.message}. Enable debug logging for additional detail.")


class _Calls:
    """Calls of the admin client, with the tool's own messages for their failures."""

    def __init__(self, session: AdminSession) -> None:
        self._session = session

    async def call(self, name: str, work: Callable[[AdminParts], Awaitable[Result]], failure: str) -> Result:
        """Return the result of `work`. `name` is the name of the call in Kafka's admin client, `failure` precedes its error message."""
        try:
            return await self._session.call(f"{name}(api=METADATA)", work)
        except BrokerFailure as problem:
            raise _terse_failure(failure, problem) from None


async def _list(calls: _Calls, wanted: dict[str, Any]) -> None:
    duration_ms = wanted["--duration-filter"]
    found = await calls.call(
        "listTransactions",
        lambda admin: admin.transactions.list_transactions(duration_ms=duration_ms),
        "Failed to list transactions",
    )
    rows = [[each.transactional_id, each.coordinator, each.producer_id, each.state] for each in found]
    _print_table(["TransactionalId", "Coordinator", "ProducerId", "TransactionState"], rows)


async def _describe(calls: _Calls, wanted: dict[str, Any]) -> None:
    name = wanted["--transactional-id"]

    async def describe(admin: AdminParts) -> Any:
        from kafkalite.client.errors import AdminError

        try:
            return (await admin.transactions.describe_transactions([name]))[name]
        except AdminError as problem:
            if problem.code == _TRANSACTIONAL_ID_NOT_FOUND:
                problem.broker_message = (
                    f"DescribeTransactions request for transactionalId `{name}` failed "
                    "because the ID could not be found"
                )
                problem.failures[name].broker_message = problem.broker_message
            raise

    failure = f"Failed to describe transaction state of transactional-id `{name}`"
    found = await calls.call("describeTransactions", describe, failure)
    start = found.start_time_ms
    row = [
        *(found.coordinator, name, found.producer_id, found.producer_epoch, found.state, found.timeout_ms),
        "None" if start is None else start,
        "None" if start is None else _now_ms() - start,
        ",".join(str(each) for each in found.partitions),
    ]
    titles = ["CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"]
    times = ["TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs"]
    _print_table([*titles, *times, "TopicPartitions"], [row])


async def _describe_producers(calls: _Calls, wanted: dict[str, Any]) -> None:
    partition, broker = TopicPartition(wanted["--topic"], wanted["--partition"]), wanted["--broker-id"]
    where = "leader" if broker is None else f"broker {broker}"
    producers = await _producers(
        calls, partition, f"Failed to describe producers for partition {partition} on {where}", broker
    )
    rows = [[*_facts(each), each.last_sequence, each.last_timestamp, _start_of(each, "None")] for each in producers]
    titles = ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"]
    _print_table([*titles, "CurrentTransactionStartOffset"], rows)


async def _producers(
    calls: _Calls, partition: TopicPartition, failure: str, broker: int | None = None
) -> tuple[ProducerState, ...]:
    found = await calls.call(
        "describeProducers", lambda admin: admin.transactions.describe_producers([partition], broker=broker), failure
    )
    return found[partition]


async def _abort(calls: _Calls, wanted: dict[str, Any]) -> None:
    partition = TopicPartition(wanted["--topic"], wanted["--partition"])
    start, producer_id = wanted["--start-offset"], wanted["--producer-id"]
    if start is None and producer_id is None:
        raise TerseError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with "
            "--producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    producer = _given_producer(wanted) if start is None else await _producer_at(calls, partition, start)
    epoch = max(producer.coordinator_epoch, 0)
    spec = (
        f"AbortTransactionSpec(topicPartition={partition}, producerId={producer.producer_id}, "
        f"producerEpoch={producer.producer_epoch}, coordinatorEpoch={epoch})"
    )
    await calls.call(
        "abortTransaction",
        lambda admin: admin.transactions.abort_transaction(partition, producer),
        f"Failed to abort transaction {spec}",
    )


def _given_producer(wanted: dict[str, Any]) -> ProducerState:
    from kafkalite.client.admin.transactions import ProducerState

    for name in ("--producer-epoch", "--coordinator-epoch"):
        if wanted[name] is None:
            raise TerseError(f"Missing required argument {name}")
    return ProducerState(
        wanted["--producer-id"], wanted["--producer-epoch"], wanted["--coordinator-epoch"], -1, -1, None
    )


async def _producer_at(calls: _Calls, partition: TopicPartition, start: int) -> ProducerState:
    failure = f"Failed to validate producer state for partition {partition}"
    for each in await _producers(calls, partition, failure):
        if each.transaction_start_offset == start:
            return each
    raise TerseError(f"Could not find any open transactions starting at offset {start} on partition {partition}")


async def _find_hanging(calls: _Calls, wanted: dict[str, Any]) -> None:
    topic, partition, broker = wanted["--topic"], wanted["--partition"], wanted["--broker-id"]
    if topic is None and broker is None:
        raise TerseError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if partition is not None and topic is None:
        raise TerseError("The --partition argument requires --topic to be provided")
    partitions = (
        [TopicPartition(topic, partition)] if partition is not None else await _partitions_of(calls, topic, broker)
    )
    longest_ms = wanted["--max-transaction-timeout"] * 60_000
    hanging = await calls.call(
        "describeProducers",
        lambda admin: admin.transactions.find_hanging_transactions(
            partitions, broker=broker, longest_transaction_ms=longest_ms
        ),
        f"Failed to describe producers for {len(partitions)} partitions on broker "
        f"{'Optional.empty' if broker is None else f'Optional[{broker}]'}",
    )
    rows = []
    for each in hanging:
        minutes = (_now_ms() - each.producer.last_timestamp) // 60_000
        last = each.producer.last_timestamp
        rows.append([*each.topic_partition, *_facts(each.producer), _start_of(each.producer, -1), last, minutes])
    titles = ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch"]
    _print_table([*titles, "StartOffset", "LastTimestamp", "Duration(min)"], rows)


async def _partitions_of(calls: _Calls, topic: str | None, broker: int | None) -> list[TopicPartition]:
    topics = (
        await calls.call(
            "listTopics", lambda admin: admin.topics.list_topics(include_internal=True), "Failed to list topics"
        )
        if topic is None
        else [topic]
    )
    described = await calls.call(
        "describeTopics",
        lambda admin: admin.topics.describe_topics(topics),
        f"Failed to describe {len(topics)} topics",
    )
    return [
        TopicPartition(each.name, one.partition)
        for each in described
        for one in each.partitions
        if broker is None or broker in one.replicas
    ]


_ACTIONS: Final = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
}


def _facts(producer: ProducerState) -> list[int]:
    return [producer.producer_id, producer.producer_epoch, producer.coordinator_epoch]


def _start_of(producer: ProducerState, default: Any) -> Any:
    start = producer.transaction_start_offset
    return default if start is None else start


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _print_table(titles: list[str], rows: list[list[Any]]) -> None:
    cells = [titles, *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    for row in cells:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))
