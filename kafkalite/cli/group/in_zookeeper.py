"""`kafkalite group list|describe --in-zookeeper`: groups that keep members, owners and offsets in ZooKeeper, beside those of Kafka.

A group that commits to both is shown twice; `kept_in` tells which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from kafkalite.administration.group_offsets import partition_totals, progress_row
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
    """The state of a group in ZooKeeper."""

    group: ConsumerGroup
    offsets: dict[Place, int]

    @property
    def state(self) -> str:
        """Return the state in the words for Kafka's groups."""
        return "Stable" if self.group.members else "Empty"

    @property
    def places(self) -> list[TopicPartition]:
        """Return the partitions that the group has committed for or reads."""
        return sorted(TopicPartition(*each) for each in {*self.offsets, *self.group.owners})


def in_zookeeper_option(function: Decorated) -> Decorated:
    """Add the option `--in-zookeeper`, and those that locate ZooKeeper."""
    return click.option(
        "--in-zookeeper",
        is_flag=True,
        help="Also groups that keep their offsets in ZooKeeper, as consumers of Kafka 0.8 did.",
    )(zookeeper_option(function))


def find_old_groups(connect: str, names: Iterable[str] | None = None) -> list[OldGroup]:
    """Return the existing groups of these names, or all without names. Errors end the command; groups that cannot be read are reported
    and left out.
    """
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


def list_row(old: OldGroup) -> dict[str, Any]:
    """Return a row of `list`."""
    return {**_head(old), "group_type": "", "kept_in": ZOOKEEPER}


def _head(old: OldGroup) -> dict[str, Any]:
    return {
        "group": old.group.group_id,
        "state": old.state,
        "protocol_type": _PROTOCOL_TYPE,
        "coordinator": None,
    }


def describe_rows(old: OldGroup, ends: dict[TopicPartition, int | None]) -> list[dict[str, Any]]:
    """Return rows of `describe`."""
    group = old.group
    return [
        {
            **progress_row(
                group.group_id, old.state, each, old.offsets.get(each), ends.get(each), group.owners.get(each)
            ),
            "kept_in": ZOOKEEPER,
        }
        for each in old.places
    ]


def summary_row(old: OldGroup, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a row of `describe --summary`."""
    return {
        **_head(old),
        "assignor": None,
        "members": len(old.group.members),
        **partition_totals(rows),
        "kept_in": ZOOKEEPER,
    }
