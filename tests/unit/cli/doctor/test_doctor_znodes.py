"""Znodes that disagree: what doctor finds, what it would do, and that it does only what nobody else is doing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kafkalite.cli.doctor import znodes
from kafkalite.cli.doctor.znodes import Repair, Snapshot, judge
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import BadVersionError
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
