"""Real ensembles: one server and three, members killed, paused and restarted. Needs Java."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.servers.ensemble import Ensemble, EnsembleError, check_size, four_letter_word, free_ports
from zk.store import SessionState

needs_java = pytest.mark.usefixtures("java")


@contextlib.asynccontextmanager
async def running(folder, size: int = 1, **settings) -> AsyncIterator[Ensemble]:
    ensemble = Ensemble(folder, size, force_sync=False, **settings)
    await ensemble.start()
    try:
        yield ensemble
    finally:
        await ensemble.stop()
    assert not any(member.running for member in ensemble.members)


@contextlib.asynccontextmanager
async def session(connect: str, timeout_s: float = 4.0) -> AsyncIterator[KazooStore]:
    store = KazooStore(connect, session_timeout_s=timeout_s)
    await store.start(20)
    try:
        yield store
    finally:
        await store.close()


async def until(condition, timeout_s: float = 30) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def three(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Three servers; a test leaves them all running."""
    ensemble = Ensemble(tmp_path_factory.mktemp("three"), 3, force_sync=False)
    asyncio.run(ensemble.start())
    yield ensemble
    asyncio.run(ensemble.stop())
    assert not any(member.running for member in ensemble.members)


@needs_java
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("name", ["Jürgen", "back\\slash", ' #!:=%41,${x}"', "line\nend", "日本😀"])
def test_data_is_kept_in_the_folder_that_was_named(tmp_path, monkeypatch, locale, name):
    """Also with users, who have a file of their own."""
    monkeypatch.setenv("LC_ALL", locale)

    async def scenario():
        async with running(tmp_path / name, users={"u": 'päss"word'}) as ensemble:
            member = ensemble.member(1)
            assert {"myid", "version-2"} <= {path.name for path in member.data_path.iterdir()}
            assert "QuorumPeerConfig" in member.log_tail() or member.log_path.stat().st_size > 0

    asyncio.run(scenario())
    assert [path.name for path in tmp_path.iterdir()] == [name]


@needs_java
def test_one_server_keeps_data_and_port_over_a_kill(tmp_path):
    async def scenario():
        (port,) = free_ports(1)
        async with running(tmp_path, client_ports=[port]) as ensemble:
            assert ensemble.connect == f"127.0.0.1:{port}"
            assert await ensemble.wait_serving() == {1: "standalone"}
            assert await four_letter_word("127.0.0.1", port, "ruok") == "imok"
            assert "whitelist" in (await four_letter_word("127.0.0.1", port, "wchp") or ""), "it would name paths"
            async with session(ensemble.connect) as store:
                await store.create("/kept", b"x")
            await ensemble.kill(1)
            assert await ensemble.roles() == {1: None}
            await ensemble.start_member(1)
            async with session(ensemble.connect) as store:
                assert (await store.read("/kept"))[0] == b"x"
            await ensemble.restart_member(1)
            assert await ensemble.wait_quorum(5) == 1

    asyncio.run(scenario())


def test_three_servers_survive_the_leader(three):
    async def scenario():
        leader = await three.wait_quorum(10)
        roles = await three.wait_serving()
        assert sorted(role for role in roles.values() if role) == ["follower", "follower", "leader"]
        assert roles[leader] == "leader" == roles[await three.leader()]
        async with session(three.connect, timeout_s=8) as store:
            states = []
            store.add_session_listener(states.append)
            await store.create("/e", ephemeral=True)
            session_id = store.session_id
            await three.kill(leader)
            assert await three.wait_quorum(20) != leader
            await store.write("/e", b"after")
            assert store.session_id == session_id and SessionState.EXPIRED not in states
            await three.start_member(leader)
            assert (await three.wait_serving())[leader] == "follower"

    asyncio.run(scenario())


def test_without_quorum_requests_wait_and_no_session_ends(three):
    async def scenario():
        ensemble = three
        async with session(ensemble.connect, timeout_s=3) as store:
            states = []
            store.add_session_listener(states.append)
            await store.create("/e", ephemeral=True)
            session_id = store.session_id
            for number in (1, 2):
                ensemble.pause(number)
            with pytest.raises(EnsembleError, match="no quorum within"):
                await ensemble.wait_quorum(0.2)
            waiting = asyncio.ensure_future(store.write("/e", b"1"))
            await until(lambda: SessionState.SUSPENDED in states)
            assert not waiting.done()
            for number in (1, 2):
                ensemble.resume(number)
            await asyncio.wait_for(waiting, 30)
            assert SessionState.EXPIRED not in states
            assert (await store.read("/e"))[1].ephemeral_owner == session_id == store.session_id

    asyncio.run(scenario())


def test_a_session_that_is_silent_too_long_expires(zookeeper, drop_connection):
    async def scenario():
        # As short as the server allows: two of its ticks.
        async with session(zookeeper.connect) as watching, session(zookeeper.connect, timeout_s=1.0) as store:
            gone = asyncio.Event()
            await store.create("/e", ephemeral=True)
            await watching.sync()
            await watching.exists("/e", lambda event: gone.set())
            # The client's connection breaks and cannot be made again for longer than the session lasts.
            client = store._client
            client._connection._connect_attempt = lambda *arguments: None
            drop_connection(store)
            await asyncio.wait_for(gone.wait(), 10)
            states = []
            store.add_session_listener(states.append)
            del client._connection._connect_attempt
            await until(lambda: states[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED])

    asyncio.run(scenario())


def test_the_chroot_is_made(zookeeper):
    async def scenario():
        async with session(zookeeper.connect + "/some/kafka") as store:
            assert await store.children("/") == []
            events = []
            await store.exists("/a", events.append)
            assert await store.create("/a") == "/a"
            assert await store.multi([]) == []
            await until(lambda: events)
            assert events[0].path == "/a"
        async with session(zookeeper.connect) as store:
            assert await store.children("/some/kafka") == ["a"]

    asyncio.run(scenario())


def test_no_server_is_a_timeout_that_names_the_servers():
    async def scenario():
        (port,) = free_ports(1)
        store = KazooStore(f"127.0.0.1:{port}/kafka")
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=rf"no session with ZooKeeper at 127\.0\.0\.1:{port} within 0\.3 s"):
            await store.start(0.3)
        assert time.monotonic() - began < 3

    asyncio.run(scenario())


def test_a_taken_port_is_said(tmp_path, zookeeper):
    async def scenario():
        second = Ensemble(tmp_path, client_ports=[zookeeper.member(1).ports.client])
        with pytest.raises(EnsembleError, match="is taken"):
            await second.start(60)
        assert not second.member(1).running

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("size", "reason"), [(0, "serves nobody"), (2, "no more failures than one of 1"), (9, "too large")]
)
def test_sizes_that_make_no_sense(tmp_path, size, reason):
    with pytest.raises(ValueError, match=reason):
        Ensemble(tmp_path, size)


def test_seven_is_allowed_with_a_note(caplog):
    check_size(7)
    assert "survive 3 failures" in caplog.text
