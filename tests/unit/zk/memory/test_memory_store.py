"""What the store in memory does beyond the contract: faults, latency, quorum."""

import asyncio
import random

import pytest

from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    SessionEnding,
    SessionState,
    StoreError,
    Write,
)


async def connected(server: MemoryZooKeeper, **settings) -> MemoryStore:
    store = MemoryStore(server, **settings)
    await store.start(1)
    return store


def test_lost_reply_makes_a_create_meet_itself():
    async def scenario():
        store = await connected(MemoryZooKeeper())
        store.lose_next_reply()
        with pytest.raises(NodeExistsError):
            await store.create("/a")

    asyncio.run(scenario())


def test_a_session_suspended_for_its_timeout_expires_and_learns_it_when_resumed():
    async def scenario():
        server = MemoryZooKeeper()
        store, states = await connected(server, session_timeout_s=0.02), []
        store.add_session_listener(states.append)
        await store.create("/e", ephemeral=True)
        store.suspend()
        async with asyncio.timeout(5):
            while server.tree.exists("/e"):
                await asyncio.sleep(0.005)
        assert states == [SessionState.SUSPENDED]
        store.resume()
        await asyncio.sleep(0)
        assert states == [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]

    asyncio.run(scenario())


def test_no_session_expires_without_quorum():
    async def scenario():
        server = MemoryZooKeeper()
        store = await connected(server, session_timeout_s=0.001)
        await store.create("/e", ephemeral=True)
        server.lose_quorum()
        waiting = asyncio.ensure_future(store.write("/e", b"x"))
        store.suspend()
        await asyncio.wait([waiting], timeout=0.01)
        assert store.state is SessionState.SUSPENDED and not waiting.done()
        server.regain_quorum()
        store.resume()
        assert (await waiting).version == 1

    asyncio.run(scenario())


def test_a_session_that_was_ended_without_quorum_is_followed_by_another():
    """Nobody came back to its client when the quorum did: it stayed suspended for ever."""

    async def scenario():
        server, states = MemoryZooKeeper(), []
        store = await connected(server)
        store.add_session_listener(states.append)
        server.lose_quorum()
        store.expire_session()
        server.regain_quorum()
        await asyncio.sleep(0)
        assert states == [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]

    asyncio.run(scenario())


def test_latency_keeps_the_order():
    chance = random.Random(1)

    async def scenario():
        store = await connected(MemoryZooKeeper(latency_s=lambda: chance.uniform(0.0, 0.002)))
        await store.create("/a")
        stats = await asyncio.gather(*(store.write("/a", b"") for _ in range(20)))
        assert [stat.version for stat in stats] == list(range(1, 21))

    asyncio.run(scenario())


def test_a_multi_that_fails_leaves_no_trace():
    async def scenario():
        server = MemoryZooKeeper()
        store = await connected(server)
        await store.create("/p/a", b"1", parents=True)
        before = list(server.tree.walk())
        operations = [
            Create("/p/b"),
            Create("/p/n_", sequence=True),
            Write("/p", b"x"),
            Write("/p", b"y"),
            Delete("/p/a"),
            Create("/p/a", b"2"),
            Check("/p", 9),
        ]
        results = await store.multi(operations)
        assert isinstance(results[-1], BadVersionError)
        assert list(server.tree.walk()) == before
        assert await store.create("/p/n_", sequence=True) == "/p/n_0000000001"

    asyncio.run(scenario())


def test_start_without_a_server_times_out():
    async def scenario():
        server = MemoryZooKeeper()
        server.lose_quorum()
        with pytest.raises(TimeoutError, match="no session"):
            await MemoryStore(server).start(0.01)

    asyncio.run(scenario())


@pytest.mark.parametrize("own_loop", [False, True])
def test_who_is_cut_off_ends_no_session(own_loop):
    async def scenario():
        server = MemoryZooKeeper()
        server.loop = asyncio.get_running_loop() if own_loop else None
        victim, accuser = await connected(server), await connected(server)
        session_id = victim.session_id
        accuser.suspend()
        with pytest.raises(StoreError, match="no connection"):
            await accuser.end_session(victim.session_id, victim.session_password, 10)
        accuser.resume()
        accuser.suspend(noticed_after_s=60)
        with pytest.raises(StoreError, match="no answer"):
            await accuser.end_session(victim.session_id, victim.session_password, 0.01)
        accuser.resume()
        await accuser.sync()
        assert victim.session_id == session_id, "nor is it asked later"

    asyncio.run(scenario())


def test_without_quorum_no_session_is_ended():
    async def scenario():
        server = MemoryZooKeeper(latency_s=lambda: 0.01)
        victim, accuser = await connected(server), await connected(server)
        asking = asyncio.ensure_future(accuser.end_session(victim.session_id, victim.session_password, 0.05))
        await asyncio.sleep(0)
        server.lose_quorum()
        with pytest.raises(StoreError):
            await asking
        server.regain_quorum()
        assert await accuser.end_session(victim.session_id, victim.session_password, 10) is SessionEnding.ENDED

    asyncio.run(scenario())


@pytest.mark.parametrize("own_loop", [False, True])
def test_an_ending_whose_reply_is_lost_may_be_asked_again(own_loop):
    async def scenario():
        server = MemoryZooKeeper()
        server.loop = asyncio.get_running_loop() if own_loop else None
        victim, accuser = await connected(server), await connected(server)
        ended = (victim.session_id, victim.session_password)
        accuser.lose_next_reply()
        with pytest.raises(StoreError):
            await accuser.end_session(*ended, 0.01)
        assert victim.session_id != ended[0]
        assert await accuser.end_session(*ended, 10) is SessionEnding.REFUSED

    asyncio.run(scenario())


@pytest.mark.parametrize("own_loop", [False, True])
def test_an_ending_takes_the_latency_of_a_request(own_loop):
    """To a server that is a machine of its own, and as long again back: the session is over before its ender knows."""

    async def scenario():
        loop, served_s = asyncio.get_running_loop(), []
        server = MemoryZooKeeper(latency_s=lambda: 0.02)
        server.loop = loop if own_loop else None
        server.on_transaction = lambda *_: served_s.append(loop.time())
        victim, accuser = await connected(server), await connected(server)
        await victim.create("/e", ephemeral=True)
        asked_s = loop.time()
        assert await accuser.end_session(victim.session_id, victim.session_password, 60) is SessionEnding.ENDED
        answered_s = loop.time()
        assert len(served_s) == 2, "the creation, and the end of what was created"
        assert served_s[1] - asked_s > 0.015
        assert not own_loop or answered_s - served_s[1] > 0.015

    asyncio.run(scenario())


def test_passwords_of_sessions_differ_and_repeat():
    async def passwords() -> list[bytes]:
        server = MemoryZooKeeper()
        store = await connected(server)
        first = store.session_password
        store.expire_session()
        await asyncio.sleep(0)
        return [first, store.session_password, (await connected(server)).session_password]

    once, again = asyncio.run(passwords()), asyncio.run(passwords())
    assert once == again
    assert len(set(once)) == len(once) and all(len(password) == 16 for password in once)
