"""A broker as far as the observation looks at one: real metadata, real groups' machines, and a store whose state is set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkalite.broker.broker_state import BrokerState
from kafkalite.broker.metadata_cache import MetadataCache, TopicMetadata
from kafkalite.broker.replication.topic_id_conflicts import TopicIdConflicts
from kafkalite.broker.traffic import Traffic
from kafkalite.config.broker import BrokerConfig
from kafkalite.controller.control_requests import LiveBroker, PartitionMetadata
from kafkalite.coordinators.group.group import Group
from kafkalite.coordinators.group.offset_record import CommittedOffset
from kafkalite.coordinators.group.settings import GroupSettings
from kafkalite.histogram import Histogram
from kafkalite.lifecycle import Jobs, UnexpectedErrors
from kafkalite.portions import Work
from kafkalite.types import Endpoint, TopicPartition
from tests.unit.clocks import HandClock
from zk.store import SessionState

BASE = {"zookeeper.connect": "unused:2181", "broker.id": "1"}


class FakeStore:
    def __init__(self) -> None:
        self.state = SessionState.CONNECTED
        self._listeners: list[Callable[[SessionState], None]] = []

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> None:
        self._listeners.append(listener)

    def enter(self, state: SessionState) -> None:
        self.state = state
        for listener in self._listeners:
            listener(state)


@dataclass
class FakeCleaner:
    uncleanable: dict[TopicPartition, str] = field(default_factory=dict)


@dataclass
class FakePartition:
    """A replica; `log` and `followers` are those of one that leads."""

    high_watermark: int = 0
    log: Any = None
    followers: dict[int, FakeFollower] = field(default_factory=dict)


@dataclass
class FakeFollower:
    log_end_offset: int


@dataclass
class FakeReplicas:
    """The replicas of the broker; `counts` are their statistics, `led` those that lead."""

    broker_epoch: int = 7
    partitions: dict[TopicPartition, FakePartition] = field(default_factory=dict)
    topic_id_conflicts: TopicIdConflicts = field(default_factory=TopicIdConflicts)
    counts: dict[str, int] = field(default_factory=dict)
    led: list[FakePartition] = field(default_factory=list)

    def statistics(self) -> dict[str, int]:
        return self.counts

    def lagging(self) -> list[FakePartition]:
        return self.led


@dataclass
class FakeMachine:
    groups: dict[str, Group] = field(default_factory=dict)


@dataclass
class FakeStatistics:
    """A part that has only statistics."""

    values: dict[str, Any]

    def statistics(self) -> dict[str, Any]:
        return self.values

    def make_statistics(self) -> Work[dict[str, Any]]:
        yield from ()
        return self.values


@dataclass
class FakeCoordinator:
    """A coordinators' runtime with these machines."""

    machines: Sequence[object]

    def loaded_machines(self) -> Iterator[object]:
        return iter(self.machines)


@dataclass
class FakeDispatcher:
    latencies: dict[int, Histogram]
    follower_fetches: Histogram


@dataclass
class FakeServing:
    """What a running broker serves with."""

    parts: Any
    dispatcher: Any = None


class FakeBroker:
    """Broker 1 of those that `alive` names; `partition` and `group` add what is to be seen."""

    def __init__(self, *alive: int, **settings: str) -> None:
        self.broker_id, self.cluster_id = 1, "the-cluster"
        self.state = BrokerState.RUNNING
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig.from_properties(BASE, overrides)
        self.metadata = MetadataCache()
        self.store, self.jobs, self.traffic = FakeStore(), Jobs(), Traffic()
        self.cleaner = FakeCleaner()
        self.errors = UnexpectedErrors(lambda reason: None)
        self.clock = HandClock(1000)
        self.replicas = FakeReplicas()
        self._machine = FakeMachine()
        self.groups = FakeCoordinator([self._machine])
        self.set_alive(*(alive or (1, 2, 3)))
        self.metadata.controller_id, self.metadata.controller_epoch = 2, 5

    @property
    def serving(self) -> FakeServing | None:
        """What a running broker serves with: its parts are this object."""
        return FakeServing(self) if self.state >= BrokerState.RUNNING else None

    def set_alive(self, *alive: int) -> None:
        self.metadata.brokers = {
            broker: LiveBroker(broker, {"PLAINTEXT": Endpoint("PLAINTEXT", f"host{broker}", 9092)}) for broker in alive
        }
        self._changed()

    def partition(
        self,
        topic: str,
        number: int = 0,
        leader: int = 1,
        isr: tuple[int, ...] = (1, 2, 3),
        replicas: tuple[int, ...] = (1, 2, 3),
        epoch: int = 0,
    ) -> None:
        known = self.metadata.topics.setdefault(topic, TopicMetadata(topic, bytes(range(16))))
        known.partitions[number] = PartitionMetadata(leader, epoch, list(isr), list(replicas), [], 0, 5)
        self._changed()

    def delete(self, topic: str) -> None:
        del self.metadata.topics[topic]
        self._changed()

    def host(self, topic: str, number: int, high_watermark: int) -> None:
        """A replica of the partition is here."""
        self.replicas.partitions[TopicPartition(topic, number)] = FakePartition(high_watermark)

    def group(self, group_id: str, offsets: dict[tuple[str, int], int]) -> Group:
        group = self._machine.groups[group_id] = Group(group_id, GroupSettings())
        for (topic, partition), offset in offsets.items():
            group.offsets.apply(topic, partition, CommittedOffset(offset, -1, "", 0))
        return group

    def _changed(self) -> None:
        self.metadata.version += 1
        self.metadata._changes.notify()
