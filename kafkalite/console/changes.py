"""The newest changes of the cluster with their times: those of ZooKeeper where it is reached, else when the console noticed them.

A change of a partition has the time and the zxid at which its znode was written, a broker that came and a new controller those at which
their znodes were created. What is gone has no znode any more, so the time is when it was noticed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafkalite.administration.cluster_changes import (
    BROKER_CAME,
    CONTROLLER,
    CREATED,
    DELETED,
    BrokerChange,
    Change,
    PartitionChange,
)

if TYPE_CHECKING:
    from kafkalite.console.membership import Registered
    from kafkalite.types import TopicPartition
    from zk.store import Stat
    from zk.znodes.topics import PartitionState

CHANGES_KEPT: Final = 1000
_MOST_OF_A_TOPIC: Final = 6
_MOST_TOGETHER: Final = 200
"""Changes that one look adds; further ones are counted."""


@dataclass(frozen=True, slots=True)
class TimedChange:
    """A change and its time; `zxid` is None where the time is when it was noticed. `more` like it came together, and are only counted."""

    time_ms: int
    change: Change
    zxid: int | None = None
    more: int = 0

    def to_dict(self) -> dict[str, Any]:
        text = " ".join(str(self.change).split()) + (f", and {self.more} more" if self.more else "")
        zxid = None if self.zxid is None else f"0x{self.zxid:x}"
        return {"time_ms": self.time_ms, "zxid": zxid, **self.change.to_dict(), "more": self.more, "text": text}


def time_partition_changes(
    noticed_ms: int,
    changes: Sequence[PartitionChange],
    states: Mapping[TopicPartition, tuple[PartitionState, Stat]],
) -> list[TimedChange]:
    """Return changes with the times of their znodes, if these are still as the change left them."""
    timed = []
    for each in changes:
        state, stat = states.get(each.topic_partition, (None, None))
        if stat is None or state is None or each.event == DELETED or not _is_same(state, each.after):
            timed.append(TimedChange(noticed_ms, each))
        elif each.event == CREATED:
            timed.append(TimedChange(stat.ctime_ms, each, stat.czxid))
        else:
            timed.append(TimedChange(stat.mtime_ms, each, stat.mzxid))
    return timed


def _is_same(one: PartitionState, other: PartitionState | None) -> bool:
    return (
        other is not None
        and (one.leader, one.leader_epoch) == (other.leader, other.leader_epoch)
        and set(one.isr) == set(other.isr)
    )


def time_broker_changes(noticed_ms: int, changes: Sequence[Change], registered: Registered | None) -> list[TimedChange]:
    """Return changes of brokers and controller with the times of their znodes, where ZooKeeper has them."""
    timed = []
    for each in changes:
        found = TimedChange(noticed_ms, each)
        if registered is not None and isinstance(each, BrokerChange):
            broker = registered.brokers.get(each.broker)
            if each.event == BROKER_CAME and broker is not None:
                found = TimedChange(broker.since_ms, each, broker.epoch)
            elif each.event == CONTROLLER and registered.controller_since_ms is not None:
                found = TimedChange(registered.controller_since_ms, each, registered.controller_zxid)
        timed.append(found)
    return timed


def fold_changes(changes: Sequence[TimedChange]) -> list[TimedChange]:
    """Return the changes of one look, with those of many partitions of a topic merged, and at most so many: one broker can lead
    everything.
    """
    groups: dict[Any, list[TimedChange]] = {}
    for number, each in enumerate(changes):
        change = each.change
        key = (change.event, change.topic_partition.topic) if isinstance(change, PartitionChange) else number
        groups.setdefault(key, []).append(each)
    found: list[TimedChange] = []
    for alike in groups.values():
        if len(alike) > _MOST_OF_A_TOPIC:
            found.append(replace(alike[0], more=len(alike) - 1))
        else:
            found += alike
    shown, rest = found[:_MOST_TOGETHER], found[_MOST_TOGETHER:]
    if rest:
        shown.append(replace(rest[0], more=sum(1 + each.more for each in rest) - 1))
    return shown


class Changes:
    """The newest changes, in the order of their times."""

    def __init__(self, most: int = CHANGES_KEPT) -> None:
        self.most = most
        self.count = 0
        """Changes so far, also those that are not kept any more."""
        self._kept: deque[TimedChange] = deque(maxlen=most)

    def extend(self, changes: Sequence[TimedChange]) -> None:
        """Add the changes of one look."""
        folded = fold_changes(changes)
        self._kept.extend(folded)
        self.count += len(folded)

    def newest_first(self) -> list[TimedChange]:
        """Return the changes by time, those of the same time in the reverse of the order in which they were noticed."""
        return sorted(self._kept, key=lambda each: each.time_ms)[::-1]
