"""What a handler knows of the caller besides the request: who asks, over which connection, in which version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kafkalite.broker.authorizer import ALLOW_ALL, Authorizer
from kafkalite.portions import Portions
from kafkalite.security.principal import KafkaPrincipal


class ClientConnection(Protocol):
    """The connection that a request came by."""

    @property
    def listener(self) -> str:
        """Name of the listener that accepted it."""

    @property
    def peer_host(self) -> str: ...

    @property
    def principal(self) -> KafkaPrincipal:
        """Whose it is now: re-authentication never changes it."""

    @property
    def closed(self) -> bool: ...

    def begin_alone(self) -> None:
        """Begin nothing behind the request that is being begun until it is answered."""

    def mute(self, duration_s: float) -> None:
        """Take no request for this long, because the client exceeded a quota (KIP-219)."""


@dataclass(slots=True)
class RequestContext:
    """See the module. Nobody changes one; it is not frozen, because making a frozen one takes three times as long."""

    api_version: int
    client_id: str | None
    connection: ClientConnection
    request_bytes: int = 0
    authorizer: Authorizer = ALLOW_ALL
    portions: Portions = field(default_factory=Portions)
    """By which work that grows with the request is cut; those of the whole broker."""

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def principal(self) -> KafkaPrincipal:
        """Who asks; who is not authenticated is Kafka's User:ANONYMOUS."""
        return self.connection.principal

    @property
    def user(self) -> str:
        """Name of the principal, by which quotas are found."""
        return self.connection.principal.name
