"""Copies what is no log: committed offsets of groups, ACLs and quotas; and reads the topics of both sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.cli.mirror.plan import MirroredTopic
from kafkalite.client.errors import AdminError, ClientError
from kafkalite.errors import ErrorCode
from kafkalite.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Admin, OffsetAndMetadata

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


async def copy_acls(source: Admin, target: Admin) -> list[str]:
    """Add the source's ACLs that the target lacks; return the problems. Those that only the target has stay. Raises ClientError."""
    try:
        wanted = await source.describe_acls()
    except ClientError as problem:
        if problem.code is ErrorCode.SECURITY_DISABLED:
            return []
        raise
    if not wanted:
        return []
    try:
        there = set(await target.describe_acls())
    except ClientError as problem:
        if problem.code is ErrorCode.SECURITY_DISABLED:
            return [f"{len(wanted)} ACLs are not copied: the target has no authorizer, and everybody may do everything"]
        raise
    try:
        await target.create_acls([each for each in wanted if each not in there])
    except AdminError as problem:
        return [f"ACLs are not copied: {each}" for each in problem.failures.values()]
    return []


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


async def find_uncopied_users(source: Admin, target: Admin) -> list[str]:
    """Return a note about users whose SCRAM credentials the target lacks: no API tells or takes what a password was turned into.

    Raises ClientError.
    """
    users = set(await source.describe_user_scram_credentials())
    missing = sorted(users - set(await target.describe_user_scram_credentials()))
    if not missing:
        return []
    return [f"set the passwords of {', '.join(missing)} in the target: SCRAM credentials cannot be copied"]
