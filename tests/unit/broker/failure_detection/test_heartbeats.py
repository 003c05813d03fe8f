"""What the sender of heartbeats makes of a peer that answers and lets it not in."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from kafkalite.broker.failure_detection.heartbeats import HeartbeatLink, Sender
from kafkalite.errors import AuthenticationError, ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import Endpoint
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper

ME, PEER = 1, 2
INTERVAL_S = 0.2


class Receiver:
    def __init__(self) -> None:
        self.rejections = self.answers = 0

    def note_answer(self, broker: int, broker_epoch: int, incarnation: bytes) -> None:
        self.answers += 1

    def note_rejection(self, broker: int) -> None:
        assert broker == PEER
        self.rejections += 1

    def note_connection_lost(self, broker: int) -> None: ...


class Answering(Connection):
    """A connection to a peer that answers each heartbeat with one error code."""

    def __init__(self, code: int) -> None:
        super().__init__("peer", 9092, None, asyncio.get_running_loop())
        self._code = code

    async def negotiate(self, timeout_s: float = 10.0, software_name: str = "") -> None: ...

    def version_of(self, api_key: int) -> int:
        return 0

    def send(self, message: Any, version: int, body: Any = None) -> asyncio.Future[Any]:
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(messages.PeerHeartbeatResponse(error_code=self._code))
        return answer


def receive(outcome: OSError | int) -> Receiver:
    """Return what the receiver has noted after a few attempts, which all fail, or are all answered with an error code."""
    receiver = Receiver()

    async def connect(endpoint: Endpoint, client_id: str, timeout_s: float) -> Connection:
        if isinstance(outcome, OSError):
            raise outcome
        return Answering(outcome)

    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)
        endpoint = Endpoint("peer", 9092, "INSIDE", "SASL_SSL")
        sender = Sender(
            ME, lambda: 5, lambda: bytes(16), store, tuple, tuple, lambda broker: endpoint, connect, INTERVAL_S
        )
        link = asyncio.create_task(HeartbeatLink(PEER, sender, receiver).run())
        await asyncio.sleep(2.5 * INTERVAL_S)
        link.cancel()
        await asyncio.gather(link, return_exceptions=True)

    virtual_time.run(scenario())
    return receiver


def because_of(cause: OSError) -> ConnectionError:
    problem = ConnectionError("no TLS with it")
    problem.__cause__ = cause
    return problem


@pytest.mark.parametrize(
    "problem",
    [
        AuthenticationError("invalid credentials"),
        because_of(ssl.SSLCertVerificationError("it has expired")),
        because_of(ssl.SSLError("another protocol")),
    ],
    ids=str,
)
def test_who_refuses_credentials_or_shows_a_certificate_that_is_not_trusted_has_answered(problem: OSError) -> None:
    assert receive(problem).rejections == 3


@pytest.mark.parametrize(
    "problem",
    [
        ConnectionRefusedError(),
        TimeoutError("no connection"),
        because_of(ConnectionResetError()),
        because_of(ssl.SSLEOFError("closed in the middle")),
    ],
    ids=str,
)
def test_a_connection_that_does_not_come_about_is_no_answer(problem: OSError) -> None:
    assert receive(problem).rejections == 0


def test_an_error_is_an_answer() -> None:
    refused = receive(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert refused.rejections >= 3 and not refused.answers
    accepted = receive(ErrorCode.NONE)
    assert accepted.answers >= 3 and not accepted.rejections


def test_who_asks_a_peer_without_a_connection_waits_for_nothing_and_leaves_nothing() -> None:
    """As each Metadata does of its neighbours, in a cluster with brokers that know no heartbeats."""

    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)

        async def connect(endpoint: Endpoint, client_id: str, timeout_s: float) -> Connection:
            raise ConnectionRefusedError

        endpoint = Endpoint("peer", 9092, "INSIDE", "PLAINTEXT")
        sender = Sender(
            ME, lambda: 5, lambda: bytes(16), store, tuple, tuple, lambda broker: endpoint, connect, INTERVAL_S
        )
        link = HeartbeatLink(PEER, sender, Receiver())
        assert all(link.ask_now().done() for _ in range(50))
        assert link._asked == []
        link._connection = Answering(ErrorCode.NONE)
        for each in [link.ask_now() for _ in range(50)]:
            each.cancel()
        link.ask_now()
        assert len(link._asked) == 1, "those that wait no more are forgotten"

    virtual_time.run(scenario())
