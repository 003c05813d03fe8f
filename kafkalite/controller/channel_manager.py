"""The channels of a controller to the brokers, as Kafka's ControllerChannelManager."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from kafkalite.controller.control_requests import ControlRequest
from kafkalite.controller.wire import OutgoingRequest
from kafkalite.errors import InvariantBroken
from kafkalite.lifecycle import report, start_task
from kafkalite.net.connection import Connection, OpenToBroker, open_unauthenticated
from kafkalite.portions import Portions
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import PEER_SOFTWARE_NAME
from kafkalite.types import BrokerId, Endpoint

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 100
_OPTIONAL_TIMEOUT_S: Final = 10.0
"""For the answer to a request that the controller can do without: longer than a busy broker takes to digest a million partitions. What it
must have waits behind.
"""
_ITEMS_AT_ONCE: Final = 2000
"""Items above which a message is encoded in portions, such as markers of very many partitions."""


class Channel(Protocol):
    """A connection to one broker that reconnects on the next request after a failure."""

    async def request(self, message: Any, version: int) -> Any:
        """Send a request and return the response. Raises OSError, TimeoutError, ProtocolViolation."""

    def close(self) -> None: ...


class ControlChannel(Protocol):
    """A `Channel` for the controller's requests, which are encoded before."""

    async def request_encoded(self, outgoing: OutgoingRequest) -> Any:
        """Send a request and return the response. Raises OSError, TimeoutError, ProtocolViolation.

        Raises ValueError for an optional request that the broker does not know.
        """

    def close(self) -> None: ...


OpenChannel: TypeAlias = Callable[[Endpoint], Channel]
OpenControlChannel: TypeAlias = Callable[[Endpoint], ControlChannel]
OnResponse: TypeAlias = Callable[[BrokerId, int, ControlRequest, Any], None]
"""Called with broker id, broker epoch, the request and the response message, None where an optional request has none."""


class ConnectionChannel:
    """A channel over TCP that connects for its first request."""

    def __init__(
        self,
        endpoint: Endpoint,
        client_id: str,
        timeout_s: float,
        connect: OpenToBroker = open_unauthenticated,
    ) -> None:
        self._endpoint = endpoint
        self._client_id = client_id
        self._timeout_s, self._connect = timeout_s, connect
        self._connection: Connection | None = None
        self._portions = Portions()

    async def request(self, message: Any, version: int) -> Any:
        connection = await self._open_connection()
        if not messages.has_more_items(message, _ITEMS_AT_ONCE):
            return await connection.request(message, version, timeout_s=self._timeout_s)
        body = await self._portions.finish(codec.encode_long_request(message, version))
        sent = connection.send_encoded(message.API.key, version, body)
        return await connection.answer_to(message, sent, self._timeout_s)

    async def request_encoded(self, outgoing: OutgoingRequest) -> Any:
        connection, timeout_s = await self._open_connection(), self._timeout_s
        if outgoing.is_optional:
            timeout_s = min(timeout_s, _OPTIONAL_TIMEOUT_S)
            await connection.negotiate(timeout_s, PEER_SOFTWARE_NAME)
            connection.version_of(outgoing.api_key)
        sent = connection.send_encoded(outgoing.api_key, outgoing.version, outgoing.body)
        return await connection.answer_to(outgoing.request, sent, timeout_s)

    async def _open_connection(self) -> Connection:
        connection = self._connection
        if connection is None or connection.closed:
            connection = await self._connect(self._endpoint, self._client_id, self._timeout_s)
            self._connection = connection
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def open_tcp_channels(
    client_id: str, timeout_ms: int, connect: OpenToBroker = open_unauthenticated
) -> Callable[[Endpoint], ConnectionChannel]:
    """Return a factory of channels over TCP; `timeout_ms` is controller.socket.timeout.ms."""
    return lambda endpoint: ConnectionChannel(endpoint, client_id, timeout_ms / 1000, connect)


@dataclass(slots=True)
class _Sender:
    endpoint: Endpoint
    channel: ControlChannel
    broker_epoch: int
    queue: asyncio.Queue[OutgoingRequest] = field(default_factory=asyncio.Queue)
    task: asyncio.Task[None] | None = None
    retries: int = 0


