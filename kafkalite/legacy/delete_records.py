"""`kafka-delete-records`: delete the records of partitions before an offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.legacy.command_line.entry import run_tool
from kafkalite.legacy.command_line.failures import BrokerFailure, CommandFailed, operation_error
from kafkalite.legacy.command_line.option_parser import Options, declared_options, text
from kafkalite.legacy.java.json_documents import elements, fields, member, number, parse, read_text, string
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.legacy.cluster.admin_session import AdminSession

TOOL: Final = "kafka-delete-records"
HEADLINE: Final = "This tool helps to delete records of the given partitions down to the specified offset."
BOOTSTRAP_SERVER: Final = text("bootstrap-server")
OFFSET_JSON_FILE: Final = text("offset-json-file")
COMMAND_CONFIG: Final = text("command-config")
OPTIONS: Final = declared_options(vars())
_VERSION: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    return run_tool(_run, arguments)


def _run(arguments: Sequence[str]) -> int:
    options = Options(TOOL, OPTIONS, arguments)
    options.print_help_or_version(HEADLINE)
    options.require(BOOTSTRAP_SERVER, OFFSET_JSON_FILE)
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin

    properties = admin_properties(options.value(COMMAND_CONFIG), options.value(BOOTSTRAP_SERVER))
    offsets = read_offsets(read_text(options.value(OFFSET_JSON_FILE)))
    with_admin(properties, lambda session: _delete(session, offsets))
    return 0


def read_offsets(document: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition. Raises ToolError."""
    parsed = parse(document)
    if parsed is None:
        raise operation_error("The input string is not a valid JSON")
    version = number(fields(parsed).get("version", _VERSION))
    if version != _VERSION:
        raise operation_error(f"Not supported version field value {version}")
    if "partitions" not in parsed:
        raise operation_error("Missing partitions field")
    found: dict[TopicPartition, list[int]] = {}
    for each in elements(parsed["partitions"]):
        found.setdefault(_partition(each), []).append(number(member(each, "offset"), "Long"))
    twice = [str(partition) for partition, offsets in found.items() if len(offsets) > 1]
    if twice:
        raise CommandFailed(f"Offset json file contains duplicate topic partitions: {','.join(twice)}")
    return {partition: offsets[0] for partition, offsets in found.items()}


def _partition(entry: Any) -> TopicPartition:
    return TopicPartition(string(member(entry, "topic")), number(member(entry, "partition")))


async def _delete(session: AdminSession, offsets: dict[TopicPartition, int]) -> None:
    print("Executing records delete operation")
    answers = [await _delete_one(session, partition, offset) for partition, offset in sorted(offsets.items())]
    print("Records delete operation completed:")
    for answer in answers:
        print(answer)


async def _delete_one(session: AdminSession, partition: TopicPartition, offset: int) -> str:
    try:
        (done,) = await session.call(
            "deleteRecords(api=METADATA)", lambda admin: admin.records.delete_records({partition: offset})
        )
    except BrokerFailure as problem:
        return f"partition: {partition}\terror: {problem.of_future().message}"
    return f"partition: {partition}\tlow_watermark: {done.low_watermark}"
