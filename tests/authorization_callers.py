"""Callers that have one permission each, what they may and may not, and what an answer says of it: see `authorization_cases`.

Everybody is User:ANONYMOUS; callers are told apart by the address that they come from. A caller has its permission for what begins
with `m-`, but not for `m-denied` nor for what begins with `m-not`, for what is called `literal`, and none for `other`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafkalite.errors import ErrorCode
from kafkalite.protocol.apis import ApiKey
from kafkalite.protocol.messages import Message
from kafkalite.security.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclEntry,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    pascal_case,
)

OPEN, DENIED, OTHER, PREFIX = "m-open", "m-denied", "other", "m-"
LITERAL, BARRED, BARRED_PREFIX = "literal", "m-not-this", "m-not"
NAMES: Final = (OPEN, DENIED, OTHER, LITERAL, BARRED)
NOBODY: Final = "127.0.2.1"
ALL_OF_IT: Final = "127.0.2.2"
"""Who has all permissions."""
ANONYMOUS: Final = "User:ANONYMOUS"
_NOT_ASKED: Final = -(2**31)
REFUSALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class Case(NamedTuple):
    """A request, and in which versions it is asked."""

    key: ApiKey
    request: Message
    first: int = 0
    name: str = ""
    last: int = 99

    def __str__(self) -> str:
        return f"{self.key.name}{' ' if self.name else ''}{self.name}"


def callers() -> dict[str, tuple[ResourceType, Operation]]:
    """The one permission of each caller, by its address; `NOBODY` has none."""
    permissions = [
        (resource, operation)
        for resource, operations in SUPPORTED_OPERATIONS.items()
        if resource < ResourceType.DELEGATION_TOKEN
        for operation in operations
    ]
    return {f"127.0.1.{number}": each for number, each in enumerate(permissions, 1)}


def rules() -> Iterator[tuple[ResourcePattern, AclEntry]]:
    """What gives callers their permissions."""
    of_all = [
        (ALL_OF_IT, (type_, Operation.ALL)) for type_ in SUPPORTED_OPERATIONS if type_ < ResourceType.DELEGATION_TOKEN
    ]
    for host, (type_, operation) in (*callers().items(), *of_all):
        allowed = AclEntry(ANONYMOUS, host, operation, PermissionType.ALLOW)
        yield from ((pattern, allowed._replace(permission=how)) for pattern, how in patterns(type_))


def patterns(type_: ResourceType) -> list[tuple[ResourcePattern, PermissionType]]:
    """What a caller may, and may not, of a type of resources."""
    if type_ is ResourceType.CLUSTER:
        return [(ResourcePattern(type_, CLUSTER_NAME), PermissionType.ALLOW)]
    return [
        (ResourcePattern(type_, PREFIX, PatternType.PREFIXED), PermissionType.ALLOW),
        (ResourcePattern(type_, LITERAL), PermissionType.ALLOW),
        (ResourcePattern(type_, DENIED), PermissionType.DENY),
        (ResourcePattern(type_, BARRED_PREFIX, PatternType.PREFIXED), PermissionType.DENY),
    ]


def told(permission: tuple[ResourceType, Operation] | None) -> str:
    return "nothing" if permission is None else " ".join(pascal_case(each) for each in permission)


def refused(answer: Any) -> list[str]:
    """The refusals in an answer, each with the names beside it: `m-denied TOPIC_AUTHORIZATION_FAILED`."""
    return sorted(_refused(answer, ""))


def _refused(part: Any, name: str) -> Iterator[str]:
    for field in part.FIELDS:
        value = getattr(part, field.name)
        if isinstance(value, str) and value in NAMES:
            name = value
    for field in part.FIELDS:
        value = getattr(part, field.name)
        if field.name.endswith("error_code") and field.name != "topic_config_error_code" and value in REFUSALS:
            yield f"{name} {ErrorCode(value).name}".strip()
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "FIELDS"):
                    yield from _refused(each, name)


def outcome(answer: Any, topic_ids: Mapping[str, bytes]) -> str:
    """The errors and the names in an answer, and what it says may be done; ids stand for the names of their topics."""
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    return f"{sorted(_errors(answer, '', names))} of {sorted(names_in(answer, names))}"


def _errors(part: Any, name: str, names: Mapping[bytes, str]) -> Iterator[str]:
    values = {field.name: getattr(part, field.name) for field in part.FIELDS}
    for value in values.values():
        if isinstance(value, str) and value in NAMES:
            name = value
        elif isinstance(value, bytes) and value in names:
            name = names[value]
    for field, value in values.items():
        if field.endswith("error_code") and value:
            yield f"{name} {ErrorCode(value).name}".strip()
        elif field.endswith("authorized_operations") and value != _NOT_ASKED:
            yield f"{name} {field} {value:b}".strip()
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "FIELDS"):
                    yield from _errors(each, name, names)


def names_in(part: Any, names: Mapping[bytes, str] | None = None) -> set[str]:
    """The names of the matrix that an answer has, those of topics that it has by their ids (`names`) among them."""
    found: set[str] = set()
    for field in part.FIELDS:
        value = getattr(part, field.name)
        for each in value if isinstance(value, list) else [value]:
            if hasattr(each, "FIELDS"):
                found |= names_in(each, names)
            elif isinstance(each, str) and each in NAMES:
                found.add(each)
            elif isinstance(each, bytes) and names and each in names:
                found.add(f"the id of {names[each]}")
    return found
