"""The transition tables, and what a procedure asks for when it is driven by hand."""

from __future__ import annotations

import logging

import pytest

from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.cluster_state import (
    ClusterState,
    Leadership,
    PartitionAndReplica,
    PartitionStatus,
    RegisteredBroker,
    ReplicaStatus,
)
from kafkalite.controller.control_requests import LeaderAndIsr
from kafkalite.controller.machines import partition_state_machine, replica_state_machine
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.steps import Publish, Read, Write
from kafkalite.types import Endpoint, TopicPartition
from zk import paths
from zk.store import BadVersionError, Stat
from zk.znodes import PartitionState

T0 = TopicPartition("t", 0)


def _cluster(status: PartitionStatus, replica_status: ReplicaStatus = ReplicaStatus.ONLINE) -> ClusterState:
    cluster = ClusterState(1, 5, ControllerSettings())
    for broker in (1, 2):
        cluster.brokers[broker] = RegisteredBroker(broker, broker, (Endpoint("PLAINTEXT", "h", 9092),))
    cluster.add_topic("t", b"t" * 16)
    cluster.set_assignment(T0, ReplicaAssignment((1, 2, 3)))
    if status is not PartitionStatus.NON_EXISTENT:
        cluster.set_status(T0, status)
    cluster.partition(T0).set_replica_statuses({3: replica_status})
    return cluster


def _stat(version: int) -> Stat:
    return Stat(1, 1, 0, 0, version, 0, 0, 0, 0)


@pytest.mark.parametrize("status", PartitionStatus)
@pytest.mark.parametrize("target", [PartitionStatus.NEW, PartitionStatus.OFFLINE, PartitionStatus.NON_EXISTENT])
def test_partition_transitions(status: PartitionStatus, target: PartitionStatus) -> None:
    allowed = {
        (PartitionStatus.NON_EXISTENT, PartitionStatus.NEW),
        (PartitionStatus.NEW, PartitionStatus.OFFLINE),
        (PartitionStatus.ONLINE, PartitionStatus.OFFLINE),
        (PartitionStatus.OFFLINE, PartitionStatus.OFFLINE),
        (PartitionStatus.OFFLINE, PartitionStatus.NON_EXISTENT),
    }
    cluster = _cluster(status)
    partition_state_machine.change_partition_states(cluster, (T0,), target)
    assert cluster.partition(T0).status is (target if (status, target) in allowed else status)
    waiting = cluster.partition(T0).status in (PartitionStatus.NEW, PartitionStatus.OFFLINE)
    assert cluster.leaderless == ({T0} if waiting else set())


_LEGAL = {
    ReplicaStatus.NEW: "NonExistentReplica",
    ReplicaStatus.ONLINE: "NewReplica OnlineReplica OfflineReplica ReplicaDeletionIneligible",
    ReplicaStatus.OFFLINE: "NewReplica OnlineReplica OfflineReplica ReplicaDeletionIneligible",
    ReplicaStatus.DELETION_STARTED: "OfflineReplica",
    ReplicaStatus.DELETION_SUCCESSFUL: "ReplicaDeletionStarted",
    ReplicaStatus.DELETION_INELIGIBLE: "OfflineReplica ReplicaDeletionStarted",
    ReplicaStatus.NON_EXISTENT: "ReplicaDeletionSuccessful",
}


@pytest.mark.parametrize("status", ReplicaStatus)
@pytest.mark.parametrize("target", ReplicaStatus)
def test_replica_transitions(status: ReplicaStatus, target: ReplicaStatus, caplog: pytest.LogCaptureFixture) -> None:
    cluster = _cluster(PartitionStatus.ONLINE, status)
    with caplog.at_level(logging.ERROR, "kafkalite.state_change"):
        for effect in replica_state_machine.change_replica_states(cluster, (PartitionAndReplica(T0, 3),), target):
            assert isinstance(effect, Publish)
    legal = status.value in _LEGAL[target].split()
    assert cluster.replica_status(PartitionAndReplica(T0, 3)) is (target if legal else status)
    assert ("illegal transition" in caplog.text) is not legal


def test_the_topics_settings_are_read_only_when_no_member_of_the_isr_is_live() -> None:
    cluster = _cluster(PartitionStatus.OFFLINE)
    cluster.partition(T0).leadership = Leadership(3, 4, (3, 2), 4, partition_epoch=8)
    assert isinstance(next(partition_state_machine.bring_partitions_online(cluster, (T0,))), Write)
    cluster.partition(T0).leadership = Leadership(3, 4, (3,), 4, partition_epoch=8)
    effect = next(partition_state_machine.bring_partitions_online(cluster, (T0,)))
    assert isinstance(effect, Read)
    assert list(effect.paths) == [paths.topic_config("t")]


def test_an_election_that_meets_another_version_reads_and_decides_again() -> None:
    cluster = _cluster(PartitionStatus.OFFLINE)
    cluster.partition(T0).leadership = Leadership(3, 4, (3, 2, 1), 4, partition_epoch=8)
    procedure = partition_state_machine.bring_partitions_online(cluster, (T0,))
    first = next(procedure)
    assert isinstance(first, Write)
    (operation,) = first.operations
    assert (operation.path, operation.version) == (paths.partition_state("t", 0), 8)  # type: ignore[union-attr]
    second = procedure.send([BadVersionError(operation.path)])
    assert isinstance(second, Read)
    third = procedure.send([(PartitionState(3, 4, (3, 2), 4).encode(), _stat(9))])
    assert isinstance(third, Write)
    told = procedure.send([_stat(10)])
    assert isinstance(told, Publish)
    assert [command.broker_id for command in told.commands if isinstance(command.request, LeaderAndIsr)] == [1, 2]
    with pytest.raises(StopIteration) as finished:
        procedure.send(None)
    assert finished.value.value == {}
    assert cluster.leadership(T0) == Leadership(2, 5, (2,), 5, partition_epoch=10)
    assert cluster.partition(T0).status is PartitionStatus.ONLINE
