"""A broker that was away for a moment while nobody governed may have lost what it had: nobody saw it go, but its registration is young."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.controller.assignment import ReplicaAssignment
from kafkalite.controller.brokers.restarted_replicas import demote_restarted_replicas
from kafkalite.controller.cluster_state import ClusterState, Leadership, RegisteredBroker
from kafkalite.controller.settings import ControllerSettings
from kafkalite.controller.steps import Pause
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster
from zk import paths

SETTINGS = {"zookeeper.connect": "memory", "broker.id": "1"}


@pytest.mark.parametrize(
    ("replicas", "leader", "isr"),
    [
        pytest.param([1, 2, 3], 2, [2, 3], id="a leader that returned went on leading in its old epoch"),
        pytest.param([2, 1, 3], 2, [2, 3], id="a replica that returned stayed in the ISR"),
        pytest.param([1], 1, [1], id="the only replica leads, in a new epoch"),
    ],
)
def test_the_controller_loses_its_session_and_is_back_at_once(replicas: list[int], leader: int, isr: list[int]) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("t", replicas)
        await cluster.create_topic("untouched", [2, 3])
        before = await cluster.state("t-0")
        cluster.members[1].store.expire_session()
        await cluster.quiet()
        after = await cluster.state("t-0")
        assert (after.leader, sorted(after.isr)) == (leader, isr)
        assert after.leader_epoch > before.leader_epoch
        assert (await cluster.short_state("untouched-0"))[2] == 0
        assert not cluster.brokers[1].stopped("t-0"), (
            "nothing is stopped, since nothing would start it again in the same epoch"
        )
        await cluster.stop()

    run(scenario())


def test_a_controller_that_lost_nothing_renewed_each_epoch_of_its_own() -> None:
    """A broker that was stopped cleanly, alone, governs when it is back: it wrote every partition's state and epochs again."""

    async def scenario() -> None:
        cluster = await FakeCluster().start(1, 2, 3)
        await cluster.create_topic("own", [1])
        await cluster.create_topic("shared", [1, 3])
        await cluster.create_topic("others", [2, 3])
        for broker_id in (2, 3):
            await cluster.kill(broker_id)
        await cluster.kill(1)
        before = {name: await cluster.state(name) for name in ("own-0", "shared-0", "others-0")}
        await cluster.start(1, clean=True)
        after = {name: await cluster.state(name) for name in before}
        assert after["own-0"] == before["own-0"]
        assert (after["shared-0"].leader, after["shared-0"].isr) == (1, (1,))
        assert cluster.brokers[1].told("own-0")[-1] == (1, before["own-0"].leader_epoch, [1], False)
        await cluster.stop()

    run(scenario())


def test_only_for_itself_can_a_controller_say_that_nothing_is_lost() -> None:
    state = ClusterState(1, 5, ControllerSettings.from_config(1, BrokerConfig.from_properties(SETTINGS)))
    state.brokers = {number: RegisteredBroker(number, 100 + number, ()) for number in (1, 2)}
    state.add_topic("t", bytes(16))
    for index, leader in enumerate((1, 2)):
        state.set_assignment(TopicPartition("t", index), ReplicaAssignment((leader,)))
        state.partition(TopicPartition("t", index)).leadership = Leadership(leader, 0, (leader,), 1, read_zxid=50)
    assert renewed(state, ()) == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert renewed(state, {1}) == {TopicPartition("t", 1)}


def test_when_all_began_again_those_leave_who_did_so_since_the_election_before() -> None:
    """The sessions of all end; the new controller loses power before it has looked at anything, and is back when its session ends."""
    state = ClusterState(2, 5, ControllerSettings.from_config(2, BrokerConfig.from_properties(SETTINGS)))
    state.brokers = {number: RegisteredBroker(number, zxid, ()) for number, zxid in ((1, 182), (2, 155), (3, 154))}
    state.add_topic("t", bytes(16))
    partition = TopicPartition("t", 0)
    state.set_assignment(partition, ReplicaAssignment((1, 2, 3)))
    state.partition(partition).leadership = Leadership(1, 0, (1, 2, 3), 1, read_zxid=130)
    assert first_step(state, 0) is None
    step = first_step(state, 160)
    assert step is not None and paths.partition_state("t", 0) in str(step)
    assert first_step(state, 190) is None and first_step(state, 150) is None


def first_step(state: ClusterState, earlier_zxid: int) -> object:
    """What is done about ISRs; None where nothing is."""
    return next(
        (
            each
            for each in demote_restarted_replicas(state, state.partitions(), (), earlier_zxid)
            if not isinstance(each, Pause)
        ),
        None,
    )


def renewed(state: ClusterState, clean: Collection[int]) -> set[TopicPartition]:
    """What needs a new epoch, where nobody has to leave an ISR."""
    steps = demote_restarted_replicas(state, state.partitions(), clean)
    try:
        while True:
            assert isinstance(next(steps), Pause)
    except StopIteration as end:
        found: set[TopicPartition] = end.value
        return found
