"""The check of `kafkalite doctor` on consumer groups: how far they are behind, and who reads for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.doctor.findings import Finding, join_first, ok, problem, warning
from kafkalite.cli.output import format_count
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin

CHECK: Final = "groups"
Row = Mapping[str, Any]
"""A row of `group_offsets.progress`."""


async def check_groups(admin: Admin, max_lag: int) -> list[Finding]:
    """Return the findings about all groups; a lag of more than `max_lag` records is a warning. Raises ClientError."""
    from kafkalite.administration.group_offsets import offsets, partitions_of, progress

    listed = [each.group_id for each in await admin.list_groups()]
    described = await admin.describe_groups(listed)
    there = frozenset(partitions_of(await admin.describe_topics(await admin.list_topics(include_internal=True))))
    groups = {name: await progress(admin, each, there) for name, each in described.items()}
    behind = {_place(row) for rows in groups.values() for row in rows if row["lag"]}
    return judge(groups, await offsets(admin, sorted(behind), "earliest"), max_lag)


def judge(
    groups: Mapping[str, Sequence[Row]], earliest: Mapping[TopicPartition, int | None], max_lag: int
) -> list[Finding]:
    """Return a finding for each reason for care, one for all groups when there is none. `earliest` are first offsets of partitions."""
    findings = [finding for name, rows in groups.items() for finding in _judge_group(name, rows, earliest, max_lag)]
    lag = sum(row["lag"] or 0 for rows in groups.values() for row in rows)
    return findings or [ok(CHECK, f"{format_count(len(groups), 'group')}, {format_count(lag, 'record')} behind in all")]


def _judge_group(
    name: str, rows: Sequence[Row], earliest: Mapping[TopicPartition, int | None], max_lag: int
) -> list[Finding]:
    behind = [row for row in rows if row["lag"]]
    if not behind:
        return []
    lag = sum(row["lag"] for row in behind)
    is_empty = all(row["owner"] is None for row in rows)
    lost = [row for row in behind if (earliest.get(_place(row)) or 0) > row["committed_offset"]]
    if is_empty:
        remedy = f"start its consumers, or forget it if nobody needs it: kafkalite group delete {name}"
        gone = "; retention has deleted some of them" if lost else ""
        found = f"{name} has no members, and is {format_count(lag, 'record')} behind in {_places(behind)}{gone}"
        return [warning(CHECK, found, remedy)]
    findings = []
    if lost:
        remedy = "raise retention.ms or retention.bytes of the topic, or add consumers: what was deleted is never read"
        findings.append(
            problem(CHECK, f"{name}: records of {_places(lost)} were deleted before they were read", remedy)
        )
    if unread := [row for row in behind if row["owner"] is None]:
        remedy = f"see what its members are subscribed to: kafkalite group members {name}"
        findings.append(warning(CHECK, f"{name}: no member reads {_places(unread)}", remedy))
    if lag > max_lag:
        most = max(behind, key=lambda row: row["lag"])
        found = f"{name} is {format_count(lag, 'record')} behind, {most['lag']} of them in {_place(most)}"
        remedy = (
            f"see whether it grows: kafkalite group describe {name}; then add consumers, up to {len(rows)} for as many partitions, "
            "or find what slows them"
        )
        findings.append(warning(CHECK, found, remedy))
    return findings


def _place(row: Row) -> TopicPartition:
    return TopicPartition(row["topic"], row["partition"])


def _places(rows: Sequence[Row]) -> str:
    return join_first([str(_place(row)) for row in rows])