class ControllerChannelManager:
    """One queue for each registered broker, sent in order by one task, one request at a time, for one controller term.

    A request that fails (no connection, no response in time) is repeated after 100 ms until the broker is removed or the
    controller resigns: a broker must miss no change and get none out of order. So brokers may see a request twice. The
    controller's own broker is reached over its socket too. An optional request is not repeated.
    """

    def __init__(self, open_channel: OpenControlChannel, on_response: OnResponse) -> None:
        self._open_channel = open_channel
        self._on_response = on_response
        self._senders: dict[BrokerId, _Sender] = {}

    def add(self, broker_id: BrokerId, broker_epoch: int, endpoint: Endpoint) -> None:
        """Open a channel to a broker; drop that of an earlier incarnation with its queue.

        The same incarnation with another endpoint keeps its queue.
        """
        known = self._senders.get(broker_id)
        if known is not None and known.broker_epoch == broker_epoch:
            if known.endpoint != endpoint:
                known.channel.close()
                known.endpoint, known.channel = endpoint, self._open_channel(endpoint)
            return
        self.remove(broker_id)
        sender = _Sender(endpoint, self._open_channel(endpoint), broker_epoch)
        sender.task = start_task(self._send_forever(broker_id, sender), f"controller-to-broker-{broker_id}")
        self._senders[broker_id] = sender

    def remove(self, broker_id: BrokerId) -> None:
        """Close a broker's channel, if there is one."""
        sender = self._senders.pop(broker_id, None)
        if sender is not None:
            if sender.task is not None:
                sender.task.cancel()
            sender.channel.close()

    def send(self, requests: Iterable[OutgoingRequest]) -> None:
        """Queue requests; those for brokers without a channel are dropped."""
        for request in requests:
            sender = self._senders.get(request.broker_id)
            if sender is not None:
                sender.queue.put_nowait(request)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until all queued requests are answered; False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(sender.queue.join() for sender in self._senders.values()))
            return True
        except TimeoutError:
            return False

    def stop(self) -> None:
        """Close all channels."""
        for broker_id in list(self._senders):
            self.remove(broker_id)

    def statistics(self) -> dict[str, dict[BrokerId, int]]:
        """Return the queued requests and the retries so far by broker."""
        return {
            "queued_requests": {broker: sender.queue.qsize() for broker, sender in self._senders.items()},
            "request_retries": {broker: sender.retries for broker, sender in self._senders.items()},
        }

    async def _send_forever(self, broker_id: BrokerId, sender: _Sender) -> None:
        while True:
            outgoing = await sender.queue.get()
            send = self._send_once if outgoing.is_optional else self._send_until_answered
            response = await send(broker_id, sender, outgoing)
            sender.queue.task_done()
            try:
                self._on_response(broker_id, sender.broker_epoch, outgoing.request, response)
            except InvariantBroken:
                raise
            except Exception as problem:  # the broker must get the requests behind this one
                report(f"processing the response of broker {broker_id} failed", problem)

    async def _send_once(self, broker_id: BrokerId, sender: _Sender, outgoing: OutgoingRequest) -> Any:
        try:
            return await sender.channel.request_encoded(outgoing)
        except InvariantBroken:
            raise
        except ValueError:  # an older broker, or one of Apache Kafka
            return None
        except Exception as problem:
            logger.debug("broker %d does not answer %s: %s", broker_id, outgoing.api_key.name, problem)
            sender.channel.close()
            return None

    async def _send_until_answered(self, broker_id: BrokerId, sender: _Sender, outgoing: OutgoingRequest) -> Any:
        while True:
            try:
                return await sender.channel.request_encoded(outgoing)
            except InvariantBroken:
                raise
            except Exception as problem:  # of any kind: a broker that missed a change would never recover
                level = logging.WARNING if sender.retries % 50 == 0 else logging.DEBUG
                logger.log(level, "request for broker %d failed and will be retried: %s", broker_id, problem)
                sender.retries += 1
                sender.channel.close()
            await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
