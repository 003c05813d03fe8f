"""Consumer groups deleted."""

from __future__ import annotations

from functools import partial

from kafkalite import NAME
from kafkalite.administration.group_offsets import require_no_members
from kafkalite.console.actions.plan import Plan, Scene
from kafkalite.console.parameters import BadRequestError


async def plan_deletion(scene: Scene) -> Plan:
    """Plan the end of `group` with all that it has committed. Raises HasMembersError."""
    group_id = scene.name("group", "the group")
    described = (await scene.admin.describe_groups([group_id]))[group_id]
    committed = await scene.admin.list_group_offsets(group_id)
    if described.state == "Dead" and not committed:
        raise BadRequestError(f"there is no group {group_id}")
    require_no_members(described)
    rows = [
        {"topic": place.topic, "partition": place.partition, "committed_offset": position.offset}
        for place, position in committed.items()
        if position is not None
    ]
    return Plan(
        ("topic", "partition", "committed_offset"),
        rows,
        ((NAME, "group", "delete", group_id, "--yes"),),
        partial(scene.admin.delete_groups, [group_id]),
        ("What the group has committed is lost: a consumer of this name begins where auto.offset.reset says.",),
        confirm=group_id,
    )
