"""`kafka-consumer-groups --reset-offsets` and `--delete-offsets`."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.administration.group_offsets import partitions_of as all_partitions
from kafkalite.legacy.command_line.entry import log
from kafkalite.legacy.command_line.failures import BrokerFailure, ToolError
from kafkalite.legacy.consumer_groups import options as tool
from kafkalite.legacy.consumer_groups.calls import Groups, in_runtime_exception, print_error
from kafkalite.offset_reset import Bounds, Listed, Shift, Target, ToOffset, new_offset, wanted_offset
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.records import OffsetAndMetadata

Offsets = dict[TopicPartition, int]

_LATEST, _EARLIEST = -1, -2
_NOTHING: Final[Mapping[TopicPartition, int]] = MappingProxyType({})
_LOGGER: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_FREE_STATES: Final = ("Empty", "Dead")
_SCENARIOS_AS_SHOWN: Final = (
    *(tool.TO_OFFSET, tool.TO_CURRENT, tool.TO_DATETIME, tool.FROM_FILE),
    *(tool.BY_DURATION, tool.TO_EARLIEST, tool.TO_LATEST, tool.SHIFT_BY),
)
_ROW: Final = "{:<30} {:<30} {:<10} {:<15}"
_LONGEST_UNQUOTED: Final = 24
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE
)
_DATETIME: Final = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(Z|[-+]\d\d(?::?\d\d)?)")


async def reset(groups: Groups) -> None:
    """Reset the offsets of the groups, or only print the new ones. Raises ToolError."""
    options = groups.options
    moved: dict[str, Offsets] = {}
    try:
        for group_id, description in (await groups.describe_groups()).items():
            if description.state not in _FREE_STATES:
                print_error(
                    f"Assignments can only be reset if the group '{group_id}' is inactive, "
                    f"but the current state is {description.state}."
                )
                moved[group_id] = {}
                continue
            target = await _Reset(groups, group_id).target()
            if options.has(tool.EXECUTE) and not options.has(tool.DRY_RUN):
                await groups.session.call(
                    "alterConsumerGroupOffsets(api=FIND_COORDINATOR)",
                    lambda admin, group=group_id, to=target: admin.groups.alter_group_offsets(group, to),  # type: ignore[misc]
                    groups.timeout_ms,
                )
            moved[group_id] = target
    except BrokerFailure as problem:
        raise in_runtime_exception(problem) from None
    if options.has(tool.EXPORT):
        print(_as_csv(moved, with_group=len(options.values(tool.GROUP)) != 1))
    else:
        _print(moved)


def _print(moved: Mapping[str, Offsets]) -> None:
    """Print the table without line ends between its rows, as Kafka 3.9 does."""
    if moved:
        print("\n" + _ROW.format("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), end="")
    for group_id, offsets in moved.items():
        for each, offset in sorted(offsets.items()):
            print(_ROW.format(group_id, each.topic, each.partition, offset), end="")


def _as_csv(moved: Mapping[str, Offsets], *, with_group: bool) -> str:
    lines = []
    for group_id, offsets in moved.items():
        for each, offset in sorted(offsets.items()):
            fields = [each.topic, str(each.partition), str(offset)]
            lines.append(",".join(_quote_field(field) for field in ([group_id, *fields] if with_group else fields)))
    return "".join(f"{line}\n" for line in lines)


def _quote_field(field: str) -> str:
    """Return a field in quotes where Kafka's CSV writer puts them: longer texts, and those with characters up to the comma."""
    if len(field) <= _LONGEST_UNQUOTED and all(each > "," for each in field):
        return field
    return '"' + field.replace('"', '""') + '"'


