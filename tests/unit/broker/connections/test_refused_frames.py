"""A frame of an impossible size closes the connection: the client reads the end of the stream and is not reset, as with Apache Kafka.

A reset makes clients report a failure of the network, and discards answers that they have not read yet. So does TLS without its
`close_notify`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop

from kafkalite.broker.connections.listener_security import ListenerSecurity
from kafkalite.broker.connections.server import Server
from kafkalite.config.broker import BrokerConfig, LiveConfig
from tests.certificates import PASSWORD, Authority, write

PROTOCOLS: Final = {"OPEN": "PLAINTEXT", "TLS": "SSL", "SASL": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
SIZES: Final = {"negative": -1, "zero": 0, "beyond the bound": 104_857_601, "huge": 2**31 - 1}
UNREAD: Final = bytes(64 * 1024)
"""More than the broker reads of an unauthenticated connection at once."""
DEADLINE_S: Final = 30
VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
HANDSHAKE: Final = struct.pack(">ihhihh5s", 17, 17, 1, 2, -1, 5, b"PLAIN")
AUTHORITY: Final = Authority()


class Dispatcher:
    """Answers every request with eight bytes."""

    def handle(self, frame: memoryview, connection: Any) -> list[bytes]:
        return [struct.pack(">iii", 8, 1, 0)]


def settings(folder: Path) -> dict[str, str]:
    jaas = 'x.PlainLoginModule required username="broker" password="b";'
    return {
        "zookeeper.connect": "any",
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in PROTOCOLS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
        "inter.broker.listener.name": "OPEN",
        "ssl.keystore.location": write(folder / "key.p12", AUTHORITY.pkcs12(AUTHORITY.issue("broker"))),
        "ssl.keystore.password": PASSWORD,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": jaas,
        "listener.name.both.plain.sasl.jaas.config": jaas,
    }


def served(folder: Path, run: Callable[[Any], None], act: Callable[[Server], Coroutine[Any, Any, None]]) -> None:
    async def nobody(mechanism: object, user: str) -> None:
        return None

    async def scenario() -> None:
        live = LiveConfig(BrokerConfig.from_properties(settings(folder)))
        security = ListenerSecurity(live, nobody, lambda: 0)
        await security.prepare()
        server = Server(live, Dispatcher(), security)  # type: ignore[arg-type]
        await server.bind()
        await server.serve()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await act(server)
                while server.connections:
                    await asyncio.sleep(0.001)
        finally:
            await server.close()

    run(scenario())


def connected(port: int, protocol: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
    if protocol.endswith("SSL"):
        context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
        context.check_hostname = False
        client = context.wrap_socket(client, suppress_ragged_eofs=False)
    return client


def exchange(client: socket.socket, request: bytes) -> None:
    client.sendall(request)
    (size,) = struct.unpack(">i", client.recv(4))
    while size:
        size -= len(client.recv(size))


def read_to_end(client: socket.socket) -> bytes:
    """What is left to read; OSError for a reset, or TLS that ends without saying so."""
    found = b""
    while piece := client.recv(65536):
        found += piece
    return found


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("follows", [b"", UNREAD], ids=["alone", "with more behind it"])
@pytest.mark.parametrize("listener", PROTOCOLS)
def test_a_frame_of_an_impossible_size_ends_the_stream(
    tmp_path: Path, listener: str, follows: bytes, run: Callable[[Any], None]
) -> None:
    protocol = PROTOCOLS[listener]
    stages = {"first frame": [], "after versions": [VERSIONS]}
    if protocol.startswith("SASL"):
        stages |= {"instead of a token": [HANDSHAKE], "instead of a token, after versions": [VERSIONS, HANDSHAKE]}

    async def act(server: Server) -> None:
        refused = []
        for stage, requests in stages.items():
            for kind, size in SIZES.items():
                client = await asyncio.to_thread(connected, server.bound_ports[listener], protocol)
                for request in requests:
                    await asyncio.to_thread(exchange, client, request)
                client.sendall(struct.pack(">i", size) + follows)  # all of it is there when the loop reads
                try:
                    assert await asyncio.to_thread(read_to_end, client) == b""
                except OSError as problem:
                    refused.append(f"{stage}, {kind}: {problem!r}")
                client.close()
        assert refused == []
        assert server.bounds_exceeded.total() == len(stages) * len(SIZES)

    served(tmp_path, run, act)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("listener", ["OPEN", "TLS"])
def test_answers_before_such_a_frame_arrive(tmp_path: Path, listener: str, run: Callable[[Any], None]) -> None:
    async def act(server: Server) -> None:
        client = await asyncio.to_thread(connected, server.bound_ports[listener], PROTOCOLS[listener])
        client.sendall(VERSIONS * 3 + struct.pack(">i", -1) + UNREAD)
        assert len(await asyncio.to_thread(read_to_end, client)) == 3 * 12
        client.close()

    served(tmp_path, run, act)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("listener", ["TLS", "BOTH"])
def test_plain_bytes_at_a_listener_with_tls_end_the_stream(
    tmp_path: Path, listener: str, run: Callable[[Any], None]
) -> None:
    async def act(server: Server) -> None:
        for size in SIZES.values():
            client = await asyncio.to_thread(connected, server.bound_ports[listener], "PLAINTEXT")
            client.sendall(struct.pack(">i", size) + 8 * UNREAD[:16384])
            await asyncio.to_thread(read_to_end, client)  # an alert, perhaps
            client.close()

    served(tmp_path, run, act)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_who_goes_on_sending_is_not_waited_for(tmp_path: Path, run: Callable[[Any], None]) -> None:
    """The end is not lingered for: a client that neither reads nor stops is gone as soon as one that closes."""

    async def act(server: Server) -> None:
        clients = [
            (listener, await asyncio.to_thread(connected, port, PROTOCOLS[listener]))
            for listener, port in server.bound_ports.items()
        ]
        for _, client in clients:
            client.sendall(struct.pack(">i", -1) + UNREAD)
        begun_s = asyncio.get_running_loop().time()
        while server.connections or server.bounds_exceeded.total() < len(clients):
            await asyncio.sleep(0.001)
        assert asyncio.get_running_loop().time() - begun_s < 5
        for _, client in clients:
            client.close()

    served(tmp_path, run, act)
