"""Who may do what (KIP-11): the port that requests pass, and the permissions that the APIs declare.

Numbers are those of Kafka's `AclOperation` and `ResourceType`, which are also on the wire. What needs one permission of the cluster and
nothing else is authorised by dispatch; what names topics, groups or ids is authorised by its handler, first of all, name by name.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of the type CLUSTER."""


class Operation(IntEnum):
    """What is done to a resource."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """What is protected."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6


class Permission(NamedTuple):
    """An operation on a type of resource, as an API needs it."""

    operation: Operation
    resource: ResourceType


class Authorizer(Protocol):
    """Judges principals."""

    def allows(self, user: str, host: str, permission: Permission, name: str) -> bool:
        """May the principal `user`, who asks from `host`, do this to the resource of this name?"""


class AllowAll:
    """Where no authorizer is configured."""

    def allows(self, user: str, host: str, permission: Permission, name: str) -> bool:
        return True


ALLOW_ALL: Final = AllowAll()
