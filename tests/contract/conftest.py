"""Real ZooKeeper servers for the contract tests, and the two kinds of store."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.connection import _CONNECTION_DROP

from tests.conftest import foreign_program
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.native.native_store import NativeStore
from zk.native.session_thread import SessionThread
from zk.servers.ensemble import Ensemble
from zk.store import Store

_chroots = itertools.count()


@dataclass
class Stores:
    """Sessions on one tree, empty at the start of the test."""

    open: Callable[..., AbstractAsyncContextManager[Store]]
    """Open a session, by default with a timeout of 4 s."""
    expire: Callable[[Store], None]
    """Have the server end the session; the client learns it by itself."""
    drop_connection: Callable[[Store], None]
    """Break the connection; the client connects again by itself, to the same session."""
    abandon: Callable[[Store], None]
    """Have the client die: its connection breaks, its session lasts until the server ends it."""


@pytest.fixture(scope="session")
def java() -> str:
    """The program that runs ZooKeeper."""
    return foreign_program("java", "openjdk-17-jre-headless")


@pytest.fixture(scope="session")
def zookeeper(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """One real server for the whole run."""
    ensemble = Ensemble(tmp_path_factory.mktemp("zookeeper"), force_sync=False)
    asyncio.run(ensemble.start())
    yield ensemble
    asyncio.run(ensemble.stop())


@pytest.fixture(params=["memory", "kazoo", "native"])
def stores(request: pytest.FixtureRequest) -> Stores:
    """The port's implementations."""
    if request.param == "memory":
        return memory_stores()
    make = native_stores if request.param == "native" else kazoo_stores
    return make(f"{request.getfixturevalue('zookeeper').connect}/contract/{next(_chroots)}")


def memory_stores() -> Stores:
    server = MemoryZooKeeper()

    def drop(store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.suspend()
        asyncio.get_running_loop().call_later(0.01, store.resume)

    def expire(store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.expire_session()

    def abandon(store: Store) -> None:
        assert isinstance(store, MemoryStore)
        store.suspend()

    return Stores(lambda session_timeout_s=4.0: _opened(MemoryStore(server, session_timeout_s)), expire, drop, abandon)


def kazoo_stores(connect: str) -> Stores:
    return Stores(
        lambda session_timeout_s=4.0: _opened(KazooStore(connect, session_timeout_s)),
        expire_kazoo,
        drop_kazoo,
        abandon_kazoo,
    )


def native_stores(connect: str) -> Stores:
    return Stores(
        lambda session_timeout_s=4.0: _opened(NativeStore(connect, session_timeout_s)),
        expire_native,
        drop_native,
        abandon_native,
    )


@pytest.fixture
def drop_connection() -> Callable[[Store], None]:
    """What breaks the connection of a store, once."""
    return lambda store: drop_native(store) if isinstance(store, NativeStore) else drop_kazoo(store)


@pytest.fixture(params=[KazooStore, NativeStore])
def make_store(request: pytest.FixtureRequest) -> Callable[..., KazooStore | NativeStore]:
    """The stores over real servers; called as they are."""
    made: Callable[..., KazooStore | NativeStore] = request.param
    return made


def drop_kazoo(store: Store) -> None:
    """kazoo's own hook for tests: its thread behaves as if the socket had broken."""
    client = _client(store)
    client._call(_CONNECTION_DROP, client.handler.async_result())


def expire_kazoo(store: Store) -> None:
    """A second client takes the session over and closes it; then the server drops the first one's connection."""
    assert isinstance(store, KazooStore)
    end_by_rival(store._servers, _client(store).client_id)


def end_by_rival(servers: str, client_id: tuple[int, bytes]) -> None:
    rival = KazooClient(servers, client_id=client_id, timeout=4.0)
    rival.logger.setLevel("CRITICAL")
    rival.start(10)
    rival.stop()
    rival.close()


def abandon_kazoo(store: Store) -> None:
    """Stop kazoo's thread without closing the session, and the store with it."""
    assert isinstance(store, KazooStore)
    store._closing = True
    _client(store)._stopped.set()
    drop_kazoo(store)


def drop_native(store: Store) -> None:
    """Break the socket as a network does."""
    thread = _session_thread(store)
    assert thread._socket is not None
    thread._socket.shutdown(socket.SHUT_RDWR)


def expire_native(store: Store) -> None:
    assert isinstance(store, NativeStore)
    end_by_rival(store._servers, (store.session_id, store.session_password))


def abandon_native(store: Store) -> None:
    """End the thread without closing the session, and the store with it."""
    assert isinstance(store, NativeStore)
    store._closing = True
    _session_thread(store)._stopping = True
    drop_native(store)


def _session_thread(store: Store) -> SessionThread:
    assert isinstance(store, NativeStore)
    assert store._thread is not None
    return store._thread


def _client(store: Store) -> KazooClient:
    assert isinstance(store, KazooStore)
    client = store._client
    assert client is not None
    return client


@contextlib.asynccontextmanager
async def _opened(store: Store) -> AsyncIterator[Store]:
    await store.start(10)
    try:
        yield store
    finally:
        await store.close()
