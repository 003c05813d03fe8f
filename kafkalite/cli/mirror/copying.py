"""Copies what is no log: committed offsets of groups, ACLs and quotas; and reads the topics of both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.cli.mirror.administered.acl_listing import read_acls
from kafkalite.cli.mirror.administered.scram_users import tell_missing
from kafkalite.cli.mirror.plan import MirroredTopic
from kafkalite.client.errors import AdminError, ClientError
from kafkalite.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, OffsetAndMetadata
    from kafkalite.client.cluster.client import ClusterClient

_OF_THE_TOPIC: Final = "DYNAMIC_TOPIC_CONFIG"

GroupOffsets = dict[tuple[str, TopicPartition], "OffsetAndMetadata"]


async def choose_topics(admin: Admin, wanted: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the topics to be mirrored, which are `wanted` or all but internal ones, and the wanted ones that do not exist.

    Raises ClientError.
    """
    there = set(await admin.list_topics(include_internal=True))
    if not wanted:
        return sorted(there - INTERNAL_TOPICS), []
    return sorted(there & set(wanted)), sorted(set(wanted) - there)


async def read_topics(admin: Admin, names: Iterable[str]) -> dict[str, MirroredTopic]:
    """Return those of the topics that are there, with their own settings. Raises ClientError."""
    from kafkalite.client import ConfigResource

    there = sorted(set(names) & set(await admin.list_topics(include_internal=True)))
    if not there:
        return {}
    described = await admin.describe_topics(there)
    settings = await admin.describe_resource_configs([ConfigResource("topic", each) for each in there])
    return {
        each.name: MirroredTopic(
            each.name,
            each.topic_id,
            each.partitions,
            {
                entry.name: entry.value
                for entry in settings[ConfigResource("topic", each.name)].values()
                if entry.source == _OF_THE_TOPIC and entry.value is not None
            },
        )
        for each in described
    }


async def copy_group_offsets(
    source: Admin,
    target: Admin,
    is_chosen: Callable[[TopicPartition], bool],
    copied: GroupOffsets,
    *,
    with_epochs: bool = True,
) -> dict[str, str]:
    """Commit in the target what groups have committed for chosen partitions and is not in `copied`, which then has it; return the problems,
    by group. Raises ClientError.

    Leader epochs are left out where the target's are lower: consumers take no metadata of lower epochs than that of what they committed.
    """
    problems: dict[str, str] = {}
    for group in sorted({each.group_id for each in await source.list_groups()}):
        changed = {
            place: committed
            for place, committed in (await source.list_group_offsets(group)).items()
            if committed is not None and is_chosen(place) and copied.get((group, place)) != committed
        }
        taken = changed if with_epochs else {at: replace(each, leader_epoch=-1) for at, each in changed.items()}
        try:
            await target.alter_group_offsets(group, taken)
        except ClientError as problem:
            why = next(iter(problem.failures.values())) if isinstance(problem, AdminError) else problem
            problems[group] = f"offsets of group {group} are not copied: {why}"
            continue
        copied.update({(group, place): committed for place, committed in changed.items()})
    return problems


async def copy_acls(source: ClusterClient, target: ClusterClient, target_admin: Admin) -> list[str]:
    """Add the source's ACLs that the target lacks; return the problems. Those that only the target has stay.

    Raises ClientError, OSError.
    """
    wanted, unknown = await read_acls(source)
    problems = [f"ACL {each} is not copied: it is not known here" for each in unknown]
    if not wanted:
        return problems
    there, _ = await read_acls(target)
    if there is None:
        why = "the target has no authorizer, and everybody may do everything"
        return [*problems, f"{len(wanted)} ACLs are not copied: {why}"]
    try:
        await target_admin.create_acls(sorted(wanted - there))
    except AdminError as problem:
        problems += [f"ACLs are not copied: {each}" for each in problem.failures.values()]
    return problems


async def copy_quotas(source: Admin, target: Admin) -> list[str]:
    """Set the source's quotas in the target; return the problems. Those of entities that only the target has stay. Raises ClientError."""
    there = {each.entity: each.quotas for each in await target.describe_client_quotas()}
    changes: dict[object, Mapping[str, float | None]] = {}
    for each in await source.describe_client_quotas():
        has = there.get(each.entity, {})
        differing = {key: value for key, value in each.quotas.items() if has.get(key) != value}
        if differing:
            changes[each.entity] = differing
    if not changes:
        return []
    try:
        await target.alter_client_quotas(changes)  # type: ignore[arg-type]
    except AdminError as problem:
        return [f"quotas are not copied: {each}" for each in problem.failures.values()]
    return []


async def read_users(admin: Admin) -> dict[str, dict[str, int]]:
    """Return the iterations of SCRAM users' credentials, by mechanism. Raises ClientError."""
    found = await admin.describe_user_scram_credentials()
    return {user: {each.mechanism: each.iterations for each in some} for user, some in found.items()}


async def find_uncopied_users(source: Admin, target: Admin) -> list[str]:
    """Return a note about users whose SCRAM credentials the target lacks. Raises ClientError."""
    return tell_missing(await read_users(source), await read_users(target), "target")
