"""What `kafkalite cluster watch` tells: of changes only, once each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from kafkalite.administration.cluster_changes import Change, ClusterChanges
from kafkalite.cli.cluster.watch import ClusterWatch
from kafkalite.types import TopicPartition
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.session import Session
from zk.znodes.controller import ControllerSeat
from zk.znodes.topics import PartitionState

T0 = TopicPartition("t", 0)


def state(leader: int, epoch: int, *isr: int) -> PartitionState:
    return PartitionState(leader, epoch, isr, controller_epoch=1)


def told(changes: Iterable[Change]) -> list[str]:
    return [" ".join(str(change).split()) for change in changes]


@pytest.fixture
def known() -> ClusterChanges:
    changes = ClusterChanges()
    assert not list(changes.brokers_are([101, 102, 103]))
    assert not list(changes.controller_is(101))
    assert not list(changes.state_is(T0, state(101, 0, 101, 102)))
    changes.all_known()
    return changes


def test_elections(known: ClusterChanges) -> None:
    assert told(known.state_is(T0, state(102, 1, 102))) == [
        "election t-0 leader 102 (was 101), ISR 102 (was 101,102), epoch 1"
    ]
    assert told(known.state_is(T0, state(-1, 2, 102))) == ["election t-0 leader none (was 102), ISR 102, epoch 2"]
    unclean = PartitionState(101, 3, (101,), 1, recovering=True)
    assert told(known.state_is(T0, unclean))[0].endswith("epoch 3, elected uncleanly")


def test_a_leader_that_was_elected_again_is_an_election(known: ClusterChanges) -> None:
    assert told(known.state_is(T0, state(101, 1, 101, 102))) == ["election t-0 leader 101, ISR 101,102, epoch 1"]


def test_isr_changes(known: ClusterChanges) -> None:
    assert told(known.state_is(T0, state(101, 0, 101))) == ["isr t-0 leader 101, ISR 101 (was 101,102), epoch 0"]
    assert told(known.state_is(T0, state(101, 0, 101))) == []
    (change,) = known.state_is(T0, state(101, 0, 101, 102))
    assert change.to_dict() == {
        "event": "isr",
        "topic": "t",
        "partition": 0,
        "leader": 101,
        "isr": [101, 102],
        "leader_epoch": 0,
        "controller_epoch": 1,
        "previous_leader": 101,
        "previous_isr": [101],
    }


def test_an_isr_that_a_controller_shrank_is_no_election(known: ClusterChanges) -> None:
    """The controller raises the leader epoch of all partitions of a dead broker, also of those that it only followed."""
    assert told(known.state_is(T0, state(101, 1, 101))) == ["isr t-0 leader 101, ISR 101 (was 101,102), epoch 1"]


def test_the_order_of_an_isr_does_not_matter(known: ClusterChanges) -> None:
    assert told(known.state_is(T0, state(101, 0, 102, 101))) == []


def test_partitions_come_and_go(known: ClusterChanges) -> None:
    new = TopicPartition("new", 0)
    assert told(known.state_is(new, None)) == []
    assert told(known.state_is(new, state(103, 0, 103))) == ["created new-0 leader 103, ISR 103, epoch 0"]
    assert told(known.state_is(new, None)) == ["deleted new-0"]


def test_brokers_and_controller(known: ClusterChanges) -> None:
    assert told(known.brokers_are([102, 103, 104])) == ["broker gone 101", "broker came 104"]
    assert told(known.controller_is(-1)) == ["controller none (was 101)"]
    (change,) = known.controller_is(102)
    assert change.to_dict() == {"event": "controller", "broker": 102, "previous_controller": -1}


def test_changes_in_zookeeper_are_told() -> None:
    async def scenario() -> None:
        server = MemoryZooKeeper()
        store, session = await connected(server)
        await store.create(paths.partition_state("t", 0), state(101, 0, 101, 102).encode(), parents=True)
        await store.create(paths.partition_state("other", 0), state(101, 0, 101).encode(), parents=True)
        await store.create(paths.broker(101), b"{}", parents=True)
        await store.create(paths.CONTROLLER, ControllerSeat(101, 0).encode(), ephemeral=True)
        found: asyncio.Queue[Change] = asyncio.Queue()
        watch = ClusterWatch(session, found.put_nowait, ["t"])
        await watch.start()
        assert found.empty() and list(watch.changes.states) == [T0], "what was there is no change"

        await store.write(paths.partition_state("t", 0), state(102, 1, 102).encode())
        assert (await found.get()).event == "election"
        await store.delete(paths.broker(101))
        assert (await found.get()).event == "broker gone"
        await store.create(paths.partition_state("t", 1), state(102, 0, 102).encode(), parents=True)
        assert (await found.get()).event == "created"
        for number in (0, 1):
            await store.delete(paths.partition_state("t", number))
            assert (await found.get()).event == "deleted"
        await store.close()

    async def in_time() -> None:
        async with asyncio.timeout(10):
            await scenario()

    asyncio.run(in_time())


async def connected(server: MemoryZooKeeper) -> tuple[MemoryStore, Session]:
    store = MemoryStore(server)
    session = Session(store)
    await store.start(5)
    return store, session
