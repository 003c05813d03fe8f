"""Heartbeats to one other broker, over a connection that is kept: they hand over this broker's session, and bring signs of life back."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalite.broker.failure_detection.acknowledgements import is_acknowledged
from kafkalite.broker.failure_detection.evidence import Accusation, Sighting
from kafkalite.errors import AuthenticationError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.apis import PEER_SOFTWARE_NAME, ApiKey

if TYPE_CHECKING:
    from kafkalite.net.connection import Connection, OpenToBroker
    from kafkalite.types import BrokerId, Endpoint
    from zk.store import Store

logger = logging.getLogger("kafkalite.broker.failure_detection")

_TIMEOUT_S: Final = 2.0
"""To connect and to learn whether the other broker is one of ours; also after it an unanswered connection is given up, unless the
system of the other one acknowledges what is sent."""
_ACKNOWLEDGED_TIMEOUT_S: Final = 120.0
"""After it that is given up, too: between the brokers may be a proxy, whose system it is. Longer than any detector's patience."""
_RETRY_UNSUPPORTED_S: Final = 10.0
"""How often a broker that is not one of ours is asked again: it may have been replaced."""
_IN_FLIGHT: Final = 16
"""Heartbeats without an answer; beyond that none is sent on a connection."""


class Sender(NamedTuple):
    """What heartbeats say of the broker that sends them, and how it reaches others."""

    broker_id: BrokerId
    broker_epoch: Callable[[], int]
    incarnation: Callable[[], bytes]
    store: Store
    accusations: Callable[[], tuple[Accusation, ...]]
    sightings: Callable[[], tuple[Sighting, ...]]
    endpoint_of: Callable[[BrokerId], Endpoint | None]
    connect: OpenToBroker
    interval_s: float


async def open_connection(sender: Sender, endpoint: Endpoint, timeout_s: float) -> Connection:
    """Return a connection for heartbeats. Raises OSError, TimeoutError, and ValueError if the peer knows no heartbeats."""
    connection = await sender.connect(endpoint, f"broker-{sender.broker_id}-heartbeats", timeout_s)
    try:
        await connection.negotiate(timeout_s, PEER_SOFTWARE_NAME)
        connection.version_of(ApiKey.PEER_HEARTBEAT)
    except BaseException:
        connection.close()
        raise
    return connection


def make_heartbeat(sender: Sender, session_id: int, *, with_password: bool) -> messages.PeerHeartbeatRequest:
    """Return a heartbeat of now."""
    m = messages.peer_heartbeat_request
    return m.PeerHeartbeatRequest(
        broker_id=sender.broker_id,
        broker_epoch=sender.broker_epoch(),
        incarnation=sender.incarnation(),
        session_id=session_id,
        session_password=sender.store.session_password if with_password else None,
        accusations=[
            m.Accusation(broker_id=each.broker_id, broker_epoch=each.broker_epoch, evidence=each.evidence)
            for each in sender.accusations()
        ],
        neighbours=[
            m.Neighbour(broker_id=each.broker_id, broker_epoch=each.broker_epoch, is_heard=each.is_heard)
            for each in sender.sightings()
        ],
    )


class Receiver(Protocol):
    """Hears what becomes of the heartbeats."""

    def note_answer(self, broker: BrokerId, broker_epoch: int, incarnation: bytes) -> None: ...

    def note_rejection(self, broker: BrokerId) -> None: ...

    def note_connection_lost(self, broker: BrokerId) -> None: ...


