"""Authorization (KIP-11): the port that requests pass, and the permissions that the APIs need.

What needs one permission of the cluster and nothing else is authorised by dispatch; what names topics, groups or ids by the guard
of its API (`broker/requests/guards`), first of all, name by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafkalite.errors import ErrorCode
from kafkalite.security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType

if TYPE_CHECKING:
    from kafkalite.security.principal import KafkaPrincipal

__all__ = ["CLUSTER_NAME", "Operation", "ResourceType"]

UNKNOWN_OPERATIONS: Final = -(2**31)
"""The authorized operations of a resource in a response whose request did not ask for them."""


class Permission(NamedTuple):
    """An operation on a type of resource, as an API needs it."""

    operation: Operation
    resource: ResourceType

    @property
    def refusal(self) -> ErrorCode:
        """Return the error code for a client that lacks this permission."""
        return _REFUSALS[self.resource]


_REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

ALTER_CLUSTER: Final = Permission(Operation.ALTER, ResourceType.CLUSTER)
DESCRIBE_CLUSTER: Final = Permission(Operation.DESCRIBE, ResourceType.CLUSTER)
CLUSTER_ACTION: Final = Permission(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
CREATE_CLUSTER: Final = Permission(Operation.CREATE, ResourceType.CLUSTER)
CREATE_TOPIC: Final = Permission(Operation.CREATE, ResourceType.TOPIC)
DESCRIBE_TOPIC: Final = Permission(Operation.DESCRIBE, ResourceType.TOPIC)
READ_TOPIC: Final = Permission(Operation.READ, ResourceType.TOPIC)
WRITE_TOPIC: Final = Permission(Operation.WRITE, ResourceType.TOPIC)
DELETE_TOPIC: Final = Permission(Operation.DELETE, ResourceType.TOPIC)
READ_GROUP: Final = Permission(Operation.READ, ResourceType.GROUP)
DESCRIBE_GROUP: Final = Permission(Operation.DESCRIBE, ResourceType.GROUP)
DELETE_GROUP: Final = Permission(Operation.DELETE, ResourceType.GROUP)
WRITE_TRANSACTIONAL_ID: Final = Permission(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Permission(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)


class Authorizer(Protocol):
    """Judges principals."""

    @property
    def generation(self) -> int:
        """Return a number that grows whenever a decision may have changed; negative if all is always allowed."""

    def allows(self, principal: KafkaPrincipal, host: str, permission: Permission, name: str) -> bool:
        """True if the principal, connected from `host`, may do this to the resource of this name."""

    def allows_some(self, principal: KafkaPrincipal, host: str, permission: Permission) -> bool:
        """True if the principal may do this to any resource of the type."""


class AllowAll:
    """Allows everything, where no authorizer is configured."""

    generation: int = -1

    def allows(self, principal: KafkaPrincipal, host: str, permission: Permission, name: str) -> bool:
        return True

    def allows_some(self, principal: KafkaPrincipal, host: str, permission: Permission) -> bool:
        return True


ALLOW_ALL: Final = AllowAll()


def authorized_operations(
    authorizer: Authorizer, principal: KafkaPrincipal, host: str, resource: ResourceType, name: str
) -> int:
    """Return the operations that the principal may do to the resource, each a bit (KIP-430)."""
    return sum(
        1 << operation
        for operation in SUPPORTED_OPERATIONS[resource]
        if authorizer.allows(principal, host, Permission(operation, resource), name)
    )
