"""Ports of a connection beside its request handler: the gate of its authentication, and the server that counts it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalite.broker.requests.request_handler import RequestHandler

if TYPE_CHECKING:
    from kafkalite.broker.connections.request_memory import RequestMemory
    from kafkalite.broker.connections.slow_senders import SlowSenders
    from kafkalite.broker.connections.unauthenticated_reads import Readable
    from kafkalite.broker.connections.unread_responses import UnreadResponses
    from kafkalite.broker.produce.request_template import TemplateBudget

ConnectionT_contra = TypeVar("ConnectionT_contra", contravariant=True)


class Gate(RequestHandler, Protocol[ConnectionT_contra]):
    """Takes requests until the connection is authenticated (`SaslAuthenticator`)."""

    def attach(self, connection: ConnectionT_contra, transport: asyncio.Transport) -> Readable:
        """Start with a connection that was admitted. Return what is paused and resumed instead of its transport."""

    def detach(self, connection: ConnectionT_contra) -> None:
        """End with a connection that was lost before it was authenticated."""


class Acceptor(Protocol[ConnectionT_contra]):
    """Counts the connections and owns what they share (`Server`)."""

    def admit(self, connection: ConnectionT_contra) -> bool: ...

    def remove(self, connection: ConnectionT_contra) -> None: ...

    def bound_exceeded(self, bound: str) -> None: ...

    @property
    def memory(self) -> RequestMemory: ...

    @property
    def slow_senders(self) -> SlowSenders: ...

    @property
    def template_budget(self) -> TemplateBudget: ...

    @property
    def unread(self) -> UnreadResponses: ...
