"""The caller of a request, as its handler knows it: principal, connection and version."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final, Protocol

from kafkalite.broker.identity.authorizer import ALLOW_ALL, CLUSTER_NAME, Authorizer, Permission, authorized_operations
from kafkalite.broker.produce.fast_path import TemplateOwner
from kafkalite.errors import KafkaError
from kafkalite.portions import Portions
from kafkalite.security.acl import ResourceType, pascal_case
from kafkalite.security.principal import KafkaPrincipal

audit: Final = logging.getLogger("kafkalite.authorizer")
"""Denials: at INFO, or at DEBUG while a response is filtered by what is allowed (Kafka's `kafka.authorizer.logger`)."""


class ResponseBound(Protocol):
    """The bytes that one response on the connection may have; `UnreadResponses` sets it."""

    response_bytes_max: int


class ClientConnection(TemplateOwner, Protocol):
    """The connection that a request came by."""

    @property
    def peer_host(self) -> str: ...

    @property
    def principal(self) -> KafkaPrincipal: ...

    @property
    def listener(self) -> str:
        """Name of the listener that accepted it."""

    @property
    def closed(self) -> bool: ...

    @property
    def unread(self) -> ResponseBound: ...

    def stop_pipelining(self) -> None:
        """Begin nothing behind the request that is being begun until it is answered."""

    def mute(self, duration_s: float) -> None:
        """Take no request for this long, because the client exceeded a quota (KIP-219)."""


@dataclass(slots=True)
class RequestContext:
    """The caller of one request and the request's version and size.

    Not changed after it is made; a frozen one takes three times as long to make.
    """

    api_version: int
    client_id: str | None
    connection: ClientConnection
    request_bytes: int = 0
    authorizer: Authorizer = ALLOW_ALL
    portions: Portions = field(default_factory=Portions)
    """By which work that grows with the request is cut; those of the whole broker."""
    api_name: str = ""
    records_place: tuple[bytearray, int] | None = None
    """Of a long Produce of one partition: the memory that holds the request, and where in it the records are."""

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def principal(self) -> KafkaPrincipal:
        """Return the principal of the caller, User:ANONYMOUS if it is not authenticated."""
        return self.connection.principal

    @property
    def user(self) -> str:
        """Name of the principal, by which quotas are found."""
        return self.connection.principal.name

    def may(self, permission: Permission, name: str = CLUSTER_NAME, *, is_asked: bool = True) -> bool:
        """True if the caller may do this to the resource of this name. A denial is logged at INFO only if the request `is_asked` for it."""
        if self.authorizer.allows(self.connection.principal, self.connection.peer_host, permission, name):
            return True
        audit.log(
            logging.INFO if is_asked else logging.DEBUG,
            "Principal = %s is Denied Operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s",
            self.connection.principal,
            pascal_case(permission.operation),
            self.connection.peer_host,
            pascal_case(permission.resource),
            name,
            self.api_name,
        )
        return False

    def may_some(self, permission: Permission) -> bool:
        """True if the caller may do this to any resource of the type."""
        return self.authorizer.allows_some(self.connection.principal, self.connection.peer_host, permission)

    def require(self, permission: Permission, name: str = CLUSTER_NAME) -> None:
        """Raise KafkaError with the refusal of the permission, unless the caller has it."""
        if not self.may(permission, name):
            raise KafkaError(permission.refusal)

    def authorized_operations(self, resource: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the operations that the caller may do to the resource, each a bit (KIP-430)."""
        return authorized_operations(
            self.authorizer, self.connection.principal, self.connection.peer_host, resource, name
        )
