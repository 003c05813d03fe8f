"""Bytes that are no requests: the connection that sent them may be closed; the broker and all others go on as before."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Callable

import pytest

from kafkalite.local.cluster import LocalCluster
from tests.wire.clients import CLIENTS, Record
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire

API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)
GROWTH_BYTES = 64 * 1024 * 1024


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def answer(address: str, data: bytes, timeout_s: float = 5) -> bytes | None:
    """The first frame that comes back, b"" when the connection is closed instead, None when nothing happens."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout_s) as peer:
        try:
            peer.sendall(data)
            head = receive(peer, 4)
            return receive(peer, struct.unpack(">i", head)[0]) if head else b""
        except TimeoutError:
            return None
        except OSError:
            return b""


def receive(peer: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := peer.recv(count - len(data))):
        data += more
    return data


def check_alive(address: str) -> None:
    reply = answer(address, frame(API_VERSIONS))
    assert reply is not None and reply[:6] == struct.pack(">ih", 7, 0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="negative length"),
        pytest.param(struct.pack(">i", 0), id="no length"),
        pytest.param(struct.pack(">i", 2**31 - 1) + b"x" * 100, id="length of 2 GiB"),
        pytest.param(struct.pack(">i", 104_857_601), id="one byte above socket.request.max.bytes"),
        pytest.param(frame(b"\0"), id="shorter than a header"),
        pytest.param(frame(struct.pack(">hhih", 32_000, 0, 1, -1)), id="unknown api"),
        pytest.param(frame(struct.pack(">hhih", 3, 99, 1, -1)), id="unsupported version"),
        pytest.param(frame(struct.pack(">hhih", 0, 3, 1, 30_000)), id="client id longer than the frame"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600), id="tls"),
    ],
)
def test_what_cannot_be_a_request_closes_its_connection(cluster: LocalCluster, data: bytes) -> None:
    address = cluster.broker(1).address
    assert answer(address, data) == b""
    check_alive(address)


def test_api_versions_of_the_future_is_answered_in_version_0(cluster: LocalCluster) -> None:
    reply = answer(cluster.broker(1).address, frame(struct.pack(">hhih", 18, 999, 5, -1) + b"\0\0"))
    assert reply is not None and reply[:6] == struct.pack(">ih", 5, 35)


def test_half_a_request_harms_nobody(cluster: LocalCluster) -> None:
    address = cluster.broker(1).address
    for cut in range(1, len(frame(API_VERSIONS))):
        with socket.create_connection(tuple_of(address), 5) as peer:
            peer.sendall(frame(API_VERSIONS)[:cut])
    check_alive(address)


def test_many_large_promises_do_not_grow_the_broker(cluster: LocalCluster, pytestconfig: pytest.Config) -> None:
    """A length alone must not reserve memory: 40 connections promise 100 MiB each and send nothing."""
    if pytestconfig.getoption("--apache"):
        pytest.skip("Apache Kafka reserves what is promised, and a small heap does not survive it")
    broker = cluster.broker(1)
    check_alive(broker.address)
    before = broker.resident_bytes()
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            peer = stack.enter_context(socket.create_connection(tuple_of(broker.address), 5))
            peer.sendall(struct.pack(">i", 104_857_600) + struct.pack(">hhih", 0, 9, 1, -1))
        check_alive(broker.address)
        assert broker.resident_bytes() - before < GROWTH_BYTES


def mutations() -> list[Callable[[random.Random], bytes]]:
    valid = [
        API_VERSIONS,
        struct.pack(">hhihi", 3, 1, 1, -1, -1),
        struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiibi", -1, 100, 1, 1000, 0, 1) + b"\0\x01a" + bytes(28),
        struct.pack(">hhih", 0, 3, 1, -1) + struct.pack(">hhii", -1, 1, 1000, 1) + b"\0\x01a" + bytes(80),
        struct.pack(">hhih", 19, 2, 1, -1) + struct.pack(">i", 1) + b"\0\x01b" + bytes(20),
    ]

    def random_bytes(chance: random.Random) -> bytes:
        return chance.randbytes(chance.randrange(1, 200))

    def framed_bytes(chance: random.Random) -> bytes:
        return frame(chance.randbytes(chance.randrange(1, 200)))

    def known_api(chance: random.Random) -> bytes:
        head = struct.pack(">hhih", chance.randrange(0, 70), chance.randrange(0, 14), 1, -1)
        return frame(head + chance.randbytes(chance.randrange(0, 100)))

    def changed_request(chance: random.Random) -> bytes:
        body = bytearray(chance.choice(valid))
        for _ in range(chance.randrange(1, 4)):
            body[chance.randrange(4, len(body))] = chance.randrange(256)
        return frame(bytes(body[: chance.randrange(8, len(body) + 1)]))

    return [random_bytes, framed_bytes, known_api, changed_request]


def test_random_frames_neither_stop_nor_grow_the_broker_nor_disturb_others(
    cluster: LocalCluster, servers: str, make_topic: TopicMaker, pytestconfig: pytest.Config
) -> None:
    topic, broker, chance = make_topic(), cluster.broker(1), random.Random(20)
    makers = mutations()
    CLIENTS[0].produce(servers, topic, [Record(b"k", b"before")])
    before = broker.resident_bytes()
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(tuple_of(broker.address), 5) as peer:
            peer.sendall(chance.choice(makers)(chance))
            peer.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                peer.recv(4096)
    check_alive(broker.address)
    CLIENTS[0].produce(servers, topic, [Record(b"k", b"after")])
    assert [read.value for read in CLIENTS[0].consume(servers, topic, 2)] == [b"before", b"after"]
    if not pytestconfig.getoption("--apache"):  # a Java heap grows up to its bound whatever arrives
        assert broker.resident_bytes() - before < GROWTH_BYTES


def tuple_of(address: str) -> tuple[str, int]:
    host, port = address.split(":")
    return host, int(port)
