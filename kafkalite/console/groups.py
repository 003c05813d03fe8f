"""Consumer groups: their members and progress, and resets of their offsets, which are shown before they are executed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kafkalite import NAME
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
    from kafkalite.console.actions.plan import Where
    from kafkalite.console.survey import Survey

_SORTS: Final = ("group", "lag")
_FARTHEST: Final = 2**62
_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999, the last that a command line can name."""


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


def groups_of_topic(survey: Survey, topic: str) -> dict[str, Any]:
    """Return the groups that have committed for a topic, of those that the survey keeps, with their lag in it."""
    states = {each.group_id: each.state for each in survey.groups}
    rows = [
        {"group": group, "state": states.get(group), "lag": lags[topic]}
        for group, lags in survey.topic_lags.items()
        if topic in lags
    ]
    return {"rows": rows, "searched": len(survey.topic_lags), "all": len(survey.groups)}


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


async def reset(admin: Admin, group_id: str, asked: Parameters, where: Where) -> dict[str, Any]:
    """Return the changes of a reset, and the command line for it; with `execute` they are made. Raises HasMembersError,
    NothingThereError.
    """
    target, topic = target_of(asked), asked.text("topic", longest=300)
    require_no_members((await admin.describe_groups([group_id]))[group_id])
    try:
        plan = await reset_plan(admin, group_id, target, [topic] if topic else [], partitions_of)
    except ValueError as problem:
        raise BadRequestError(str(problem)) from None
    if asked.flag("execute"):
        await execute_plan(admin, group_id, plan)
    words = [NAME, "group", "reset-offsets", group_id, *(["--topic", topic] if topic else ["--all-topics"])]
    command = where.command_line([*words, *_target_words(target), "--execute"])
    return {"rows": plan, "command": command, "is_done": asked.flag("execute")}


def _target_words(target: Target) -> list[str]:
    """Return the option of `kafkalite group reset-offsets` for a target."""
    match target:
        case FromTime(time_ms):
            moment = datetime.fromtimestamp(min(time_ms, _LAST_MS) / 1000, UTC)
            return ["--to-datetime", moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")]
        case ToOffset(offset):
            return ["--to-offset", str(offset)]
        case Shift(by):
            return ["--shift-by", str(by)]
        case Named(name):
            return [f"--to-{name}"]
    raise BadRequestError(f"{target} has no command line")
