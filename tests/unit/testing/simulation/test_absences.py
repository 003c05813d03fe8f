"""Which faults would take more than what is promised: what a broker has forgotten counts until a controller has noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from kafkalite.testing.simulation.absences import Absences, NotNow
from kafkalite.types import BrokerId, TopicPartition
from zk.znodes import PartitionState

T0 = TopicPartition("t", 0)


class _Cluster:
    """One partition, and the registration of broker 3."""

    def __init__(self) -> None:
        self.epoch: int | None = 10
        self.state = PartitionState(2, 4, (2, 3), 1)
        self.state_listeners: list[Callable[[TopicPartition, PartitionState], None]] = []

    def write(self, state: PartitionState) -> None:
        self.state = state
        for listener in self.state_listeners:
            listener(T0, state)

    def partitions(self) -> list[TopicPartition]:
        return [T0]

    def partition_state(self, _: TopicPartition) -> PartitionState:
        return self.state

    def broker_epoch(self, _: BrokerId) -> int | None:
        return self.epoch


def test_a_broker_that_forgot_is_noticed_when_its_replicas_leave_their_isrs() -> None:
    """Counted as noticed once it was registered again, it was elected while the session of the only other one had ended (seed 320514)."""
    cluster = _Cluster()
    absences = Absences(cast(Any, cluster), survives_a_loss=True)
    absences.nobody_forgot()
    absences.forgets(3)
    for epoch in (10, None, 20):
        cluster.epoch = epoch
        with pytest.raises(NotNow, match="is not known to be dead"):
            absences.nobody_forgot()
    cluster.write(PartitionState(2, 5, (2,), 1))
    absences.nobody_forgot()
    cluster.write(PartitionState(2, 5, (2, 3), 1))
    absences.nobody_forgot()


def test_a_broker_that_forgot_is_noticed_when_its_leader_removes_it_and_takes_it_in_again() -> None:
    """The leader epoch stays, so that a rolling restart waited for ever (seed 376 of a hundred brokers)."""
    cluster = _Cluster()
    absences = Absences(cast(Any, cluster), survives_a_loss=True)
    absences.forgets(3)
    cluster.write(PartitionState(2, 4, (2,), 1))
    cluster.epoch = 20
    cluster.write(PartitionState(2, 4, (2, 3), 1))
    absences.nobody_forgot()
