"""The port's contract, held against the store in memory and against a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from zk.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    EventType,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    SessionEnding,
    SessionExpiredError,
    SessionState,
    Stat,
    Store,
    StoreClosedError,
    WatchEvent,
    Write,
)


async def until(condition: Callable[[], object], timeout_s: float = 20) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


class Events:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[EventType, str]] = []

    def __call__(self, event: WatchEvent) -> None:
        self.seen.append((event.type, event.path))

    async def next(self) -> tuple[EventType, str]:
        await until(lambda: self.seen)
        return self.seen.pop(0)


def test_create_and_read(stores):
    async def scenario():
        async with stores.open() as store:
            assert await store.create("/a", b"data") == "/a"
            data, stat = await store.read("/a")
            assert data == b"data"
            assert (stat.version, stat.ephemeral_owner, stat.data_length, stat.children_count) == (0, 0, 4, 0)
            assert stat.czxid == stat.mzxid > 0
            assert await store.exists("/a") == stat
            assert await store.exists("/b") is None
            with pytest.raises(NodeExistsError):
                await store.create("/a")
            with pytest.raises(NoNodeError) as caught:
                await store.read("/b")
            assert caught.value.path == "/b"

    asyncio.run(scenario())


def test_many_znodes_are_read_as_they_are_one_by_one(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/empty")
            await store.create("/ephemeral", b"mine", ephemeral=True)
            await store.create("/parent/child", b"\xff\0", parents=True)
            await store.write("/parent", b"2", 0)
            there = ["/parent", "/empty", "/", "/ephemeral", "/parent/child", "/parent"]
            wanted = ["/none", *there, "/parent/none"]
            assert await store.read_many(wanted) == [None, *[await store.read(path) for path in there], None]
            assert await store.read_many(there[:1]) == [await store.read("/parent")]
            assert await store.read_many(["/none"]) == [None]
            assert await store.read_many([]) == []

    asyncio.run(scenario())


def test_more_znodes_than_one_request_takes(stores):
    async def scenario():
        async with stores.open() as store:
            paths = [f"/{n:04d}" for n in range(1_000)]
            for some in (paths[:500], paths[500:]):
                await store.multi([Create(path, path.encode()) for path in some[::2]])
            for _ in range(2):  # of the first requests one is alone
                found = await store.read_many(paths)
                assert [znode and znode[0] for znode in found[::2]] == [path.encode() for path in paths[::2]]
                assert found[1::2] == [None] * 500

    asyncio.run(scenario())


def test_many_reads_keep_their_place_among_other_requests(stores):
    async def scenario():
        async with stores.open() as store:
            written = asyncio.ensure_future(store.multi([Create("/a", b"1"), Create("/b", b"1")]))
            first = asyncio.ensure_future(store.read_many(["/a", "/b"]))
            again = asyncio.ensure_future(store.multi([Write("/a", b"2"), Write("/b", b"2")]))
            second = asyncio.ensure_future(store.read_many(["/a", "/b"]))
            results = await asyncio.gather(first, second, written, again)
            assert [[znode and znode[0] for znode in found] for found in results[:2]] == [[b"1"] * 2, [b"2"] * 2]

    asyncio.run(scenario())


def test_many_reads_outlive_a_connection(stores):
    async def scenario():
        async with stores.open() as store:
            await store.multi([Create("/a", b"1"), Create("/b")])
            for _ in range(3):
                stores.drop_connection(store)
                assert [znode and znode[0] for znode in await store.read_many(["/a", "/b", "/c"])] == [b"1", b"", None]

    asyncio.run(scenario())


def test_many_reads_fail_when_the_session_has_ended(stores):
    async def scenario():
        async with stores.open() as store:
            asked: list[asyncio.Future[object]] = []
            store.add_session_listener(
                lambda state: (
                    state is SessionState.EXPIRED and asked.append(asyncio.ensure_future(store.read_many(["/a"])))
                )
            )
            stores.expire(store)
            await until(lambda: asked)
            with pytest.raises(SessionExpiredError):
                await asked[0]

    asyncio.run(scenario())


def test_empty_data_is_bytes(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/a")
            assert (await store.read("/a"))[0] == b""

    asyncio.run(scenario())


def test_create_with_parents(stores):
    async def scenario():
        async with stores.open() as store:
            with pytest.raises(NoNodeError):
                await store.create("/a/b/c")
            assert await store.create("/a/b/c", b"x", parents=True) == "/a/b/c"
            assert await store.children("/a") == ["b"]

    asyncio.run(scenario())


def test_write_needs_the_version(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/a")
            stat = await store.write("/a", b"1", 0)
            assert (stat.version, stat.data_length) == (1, 1)
            assert stat.mzxid > stat.czxid
            with pytest.raises(BadVersionError):
                await store.write("/a", b"2", 0)
            assert (await store.write("/a", b"3")).version == 2
            with pytest.raises(NoNodeError):
                await store.write("/none", b"")

    asyncio.run(scenario())


def test_delete(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/a/b", parents=True)
            with pytest.raises(NotEmptyError):
                await store.delete("/a")
            with pytest.raises(BadVersionError):
                await store.delete("/a/b", 5)
            await store.delete("/a/b", 0)
            await store.delete("/a")
            with pytest.raises(NoNodeError):
                await store.delete("/a")

    asyncio.run(scenario())


def test_children_are_sorted_names(stores):
    async def scenario():
        async with stores.open() as store:
            for name in ("c", "a", "b"):
                await store.create(f"/p/{name}", parents=True)
            assert await store.children("/p") == ["a", "b", "c"]
            assert await store.children("/") == ["p"]
            stat = await store.exists("/p")
            assert stat is not None and (stat.children_count, stat.cversion) == (3, 3)
            with pytest.raises(NoNodeError):
                await store.children("/none")

    asyncio.run(scenario())


def test_sequence_numbers_count_the_children_ever_created(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/p")
            assert await store.create("/p/n_", sequence=True) == "/p/n_0000000000"
            await store.delete("/p/n_0000000000")
            await store.create("/p/other")
            assert await store.create("/p/n_", b"x", sequence=True) == "/p/n_0000000002"
            results = await store.multi([Create("/p/n_", sequence=True), Create("/p/n_", sequence=True)])
            assert results == ["/p/n_0000000003", "/p/n_0000000004"]

    asyncio.run(scenario())


def test_ephemerals_belong_to_their_session(stores):
    async def scenario():
        async with stores.open() as watching:
            events = Events()
            async with stores.open() as store:
                await store.create("/e", ephemeral=True)
                _, stat = await store.read("/e")
                assert stat.ephemeral_owner == store.session_id != 0
                assert store.session_id != watching.session_id
                with pytest.raises(NoChildrenForEphemeralsError):
                    await store.create("/e/child")
                await watching.sync()
                assert await watching.exists("/e", events)
            assert await events.next() == (EventType.DELETED, "/e")
            assert await watching.exists("/e") is None

    asyncio.run(scenario())


def test_multi_is_all(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/v")
            await store.create("/gone")
            operations = [Check("/v", 0), Create("/a", b"1"), Write("/a", b"2", 0), Delete("/gone"), Create("/a/b")]
            check, created, written, deleted, child = await store.multi(operations)
            assert (check, created, deleted, child) == (None, "/a", None, "/a/b")
            assert isinstance(written, Stat) and written.version == 1
            _, stat = await store.read("/a")
            assert written.czxid == stat.czxid
            assert await store.exists("/gone") is None
            assert await store.multi([]) == []

    asyncio.run(scenario())


def test_multi_is_nothing(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/v", b"0")
            results = await store.multi([Write("/v", b"1"), Create("/new"), Check("/v", 7), Delete("/v")])
            assert [type(result) for result in results] == [
                RolledBackError,
                RolledBackError,
                BadVersionError,
                RolledBackError,
            ]
            assert results[2].path == "/v"
            data, stat = await store.read("/v")
            assert (data, stat.version, stat.mzxid) == (b"0", 0, stat.czxid)
            assert await store.exists("/new") is None
            assert type((await store.multi([Create("/v")]))[0]) is NodeExistsError
            assert type((await store.multi([Check("/none", 0)]))[0]) is NoNodeError

    asyncio.run(scenario())


def test_data_watch_fires_once(stores):
    async def scenario():
        async with stores.open() as store, stores.open() as other:
            events = Events()
            await store.create("/a")
            await store.read("/a", events)
            await other.write("/a", b"1")
            assert await events.next() == (EventType.CHANGED, "/a")
            await other.write("/a", b"2")
            await store.sync("/a")
            assert (await store.read("/a", events))[0] == b"2"
            assert not events.seen
            await other.delete("/a")
            assert await events.next() == (EventType.DELETED, "/a")

    asyncio.run(scenario())


def test_read_of_an_absent_znode_leaves_no_watch_but_exists_does(stores):
    async def scenario():
        async with stores.open() as store:
            none, events = Events(), Events()
            with pytest.raises(NoNodeError):
                await store.read("/a", none)
            with pytest.raises(NoNodeError):
                await store.children("/a", none)
            assert await store.exists("/a", events) is None
            await store.create("/a")
            assert await events.next() == (EventType.CREATED, "/a")
            assert not none.seen

    asyncio.run(scenario())


def test_child_watch_sees_names_come_and_go_but_not_data(stores):
    async def scenario():
        async with stores.open() as store:
            events = Events()
            await store.create("/p/a", parents=True)
            await store.children("/p", events)
            await store.write("/p", b"x")
            await store.write("/p/a", b"x")
            await store.sync()
            assert not events.seen
            await store.create("/p/b")
            assert await events.next() == (EventType.CHILDREN, "/p")
            await store.children("/p", events)
            await store.delete("/p/b")
            assert await events.next() == (EventType.CHILDREN, "/p")
            await store.delete("/p/a")
            await store.children("/p", events)
            await store.delete("/p")
            assert await events.next() == (EventType.DELETED, "/p")

    asyncio.run(scenario())


def test_the_same_watcher_is_called_once(stores):
    async def scenario():
        async with stores.open() as store:
            events = Events()
            await store.create("/a")
            for _ in range(3):
                await store.read("/a", events)
            await store.exists("/a", events)
            await store.write("/a", b"")
            assert await events.next() == (EventType.CHANGED, "/a")
            await store.sync()
            assert not events.seen

    asyncio.run(scenario())


def test_an_event_comes_before_what_it_announces_can_be_read(stores):
    async def scenario():
        async with stores.open() as store, stores.open() as other:
            await store.create("/a", b"0")
            for n in range(1, 30):
                events = Events()
                await store.read("/a", events)
                writing = asyncio.ensure_future(other.write("/a", b"%d" % n))
                while (await store.read("/a"))[0] != b"%d" % n:
                    pass
                assert events.seen == [(EventType.CHANGED, "/a")]
                await writing

    asyncio.run(scenario())


def test_requests_are_carried_out_in_order(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/a")
            stats = await asyncio.gather(*(store.write("/a", b"%d" % n) for n in range(100)))
            assert [stat.version for stat in stats] == list(range(1, 101))
            assert (await store.read("/a"))[0] == b"99"

    asyncio.run(scenario())


def test_a_cancelled_request_harms_no_other(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/a")
            tasks = [asyncio.ensure_future(store.write("/a", b"x")) for _ in range(50)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, Stat) for result in results[1::2])
            assert await store.exists("/a")

    asyncio.run(scenario())


def test_a_lost_connection_keeps_session_ephemerals_requests_and_watches(stores):
    async def scenario():
        async with stores.open() as store, stores.open() as other:
            states = []
            store.add_session_listener(states.append)
            data, children, absent, quiet = Events(), Events(), Events(), Events()
            await store.create("/e", ephemeral=True)
            await store.create("/p")
            await store.read("/e", quiet)
            await store.read("/p", data)
            await store.children("/p", children)
            await store.exists("/later", absent)
            session_id = store.session_id
            stores.drop_connection(store)
            await until(lambda: SessionState.SUSPENDED in states)
            pending = asyncio.ensure_future(store.read("/p"))
            await other.write("/p", b"new")
            await other.create("/p/child")
            await other.create("/later")
            assert (await pending)[0] in (b"", b"new")
            await store.sync()
            assert (await store.read("/p"))[0] == b"new"
            assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
            assert store.session_id == session_id
            assert await data.next() == (EventType.CHANGED, "/p")
            assert await children.next() == (EventType.CHILDREN, "/p")
            assert await absent.next() == (EventType.CREATED, "/later")
            assert not quiet.seen
            await other.write("/e", b"")
            assert await quiet.next() == (EventType.CHANGED, "/e")

    asyncio.run(scenario())


def test_expiry_ends_ephemerals_and_watches_and_a_new_session_follows(stores):
    async def scenario():
        async with stores.open() as store, stores.open() as other:
            states: list[SessionState] = []
            refused = []
            asked = []

            async def ask() -> None:
                try:
                    await store.read("/p")
                except SessionExpiredError as error:
                    refused.append(error)

            def listener(state: SessionState) -> None:
                states.append(state)
                if state is SessionState.EXPIRED:
                    asked.append(asyncio.ensure_future(ask()))

            store.add_session_listener(listener)
            watched, gone = Events(), Events()
            await store.create("/e", ephemeral=True)
            await store.create("/p")
            await store.read("/p", watched)
            await other.exists("/e", gone)
            session_id = store.session_id
            stores.expire(store)
            assert await gone.next() == (EventType.DELETED, "/e")
            await until(lambda: states and states[-1] is SessionState.CONNECTED and len(states) > 1)
            assert [state for state in states if state is not SessionState.SUSPENDED][-2:] == [
                SessionState.EXPIRED,
                SessionState.CONNECTED,
            ]
            assert store.session_id not in (0, session_id)
            await other.write("/p", b"1")
            await store.sync()
            assert (await store.read("/p"))[0] == b"1"
            assert not watched.seen
            await store.create("/e", ephemeral=True)
            _, stat = await other.read("/e")
            assert stat.ephemeral_owner == store.session_id
            await until(lambda: refused)

    asyncio.run(scenario())


def test_a_dead_owners_session_is_ended_long_before_its_timeout(stores):
    async def scenario():
        async with stores.open() as other, stores.open(session_timeout_s=100.0) as owner:
            gone = Events()
            await owner.create("/e", ephemeral=True)
            await other.sync()
            await other.exists("/e", gone)
            stores.abandon(owner)
            ending = await other.end_session(owner.session_id, owner.session_password, 20)
            assert ending is SessionEnding.ENDED
            assert await gone.next() == (EventType.DELETED, "/e")
            again = await other.end_session(owner.session_id, owner.session_password, 20)
            assert again is SessionEnding.REFUSED, "it is gone"

    asyncio.run(scenario())


def test_a_living_owner_of_an_ended_session_gets_another(stores):
    async def scenario():
        async with stores.open() as other, stores.open(session_timeout_s=100.0) as owner:
            states: list[SessionState] = []
            owner.add_session_listener(states.append)
            await owner.create("/e", ephemeral=True)
            ended = (owner.session_id, owner.session_password)
            assert await other.end_session(*ended, 20) is SessionEnding.ENDED
            await other.sync()
            assert await other.exists("/e") is None
            await until(lambda: SessionState.EXPIRED in states and owner.state is SessionState.CONNECTED)
            assert owner.session_id != ended[0]
            assert owner.session_password not in (b"", ended[1])
            await owner.create("/e", ephemeral=True)
            assert await other.end_session(*ended, 20) is SessionEnding.REFUSED
            assert await other.end_session(owner.session_id, ended[1], 20) is SessionEnding.REFUSED
            await owner.sync()
            assert await owner.exists("/e"), "the next session is another's"

    asyncio.run(scenario())


def test_a_session_is_not_ended_with_a_wrong_password(stores):
    async def scenario():
        async with stores.open() as other, stores.open() as owner:
            states: list[SessionState] = []
            owner.add_session_listener(states.append)
            await owner.create("/e", ephemeral=True)
            session_id = owner.session_id
            for wrong in (b"", bytes(16), other.session_password, owner.session_password[:-1]):
                assert await other.end_session(session_id, wrong, 20) is SessionEnding.REFUSED
            assert await other.end_session(session_id + 1000, owner.session_password, 20) is SessionEnding.REFUSED
            await owner.sync()
            assert (await owner.read("/e"))[1].ephemeral_owner == owner.session_id == session_id
            assert SessionState.EXPIRED not in states

    asyncio.run(scenario())


def test_a_session_may_be_ended_by_two_at_once(stores):
    async def scenario():
        async with stores.open() as one, stores.open() as two, stores.open(session_timeout_s=100.0) as owner:
            states: list[SessionState] = []
            owner.add_session_listener(states.append)
            await owner.create("/e", ephemeral=True)
            ended = (owner.session_id, owner.session_password)
            endings = await asyncio.gather(*(each.end_session(*ended, 20) for each in (one, two, one)))
            assert SessionEnding.ENDED in endings
            await until(lambda: SessionState.EXPIRED in states and owner.state is SessionState.CONNECTED)
            assert await owner.exists("/e") is None
            await owner.create("/e", ephemeral=True)
            assert states.count(SessionState.EXPIRED) == 1

    asyncio.run(scenario())


def test_a_client_can_end_its_own_session(stores):
    async def scenario():
        async with stores.open() as owner:
            session_id = owner.session_id
            assert await owner.end_session(session_id, owner.session_password, 20) is SessionEnding.ENDED
            await until(lambda: owner.session_id != session_id and owner.state is SessionState.CONNECTED)

    asyncio.run(scenario())


def test_a_closed_store_ends_no_session(stores):
    async def scenario():
        async with stores.open() as owner, stores.open() as other:
            await other.close()
            with pytest.raises(StoreClosedError):
                await other.end_session(owner.session_id, owner.session_password, 20)

    asyncio.run(scenario())


def test_closed_store_refuses(stores):
    async def scenario():
        async with stores.open() as store:
            states = []
            store.add_session_listener(states.append)
            await store.close()
            assert (store.state, states) == (SessionState.CLOSED, [SessionState.CLOSED])
            with pytest.raises(StoreClosedError):
                await store.read("/")
            with pytest.raises(StoreClosedError):
                await store.read_many(["/", "/a"])

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/a\0"])
def test_paths_that_zookeeper_would_refuse(stores, path):
    async def scenario():
        async with stores.open() as store:
            with pytest.raises(ValueError):
                await store.read(path)
            with pytest.raises(ValueError):
                await store.read_many(["/", path])
            with pytest.raises(ValueError):
                await store.create(path)
            with pytest.raises(ValueError):
                await store.multi([Delete(path)])

    asyncio.run(scenario())


def test_large_data_and_many_children(stores):
    async def scenario():
        async with stores.open() as store:
            await store.create("/large", b"x" * 2_000_000)
            assert len((await store.read("/large"))[0]) == 2_000_000
            await store.create("/many")
            await _create_all(store, [f"/many/{n:05d}" for n in range(500)])
            assert len(await store.children("/many")) == 500

    asyncio.run(scenario())


async def _create_all(store: Store, paths: list[str]) -> None:
    await asyncio.gather(*map(store.create, paths))
