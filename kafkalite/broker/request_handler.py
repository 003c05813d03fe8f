"""What a connection works with: whom it hands its requests to (the dispatcher, or until it is authenticated a gate), and who counts it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from kafkalite.errors import ProtocolViolation
from kafkalite.types import Buffer

if TYPE_CHECKING:
    from kafkalite.broker.plain_produce import ShapeRoom
    from kafkalite.broker.request_memory import RequestMemory
    from kafkalite.broker.slow_senders import SlowSenders
    from kafkalite.broker.stranger_reads import Readable
    from kafkalite.broker.unread_responses import UnreadResponses

Answer: TypeAlias = "list[Buffer] | None"
"""The frame of an answer in a few buffers; None where there is no answer."""

ConnectionT_contra = TypeVar("ConnectionT_contra", contravariant=True)


class RequestHandler(Protocol):
    """What requests are handed to: see `Dispatcher.handle`."""

    def handle(self, frame: memoryview, connection: Any) -> Answer | asyncio.Future[Answer]:
        """`connection` is a `ServerConnection`; most need no more of it than `ClientConnection` names."""


class AuthenticationFailed(ProtocolViolation):
    """The connection is to be closed, after this answer if there is one."""

    def __init__(self, reason: str, answer: Answer = None) -> None:
        super().__init__(reason)
        self.answer = answer


class Gate(RequestHandler, Protocol[ConnectionT_contra]):
    """Who takes requests until the connection is authenticated: see `SaslAuthenticator`."""

    def attach(self, connection: ConnectionT_contra, transport: asyncio.Transport) -> Readable:
        """The connection was admitted. What is returned is paused and resumed instead of its transport."""

    def detach(self, connection: ConnectionT_contra) -> None:
        """The connection is over, and was never authenticated."""


class Acceptor(Protocol[ConnectionT_contra]):
    """Who counts the connections: see `Server`."""

    def admit(self, connection: ConnectionT_contra) -> bool: ...

    def gone(self, connection: ConnectionT_contra) -> None: ...

    def bound_exceeded(self, bound: str) -> None: ...

    @property
    def memory(self) -> RequestMemory: ...

    @property
    def slow_senders(self) -> SlowSenders: ...

    @property
    def shape_room(self) -> ShapeRoom: ...

    @property
    def unread(self) -> UnreadResponses: ...
