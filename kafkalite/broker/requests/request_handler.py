"""The request handler of a connection: the dispatcher, or until the connection is authenticated a gate."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, TypeAlias

from kafkalite.errors import ProtocolViolation
from kafkalite.types import Buffer

Answer: TypeAlias = "list[Buffer] | None"
"""The frame of an answer in a few buffers; None where there is no answer."""


class RequestHandler(Protocol):
    """The receiver of a connection's requests: `Dispatcher`, or a gate."""

    def handle(self, frame: memoryview, connection: Any) -> Answer | asyncio.Future[Answer]:
        """Serve a request of a `ServerConnection`, as `Dispatcher.handle`. Most need no more of it than `ClientConnection` names."""


class AuthenticationFailed(ProtocolViolation):
    """The connection is to be closed, after this answer if there is one."""

    def __init__(self, reason: str, answer: Answer = None) -> None:
        super().__init__(reason)
        self.answer = answer
