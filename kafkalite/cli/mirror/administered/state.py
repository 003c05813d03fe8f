"""What administrators have set in a cluster: topics, ACLs, quotas, SCRAM users. The way back compares it on both sides, and with what the
target had at the switch. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from kafkalite.security.acl import (
    AclBinding,
    AclEntry,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

if TYPE_CHECKING:
    from kafkalite.client import QuotaEntity


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic; `settings` are its own."""

    topic_id: str
    partitions: int
    replicas: int
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Administered:
    """What is set in one cluster. Internal topics are left out."""

    topics: Mapping[str, TopicState] = field(default_factory=dict)
    acls: frozenset[AclBinding] | None = None
    """None for a cluster without an authorizer."""
    unknown_acls: tuple[str, ...] = ()
    """Descriptions of ACLs that brokers of the 3.x line do not know."""
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    users: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Iterations of the SCRAM credentials of users, by mechanism."""
    unknown_topics: Mapping[str, str] = field(default_factory=dict)
    """Topics that were asked for, and of which the cluster does not say whether it has them, with the reason (`absence`). They are of the
    moment, and not kept on disk.
    """

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for `from_json`."""
        return {
            "topics": {
                name: [each.topic_id, each.partitions, each.replicas, dict(each.settings)]
                for name, each in self.topics.items()
            },
            "acls": None if self.acls is None else [[*each.resource, *each.entry] for each in sorted(self.acls)],
            "unknown_acls": list(self.unknown_acls),
            "quotas": [[entity.parts, dict(quotas)] for entity, quotas in self.quotas.items()],
            "users": {name: dict(each) for name, each in self.users.items()},
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return what `to_json` gave. Raises KeyError, TypeError, ValueError for anything else."""
        from kafkalite.client import QuotaEntity

        return cls(
            topics={name: TopicState(*each) for name, each in found["topics"].items()},
            acls=None if found["acls"] is None else frozenset(read_binding(*each) for each in found["acls"]),
            unknown_acls=tuple(found["unknown_acls"]),
            quotas={
                QuotaEntity(tuple((kind, name) for kind, name in parts)): quotas for parts, quotas in found["quotas"]
            },
            users=found["users"],
        )


def read_binding(
    kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int
) -> AclBinding:
    """Return an ACL by its numbers in the protocol. Raises ValueError for a number that has no meaning here."""
    return AclBinding(
        ResourcePattern(ResourceType(kind), name, PatternType(pattern)),
        AclEntry(principal, host, Operation(operation), PermissionType(permission)),
    )


@dataclass(slots=True)
class AtSwitch:
    """What the target had at the switch, and which changes were brought back since then."""

    target: Administered
    brought_back: set[str] = field(default_factory=set)
    """Identities of changes (`changes.Change.identity`). What was brought back once follows the target from then on, also to what it
    was at the switch."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for `from_json`."""
        return {"target": self.target.to_json(), "brought_back": sorted(self.brought_back)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return what `to_json` gave. Raises KeyError, TypeError, ValueError for anything else."""
        return cls(Administered.from_json(found["target"]), set(found["brought_back"]))
