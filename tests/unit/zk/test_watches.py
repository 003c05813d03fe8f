"""Standing watches and the session's hooks, on the store in memory."""

import asyncio

from kafkalite.testing.simulation import virtual_time
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.session import Session
from zk.watches import ChildWatch, DataWatch


async def connected(server: MemoryZooKeeper) -> tuple[MemoryStore, Session]:
    store = MemoryStore(server)
    session = Session(store)
    await store.start(1)
    return store, session


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


def test_child_watch_reports_what_came_and_went():
    async def scenario():
        store, session = await connected(MemoryZooKeeper())
        seen = []
        watch = ChildWatch(session, "/p", seen.append)
        await watch.start()
        await store.create("/p/a", parents=True)
        await until(lambda: len(seen) > 1)
        await store.delete("/p/a")
        await until(lambda: seen[-1].removed)
        assert seen[0].names == () and seen[-1].removed == ("a",) and seen[-1].names == ()
        assert [event.added for event in seen if event.added] == [("a",)]
        await watch.stop()
        await store.create("/p/b")
        count = len(seen)
        await store.sync()
        assert len(seen) == count

    asyncio.run(scenario())


def test_many_changes_lose_no_wakeup():
    async def scenario():
        server = MemoryZooKeeper()
        (store, _), (_, session) = await connected(server), await connected(server)
        await store.create("/p")
        known = set()

        def note(event):
            known.update(event.added)
            known.difference_update(event.removed)

        watch = ChildWatch(session, "/p", note)
        await watch.start()
        for n in range(50):
            await store.create(f"/p/{n}")
            if n % 3 == 0:
                await store.delete(f"/p/{n}")
        await until(lambda: known == {str(n) for n in range(50) if n % 3})
        await watch.stop()

    asyncio.run(scenario())


def test_data_watch_sees_creation_change_and_deletion():
    async def scenario():
        store, session = await connected(MemoryZooKeeper())
        seen = []
        watch = DataWatch(session, "/d", lambda event: seen.append(event.data))
        await watch.start()
        for step in (store.create("/d", b"1"), store.write("/d", b"2"), store.delete("/d")):
            count = len(seen)
            await step
            await until(lambda count=count: len(seen) > count)
        assert seen == [None, b"1", b"2", None]
        await watch.stop()

    asyncio.run(scenario())


def test_watches_live_on_in_the_next_session_and_report_what_they_missed():
    async def scenario():
        server = MemoryZooKeeper()
        (writer, _), (store, session) = await connected(server), await connected(server)
        await writer.create("/p")
        seen = []
        watch = ChildWatch(session, "/p", lambda event: seen.append(event.names))
        await watch.start()
        store.suspend()
        await writer.create("/p/a")
        store.expire_session()
        store.resume()
        await until(lambda: seen[-1] == ("a",))
        await writer.create("/p/b")
        await until(lambda: seen[-1] == ("a", "b"))
        await watch.stop()

    asyncio.run(scenario())


def test_a_listener_that_fails_does_not_end_the_watch():
    async def scenario():
        store, session = await connected(MemoryZooKeeper())
        seen = []

        def listener(event):
            seen.append(event.data)
            raise RuntimeError("listener")

        watch = DataWatch(session, "/d", listener)
        with virtual_time.expected_errors() as errors:
            await watch.start()
            await store.create("/d", b"1")
            await until(lambda: seen[-1] == b"1")
        assert errors.count == 2
        await watch.stop()

    asyncio.run(scenario())


def test_hooks_run_in_order_once_the_session_is_new():
    async def scenario():
        store, session = await connected(MemoryZooKeeper())
        log = []

        async def register():
            await store.sync()
            log.append("register")

        async def stand():
            log.append("elect")

        session.on_ended(lambda: log.append("stop"))
        session.on_renewed(register)
        session.on_renewed(stand)
        store.suspend()
        store.resume()
        assert log == []
        store.expire_session()
        assert log == ["stop"]
        await until(lambda: len(log) == 3)
        assert log == ["stop", "register", "elect"]

    asyncio.run(scenario())


def test_hooks_start_again_when_the_new_session_ends_too():
    async def scenario():
        store, session = await connected(MemoryZooKeeper())
        log = []

        async def register():
            log.append("begin")
            await store.sync()
            log.append("end")

        session.on_renewed(register)
        store.expire_session()
        await until(lambda: log == ["begin"])
        store.expire_session()
        await until(lambda: log == ["begin", "begin", "end"])

    asyncio.run(scenario())


def test_a_hook_that_failed_left_the_broker_unregistered_for_the_rest_of_the_session():
    async def scenario():
        store, session = await connected(MemoryZooKeeper())
        log = []

        async def register():
            log.append("register")
            if len(log) < 4:
                raise RuntimeError("no")

        async def stand():
            log.append("elect")

        session.on_renewed(register)
        session.on_renewed(stand)
        with virtual_time.expected_errors() as errors:
            store.expire_session()
            await asyncio.sleep(60)
        assert errors.count == 2
        assert log == ["register", "elect", "register", "register"]

    virtual_time.run(scenario())


def test_a_watch_that_could_not_be_read_for_an_unknown_reason_was_dead():
    async def scenario():
        store, session = await connected(MemoryZooKeeper())
        seen = []
        watch = DataWatch(session, "/d", lambda event: seen.append(event.data))
        await watch.start()
        read, watch._read = watch._read, None  # what the next look stumbles over
        with virtual_time.expected_errors() as errors:
            await store.create("/d", b"1")
            await asyncio.sleep(0.5)
            assert errors.count == 1
            watch._read = read
            await asyncio.sleep(5)
        assert seen == [None, b"1"]
        await watch.stop()

    virtual_time.run(scenario())
