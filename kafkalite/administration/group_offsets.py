"""Committed offsets and lag of groups, and resets of their offsets, for `kafkalite group` and the console."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kafkalite.offset_reset import Bounds, FromTime, Listed, Target, new_offset
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, GroupDescription, TopicDescription
    from kafkalite.client.records import OffsetAndMetadata

Choice = Callable[[list["TopicDescription"]], list[TopicPartition]]
"""Returns the selected partitions of topics."""


class NothingThereError(Exception):
    """Raised when a group has committed nothing, or a partition does not exist."""


class HasMembersError(Exception):
    """Raised when a group has members, which would commit over other offsets."""


async def progress(
    admin: Admin, described: GroupDescription, there: Container[TopicPartition] | None = None
) -> list[dict[str, Any]]:
    """Return a row for each partition that the group has committed for or that a member owns.

    Ends are requested for the partitions `there`; without it the cluster is asked which of them exist.
    """
    committed = await admin.list_group_offsets(described.group_id)
    owners = {partition: member for member in described.members for partition in member.partitions}
    partitions = sorted({*committed, *owners})
    known = await existing(admin, partitions) if there is None else [each for each in partitions if each in there]
    ends = await offsets(admin, known, "latest")
    rows = []
    for each in partitions:
        position, owner = committed.get(each), owners.get(each)
        row = progress_row(described.group_id, described.state, each, committed_offset(position), ends.get(each))
        if owner:
            row.update(
                owner=owner.member_id,
                client_id=owner.client_id,
                client_host=owner.client_host,
                group_instance_id=owner.group_instance_id,
            )
        if position:
            row.update(leader_epoch=position.leader_epoch, metadata=position.metadata)
        rows.append(row)
    return rows


def lag_of(committed: int | None, end: int | None) -> int | None:
    """Return the records between a committed offset and the end of the log, None when either is unknown."""
    return None if committed is None or end is None else end - committed


def progress_row(
    group_id: str,
    state: str,
    partition: TopicPartition,
    committed: int | None,
    end: int | None,
    owner: str | None = None,
) -> dict[str, Any]:
    """Return a row for one partition of a group, without the details that only Kafka has of a member and of a commit."""
    return {
        "group": group_id,
        "state": state,
        **partition._asdict(),
        "committed_offset": committed,
        "end_offset": end,
        "lag": lag_of(committed, end),
        "owner": owner,
        "client_id": None,
        "client_host": None,
        "group_instance_id": None,
        "leader_epoch": None,
        "metadata": None,
    }


def partition_totals(rows: Sequence[dict[str, Any]]) -> dict[str, int | None]:
    """Return the number of partitions in `progress` rows and their lag in all, None when no lag is known."""
    lags = [each["lag"] for each in rows if each["lag"] is not None]
    return {"partitions": len(rows), "lag": sum(lags) if lags else None}


async def existing(admin: Admin, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that exist: a group may have committed for a topic that was deleted since."""
    wanted = list(partitions)
    if not wanted:
        return []
    described = await admin.describe_topics_at(None, sorted({each.topic for each in wanted}))
    found = set(partitions_of(list(described.values())))
    return [each for each in wanted if each in found]


async def offsets(
    admin: Admin, partitions: Iterable[TopicPartition], asked: int | str
) -> dict[TopicPartition, int | None]:
    """Return the "earliest" or "latest" offset of each partition, or the first at or after a time (ms); None where there is none."""
    found = await admin.list_offsets(dict.fromkeys(partitions, asked))
    return {partition: each.offset if each else None for partition, each in found.items()}


def partitions_of(described: Iterable[TopicDescription]) -> list[TopicPartition]:
    """Return all partitions of topics."""
    return [TopicPartition(topic.name, each.partition) for topic in described for each in topic.partitions]


def require_no_members(described: GroupDescription) -> None:
    """Raise HasMembersError when the group has members, which would commit over the new offsets."""
    if described.has_members:
        names = ", ".join(f"{each.member_id} at {each.client_host}" for each in described.members)
        raise HasMembersError(
            f"group {described.group_id} is {described.state}; stop its members first: {names or 'not known yet'}"
        )


async def reset_plan(
    admin: Admin, group_id: str, target: Target, topics: Iterable[str], choose: Choice
) -> list[dict[str, Any]]:
    """Return a row for each partition, with its committed and its new offset. Raises NothingThereError.

    The partitions are those of `topics` that `choose` selects; without topics all that the group has committed for.
    """
    committed = await admin.list_group_offsets(group_id)
    named = sorted(topics)
    if isinstance(target, Listed):
        wanted = sorted(target.offsets)
    elif named:
        wanted = choose(await admin.describe_topics(named))
    else:
        wanted = sorted(committed)
        if not wanted:
            raise NothingThereError(f"group {group_id} has committed nothing, or is not there")
    missing = sorted(set(wanted) - set(await existing(admin, wanted)))
    if missing:
        raise NothingThereError(f"there is no partition {', '.join(map(str, missing))}")
    earliest, latest = await offsets(admin, wanted, "earliest"), await offsets(admin, wanted, "latest")
    at_time = await offsets(admin, wanted, target.timestamp_ms) if isinstance(target, FromTime) else {}
    rows = []
    for each in wanted:
        current = committed_offset(committed.get(each))
        bounds = Bounds(earliest[each] or 0, latest[each] or 0)
        row = {"group": group_id, **each._asdict(), "committed_offset": current}
        rows.append({**row, "new_offset": new_offset(target, each, current, bounds, at_time.get(each))})
    return rows


async def execute_plan(admin: Admin, group_id: str, plan: Iterable[dict[str, Any]]) -> None:
    """Commit the new offsets of `reset_plan`."""
    moved = {TopicPartition(row["topic"], row["partition"]): row["new_offset"] for row in plan}
    await admin.alter_group_offsets(group_id, moved)


def committed_offset(committed: OffsetAndMetadata | None) -> int | None:
    """Return the committed offset, None where nothing is committed."""
    return committed.offset if committed else None
