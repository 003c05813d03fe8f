"""ISR changes that a leader writes itself (inter.broker.protocol.version below 2.7): what each outcome does to the partition."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.isr_changes import ZooKeeperIsrWriter
from kafkalite.broker.replication.partition import Partition
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.fake_log import TP, assignment, make_partition
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import NoAuthError, SessionExpiredError, Stat, StoreClosedError
from zk.znodes import PartitionName, PartitionState

BEFORE = PartitionState(leader=1, leader_epoch=0, isr=(1, 2), controller_epoch=1)
LARGER = PartitionState(leader=1, leader_epoch=0, isr=(1, 2, 3), controller_epoch=1)
ELECTED = PartitionState(leader=3, leader_epoch=1, isr=(3,), controller_epoch=1)


class Answers(MemoryStore):
    """A session whose writes are answered by `answers`, one after the other, and then as they should be."""

    def __init__(self, *answers: Callable[[Answers, bytes, int], Awaitable[Stat]]) -> None:
        super().__init__(MemoryZooKeeper())
        self.answers = list(answers)
        self.writes = 0

    async def write(self, path: str, data: bytes, version: int = -1) -> Stat:
        self.writes += 1
        if self.answers and path.startswith(paths.TOPICS):
            return await self.answers.pop(0)(self, data, version)
        return await super().write(path, data, version)

    async def really(self, data: bytes, version: int) -> Stat:
        return await super().write(paths.partition_state(*TP), data, version)


async def carried_out(store: Answers, data: bytes, version: int) -> Stat:
    """The session ends between the write and its answer."""
    await store.really(data, version)
    raise SessionExpiredError("/")


async def then_elected(store: Answers, data: bytes, version: int) -> Stat:
    """The same, and the controller elects who joined."""
    written = await store.really(data, version)
    await store.really(ELECTED.encode(), written.version)
    raise SessionExpiredError("/")


async def not_carried_out(store: Answers, data: bytes, version: int) -> Stat:
    raise SessionExpiredError("/")


async def not_allowed(store: Answers, data: bytes, version: int) -> Stat:
    raise NoAuthError("/")


async def a_bug(store: Answers, data: bytes, version: int) -> Stat:
    raise ZeroDivisionError("a bug")


async def closed(store: Answers, data: bytes, version: int) -> Stat:
    raise StoreClosedError("/")


def leader() -> tuple[Partition, IsrChange]:
    """A partition with a change that is due: 3 joins."""
    partition = make_partition()
    partition.become_leader(assignment(isr=(1, 2)), 0.0)
    change = partition.follower_fetched(3, 0, 0, 0.0, partition.followers[3].requester)
    assert change is not None
    return partition, change


def test_a_notification_names_no_more_partitions_than_a_znode_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand partitions with long names were more than a server takes: the connection broke each time they were announced."""

    async def scenario() -> list[int]:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        await store.create(paths.ISR_CHANGES, parents=True)
        writer = ZooKeeperIsrWriter(1, store, lambda: 0.0)
        writer._changed = {PartitionName("t" * 249, index) for index in range(2500)}
        announcing = asyncio.ensure_future(writer._propagate())
        await asyncio.sleep(20)
        announcing.cancel()
        found = [
            (await store.read(f"{paths.ISR_CHANGES}/{name}"))[0] for name in await store.children(paths.ISR_CHANGES)
        ]
        assert sum(data.count(b"topic") for data in found) == 2500
        return [len(data) for data in found]

    sizes = virtual_time.run(scenario())
    assert len(sizes) == 3 and max(sizes) < 300_000


def propose(
    store: Answers,
    partition: Partition,
    change: IsrChange,
    at_once: Callable[[], None] = lambda: None,
    seconds: float = 30.0,
    errors: int = 0,
) -> ZooKeeperIsrWriter:
    async def scenario() -> ZooKeeperIsrWriter:
        await store.start(1.0)
        await store.create(paths.partition_state(*TP), BEFORE.encode(), parents=True)
        writer = ZooKeeperIsrWriter(1, store, lambda: 0.0)
        with virtual_time.expected_errors() as seen:
            writer.propose(partition, change)
            await asyncio.sleep(0)
            at_once()
            await asyncio.sleep(seconds)
        await writer.close()
        assert seen.count == errors
        return writer

    return virtual_time.run(scenario())


def test_a_change_that_is_written_is_committed() -> None:
    store, (partition, change) = Answers(), leader()
    writer = propose(store, partition, change)
    assert (partition.isr, partition.partition_epoch, partition.pending_change) == ((1, 2, 3), 1, None)
    assert (writer.expands, writer.shrinks) == (1, 0)
    assert PartitionState.decode(store.server.tree.read(paths.partition_state(*TP))[0]) == LARGER


@pytest.mark.parametrize("first", [carried_out, not_carried_out, not_allowed])
def test_what_is_unknown_is_asked_again(first: Callable[[Answers, bytes, int], Awaitable[Stat]]) -> None:
    """Whether the write had been carried out or not, it is known in the end to have been, once."""
    store, (partition, change) = Answers(first, not_carried_out), leader()
    writer = propose(store, partition, change)
    assert (partition.isr, partition.partition_epoch, partition.pending_change) == ((1, 2, 3), 1, None)
    assert (writer.expands, store.writes) == (1, 3)


def test_an_isr_whose_answer_was_lost_counted_as_refused() -> None:
    """The larger one may be in ZooKeeper: it stays in force, here until the controller says who was elected."""
    store, (partition, change) = Answers(then_elected), leader()
    propose(store, partition, change)
    assert partition.pending_change is change
    assert partition.maximal_isr == (1, 2, 3)
    assert store.writes == 2


@pytest.mark.parametrize("seconds", [0.01, 30.0])
def test_while_the_outcome_is_unknown_the_larger_isr_counts(seconds: float) -> None:
    store, (partition, change) = Answers(*[not_carried_out] * 1_000), leader()
    propose(store, partition, change, seconds=seconds)
    assert partition.maximal_isr == (1, 2, 3)
    assert 1 <= store.writes < 30


def test_a_change_that_a_leader_and_isr_overtook_is_not_written_again() -> None:
    store, (partition, change) = Answers(not_carried_out), leader()
    propose(store, partition, change, lambda: partition.resign())
    assert store.writes == 1
    assert PartitionState.decode(store.server.tree.read(paths.partition_state(*TP))[0]) == BEFORE


def test_a_partition_whose_state_is_gone_waits_for_the_controller() -> None:
    store, (partition, change) = Answers(), leader()

    async def deleted(store: Answers, data: bytes, version: int) -> Stat:
        await store.delete(paths.partition_state(*TP))
        return await store.really(data, version)

    store.answers.append(deleted)
    propose(store, partition, change)
    assert partition.pending_change is change
    assert store.writes == 1


def test_a_store_that_was_closed_is_not_asked_again() -> None:
    store, (partition, change) = Answers(closed), leader()
    propose(store, partition, change)
    assert partition.pending_change is change
    assert store.writes == 1


def test_an_unexpected_error_is_reported_and_the_change_written_again() -> None:
    store, (partition, change) = Answers(a_bug), leader()
    propose(store, partition, change, errors=1)
    assert (partition.isr, partition.pending_change) == ((1, 2, 3), None)
