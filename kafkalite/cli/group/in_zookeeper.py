"""`kafkalite group list|describe --in-zookeeper`: groups that keep members, owners and offsets in ZooKeeper, beside those of Kafka.

A group that commits to both is shown twice; `kept_in` tells which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from kafkalite.cli.output import note
from kafkalite.cli.zookeeper.session import with_session, zookeeper_option
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from zk.consumer_groups import ConsumerGroup, Place
    from zk.session import Session
    from zk.store import Store

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

KAFKA: Final = "kafka"
ZOOKEEPER: Final = "zookeeper"
_PROTOCOL_TYPE: Final = "consumer"


class OldGroup(NamedTuple):
    """A group as ZooKeeper has it."""

    group: ConsumerGroup
    offsets: dict[Place, int]

    @property
    def state(self) -> str:
        """In the words for groups of Kafka."""
        return "Stable" if self.group.members else "Empty"

    @property
    def places(self) -> list[TopicPartition]:
        """What it has committed for or reads."""
        return sorted(TopicPartition(*each) for each in {*self.offsets, *self.group.owners})


def in_zookeeper_option(function: Decorated) -> Decorated:
    """The option `--in-zookeeper`, and where ZooKeeper is."""
    return click.option(
        "--in-zookeeper",
        is_flag=True,
        help="Also groups that keep their offsets in ZooKeeper, as consumers of Kafka 0.8 did.",
    )(zookeeper_option(function))


def find_old_groups(connect: str, names: Iterable[str] | None = None) -> list[OldGroup]:
    """Those of these names that there are, all without names. Errors end the command; who cannot be read is named and left out."""
    from zk import consumer_groups
    from zk.znodes import MalformedZnodeError

    found: list[OldGroup] = []

    async def use(session: Session) -> None:
        known = await consumer_groups.group_ids(session.store)
        for group_id in known if names is None else sorted({*names} & {*known}):
            try:
                found.append(await _read(session.store, group_id))
            except MalformedZnodeError as problem:
                note(f"{group_id} in ZooKeeper: {problem}")

    with_session(connect, use)
    return found


async def _read(store: Store, group_id: str) -> OldGroup:
    from zk.consumer_groups import ConsumerGroup, read_group, read_offsets
    from zk.store import NoNodeError

    try:
        group = await read_group(store, group_id)
    except NoNodeError:
        group = ConsumerGroup(group_id, {}, ())
    return OldGroup(group, await read_offsets(store, group_id))


def listed(old: OldGroup) -> dict[str, Any]:
    """A row of `list`."""
    return {**_head(old), "group_type": "", "kept_in": ZOOKEEPER}


def _head(old: OldGroup) -> dict[str, Any]:
    return {
        "group": old.group.group_id,
        "state": old.state,
        "protocol_type": _PROTOCOL_TYPE,
        "coordinator": None,
    }


def described(old: OldGroup, ends: dict[TopicPartition, int | None]) -> list[dict[str, Any]]:
    """Rows of `describe`."""
    rows = []
    for place in old.places:
        offset, end = old.offsets.get(place), ends.get(place)
        rows.append(
            {
                "group": old.group.group_id,
                "state": old.state,
                **place._asdict(),
                "committed_offset": offset,
                "end_offset": end,
                "lag": None if offset is None or end is None else end - offset,
                "owner": old.group.owners.get(place),
                "client_id": None,
                "client_host": None,
                "group_instance_id": None,
                "leader_epoch": None,
                "metadata": None,
                "kept_in": ZOOKEEPER,
            }
        )
    return rows


def summary(old: OldGroup, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A row of `describe --summary`."""
    lags = [each["lag"] for each in rows if each["lag"] is not None]
    return {
        **_head(old),
        "assignor": None,
        "members": len(old.group.members),
        "partitions": len(rows),
        "lag": sum(lags) if lags else None,
        "kept_in": ZOOKEEPER,
    }
