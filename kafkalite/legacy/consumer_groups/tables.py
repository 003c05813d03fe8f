"""The tables of `kafka-consumer-groups --describe`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.administration.group_offsets import lag_of
from kafkalite.legacy.command_line.failures import BrokerFailure
from kafkalite.legacy.consumer_groups.calls import Groups, in_runtime_exception, print_error

if TYPE_CHECKING:
    from kafkalite.client.admin.groups import GroupDescription
    from kafkalite.types import TopicPartition

NOTHING: Final = "-"
WIDTH: Final = 15
_INSTANCE_WIDTH: Final = 17
_OFFSET_TITLES: Final = (
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
)
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def offset_cells(committed: int | None, end: int | None) -> list[str]:
    """Return the cells CURRENT-OFFSET, LOG-END-OFFSET and LAG."""
    return [NOTHING if each is None else str(each) for each in (committed, end, lag_of(committed, end))]


def column_width(rows: Sequence[Sequence[str]], column: int, least: int = WIDTH) -> int:
    """Return the width of a column, which is `least` unless a cell needs more."""
    return max([least, *(len(row[column]) for row in rows)])


def pad_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line of the table."""
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))


@dataclass(frozen=True, slots=True)
class Row:
    """A partition of a group, or a member without partitions."""

    group: str
    partition: TopicPartition | None
    committed: int | None
    end: int | None
    member: str = NOTHING
    host: str = NOTHING
    client_id: str = NOTHING

    def cells(self) -> list[str]:
        where = [NOTHING, NOTHING] if self.partition is None else [str(each) for each in self.partition]
        numbers = offset_cells(self.committed, self.end)
        return [self.group, *where, *numbers, self.member, self.host, self.client_id]


def _has_rows(group: GroupDescription, count: int) -> bool:
    """Print the state of the group, and return True if there are rows to print below it."""
    sys.stdout.flush()
    if group.state == "Dead":
        print_error(f"Consumer group '{group.group_id}' does not exist.")
        return False
    if group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in _REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
    return count > 0


async def print_offsets(groups: Groups) -> None:
    tables = [(group, await _rows(groups, group)) for group in (await groups.describe_groups()).values()]
    for group, rows in tables:
        if not _has_rows(group, len(rows)):
            continue
        cells = [row.cells() for row in rows]
        widths = [
            column_width(cells, 0),
            column_width(cells, 1),
            10,
            15,
            15,
            15,
            column_width(cells, 6),
            column_width(cells, 7),
            0,
        ]
        for row in (_OFFSET_TITLES, *cells):
            print("\n" + pad_cells(row, widths), end="")


async def _rows(groups: Groups, group: GroupDescription) -> list[Row]:
    session, timeout_ms = groups.session, groups.timeout_ms
    name = "listConsumerGroupOffsets(api=FIND_COORDINATOR)"
    try:
        committed = await session.call(name, lambda admin: admin.groups.list_group_offsets(group.group_id), timeout_ms)
        with_partitions = sorted(
            (each for each in group.members if each.partitions), key=lambda member: -len(member.partitions)
        )
        assigned = {partition for member in with_partitions for partition in member.partitions}
        rest = sorted(each for each in committed if each not in assigned)
        wanted = dict.fromkeys([*assigned, *rest], -1)
        ends = (
            await session.call("listOffsets", lambda admin: admin.records.list_offsets(wanted), timeout_ms)
            if wanted
            else {}
        )
    except BrokerFailure as problem:
        raise in_runtime_exception(problem) from None

    def row(partition: TopicPartition, *member: str) -> Row:
        known, end = committed.get(partition), ends.get(partition)
        return Row(
            group.group_id,
            partition,
            None if known is None else known.offset,
            None if end is None else end.offset,
            *member,
        )

    rows = [
        row(partition, member.member_id, member.client_host, member.client_id)
        for member in with_partitions
        for partition in sorted(member.partitions)
    ]
    return rows + [row(partition) for partition in rest]


async def print_members(groups: Groups, *, verbose: bool) -> None:
    for group in (await groups.describe_groups()).values():
        members = group.members
        _has_rows(group, len(members))
        with_instance = any(each.group_instance_id for each in members)
        titles = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
        rows = [
            [
                group.group_id,
                each.member_id,
                each.group_instance_id or "",
                each.client_host,
                each.client_id,
                str(len(each.partitions)),
            ]
            for each in members
        ]
        widths = [column_width(rows, column) for column in range(5)] + [WIDTH]
        widths[2] = column_width(rows, 2, _INSTANCE_WIDTH)
        if not with_instance:
            titles, rows = _without(titles, 2), [_without(row, 2) for row in rows]
            widths = widths[:2] + widths[3:]
        print("\n" + pad_cells(titles, widths) + " " + ("ASSIGNMENT" if verbose else ""))
        for row, member in zip(rows, members, strict=True):
            print(pad_cells(row, widths) + " " + (_assignment(member.partitions) if verbose else ""))


def _without(cells: Sequence[str], column: int) -> list[str]:
    return [*cells[:column], *cells[column + 1 :]]


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    """Return the partitions of each topic in brackets, sorted as texts."""
    grouped: dict[str, list[str]] = {}
    for each in partitions:
        grouped.setdefault(each.topic, []).append(str(each.partition))
    return ", ".join(sorted(f"({','.join(sorted(numbers))})" for numbers in grouped.values())) or NOTHING


async def print_states(groups: Groups) -> None:
    described = await groups.describe_groups()
    if not described:
        return
    cluster = await groups.session.call("listNodes", lambda admin: admin.topics.describe_cluster(), groups.timeout_ms)
    brokers = {each.id: each for each in cluster.brokers}
    for group in described.values():
        if not _has_rows(group, 1):
            continue
        node = brokers[group.coordinator]
        coordinator = f"{node.host}:{node.port}  ({node.id})"
        widths = [max(25, len(coordinator)), 25, 20, 15, 0]
        titles = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
        values = [group.group_id, coordinator, group.assignor, group.state, str(len(group.members))]
        for row in (titles, values):
            print("\n" + pad_cells(row, widths), end="")
        print()