class _Reset:
    """Finds the new offsets of one group."""

    def __init__(self, groups: Groups, group_id: str) -> None:
        self._options, self._groups, self._group_id = groups.options, groups, group_id

    async def target(self) -> Offsets:
        options = self._options
        partitions = await self._partitions()
        if options.has(tool.TO_OFFSET):
            return await self._within_bounds(ToOffset(options.value(tool.TO_OFFSET)), partitions)
        if options.has(tool.TO_EARLIEST):
            return await self._offsets(partitions, _EARLIEST)
        if options.has(tool.TO_LATEST):
            return await self._offsets(partitions, _LATEST)
        if options.has(tool.SHIFT_BY):
            return await self._shift_offsets(partitions, Shift(options.value(tool.SHIFT_BY)))
        if options.has(tool.TO_DATETIME):
            return await self._at(partitions, timestamp_ms(options.value(tool.TO_DATETIME)))
        if options.has(tool.BY_DURATION):
            now_ms = time.time_ns() // 1_000_000
            return await self._at(partitions, now_ms - duration_ms(options.value(tool.BY_DURATION)))
        if options.has(tool.FROM_FILE):
            return await self._from_file(options.value(tool.FROM_FILE))
        if options.has(tool.TO_CURRENT):
            return await self._current(partitions)
        scenarios = ", ".join(map(str, _SCENARIOS_AS_SHOWN))
        options.refuse(f"Option '{tool.RESET_OFFSETS}' requires one of the following scenarios: [{scenarios}]")
        return {}

    async def _partitions(self) -> list[TopicPartition]:
        options = self._options
        if options.has(tool.ALL_TOPICS):
            return list(await self._fetch_committed())
        if options.has(tool.TOPIC):
            return await partitions_of(self._groups, options.values(tool.TOPIC))
        if not options.has(tool.FROM_FILE):
            options.refuse("One of the reset scopes should be defined: --all-topics, --topic.")
        return []

    async def _fetch_committed(self) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._groups.session.call(
            "listConsumerGroupOffsets(api=FIND_COORDINATOR)",
            lambda admin: admin.groups.list_group_offsets(self._group_id),
            self._groups.timeout_ms,
        )

    async def _offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> Offsets:
        """Return the offsets at a time, for partitions with a record at or after it."""
        wanted = dict.fromkeys(partitions, timestamp)
        if not wanted:
            return {}
        found = await self._groups.session.call(
            "listOffsets(api=METADATA)", lambda admin: admin.records.list_offsets(wanted), self._groups.timeout_ms
        )
        return {each: answer.offset for each, answer in found.items() if answer is not None}

    async def _within_bounds(
        self, target: Target, partitions: Collection[TopicPartition], current: Mapping[TopicPartition, int] = _NOTHING
    ) -> Offsets:
        earliest, latest = await self._offsets(partitions, _EARLIEST), await self._offsets(partitions, _LATEST)
        found = {}
        for each in partitions:
            offset = wanted_offset(target, each, current.get(each))
            nearest = new_offset(target, each, current.get(each), Bounds(earliest[each], latest[each]), None)
            if offset is not None and nearest != offset:
                side = "lower than earliest" if nearest > offset else "higher than latest"
                log(
                    "WARN",
                    f"New offset ({offset}) is {side} offset for topic partition {each}. Value will be set to {nearest}",
                    _LOGGER,
                )
            found[each] = nearest
        return found

    async def _shift_offsets(self, partitions: Sequence[TopicPartition], target: Shift) -> Offsets:
        committed = await self._fetch_committed()
        current = {}
        for each in partitions:
            known = committed.get(each)
            if known is None:
                raise ToolError(f"Cannot shift offset for partition {each} since there is no current committed offset")
            current[each] = known.offset
        return await self._within_bounds(target, partitions, current)

    async def _at(self, partitions: Sequence[TopicPartition], time_ms: int) -> Offsets:
        found = await self._offsets(partitions, time_ms)
        late = [each for each in partitions if each not in found]
        for each in late:
            print(
                f"\nWarn: Partition {each.partition} from topic {each.topic} is empty. "
                "Falling back to latest known offset."
            )
        return {**found, **await self._offsets(late, _LATEST)}

    async def _current(self, partitions: Sequence[TopicPartition]) -> Offsets:
        committed = await self._fetch_committed()
        known = {each: found.offset for each in partitions if (found := committed.get(each)) is not None}
        return {**known, **await self._offsets((each for each in partitions if each not in known), _LATEST)}

    async def _from_file(self, path: str) -> Offsets:
        from kafkalite.legacy.java.json_documents import read_text

        try:
            plan = read_plan(read_text(path), self._options.values(tool.GROUP))
        except ToolError as problem:
            raise ToolError(str(problem), "java.lang.RuntimeException", problem) from None
        if self._group_id not in plan:
            print_error(f"No reset plan for group {self._group_id} found")
            return {}
        offsets = plan[self._group_id]
        return await self._within_bounds(Listed(offsets), offsets)


