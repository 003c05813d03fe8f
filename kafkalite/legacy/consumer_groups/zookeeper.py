"""`kafka-consumer-groups --zookeeper`, as in Kafka 1.1: groups that keep members, owners and offsets in ZooKeeper.

Committed offsets are those in Kafka for a group of that name (`offsets.storage=kafka`), else those in ZooKeeper. The ends of logs are
requested from the brokers that are registered there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.legacy.cluster.zookeeper_store import with_store
from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.consumer_groups.options import DELETE, DESCRIBE, GROUP, LIST, TIMEOUT, TOPIC, ZOOKEEPER
from kafkalite.legacy.consumer_groups.tables import NOTHING, WIDTH, column_width, offset_cells, pad_cells
from kafkalite.server_addresses import address_text
from kafkalite.types import TopicPartition
from zk import consumer_groups as groups
from zk import paths
from zk.consumer_groups import ConsumerGroup, Place
from zk.store import NoNodeError, Store
from zk.znodes import BrokerRegistration, MalformedZnodeError, TopicAssignment

if TYPE_CHECKING:
    from kafkalite.legacy.cluster.admin_session import AdminSession
    from kafkalite.legacy.command_line.option_parser import Options

_NOTE: Final = (
    "Note: This will only show information about consumers that use ZooKeeper (not those using the Java consumer API)."
)
_TITLES: Final = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID")
_NO_TIME_LIMIT_BELOW_MS: Final = 15_000
"""Lower bound of the time limit: Java's `channelSocketTimeoutMs` is longer than the tool's own limit."""


class _Found(NamedTuple):
    """The state of a group in ZooKeeper."""

    group: ConsumerGroup
    partitions: Sequence[Place]
    servers: str


def run(options: Options) -> int:
    """Return the exit status, which is 0 even after errors, as that of Kafka's tool."""
    print(_NOTE, file=sys.stderr)
    try:
        action = next(action for option, action in _ACTIONS.items() if options.has(option))
        action(options, options.value(ZOOKEEPER))
    except ToolError as problem:
        print(f"Error: Executing consumer group command failed due to {problem.message}")
    return 0


def _list(options: Options, connect: str) -> None:
    for group_id in with_store(connect, groups.group_ids):
        print(group_id)


# describing


def _describe(options: Options, connect: str) -> None:
    group_id = options.value(GROUP)
    found = with_store(connect, lambda store: _find(store, group_id))
    if found is None:
        print(f"Error: The consumer group '{group_id}' does not exist.")
        return
    from kafkalite.legacy.cluster.admin_session import admin_properties, with_admin

    offsets: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    if found.servers and found.partitions:
        time_limit_ms = max(_NO_TIME_LIMIT_BELOW_MS, options.value(TIMEOUT))

        async def ask(session: AdminSession) -> None:
            wanted = {TopicPartition(*each): -1 for each in found.partitions}
            committed = await session.call(
                "listConsumerGroupOffsets", lambda admin: admin.groups.list_group_offsets(group_id), time_limit_ms
            )
            offsets.update({each: known.offset for each, known in committed.items() if known is not None})
            told = await session.call("listOffsets", lambda admin: admin.records.list_offsets(wanted), time_limit_ms)
            ends.update({each: end.offset for each, end in told.items() if end is not None})

        with_admin(admin_properties(None, found.servers), ask)
    missing = [each for each in found.partitions if TopicPartition(*each) not in offsets]
    offsets.update(with_store(connect, lambda store: _offsets(store, group_id, missing)))
    _print_table(_rows(found, offsets, ends))


async def _find(store: Store, group_id: str) -> _Found | None:
    if not await groups.has_group(store, group_id):
        return None
    try:
        group = await groups.read_group(store, group_id)
    except NoNodeError as problem:
        raise _no_node(problem.path) from None
    except MalformedZnodeError as problem:
        raise ToolError(str(problem)) from None
    partitions: list[Place] = []
    for topic in sorted(group.owned_topics):
        try:
            data, _ = await store.read(paths.topic(topic))
        except NoNodeError:
            continue
        partitions += [(topic, index) for index in sorted(TopicAssignment.decode(data).partitions)]
    return _Found(group, partitions, await _servers(store))


