"""A lone ZooKeeper server of the tests that is a thread: it has settings, data, a log and an end of its own, as a process has."""

from __future__ import annotations

import asyncio
import signal
import sys
from functools import cache
from pathlib import Path

import pytest

from tests import warm_zookeeper
from tests.java_classes import compiled
from tests.warm_zookeeper import SOURCE, WarmServer
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.servers.ensemble import Ensemble, Member, free_ports
from zk.servers.server_classes import find_server_classes

TIMEOUT_S = 60


@pytest.fixture(autouse=True)
def host(java: str) -> None:
    if sys.platform != "linux" or compiled(SOURCE, find_server_classes()) is None:
        pytest.skip("servers are processes without Linux or without a Java compiler")


def thread_of(member: Member) -> WarmServer:
    assert isinstance(member.process, WarmServer)
    return member.process


async def store_of(ensemble: Ensemble) -> KazooStore:
    store = KazooStore(ensemble.connect, session_timeout_s=4.0)
    await store.start(TIMEOUT_S)
    return store


def test_two_have_nothing_in_common(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = (Ensemble(tmp_path / name) for name in ("first", "second"))
        await asyncio.gather(first.start(TIMEOUT_S), second.start(TIMEOUT_S))
        one, two = await store_of(first), await store_of(second)
        await one.create("/here", b"data")
        assert await two.exists("/here") is None
        await one.close()
        member = first.member(1)
        await first.stop()
        assert not member.running and thread_of(member).wait(0) == 0
        assert await second.roles() == {1: "standalone"}
        await first.start_member(1, TIMEOUT_S)
        one = await store_of(first)
        assert (await one.read("/here"))[0] == b"data"
        for store, ensemble in ((one, first), (two, second)):
            await store.close()
            await ensemble.stop()
        logs = [each.member(1).log_path.read_text() for each in (first, second)]
        for log, own, other in zip(logs, ("first", "second"), ("second", "first"), strict=True):
            assert str(tmp_path / own) in log and str(tmp_path / other) not in log

    asyncio.run(scenario())


def test_a_port_that_is_taken_ends_it(tmp_path: Path) -> None:
    """And the ensemble takes another one where none was asked for."""

    async def scenario() -> None:
        taken = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        ensemble = Ensemble(tmp_path, client_ports=[port])
        with pytest.raises(Exception, match="a port of ZooKeeper server 1 is taken"):
            await ensemble.start(TIMEOUT_S)
        assert thread_of(ensemble.member(1)).wait(TIMEOUT_S) != 0
        taken.close()

    asyncio.run(scenario())


def test_what_cannot_be_done_to_a_thread_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        ensemble = Ensemble(tmp_path, client_ports=free_ports(1))
        await ensemble.start(TIMEOUT_S)
        with pytest.raises(AssertionError, match="SIGSTOP"):
            ensemble.pause(1)
        server = thread_of(ensemble.member(1))
        await ensemble.kill(1)
        assert server.poll() is not None
        server.send_signal(signal.SIGTERM)  # to nobody

    asyncio.run(scenario())


def test_others_are_processes(tmp_path: Path) -> None:
    async def scenario() -> None:
        ensemble = Ensemble(tmp_path, force_sync=False)
        await ensemble.start(TIMEOUT_S)
        assert not isinstance(ensemble.member(1).process, WarmServer)
        await ensemble.stop()

    asyncio.run(scenario())


def test_a_machine_that_has_ended_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of its own: clusters of other tests may live in that of this process.
    monkeypatch.setattr(warm_zookeeper, "_only_host", cache(warm_zookeeper._only_host.__wrapped__))

    async def scenario() -> None:
        first, second = (Ensemble(tmp_path / name) for name in ("first", "second"))
        await first.start(TIMEOUT_S)
        server = thread_of(first.member(1))
        server._host._process.kill()
        await asyncio.to_thread(server.wait, TIMEOUT_S)
        assert not first.member(1).running
        await second.start(TIMEOUT_S)
        successor = thread_of(second.member(1))._host
        assert successor is not server._host
        await second.stop()
        successor._process.kill()

    asyncio.run(scenario())
