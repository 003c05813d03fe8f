"""Election and fencing on the store in memory."""

import asyncio

import pytest

from zk import paths
from zk.controller_seat import ControllerMovedError, FencedWriter, Seat, elect, read_controller, vacate
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import BadVersionError, Create, NodeExistsError, Stat, Write


async def connected(server: MemoryZooKeeper) -> MemoryStore:
    store = MemoryStore(server)
    await store.start(1)
    return store


def losing_reply_of_multi(store: MemoryStore) -> None:
    """The reply to the next multi, and only that, is lost."""
    original = store.multi

    async def multi(operations):
        store.multi = original  # type: ignore[method-assign]
        store.lose_next_reply()
        return await original(operations)

    store.multi = multi  # type: ignore[method-assign]


def test_the_first_controller_has_epoch_1():
    async def scenario():
        server = MemoryZooKeeper()
        one, two = await connected(server), await connected(server)
        assert await elect(one, 1, now_ms=1700000000000) == Seat(epoch=1, epoch_zk_version=1)
        assert await elect(two, 2, now_ms=0) is None
        assert server.tree.read(paths.CONTROLLER)[0] == (
            b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
        )
        assert server.tree.read(paths.CONTROLLER_EPOCH)[0] == b"1"
        one.expire_session()
        assert await elect(two, 2, now_ms=0) == Seat(epoch=2, epoch_zk_version=2)

    asyncio.run(scenario())


def test_only_one_of_many_wins():
    async def scenario():
        server = MemoryZooKeeper()
        stores = [await connected(server) for _ in range(5)]
        seats = await asyncio.gather(*(elect(store, n, now_ms=0) for n, store in enumerate(stores)))
        assert [seat.epoch for seat in seats if seat] == [1]

    asyncio.run(scenario())


def test_a_claim_whose_reply_was_lost_counts():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        losing_reply_of_multi(store)
        assert await elect(store, 1, now_ms=0) == Seat(1, 1)

    asyncio.run(scenario())


def test_a_claim_of_this_session_that_nobody_took_is_made_again():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        await elect(store, 1, now_ms=0)
        assert await elect(store, 1, now_ms=0) == Seat(2, 2)

    asyncio.run(scenario())


def test_epoch_and_version_of_the_epoch_znode_may_differ():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        await store.create(paths.CONTROLLER_EPOCH, b"41")
        assert await elect(store, 1, now_ms=0) == Seat(42, 1)

    asyncio.run(scenario())


def test_watch_on_a_vacant_seat_sees_it_taken():
    async def scenario():
        store, events = await connected(MemoryZooKeeper()), []
        assert await read_controller(store, events.append) is None
        await elect(store, 7, now_ms=5)
        assert [event.path for event in events] == [paths.CONTROLLER]
        found = await read_controller(store)
        assert found is not None and (found.broker_id, found.timestamp_ms) == (7, 5)

    asyncio.run(scenario())


def test_writes_after_another_election_are_refused():
    async def scenario():
        server = MemoryZooKeeper()
        one, two = await connected(server), await connected(server)
        seat = await elect(one, 1, now_ms=0)
        assert seat is not None
        writer = FencedWriter(one, seat)
        created, missing = await writer.write([Create("/a", b"x"), Write("/none", b"", 0)])
        assert created == "/a" and isinstance(missing, Exception)
        one.expire_session()
        assert await elect(two, 2, now_ms=0)
        await asyncio.sleep(0)
        with pytest.raises(ControllerMovedError):
            await writer.write([Write("/a", b"y")])
        with pytest.raises(ControllerMovedError):
            await writer.write_together([Write("/a", b"y")])
        with pytest.raises(ControllerMovedError):
            await vacate(one, seat)
        assert server.tree.read("/a")[0] == b"x"

    asyncio.run(scenario())


def test_fenced_writes_survive_a_lost_reply():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        seat = await elect(store, 1, now_ms=0)
        assert seat is not None
        writer = FencedWriter(store, seat)
        losing_reply_of_multi(store)
        assert await writer.write([Create("/a", b"x")]) == ["/a"]
        losing_reply_of_multi(store)
        (written,) = await writer.write([Write("/a", b"y", 0)])
        assert isinstance(written, Stat) and written.version == 1

    asyncio.run(scenario())


def test_real_conflicts_are_returned():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        seat = await elect(store, 1, now_ms=0)
        assert seat is not None
        await store.create("/a", b"other")
        results = await FencedWriter(store, seat).write([Create("/a", b"mine"), Write("/a", b"mine", 7)])
        assert [type(result) for result in results] == [NodeExistsError, BadVersionError]

    asyncio.run(scenario())


def test_vacated_seat_is_open():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        seat = await elect(store, 1, now_ms=0)
        assert seat is not None
        await vacate(store, seat)
        assert await read_controller(store) is None

    asyncio.run(scenario())
