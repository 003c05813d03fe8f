"""The way to the coordinator of a group or a transactional id: finding it, and connections that no other request waits on.

Brokers answer the requests of a connection one after another, and a JoinGroup may take minutes. So membership, heartbeats with
commits, and everything else of the client each have a connection of their own.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.client.cluster.client import ClusterClient, version_for
from kafkalite.client.errors import ClientClosedError, ClientError, error_of
from kafkalite.errors import ErrorCode
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages

if TYPE_CHECKING:
    from kafkalite.protocol.messages import Message, Request

ResponseT = TypeVar("ResponseT", bound="Message")


class CoordinatorKind(Enum):
    """What a coordinator is of, with FindCoordinator's key type (KIP-98)."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def noun(self) -> str:
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


class Lane(Enum):
    """Which of the connections a request takes."""

    MEMBERSHIP = "membership"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"


_DENIALS: Final = (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


async def find_coordinator(
    cluster: ClusterClient, key: str, kind: CoordinatorKind
) -> messages.find_coordinator_response.Coordinator:
    """Return the coordinator of `key` as one broker names it (FindCoordinator): node id, host, port.

    ClientError COORDINATOR_NOT_AVAILABLE for an empty response; the response's own error otherwise.
    """
    request = messages.find_coordinator_request.FindCoordinatorRequest(key_type=kind.value, coordinator_keys=[key])
    coordinators = (await cluster.request_any(request)).coordinators
    context = f"finding the coordinator of {kind.noun} {key}"
    if not coordinators:
        raise error_of(ErrorCode.COORDINATOR_NOT_AVAILABLE, context, "the answer names none")
    found = coordinators[0]
    if found.error_code:
        is_denied = found.error_code in _DENIALS
        explanation = f"not authorized for the {kind.noun}" if is_denied else None
        raise error_of(found.error_code, context, found.error_message, explanation=explanation)
    return found


class CoordinatorLink:
    """Connections to one coordinator, one for each `Lane`. `forget()` after an answer that says that the coordinator is another
    broker."""

    def __init__(self, cluster: ClusterClient, group_id: str, kind: CoordinatorKind = CoordinatorKind.GROUP) -> None:
        self.group_id = group_id
        self._kind = kind
        self._of = f"the coordinator of {kind.noun} {group_id}"
        self._cluster = cluster
        self._address: tuple[str, int] | None = None
        self._finding: asyncio.Task[tuple[str, int]] | None = None
        self._connections: dict[Lane, Connection] = {}
        self._opening: dict[Lane, asyncio.Lock] = {lane: asyncio.Lock() for lane in Lane}
        self._closed = False

    async def request(
        self,
        message: Request[ResponseT],
        lane: Lane,
        timeout_s: float,
        *,
        oldest_version: int = 0,
        newest_version: int | None = None,
    ) -> ResponseT:
        """Send `message` to the coordinator. ConnectionError, TimeoutError, ClientError; all but refusals forget the coordinator.

        ClientError UNSUPPORTED_VERSION when the coordinator does not speak `oldest_version`.
        """
        connection = None
        try:
            connection = await self._connection(lane)
            version = version_for(connection, message, newest_version)
            if version < oldest_version:
                what = f"{self._of} does not speak {message.API.name} {oldest_version}"
                raise ClientError(ErrorCode.UNSUPPORTED_VERSION, what)
            return await connection.request(message, version, timeout_s)
        except OSError:
            if connection is None or self._is_at_coordinator(connection):
                self.forget()
            raise

    def forget(self) -> None:
        """Look the coordinator up again before the next request. Requests in flight wait on, until it is found to be another broker."""
        self._address = None

    def _is_at_coordinator(self, connection: Connection) -> bool:
        return (connection.host, connection.port) == self._address

    def close(self) -> None:
        self._closed = True
        if self._finding is not None:
            self._finding.cancel()
        for connection in self._connections.values():
            connection.close()

    async def _connection(self, lane: Lane) -> Connection:
        async with self._opening[lane]:
            address = await self._coordinator()
            connection = self._connections.get(lane)
            if connection is not None and not connection.closed and self._is_at_coordinator(connection):
                return connection
            if connection is not None:
                connection.close()
            connection = self._connections[lane] = await self._cluster.open_separate(*address)
            if self._closed:
                connection.close()
                raise ClientClosedError("the client")
            return connection

    async def _coordinator(self) -> tuple[str, int]:
        if self._closed:
            raise ClientClosedError("the client")
        if self._address is None:
            if self._finding is None:
                self._finding = asyncio.get_running_loop().create_task(self._find())
            await asyncio.shield(self._finding)
        if self._address is None:
            raise ConnectionError(f"{self._of} has just changed")
        return self._address

    async def _find(self) -> tuple[str, int]:
        try:
            found = await find_coordinator(self._cluster, self.group_id, self._kind)
            self._address = found.host, found.port
            for connection in self._connections.values():
                if not self._is_at_coordinator(
                    connection
                ):  # a JoinGroup would wait there for minutes, if nobody answers any more
                    connection.close()
            return self._address
        finally:
            self._finding = None
