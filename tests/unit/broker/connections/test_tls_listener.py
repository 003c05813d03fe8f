"""Handshakes of unauthenticated clients are bounded in number and time, and those of clients go on."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import uvloop

from kafkalite.broker.connections.tls_listener import TlsListener, _Handshake, listening_sockets
from kafkalite.broker.connections.unauthenticated import UnauthenticatedConnections
from kafkalite.security.tls import StoreSettings, TlsSettings, client_context, server_context
from tests.certificates import Authority, write

AUTHORITY = Authority()
DEADLINE_S = 30
_SILENT, _CROWD = 5, 20


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


def served(
    folder: Path,
    script: Callable[[TlsListener, int, ssl.SSLContext], Awaitable[None]],
    *,
    timeout_s: float = DEADLINE_S,
    max_handshakes: int = 3,
    client_auth: str = "none",
    run: Callable[[Any], None] = asyncio.run,
) -> None:
    async def scenario() -> None:
        store = StoreSettings(location=write(folder / "key.pem", AUTHORITY.issue("broker").pem))
        trusted = StoreSettings(certificates=AUTHORITY.pem.decode())
        context = server_context(TlsSettings(keystore=store, truststore=trusted, client_auth=client_auth))
        trust = client_context(TlsSettings(truststore=trusted))
        sockets = await listening_sockets("127.0.0.1", 0, 100)
        unauthenticated = UnauthenticatedConnections(lambda: 1, monotonic, Counter())
        listener = TlsListener(
            sockets, lambda: context, Echo, lambda: timeout_s, lambda: max_handshakes, Counter(), unauthenticated
        )
        await listener.start_serving()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await script(listener, sockets[0].getsockname()[1], trust)
        finally:
            listener.close()
            await asyncio.sleep(0)

    run(scenario())


async def echoed(port: int, trust: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    writer.write(b"hello")
    answer = await reader.readexactly(5)
    writer.close()
    return answer


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def test_silent_handshakes_give_way_to_a_client(tmp_path: Path) -> None:
    async def script(listener: TlsListener, port: int, trust: ssl.SSLContext) -> None:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(_SILENT)]
        assert await echoed(port, trust) == b"hello"
        await until(lambda: listener.outcomes["displaced"] == _SILENT - 2)
        for each in silent:
            each.close()
        await until(lambda: listener.outcomes["failed"] == 2)

    served(tmp_path, script)


def test_a_handshake_that_takes_too_long_ends(tmp_path: Path) -> None:
    async def script(listener: TlsListener, port: int, trust: ssl.SSLContext) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        assert listener.outcomes["failed"] == 1
        writer.close()

    served(tmp_path, script, timeout_s=0.05)


def test_who_speaks_no_tls_is_closed_and_others_are_served(tmp_path: Path) -> None:
    async def script(listener: TlsListener, port: int, trust: ssl.SSLContext) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\0\0\0\x10\0\x12\0\x03" * 8)
        await reader.read()
        writer.close()
        assert await echoed(port, trust) == b"hello"

    served(tmp_path, script)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_learns_why_its_certificate_is_refused(
    tmp_path: Path, version: ssl.TLSVersion, run: Callable[[Any], None]
) -> None:
    """asyncio and uvloop close the connection without the alert, and clients try again."""

    async def script(listener: TlsListener, port: int, trust: ssl.SSLContext) -> None:
        trust.minimum_version = trust.maximum_version = version
        trust.load_cert_chain(write(tmp_path / "expired.pem", AUTHORITY.issue("client", days=-1).pem))
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.expired"):
            await echoed(port, trust)
        await until(lambda: listener.outcomes["failed"] == 1)

    served(tmp_path, script, client_auth="required", run=run)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_each_turn_of_the_loop_works_on_one_handshake(
    tmp_path: Path, run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever arrived was worked on at once: a flood of handshakes held others for 20 ms."""
    steps: Counter[int] = Counter()
    turn = 0
    do_handshake = ssl.SSLObject.do_handshake

    def counted(self: ssl.SSLObject) -> None:
        if self.server_side and self._incoming.pending:  # type: ignore[attr-defined]
            steps[turn] += 1
        do_handshake(self)

    async def script(listener: TlsListener, port: int, trust: ssl.SSLContext) -> None:
        nonlocal turn
        clients = [asyncio.ensure_future(echoed(port, trust)) for _ in range(_CROWD)]
        while not all(each.done() for each in clients):
            turn += 1
            await asyncio.sleep(0)
        assert [each.result() for each in clients] == [b"hello"] * _CROWD
        assert (
            sum(steps.values()) >= 2 * _CROWD and max(steps.values()) <= 2
        )  # counter and steps may change places between two turns

    monkeypatch.setattr(ssl.SSLObject, "do_handshake", counted)
    served(tmp_path, script, max_handshakes=_CROWD, run=run)


def test_a_connection_that_is_reset_during_its_handshake_leaves_nothing(tmp_path: Path) -> None:
    async def script(listener: TlsListener, port: int, trust: ssl.SSLContext) -> None:
        for sent in (b"", b"\x16\x03\x01\x02\x00", _client_hello(trust)):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(sent)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        await until(lambda: listener.outcomes["failed"] == 3)
        await until(lambda: not listener._handshakes and not listener._unauthenticated.reads.count)

    served(tmp_path, script, run=uvloop.run)


def test_a_handshake_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    """Neither one that fails nor one that succeeds: collecting what a flood of them left held everybody."""

    async def script(listener: TlsListener, port: int, trust: ssl.SSLContext) -> None:
        for _ in range(2):
            assert await echoed(port, trust) == b"hello"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"no TLS at all")
            await reader.read()
            writer.close()
        await until(lambda: listener.outcomes.total() == 4)
        await until(lambda: sum(isinstance(each, _Handshake) for each in gc.get_objects()) <= 1)  # the last one

    gc.collect()
    gc.disable()
    try:
        served(tmp_path, script, run=uvloop.run)
    finally:
        gc.enable()


def _client_hello(trust: ssl.SSLContext) -> bytes:
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        trust.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()
