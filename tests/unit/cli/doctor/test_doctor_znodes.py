"""Znodes that disagree: what doctor finds, what it would do, and that it does only what nobody else is doing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.cli.doctor import kraft, znodes
from kafkalite.cli.doctor.findings import Status
from kafkalite.cli.doctor.znodes import Repair, Snapshot, judge
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from zk import paths
from zk.controller_seat import elect
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import BadVersionError
from zk.znodes import ControllerSeat
from zk.znodes.topics import PartitionState, TopicAssignment

PLACE = TopicPartition("t", 0)


def state(leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> PartitionState:
    return PartitionState(leader=leader, leader_epoch=3, isr=isr, controller_epoch=2)


WELL = Snapshot(
    epoch_version=5,
    controller=1,
    brokers=frozenset({1, 2}),
    topics={"t": TopicAssignment({0: (1, 2)})},
    states={PLACE: state()},
    configured=frozenset({"t"}),
)


def moving(adding: tuple[int, ...], removing: tuple[int, ...] = (1,)) -> dict[str, TopicAssignment]:
    return {"t": TopicAssignment({0: (*adding, 1, 2)}, None, {0: adding}, {0: removing})}


def test_a_cluster_that_is_well() -> None:
    assert judge(WELL) == []
    assert judge(Snapshot()) == []
    down = replace(WELL, brokers=frozenset({1}), states={PLACE: state(leader=1, isr=(1,))})
    assert judge(down) == [], "a broker that is down is no disagreement"
    deleting = replace(WELL, brokers=frozenset({1}), marked=frozenset({"t"}), states={})
    assert judge(deleting) == [], "a deletion waits for brokers that are down"


@pytest.mark.parametrize(
    ("wrong", "words", "deleted"),
    [
        ({"marked": frozenset({"gone"})}, "no such topic", (paths.delete_topic("gone"),)),
        ({"configured": frozenset({"t", "gone"})}, "settings of gone", (paths.topic_config("gone"),)),
        (
            {"states": {PLACE: state(), TopicPartition("t", 7): None}},
            "a state of t-7",
            (paths.partition_state("t", 7), paths.partition("t", 7)),
        ),
    ],
)
def test_what_belongs_to_nothing_is_deleted(wrong: dict[str, Any], words: str, deleted: tuple[str, ...]) -> None:
    (found,) = judge(replace(WELL, **wrong))
    assert words in found.found
    assert (found.deleted, found.cancelled, found.elects) == (deleted, (), False)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"controller": 9}, "broker 9, which is not registered"),
        ({"controller": None}, "nobody is the controller"),
        ({"states": {}}, "no state"),
        ({"states": {PLACE: state(leader=-1)}}, "no live leader"),
        ({"marked": frozenset({"t"})}, "are to be deleted"),
        ({"topics": moving((2,))}, "the move does not end"),
        ({"has_reassignment": True}, "nothing moves"),
        ({"notices": frozenset({"/isr_change_notification/isr_change_1"})}, "1 notifications"),
    ],
)
def test_where_the_controller_ought_to_act_another_one_is_elected(wrong: dict[str, Any], words: str) -> None:
    (found,) = judge(replace(WELL, **wrong))
    assert words in found.found
    assert (found.deleted, found.cancelled, found.elects) == ((), (), True)


def test_a_move_to_a_broker_that_is_gone_is_cancelled() -> None:
    (found,) = judge(replace(WELL, topics=moving((3,)), has_reassignment=True))
    assert "broker 3, which is not registered" in found.found
    assert found.cancelled == (PLACE,)
    busy = replace(WELL, topics=moving((3,)), brokers=frozenset({1, 2, 3}))
    assert judge(busy) == [], "a move that goes on is let alone"


def written_in(*epochs: int) -> dict[str, Any]:
    """A topic of as many partitions, whose states were written in these controller epochs."""
    states = {TopicPartition("t", at): replace(state(), controller_epoch=epoch) for at, epoch in enumerate(epochs)}
    return {"topics": {"t": TopicAssignment(dict.fromkeys(range(len(epochs)), (1, 2)))}, "states": states}


def test_states_of_a_later_epoch_than_the_controllers_are_repaired_by_raising_it() -> None:
    """KAFKA-20488: partitions written under a KRaft epoch stay offline after the way back to ZooKeeper."""
    assert judge(replace(WELL, epoch=7, **written_in(7, 2))) == []
    (found,) = judge(replace(WELL, epoch=7, **written_in(7, 8, 1001)))
    assert found.found == "t-1, t-2 were written in controller epochs up to 1001, above /controller_epoch (7)"
    assert (found.elects, found.epoch_at_least, found.deleted) == (True, 1001, ())


def test_an_epoch_that_no_controller_had_is_left_to_a_person() -> None:
    """Elections would count on from it, and after 2**31 there is no controller any more."""
    absurd, later = judge(replace(WELL, epoch=7, **written_in(9, 2**31 - 2)))
    assert absurd.found.startswith("t-1 ") and not absurd.has_action
    assert later.epoch_at_least == 9
    first, second = znodes.findings([absurd, later])
    assert znodes.FIX not in str(first.remedy) and znodes.FIX in str(second.remedy)


def test_nothing_is_repaired_while_a_kraft_controller_owns_the_cluster() -> None:
    """It is no broker; without `/controller`, brokers would elect another one beside it."""
    wrong = replace(WELL, controller=3000, marked=frozenset({"gone"}), epoch=7, **written_in(1001))
    assert len(judge(wrong)) == 3
    assert judge(replace(wrong, has_kraft_controller=True)) == []


async def open_cluster(controller: bytes | None, epoch: int) -> MemoryStore:
    store = MemoryStore(MemoryZooKeeper())
    await store.start(10)
    await store.create(paths.CONTROLLER_EPOCH, b"%d" % epoch)
    for broker in (1, 2):
        await store.create(paths.broker(broker), b"{}", parents=True)
    if controller is not None:
        await store.create(paths.CONTROLLER, controller)
    await store.create(paths.topic("t"), TopicAssignment({0: (1, 2)}).encode(), parents=True)
    await store.create(paths.partition_state("t", 0), replace(state(), controller_epoch=1001).encode(), parents=True)
    return store


@pytest.mark.parametrize("controller", [ControllerSeat(1, 5).encode(), None])
def test_the_epoch_is_raised_with_a_new_election_unless_there_was_one_since(controller: bytes | None) -> None:
    async def scenario() -> None:
        store = await open_cluster(controller, 7)
        seen, repairs = await znodes.find_inconsistencies(store)
        epoch_at_least = max(each.epoch_at_least for each in repairs)
        assert epoch_at_least == 1001
        await store.write(paths.CONTROLLER_EPOCH, b"8")  # another controller was elected
        with pytest.raises(BadVersionError):
            await znodes.elect(store, seen, "", epoch_at_least)
        assert (await store.read(paths.CONTROLLER_EPOCH))[0] == b"8"
        assert (await store.exists(paths.CONTROLLER) is not None) is (controller is not None)
        await znodes.elect(store, await znodes.snapshot(store), "", epoch_at_least)
        assert (await store.read(paths.CONTROLLER_EPOCH))[0] == b"1001"
        assert await store.exists(paths.CONTROLLER) is None
        assert not await znodes.wait_for_controller(store, 1)
        waiting = asyncio.ensure_future(znodes.wait_for_controller(store, 60))
        await asyncio.sleep(1)
        assert not waiting.done()
        seat = await elect(store, 2, 0)
        assert seat is not None and seat.epoch == 1002
        assert await waiting
        assert not [each for each in judge(await znodes.snapshot(store)) if each.epoch_at_least]

    virtual_time.run(scenario())


def test_a_move_to_kraft_is_named_with_what_to_do() -> None:
    async def scenario() -> None:
        store = await open_cluster(ControllerSeat(3000, 5, kraft_controller_epoch=4).encode(), 7)
        assert (await znodes.snapshot(store)).has_kraft_controller
        assert await znodes.find_inconsistencies(store) == (Snapshot(), [])
        assert "controller 3000 of a KRaft quorum" in (await kraft.check_kraft(store)).found
        await store.write(paths.CONTROLLER, ControllerSeat(1, 5).encode())
        assert (await kraft.check_kraft(store)).status is Status.OK
        await store.create(
            paths.MIGRATION,
            b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":4,"kraft_metadata_offset":123,"kraft_metadata_epoch":4}',
        )
        left = await kraft.check_kraft(store)
        assert left.found == "/migration is left of a move to KRaft (controller 3000, epoch 4, metadata offset 123)"
        assert left.status is Status.PROBLEM and "delete /migration" in str(left.remedy)
        await store.write(paths.MIGRATION, b"{}")
        assert "malformed migration" in (await kraft.check_kraft(store)).found
        await store.write(paths.CONTROLLER, b"{}")
        assert "malformed controller" in (await kraft.check_kraft(store)).found

    virtual_time.run(scenario())


def test_only_what_stays_is_repaired_and_only_under_the_controller_that_was_seen() -> None:
    async def scenario() -> None:
        server = MemoryZooKeeper()
        store = MemoryStore(server)
        await store.start(10)
        for path in (paths.TOPICS, paths.BROKER_IDS, paths.DELETE_TOPICS, paths.CONFIG_TOPICS, paths.ISR_CHANGES):
            for each in (*paths.ancestors(path), path):
                if await store.exists(each) is None:
                    await store.create(each, b"")
        await store.create(paths.CONTROLLER_EPOCH, b"1")
        await store.create(paths.delete_topic("passing"), b"")
        await store.create(paths.topic_config("stays"), b"{}")
        looking = asyncio.ensure_future(znodes.find_inconsistencies(store))
        await asyncio.sleep(1)
        await store.delete(paths.delete_topic("passing"))
        seen, repairs = await looking
        assert [each.deleted for each in repairs] == [(paths.topic_config("stays"),)]
        await store.write(paths.CONTROLLER_EPOCH, b"2")
        with pytest.raises(BadVersionError):
            await znodes.delete(store, seen, repairs[0])
        assert await store.exists(paths.topic_config("stays")) is not None
        seen = await znodes.snapshot(store)
        await znodes.delete(store, seen, repairs[0])
        await znodes.delete(store, seen, Repair("", "", deleted=(paths.topic_config("stays"),)))  # somebody was faster
        assert await znodes.find_inconsistencies(store) == (Snapshot(), [])

    virtual_time.run(scenario())