async def _servers(store: Store) -> str:
    found = []
    for name in await store.children(paths.BROKER_IDS):
        data, _ = await store.read(f"{paths.BROKER_IDS}/{name}")
        registered = BrokerRegistration.decode(data).endpoints
        found += [address_text(each.host, each.port) for each in registered if each.security_protocol == "PLAINTEXT"][
            :1
        ]
    return ",".join(found)


async def _offsets(store: Store, group_id: str, missing: Sequence[Place]) -> dict[TopicPartition, int]:
    """Return the offsets in ZooKeeper, and print which partitions have none."""
    found = {}
    for place in missing:
        try:
            offset = await groups.read_offsets(store, group_id, [place])
        except MalformedZnodeError as problem:
            text = re.sub(r"^b['\"](.*)['\"] is no number.*$", r"\1", problem.problem)
            raise ToolError(f'For input string: "{text}"') from None
        if offset:
            found[TopicPartition(*place)] = offset[place]
        else:
            print(
                f"Error: Could not fetch offset from zookeeper for group '{group_id}' partition "
                f"'{place[0]}-{place[1]}' due to missing offset data in zookeeper."
            )
    return found


def _rows(found: _Found, offsets: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> list[tuple[str, ...]]:
    rows = []
    owners = found.group.owners
    for place in found.partitions:
        offset, end = offsets.get(TopicPartition(*place)), ends.get(TopicPartition(*place))
        numbers = offset_cells(offset, end)
        rows.append((place[0], str(place[1]), *numbers, owners.get(place, NOTHING)))
    read_by = set(owners.values())
    for member, subscription in found.group.members.items():
        if member not in read_by:
            rows += [(*[NOTHING] * (len(_TITLES) - 1), member)] * len(subscription.threads)
    return rows


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [column_width(rows, 0), 10, WIDTH, WIDTH, WIDTH, column_width(rows, -1)]
    print()
    for row in (_TITLES, *rows):
        print(pad_cells(row, widths) + " ")


# deleting


def _delete(options: Options, connect: str) -> None:
    topic: str | None = options.value(TOPIC) if options.has(TOPIC) else None
    if options.has(GROUP):
        for group_id in options.values(GROUP):
            print(with_store(connect, lambda store, group_id=group_id: _delete_group(store, group_id, topic)))  # type: ignore[misc]
    elif topic is not None:
        with_store(connect, lambda store: _delete_topic(store, topic))
        print(f"Deleted consumer group information for all inactive consumer groups for topic '{topic}' in zookeeper.")


async def _delete_group(store: Store, group_id: str, topic: str | None) -> str:
    """Delete a group and return the message about it."""
    about = f"'{group_id}'" + (f" topic '{topic}'" if topic is not None else "")
    try:
        if not await groups.has_group(store, group_id) or not await groups.delete_group(store, group_id, topic):
            reason = (
                "its consumers are still active" if await groups.has_group(store, group_id) else "group does not exist"
            )
            return f"Error: Delete for group {about} failed because {reason}."
    except NoNodeError:
        return f"Error: Delete for group {about} failed because group does not exist."
    what = "all consumer group information" if topic is None else "consumer group information"
    return f"Deleted {what} for group {about} in zookeeper."


async def _delete_topic(store: Store, topic: str) -> None:
    for group_id in await groups.group_ids(store):
        if await store.exists(paths.consumer_offsets(group_id, topic)) is not None:
            await _delete_group(store, group_id, topic)


def _no_node(path: str) -> ToolError:
    return ToolError(f"org.apache.zookeeper.KeeperException$NoNodeException: KeeperErrorCode = NoNode for {path}")


_ACTIONS: Final = {LIST: _list, DESCRIBE: _describe, DELETE: _delete}