async def partitions_of(groups: Groups, arguments: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of "topic" or "topic:0,1" arguments. Raises ToolError."""
    found, topics = [], []
    for argument in arguments:
        if ":" in argument:
            found += _parse_partitions(argument)
        else:
            topics.append(argument)
    if topics:
        described = await groups.session.call(
            "describeTopics", lambda admin: admin.topics.describe_topics(topics), groups.timeout_ms
        )
        found += all_partitions(described)
    return found


def _parse_partitions(argument: str) -> list[TopicPartition]:
    parts = argument.rstrip(":").split(":")
    if len(parts) != 2:
        raise ToolError(f"Invalid topic arg '{argument}', expected topic name and partitions")
    found = []
    for number in parts[1].split(","):
        if not number.removeprefix("-").isdigit():
            raise ToolError(f"Invalid partition '{number}' specified in topic arg '{argument}''")
        found.append(TopicPartition(parts[0], int(number)))
    return found


def read_plan(document: str, groups: Sequence[str]) -> dict[str, Offsets]:
    """Return the offsets of a file by group. Lines are topic, partition, offset for the one group, or begin with the group. Raises
    ToolError.
    """
    plan: dict[str, Offsets] = {}
    for fields in csv.reader(io.StringIO(document)):
        row = [*groups, *fields] if len(fields) == 3 and len(groups) == 1 else fields
        try:
            group_id, topic, partition, offset = row
            plan.setdefault(group_id, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise ToolError(
                f"Cannot read the line {','.join(fields)!r}",
                "com.fasterxml.jackson.databind.exc.InvalidFormatException",
            ) from None
    return plan


def timestamp_ms(given: str) -> int:
    """Return the ms since 1970 of a time like 2013-01-31T06:00:00.000, in UTC when no zone is named. Raises ToolError."""
    _date, separator, clock = given.partition("T")
    if not separator or not clock:
        raise _unparseable("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    text = given if any(each in clock for each in "+-Z") else f"{given}Z"
    match = _DATETIME.match(text)
    try:
        if match is None:
            raise ValueError(text)
        *numbers, zone = match.groups()
        year, month, day, hour, minute, second, milliseconds = map(int, numbers)
        local = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise _unparseable(f'Unparseable date: "{text}"') from None
    since = (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return since + milliseconds - _zone_ms(zone)


def _zone_ms(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return (-1 if zone[0] == "-" else 1) * minutes * 60_000


def _unparseable(message: str) -> ToolError:
    return ToolError(f"java.text.ParseException: {message}", "java.lang.RuntimeException")


def duration_ms(given: str) -> int:
    """Return the ms of a duration like P1DT2H30M, as `java.time.Duration` reads it. Raises ToolError."""
    match = _DURATION.fullmatch(given)
    if match is None or not any(match.groups()[1:]) or (match[3] or "").upper() == "T":
        raise ToolError("Text cannot be parsed to a Duration", "java.time.format.DateTimeParseException")
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    total_ms = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60_000 + int(seconds or 0) * 1000
    total_ms += int((fraction or "0").ljust(3, "0")[:3]) * (-1 if (seconds or "").startswith("-") else 1)
    return -total_ms if sign == "-" else total_ms


# --delete-offsets


async def delete_offsets(groups: Groups) -> None:
    """Delete committed offsets, and print the result of each partition."""
    group_id, topics = groups.options.value(tool.GROUP), groups.options.values(tool.TOPIC)
    results: dict[tuple[str, int], BrokerFailure | None] = {}
    partitions = await _existing_partitions(groups, topics, results)
    whole: BrokerFailure | None = None
    try:
        await groups.session.call(
            "deleteConsumerGroupOffsets(api=FIND_COORDINATOR)",
            lambda admin: admin.groups.delete_group_offsets(group_id, partitions),
            groups.timeout_ms,
        )
        results.update(dict.fromkeys(partitions))
    except BrokerFailure as problem:
        whole = problem
        results.update({each: _of_partition(problem, each) for each in partitions})
    _print_outcome(whole, topics, group_id)
    row = "{:<30} {:<15} {:<15}"
    print("\n" + row.format("TOPIC", "PARTITION", "STATUS"), end="")
    for (topic, number), failure in sorted(results.items(), key=lambda found: f"{found[0][0]}{found[0][1]}"):
        status = "Successful" if failure is None else f"Error: :{failure.of_future().message}"
        print(row.format(topic, number if number >= 0 else "Not Provided", status), end="")


def _of_partition(problem: BrokerFailure, partition: TopicPartition) -> BrokerFailure | None:
    return problem.failures.get(str(partition)) if problem.failures else problem


async def _existing_partitions(
    groups: Groups, arguments: Iterable[str], results: dict[tuple[str, int], BrokerFailure | None]
) -> list[TopicPartition]:
    """Return the partitions of the arguments; unknown topics are entered into `results`."""
    found: list[TopicPartition] = []
    for argument in arguments:
        try:
            found += await partitions_of(groups, [argument])
        except BrokerFailure as problem:
            results[argument, -1] = problem
    return found


def _print_outcome(problem: BrokerFailure | None, topics: Sequence[str], group_id: str) -> None:
    from kafkalite.errors import ErrorCode

    if problem is None:
        print(f"Request succeed for deleting offsets with topic {', '.join(topics)} group {group_id}")
        return
    explanations = {
        ErrorCode.INVALID_GROUP_ID: f"'{group_id}' is not valid.",
        ErrorCode.GROUP_ID_NOT_FOUND: f"'{group_id}' does not exist.",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: f"Access to '{group_id}' is not authorized.",
        ErrorCode.NON_EMPTY_GROUP: (
            f"Deleting offsets of a consumer group '{group_id}' is forbidden if the group is not empty."
        ),
    }
    partition_level = "Encounter some partition level error, see the follow-up details:"
    for code in (
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ):
        explanations[code] = partition_level
    code = ErrorCode(problem.code)
    print_error(explanations.get(code, f"Encounter some unknown error: {code.name}"))
