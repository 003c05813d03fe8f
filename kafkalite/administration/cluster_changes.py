"""Changes of a cluster for `kafkalite cluster watch`, derived from the state in ZooKeeper. Pure.

The first state of brokers and controller, and that of partitions until `all_known`, is no change. Changes that are faster than the reads
of ZooKeeper are merged, so leader epochs may jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kafkalite.types import NO_BROKER, TopicPartition
from zk.znodes.topics import PartitionState

ELECTION, ISR, CREATED, DELETED = "election", "isr", "created", "deleted"
BROKER_CAME, BROKER_GONE, CONTROLLER = "broker came", "broker gone", "controller"


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """`before` is None for a new partition, `after` for a deleted one."""

    event: str
    topic_partition: TopicPartition
    before: PartitionState | None
    after: PartitionState | None

    def to_dict(self) -> dict[str, Any]:
        before, after = self.before, self.after
        return {
            "event": self.event,
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "leader": after.leader if after else NO_BROKER,
            "isr": list(after.isr) if after else [],
            "leader_epoch": after.leader_epoch if after else None,
            "controller_epoch": after.controller_epoch if after else None,
            "previous_leader": before.leader if before else None,
            "previous_isr": list(before.isr) if before else None,
        }

    def __str__(self) -> str:
        head = f"{self.event:<11}  {self.topic_partition}"
        before, after = self.before, self.after
        if after is None:
            return head
        leader = f"leader {_broker(after.leader)}"
        if before is not None and before.leader != after.leader:
            leader += f" (was {_broker(before.leader)})"
        isr = f"ISR {_brokers(after.isr)}"
        if before is not None and set(before.isr) != set(after.isr):
            isr += f" (was {_brokers(before.isr)})"
        unclean = ", elected uncleanly" if after.recovering else ""
        return f"{head}  {leader}, {isr}, epoch {after.leader_epoch}{unclean}"


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """A broker joined or left, or became the controller; `broker` is NO_BROKER when there is no controller any more."""

    event: str
    broker: int
    before: int | None = None

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"event": self.event, "broker": self.broker}
        if self.event == CONTROLLER:
            found["previous_controller"] = self.before
        return found

    def __str__(self) -> str:
        was = f" (was {_broker(self.before)})" if self.before is not None else ""
        return f"{self.event:<11}  {_broker(self.broker)}{was}"


Change = PartitionChange | BrokerChange


class ClusterChanges:
    """The last known state; each method takes a new state and returns the changes."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self.brokers: frozenset[int] | None = None
        self.controller: int | None = None
        self._all_known = False

    def all_known(self) -> None:
        """Treat unknown partitions as new ones from now on."""
        self._all_known = True

    def brokers_are(self, brokers: Iterable[int]) -> Iterator[Change]:
        before, self.brokers = self.brokers, frozenset(brokers)
        if before is not None:
            yield from (BrokerChange(BROKER_GONE, broker) for broker in sorted(before - self.brokers))
            yield from (BrokerChange(BROKER_CAME, broker) for broker in sorted(self.brokers - before))

    def controller_is(self, broker: int) -> Iterator[Change]:
        """Set the controller; NO_BROKER for none."""
        before, self.controller = self.controller, broker
        if before is not None and before != broker:
            yield BrokerChange(CONTROLLER, broker, before)

    def state_is(self, topic_partition: TopicPartition, after: PartitionState | None) -> Iterator[PartitionChange]:
        """Set the state of a partition; None for one that is deleted or not created yet.

        A change of the ISR under the same leader is no election, though the controller raises the leader epoch when it takes a dead
        replica out of an ISR.
        """
        before = self.states.pop(topic_partition, None)
        if after is not None:
            self.states[topic_partition] = after
        if before is None and after is None:
            return
        if after is None:
            yield PartitionChange(DELETED, topic_partition, before, None)
        elif before is None:
            if self._all_known:
                yield PartitionChange(CREATED, topic_partition, None, after)
        elif before.leader != after.leader:
            yield PartitionChange(ELECTION, topic_partition, before, after)
        elif set(before.isr) != set(after.isr):
            yield PartitionChange(ISR, topic_partition, before, after)
        elif before.leader_epoch != after.leader_epoch:
            yield PartitionChange(ELECTION, topic_partition, before, after)
        elif before.recovering != after.recovering:
            yield PartitionChange(ISR, topic_partition, before, after)


def _broker(broker: int | None) -> str:
    return "none" if broker is None or broker == NO_BROKER else str(broker)


def _brokers(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
