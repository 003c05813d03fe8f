"""Access control lists (KIP-11, KIP-290): who may, or may not, do what to which resources. Pure.

Numbers are those of Kafka's `AclOperation`, `AclPermissionType`, `ResourceType` and `PatternType`, which are on the wire; names in znodes
and commands are the same words in Pascal case (`TransactionalId`), read in any case.
"""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, TypeVar

CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of the type CLUSTER."""
WILDCARD: Final = "*"
"""Name of a literal pattern for every resource of its type; as a host every host."""
EVERYBODY: Final = "User:*"
"""The principal of an entry for all."""

EnumT = TypeVar("EnumT", bound=IntEnum)


class Operation(IntEnum):
    """Operations on a resource. ANY is for filters, ALL for entries."""

    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(IntEnum):
    """Types of protected resources. ANY is for filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The interpretation of a pattern's name. ANY and MATCH are for filters: any pattern of that name, or one covering the name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """The effect of an entry, to allow or deny. ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """The resources to which an entry applies."""

    type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        """True if the pattern covers a resource of this type and name."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclEntry(NamedTuple):
    """One rule: a principal (`User:alice`) on a host (an address, no name) and an operation."""

    principal: str
    host: str
    operation: Operation
    permission: PermissionType


class AclBinding(NamedTuple):
    """A rule and the resources to which it applies."""

    resource: ResourcePattern
    entry: AclEntry

    def __str__(self) -> str:
        resource, entry = self
        verb = "may" if entry.permission is PermissionType.ALLOW else "may not"
        prefix = "prefix " if resource.pattern is PatternType.PREFIXED else ""
        place = "" if entry.host == WILDCARD else f" from {entry.host}"
        what = f"{pascal_case(entry.operation)} {pascal_case(resource.type)} {prefix}{resource.name}"
        return f"{entry.principal}{place} {verb} {what}"


class AclFilter(NamedTuple):
    """Selects rules; None and ANY match all."""

    type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: PermissionType = PermissionType.ANY

    def __str__(self) -> str:
        parts = {
            "principal": self.principal,
            "host": self.host,
            "operation": _chosen_name(self.operation),
            "permission": _chosen_name(self.permission),
            "resource type": _chosen_name(self.type),
            "name": self.name,
            "pattern": _chosen_name(self.pattern),
        }
        wanted = ", ".join(f"{name} {part}" for name, part in parts.items() if part is not None)
        return f"ACLs with {wanted}" if wanted else "all ACLs"

    @property
    def named_patterns(self) -> tuple[ResourcePattern, ...]:
        """Return the patterns that a filter with type, name and kind of pattern can match, which are few; none for other filters."""
        if self.type is ResourceType.ANY or self.name is None or self.pattern is PatternType.MATCH:
            return ()
        patterns = (PatternType.LITERAL, PatternType.PREFIXED) if self.pattern is PatternType.ANY else (self.pattern,)
        return tuple(ResourcePattern(self.type, self.name, pattern) for pattern in patterns)

    def matches_resource(self, resource: ResourcePattern) -> bool:
        """True if the filter matches the pattern, as Kafka's `ResourcePatternFilter.matches`."""
        if self.type not in (ResourceType.ANY, resource.type):
            return False
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, resource.pattern):
            return False
        if self.name is None:
            return True
        return resource.covers(self.name) if self.pattern is PatternType.MATCH else self.name == resource.name

    def matches_entry(self, entry: AclEntry) -> bool:
        """True if the filter matches the entry, as Kafka's `AccessControlEntryFilter.matches`."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (PermissionType.ANY, entry.permission)
        )

    def takes(self, binding: AclBinding) -> bool:
        """True if the filter matches the ACL."""
        return self.matches_resource(binding.resource) and self.matches_entry(binding.entry)


SUPPORTED_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""Operations on a resource of each type (Kafka's `AclEntry.supportedOperations`)."""

_IMPLYING: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.ALL, Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALL, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}


def spellings(address: str) -> tuple[str, ...]:
    """Return the forms in which an entry may write a client's address: as Java does (zeros not shortened), as others do, and `*`."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return (address, WILDCARD)
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return (address, str(parsed.ipv4_mapped), WILDCARD)
        in_java = ":".join(f"{int(group, 16):x}" for group in parsed.exploded.partition("%")[0].split(":"))
        return (address, parsed.compressed, in_java, WILDCARD)
    return (address, WILDCARD)


def implying(operation: Operation) -> frozenset[Operation]:
    """Return the operations whose permission implies that of `operation`. A denial denies nothing but itself."""
    return _IMPLYING.get(operation) or frozenset({Operation.ALL, operation})


def _chosen_name(kind: IntEnum) -> str | None:
    """Return the name of what a filter selects; None for all."""
    return None if kind.name == "ANY" else pascal_case(kind)


def pascal_case(kind: IntEnum) -> str:
    """Return the name in Pascal case, as in znodes and commands: `TransactionalId`."""
    return "".join(word.capitalize() for word in kind.name.split("_"))


def from_name(kind: type[EnumT], name: str) -> EnumT:
    """Return the member of this name, in Pascal or any other case. Raises ValueError when there is none."""
    try:
        return kind(_NUMBERS[kind][name.upper()])
    except KeyError:
        raise ValueError(f"{name[:80]!r} is no {kind.__name__}") from None


_NUMBERS: Final[dict[type[IntEnum], dict[str, int]]] = {
    kind: {each.name.replace("_", ""): each.value for each in kind}
    for kind in (Operation, ResourceType, PatternType, PermissionType)
}
