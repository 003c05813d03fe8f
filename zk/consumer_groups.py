"""Groups of the old consumers in ZooKeeper (Kafka 0.8 to 1.1, before `KafkaConsumer`).

    /consumers/<group>/ids/<member>                   what a member subscribes to; ephemeral
    /consumers/<group>/owners/<topic>/<partition>     the thread of a member that reads it, `<member>-<number>`; ephemeral
    /consumers/<group>/offsets/<topic>/<partition>    the next record, see `znodes.ConsumerOffset`

Znodes that are deleted during a read are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from zk import paths
from zk.store import NoNodeError, Store
from zk.subtree import delete_subtree, list_children
from zk.znodes.consumers import ConsumerOffset, ConsumerSubscription

AT_ONCE: Final = 64

_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")
Place: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A group in ZooKeeper; `owned_topics` are those for which it has ever had owners."""

    group_id: str
    members: Mapping[str, ConsumerSubscription]
    owned_topics: Sequence[str]
    owners: Mapping[Place, str] = field(default_factory=dict)
    """The member that reads a partition."""


async def group_ids(store: Store) -> list[str]:
    """Return all groups, also those without members."""
    return await list_children(store, paths.CONSUMERS)


async def has_group(store: Store, group_id: str) -> bool:
    """True if the group has a znode, which names that are invalid in paths never have."""
    try:
        path = paths.check(paths.consumer_group(group_id))
    except ValueError:
        return False
    return "/" not in group_id and await store.exists(path) is not None


async def is_active(store: Store, group_id: str) -> bool:
    """True if the group has members. Raises NoNodeError for a group that never had any."""
    return bool(await store.children(paths.consumer_ids(group_id)))


async def read_group(store: Store, group_id: str) -> ConsumerGroup:
    """Return the members of a group and their partitions. Raises NoNodeError for a group that never had members, MalformedZnodeError."""
    ids = await store.children(paths.consumer_ids(group_id))
    subscriptions = await _each(ids, lambda member: store.read(paths.consumer_id(group_id, member)))
    topics = await list_children(store, paths.consumer_owners(group_id))
    partitions = await _places(store, topics, lambda topic: paths.consumer_owners(group_id, topic))
    owners = await _each(partitions, lambda place: store.read(paths.consumer_owner(group_id, *place)))
    return ConsumerGroup(
        group_id,
        {member: ConsumerSubscription.decode(found) for member, (found, _) in subscriptions.items()},
        topics,
        {place: thread.decode(errors="replace").rpartition("-")[0] for place, (thread, _) in owners.items()},
    )


async def read_offsets(store: Store, group_id: str, places: Iterable[Place] | None = None) -> dict[Place, int]:
    """Return the offsets of partitions, None for all; absent ones are left out. Raises MalformedZnodeError."""
    if places is None:
        topics = await list_children(store, paths.consumer_offsets(group_id))
        places = await _places(store, topics, lambda topic: paths.consumer_offsets(group_id, topic))
    found = await _each(list(places), lambda place: store.read(paths.consumer_offset(group_id, *place)))
    return {place: ConsumerOffset.decode(content).offset for place, (content, _) in found.items()}


async def delete_group(store: Store, group_id: str, topic: str | None = None) -> bool:
    """Delete a group, or its data of a topic; False if it has members. Raises NoNodeError for a group that never had any."""
    if await is_active(store, group_id):
        return False
    if topic is None or await list_children(store, paths.consumer_owners(group_id)) == [topic]:
        await delete_subtree(store, paths.consumer_group(group_id))
    else:
        await delete_subtree(store, paths.consumer_owners(group_id, topic))
        await delete_subtree(store, paths.consumer_offsets(group_id, topic))
    return True


async def _places(store: Store, topics: Sequence[str], parent: Callable[[str], str]) -> list[Place]:
    partitions = await _each(topics, lambda topic: store.children(parent(topic)))
    return [
        (topic, int(name))
        for topic, names in partitions.items()
        for name in sorted(names, key=lambda name: (len(name), name))
        if name.isascii() and name.isdigit() and len(name) <= 10
    ]


async def _each(keys: Sequence[_KeyT], ask: Callable[[_KeyT], Awaitable[_ValueT]]) -> dict[_KeyT, _ValueT]:
    """Await `ask` for each key, AT_ONCE at a time; return the answers without absent znodes."""
    found: dict[_KeyT, _ValueT] = {}
    for first in range(0, len(keys), AT_ONCE):
        portion = keys[first : first + AT_ONCE]
        answers = await asyncio.gather(*map(ask, portion), return_exceptions=True)
        for key, answer in zip(portion, answers, strict=True):
            if isinstance(answer, NoNodeError):
                continue
            if isinstance(answer, BaseException):
                raise answer
            found[key] = answer
    return found
