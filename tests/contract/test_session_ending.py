"""The end of another session by a process without a store: through which servers, with which identity. Needs Java."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.security.digest_md5 import DigestCredentials
from zk.security.store_security import PLAINTEXT, StoreSecurity
from zk.servers import ensemble as ensembles
from zk.servers.ensemble import Ensemble, free_ports
from zk.session_ending import end_session, request_session_end
from zk.store import AuthFailedError, SessionEnding, SessionState, StoreError

BROKER = DigestCredentials("kafka", "secret")


@pytest.fixture
def silent_server() -> Iterator[str]:
    """The address of what takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def foreign_server() -> Iterator[str]:
    """The address of a server that speaks another protocol."""

    def answer() -> None:
        try:
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        except OSError:
            pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


async def opened(connect: str, security: StoreSecurity = PLAINTEXT) -> KazooStore:
    store = KazooStore(connect, 100.0, security=security)
    await store.start(20)
    return store


async def lives(store: KazooStore) -> bool:
    """True if a store still has the session that it had."""
    session_id = store.session_id
    await store.sync()
    return store.session_id == session_id


async def wait_expired(store: KazooStore, session_id: int) -> None:
    async with asyncio.timeout(30):
        while store.session_id == session_id or store.state is not SessionState.CONNECTED:
            await asyncio.sleep(0.005)


def test_servers_that_do_not_answer_are_passed_over(
    zookeeper: Ensemble, silent_server: str, foreign_server: str
) -> None:
    async def scenario() -> None:
        store = await opened(zookeeper.connect)
        ended = (store.session_id, store.session_password)
        (closed,) = free_ports(1)
        connect = f"{silent_server},127.0.0.1:{closed},{foreign_server},{zookeeper.connect}/some/chroot"
        assert await asyncio.to_thread(end_session, connect, *ended, PLAINTEXT, 60) is SessionEnding.ENDED
        await wait_expired(store, ended[0])
        assert await asyncio.to_thread(end_session, connect, *ended, PLAINTEXT, 60) is SessionEnding.REFUSED
        await store.close()

    asyncio.run(scenario())


def test_no_server_is_an_error_that_names_them(silent_server: str, foreign_server: str) -> None:
    with pytest.raises(StoreError, match=f"{silent_server}.* has ended session 0x11 within 0.3 s"):
        end_session(silent_server, 0x11, b"", PLAINTEXT, 0.3)
    with pytest.raises(StoreError, match="is not ZooKeeper's"):
        end_session(foreign_server, 0x11, b"", PLAINTEXT, 0.3)
    (closed,) = free_ports(1)
    with pytest.raises(StoreError, match=f"0.3 s: 127.0.0.1:{closed}: "):
        end_session(f"127.0.0.1:{closed}", 0x11, b"", PLAINTEXT, 0.3)
    with pytest.raises(ValueError):
        end_session("", 0x11, b"", PLAINTEXT, 0.3)


def test_a_tls_context_that_cannot_be_made_is_an_error() -> None:
    def unreadable() -> None:
        raise FileNotFoundError("no such truststore")

    security = StoreSecurity(context=unreadable)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="no such truststore"):
        end_session("127.0.0.1:1", 0x11, b"", security, 10)


def test_any_server_with_a_quorum_ends_a_session_that_it_does_not_serve(java: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        ensemble = Ensemble(tmp_path, 3, force_sync=False)
        await ensemble.start(60)
        try:
            leader = await ensemble.wait_quorum(30)
            owner = await opened(ensemble.member(leader).address)
            others = [member for member in ensemble.members if member.number != leader]
            for member in others:
                ended = (owner.session_id, owner.session_password)
                wrong = await request_session_end(member.address, ended[0], bytes(16), PLAINTEXT, 30)
                assert wrong is SessionEnding.REFUSED
                assert await lives(owner)
                assert await request_session_end(member.address, *ended, PLAINTEXT, 30) is SessionEnding.ENDED
                await wait_expired(owner, ended[0])
            dead, last = others
            await ensemble.kill(dead.number)
            ended = (owner.session_id, owner.session_password)
            both = f"{dead.address},{last.address}"
            assert await request_session_end(both, *ended, PLAINTEXT, 30) is SessionEnding.ENDED
            await wait_expired(owner, ended[0])
            ended = (owner.session_id, owner.session_password)
            await ensemble.kill(leader)
            with pytest.raises(StoreError, match=last.address):
                await request_session_end(last.address, *ended, PLAINTEXT, 1)
            await owner.close()
        finally:
            await ensemble.stop()

    asyncio.run(scenario())


def test_servers_that_require_sasl_end_sessions_for_their_users_only(
    java: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (*ensembles.JVM_OPTIONS, "-Dzookeeper.sessionRequireClientSASLAuth=true")
    monkeypatch.setattr(ensembles, "JVM_OPTIONS", options)

    async def scenario() -> None:
        ensemble = Ensemble(tmp_path, force_sync=False, users={BROKER.username: BROKER.password})
        await ensemble.start(60)
        try:
            secure = StoreSecurity(credentials=BROKER)
            with pytest.raises(AuthFailedError):
                await opened(ensemble.connect, StoreSecurity(credentials=DigestCredentials("kafka", "wrong")))
            owner, other = await opened(ensemble.connect, secure), await opened(ensemble.connect, secure)
            ended = (owner.session_id, owner.session_password)
            with pytest.raises(AuthFailedError, match="identity"):
                await request_session_end(ensemble.connect, *ended, PLAINTEXT, 30)
            wrong_password = StoreSecurity(credentials=DigestCredentials("kafka", "wrong"))
            with pytest.raises(AuthFailedError, match="refused"):
                await request_session_end(ensemble.connect, *ended, wrong_password, 30)
            assert await lives(owner)
            assert await other.end_session(ended[0], bytes(16), 30) is SessionEnding.REFUSED
            assert await lives(owner)
            assert await other.end_session(*ended, 30) is SessionEnding.ENDED
            await wait_expired(owner, ended[0])
            await owner.close()
            await other.close()
        finally:
            await ensemble.stop()

    asyncio.run(scenario())
