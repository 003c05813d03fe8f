"""Requests to whoever is the controller now: found through metadata, sent again elsewhere when it has moved.

The connection negotiates versions (as Kafka's node-to-controller channel does), because the controller may be newer or older.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection, OpenToBroker, open_unauthenticated
from kafkalite.types import BrokerId, Endpoint

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Message, Request

ResponseT = TypeVar("ResponseT", bound="Message")

logger = logging.getLogger("kafkalite.broker.controller_channel")

_RETRY_S = 0.05


class ControllerChannel:
    """The connection to the controller's broker, one for all requests.

    `find()` gives the controller's id and endpoint, or None while none is known.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        find: Callable[[], tuple[BrokerId, Endpoint] | None],
        request_timeout_s: float,
        connect: OpenToBroker = open_unauthenticated,
    ) -> None:
        self._broker_id, self._find, self._timeout_s, self._connect = broker_id, find, request_timeout_s, connect
        self._connection: Connection | None = None
        self._connected_to: tuple[BrokerId, Endpoint] | None = None
        self._opening = asyncio.Lock()

    async def request(
        self, message: Request[ResponseT], deadline_s: float | None = None, max_version: int | None = None
    ) -> ResponseT:
        """Return the controller's response. Raises TimeoutError without one until `deadline_s` (loop time; None: for ever)."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(deadline_s):  # to connect takes its time too, behind others who do
                    connection = await self._open_connection()
                    version = connection.version_of(message.API.key)
                    if max_version is not None:
                        version = min(version, max_version)
                    response = await connection.request(message, version, self._timeout_s)
                if getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                    return response
            except (OSError, TimeoutError) as problem:
                logger.debug("asking the controller: %s", problem)
            except ValueError as problem:  # no common version: the controller is to be replaced by a newer one
                logger.warning("asking the controller: %s", problem)
            self._forget()
            if deadline_s is not None and loop.time() + _RETRY_S >= deadline_s:
                raise TimeoutError("no controller answered in time")
            await asyncio.sleep(_RETRY_S)

    async def _open_connection(self) -> Connection:
        async with self._opening:
            target = self._find()
            if target is None:
                raise ConnectionError("no controller is known")
            if self._connection is None or self._connection.closed or target != self._connected_to:
                self._forget()
                client_id = f"broker-{self._broker_id}-to-controller"
                connection = await self._connect(target[1], client_id, self._timeout_s)
                try:
                    await connection.negotiate(self._timeout_s)
                except BaseException:  # also when whoever asked waits no longer
                    connection.close()
                    raise
                self._connection, self._connected_to = connection, target
            return self._connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._connected_to = None, None

    async def close(self) -> None:
        self._forget()
