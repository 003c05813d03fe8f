"""Which brokers faults have taken away, and what may be taken away besides without taking what was never promised.

A broker without power forgets what was not on its medium. That is promised to be no loss as long as every record that was acknowledged is
at another replica in sync, and one such replica goes on: here as in Apache Kafka, which knows what a replica may have lost only with
KRaft (KIP-966).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from kafkalite.testing.simulation.cluster import SimulatedCluster
from kafkalite.testing.simulation.faults import Fault
from kafkalite.types import BrokerId, TopicPartition
from zk.znodes import PartitionState

_MAY_FORGET: Final = frozenset({"lose-power", "bad-disk"})
_TAKE_AWAY: Final = _MAY_FORGET | {
    "kill",
    "kill-at",
    "kill-all",
    "stop",
    "pause",
    "isolate",
    "partition",
    "cut-zookeeper",
    "false-verdict",
    "reject",
    "end-at-write",
    "lose-rack",
}


class _Forgotten(NamedTuple):
    """What a broker was when it lost power: the epoch of its registration, and the leader epochs of what it was in sync with.

    A partition is no longer among them once a state without the broker in its ISR was written.
    """

    broker_epoch: int | None
    leader_epochs: dict[TopicPartition, int]


class NotNow(Exception):
    """The fault makes no sense, or takes more than was promised, as things are."""


class Absences:
    """Brokers that faults have taken away. `survives_a_loss`: acknowledged records are on two replicas or more (min.insync.replicas)."""

    def __init__(self, cluster: SimulatedCluster, *, survives_a_loss: bool) -> None:
        self._cluster = cluster
        self._survives_a_loss = survives_a_loss
        self._away: Counter[str] = Counter()
        """Brokers that a fault has taken away, by their names."""
        self._forgot: dict[BrokerId, _Forgotten] = {}
        cluster.state_listeners.append(self._note_state)

    def may_forget(self) -> None:
        """Raise NotNow unless every replica is in sync, so that each of them has all that was acknowledged."""
        if not self._survives_a_loss:
            raise NotNow("one replica may be all there is")
        brokers = self._cluster.brokers
        if not all(each.serves and self._cluster.broker_epoch(broker) is not None for broker, each in brokers.items()):
            raise NotNow("a broker is down, or ZooKeeper has ended its session and it is about to leave its ISRs")
        late = self._cluster.out_of_sync()
        if late:
            raise NotNow(f"{late[0]} has not all its replicas in sync")

    def forgets(self, broker_id: BrokerId) -> None:
        """Note that the broker loses its power."""
        epochs = {}
        for partition in self._cluster.partitions():
            state = self._cluster.partition_state(partition)
            if state is not None and broker_id in state.isr:
                epochs[partition] = state.leader_epoch
        self._forgot[broker_id] = _Forgotten(self._cluster.broker_epoch(broker_id), epochs)

    def _note_state(self, partition: TopicPartition, state: PartitionState) -> None:
        """Note who has left an ISR: a leader that removes a replica and takes it in again leaves the leader epoch."""
        for broker, forgotten in self._forgot.items():
            if broker not in state.isr:
                forgotten.leader_epochs.pop(partition, None)

    @property
    def _forgetful(self) -> set[BrokerId]:
        """Brokers that lost power, whose replicas still count as in sync because no controller has noticed."""
        return {broker for broker, forgotten in self._forgot.items() if not self._is_noticed(broker, forgotten)}

    def _is_noticed(self, broker: BrokerId, forgotten: _Forgotten) -> bool:
        """True if the replicas have left their ISRs since, though they may be back in them by now with all the records."""
        is_new = self._cluster.broker_epoch(broker) != forgotten.broker_epoch
        for partition, leader_epoch in forgotten.leader_epochs.items():
            state = self._cluster.partition_state(partition)
            if state is not None and broker in state.isr and not (is_new and state.leader_epoch > leader_epoch):
                return False
        return True

    def nobody_forgot(self) -> None:
        """Raise NotNow while there are such brokers. When the sessions of all others end, one is the last of each ISR, and they cut off
        what it forgot.
        """
        if self._forgetful:
            raise NotNow("a broker that forgot is not known to be dead")

    @contextmanager
    def taking_away(self, fault: Fault) -> Iterator[None]:
        """Count the targets as away during the fault. NotNow when all that a partition has in sync would be away, or may have forgotten."""
        brokers = {each.name: each.broker_id for each in self._cluster.brokers.values()}
        names: list[str] = []
        if fault.kind in _TAKE_AWAY:
            names = list(brokers) if fault.kind == "kill-all" else [each for each in fault.targets if each in brokers]
            forgot = self._forgetful
            if forgot or fault.kind in _MAY_FORGET or fault.parameter("power"):
                self._leave_somebody(forgot | {brokers[each] for each in (*names, *self._away.elements())})
        self._away.update(names)
        try:
            yield
        finally:
            self._away.subtract(names)

    def _leave_somebody(self, gone: set[BrokerId]) -> None:
        for partition in self._cluster.partitions():
            state = self._cluster.partition_state(partition)
            if state is not None and gone.issuperset(state.isr):
                raise NotNow(f"nobody would go on with {partition}")