class HeartbeatLink:
    """Sends heartbeats to the broker `peer` until its task is cancelled."""

    def __init__(self, peer: BrokerId, sender: Sender, receiver: Receiver) -> None:
        self._peer, self._sender, self._receiver = peer, sender, receiver
        self._wake = asyncio.Event()
        self._given_session = 0
        """The session whose password this connection has brought to the peer."""
        self._is_refused = False
        self._connection: Connection | None = None
        self._asked: list[asyncio.Future[None]] = []
        """Those who wait for the answer to the next heartbeat."""

    def send_now(self) -> None:
        """Send a heartbeat at once, because of what it says."""
        self._wake.set()

    def ask_now(self) -> asyncio.Future[None]:
        """Send a heartbeat at once, and return a future that is done with its answer, or with the end of the connection.

        Without a connection it is done at once. Whoever stops waiting cancels it.
        """
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._connection is None:
            answered.set_result(None)
            return answered
        self._asked = [each for each in self._asked if not each.done()]
        self._asked.append(answered)
        self._wake.set()
        return answered

    @property
    def is_acknowledged(self) -> bool:
        """True if the peer's system acknowledges what is sent to it, whatever its process does."""
        connection = self._connection
        return connection is not None and is_acknowledged(connection.descriptor, 2 * self._sender.interval_s * 1000)

    async def take_leave(self, timeout_s: float) -> None:
        """Send a heartbeat without a session, because this broker stops, and wait until it is answered, fails, or that long."""
        connection = self._connection
        if connection is None:
            return
        sender = self._sender
        request = messages.peer_heartbeat_request.PeerHeartbeatRequest(
            broker_id=sender.broker_id, broker_epoch=sender.broker_epoch(), incarnation=sender.incarnation()
        )
        try:
            await connection.request(request, connection.version_of(ApiKey.PEER_HEARTBEAT), timeout_s)
        except (OSError, TimeoutError) as problem:
            logger.debug("broker %d may not know that this one stops: %s", self._peer, problem)

    async def run(self) -> None:
        """Connect and send heartbeats, again and again."""
        while True:
            pause_s = self._sender.interval_s
            endpoint = self._sender.endpoint_of(self._peer)
            if endpoint is not None:
                try:
                    connection = await self._open(endpoint)
                except (OSError, TimeoutError) as problem:
                    logger.debug("heartbeats to broker %d: %s", self._peer, problem)
                    if _is_rejection(problem):
                        self._receiver.note_rejection(self._peer)
                except ValueError:
                    pause_s = _RETRY_UNSUPPORTED_S
                else:
                    await self._send_heartbeats(connection)
            await asyncio.sleep(pause_s)

    async def _open(self, endpoint: Endpoint) -> Connection:
        return await open_connection(self._sender, endpoint, _TIMEOUT_S)

    async def _send_heartbeats(self, connection: Connection) -> None:
        """Send heartbeats until the connection ends, which the receiver hears at once, or is unanswered for too long."""
        self._given_session = 0
        self._connection = connection
        connection.on_end = self._note_end
        loop = asyncio.get_running_loop()
        answered_s = loop.time()
        try:
            while not connection.closed:
                self._wake.clear()
                if connection.in_flight < _IN_FLIGHT:
                    self._send(connection)
                try:
                    async with asyncio.timeout(self._sender.interval_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                if not connection.in_flight:
                    answered_s = loop.time()
                elif loop.time() - answered_s > self._sender.interval_s + (
                    _ACKNOWLEDGED_TIMEOUT_S if self.is_acknowledged else _TIMEOUT_S
                ):
                    break
        except asyncio.CancelledError:
            connection.on_end = None
            raise
        finally:
            self._connection = None
            self._answer_all(self._asked)
            connection.close()

    def _note_end(self) -> None:
        self._wake.set()
        self._receiver.note_connection_lost(self._peer)

    def _send(self, connection: Connection) -> None:
        session_id = self._sender.store.session_id
        request = make_heartbeat(self._sender, session_id, with_password=session_id != self._given_session)
        answer = connection.send(request, connection.version_of(ApiKey.PEER_HEARTBEAT))
        asked, self._asked = self._asked, []
        answer.add_done_callback(lambda future: self._on_answer(future, session_id, asked))

    @staticmethod
    def _answer_all(asked: Iterable[asyncio.Future[None]]) -> None:
        for each in asked:
            if not each.done():
                each.set_result(None)

    def _on_answer(
        self,
        future: asyncio.Future[messages.PeerHeartbeatResponse],
        session_id: int,
        asked: list[asyncio.Future[None]],
    ) -> None:
        self._answer_all(asked)
        if future.cancelled() or future.exception() is not None:
            return
        response = future.result()
        if response.error_code == ErrorCode.NONE:
            self._given_session = session_id
            self._receiver.note_answer(self._peer, response.broker_epoch, bytes(response.incarnation))
            self._is_refused = False
            return
        self._given_session = 0
        self._receiver.note_rejection(self._peer)
        if response.error_code != ErrorCode.BROKER_ID_NOT_REGISTERED and not self._is_refused:
            self._is_refused = True
            logger.warning(
                "broker %d refuses heartbeats with %s: it cannot take this broker for dead",
                self._peer,
                ErrorCode(response.error_code).name,
            )


def _is_rejection(problem: OSError) -> bool:
    """True if the peer has answered, and no connection came about because of credentials or certificates, of whichever side."""
    cause = problem.__cause__
    return isinstance(problem, AuthenticationError) or (
        isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError)
    )
