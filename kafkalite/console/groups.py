"""Consumer groups: their members and progress, and resets of their offsets, which are shown before they are executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.administration.group_offsets import (
    execute_plan,
    partitions_of,
    progress,
    require_no_members,
    reset_plan,
)
from kafkalite.console.parameters import BadRequestError, Parameters, cut_page
from kafkalite.offset_reset import FromTime, Named, Shift, Target, ToOffset

if TYPE_CHECKING:
    from kafkalite.client import Admin
    from kafkalite.console.survey import Survey

_SORTS: Final = ("group", "lag")
_FARTHEST: Final = 2**62


def group_list(survey: Survey, asked: Parameters) -> dict[str, Any]:
    """Return a page of groups; lag is known for those that the survey keeps."""
    wanted = asked.text("filter", longest=300).lower()
    rows = [
        {
            "group": each.group_id,
            "state": each.state,
            "protocol_type": each.protocol_type,
            "coordinator": each.coordinator,
            "lag": survey.lags.get(each.group_id),
        }
        for each in survey.groups
        if wanted in each.group_id.lower()
    ]
    if asked.one_of("sort", _SORTS, "group") == "lag":
        rows.sort(key=lambda row: -1 if row["lag"] is None else row["lag"], reverse=True)
    return {**cut_page(rows, *asked.page()), "all": len(survey.groups)}


async def one_group(admin: Admin, survey: Survey, group_id: str) -> dict[str, Any]:
    """Return state, members, a row for each partition, and the lag of the last hour."""
    described = (await admin.describe_groups([group_id]))[group_id]
    rows = await progress(admin, described, survey.ends)
    if described.state == "Dead" and not rows:
        raise BadRequestError(f"there is no group {group_id}")
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    members = [
        {**each.to_dict(), "partitions": [str(partition) for partition in each.partitions]}
        for each in described.members
    ]
    return {
        "group": group_id,
        "state": described.state,
        "protocol_type": described.protocol_type,
        "assignor": described.assignor,
        "coordinator": described.coordinator,
        "members": members,
        "partitions": rows,
        "lag": sum(lags) if lags else None,
        "history": survey.watched_groups.of(group_id).to_dict(),
    }


def target_of(asked: Parameters) -> Target:
    """Return the target of a reset. `to` is earliest, latest, time (ms since 1970), offset or shift; the last three take `at`. Raises
    BadRequestError.
    """
    match asked.one_of("to", ("earliest", "latest", "time", "offset", "shift"), "latest"):
        case "time":
            return FromTime(asked.number("at", -1))
        case "offset":
            return ToOffset(asked.number("at", -1))
        case "shift":
            return Shift(asked.number("at", _FARTHEST, -_FARTHEST + 1, _FARTHEST - 1))
        case name:
            return Named(name)


async def reset(admin: Admin, group_id: str, asked: Parameters) -> dict[str, Any]:
    """Return the changes of a reset; with `execute` they are made. Raises HasMembersError, NothingThereError."""
    target, topic = target_of(asked), asked.text("topic", longest=300)
    require_no_members((await admin.describe_groups([group_id]))[group_id])
    try:
        plan = await reset_plan(admin, group_id, target, [topic] if topic else [], partitions_of)
    except ValueError as problem:
        raise BadRequestError(str(problem)) from None
    if asked.flag("execute"):
        await execute_plan(admin, group_id, plan)
    return {"rows": plan, "is_done": asked.flag("execute")}
