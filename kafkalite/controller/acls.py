"""ACLs in ZooKeeper, in the form of Kafka's AclAuthorizer (KIP-290), whose brokers and tools read and write them too."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.security.acl import (
    EVERYBODY,
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    from_name,
    pascal_case,
)
from zk import paths
from zk.announcements import change_and_announce
from zk.store import BadVersionError, Create, Delete, NodeExistsError, NoNodeError, Store, Write
from zk.subtree import ensure_path
from zk.znodes import AclChange, AclWords, MalformedZnodeError, ResourceAcls

logger = logging.getLogger("kafkalite.controller.acls")

RESOURCE_TYPES: Final = tuple(each for each in ResourceType if each is not ResourceType.ANY)
_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
NOBODY: Final = frozenset({AclEntry(EVERYBODY, WILDCARD, Operation.ALL, PermissionType.DENY)})
"""The entries of an unreadable znode: it may contain a denial, so everybody is denied."""


class StoredAcls(NamedTuple):
    """The entries of a pattern; `version` of the znode, None if it is absent; entries with words unknown to this version."""

    entries: frozenset[AclEntry]
    version: int | None = None
    unknown: tuple[AclWords, ...] = ()


def acl_path(resource: ResourcePattern) -> str:
    return paths.resource_acls(pascal_case(resource.type), resource.name, resource.pattern is PatternType.PREFIXED)


class AclZnodes:
    """Reads and writes ACLs. Every method may raise a StoreError.

    A change is a conditional write of the pattern's znode, repeated on conflict, with a notification for all brokers. Entries
    with unknown words stay in the znode and have no effect. An unreadable znode denies everything about its pattern (Apache
    Kafka does not start, or keeps the earlier entries).
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create_parents(self) -> None:
        """Create the parents of all patterns and notifications."""
        for path in (paths.ACL_CHANGES, paths.ACL_EXTENDED_CHANGES):
            await ensure_path(self._store, path)
        for is_prefixed in (False, True):
            for each in RESOURCE_TYPES:
                await ensure_path(self._store, paths.acls_of_type(pascal_case(each), is_prefixed))

    async def resources(self) -> AsyncIterator[ResourcePattern]:
        """Yield every pattern that has a znode."""
        for pattern in _PATTERNS:
            for type_ in RESOURCE_TYPES:
                parent = paths.acls_of_type(pascal_case(type_), pattern is PatternType.PREFIXED)
                try:
                    names = await self._store.children(parent)
                except NoNodeError:
                    continue
                for name in names:
                    yield ResourcePattern(type_, name, pattern)

    async def read(self, resource: ResourcePattern) -> StoredAcls:
        """Return the entries of a pattern; those of an unreadable znode are `NOBODY`, which is logged."""
        path = acl_path(resource)
        try:
            data, stat = await self._store.read(path)
        except NoNodeError:
            return StoredAcls(frozenset())
        try:
            return _to_stored_acls(ResourceAcls.decode(data), stat.version)
        except MalformedZnodeError as problem:
            logger.error("%s: %s; everybody but super users is denied until it is repaired or deleted", path, problem)
            return StoredAcls(NOBODY, stat.version)

    async def update(
        self, resource: ResourcePattern, change: Callable[[frozenset[AclEntry]], frozenset[AclEntry]]
    ) -> frozenset[AclEntry]:
        """Apply `change` to the entries of a pattern, write and announce them if they differ, and return them.

        Raises KafkaError INVALID_REQUEST for a name that no znode can have, UNKNOWN_SERVER_ERROR for an unreadable znode.
        """
        path = acl_path(resource)
        try:
            paths.check(path)
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no resource can be named {resource.name!r}") from None
        while True:
            stored = await self.read(resource)
            if stored.entries is NOBODY:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{path} is unreadable; repair or delete it")
            wanted = change(stored.entries)
            if wanted == stored.entries:
                return wanted
            try:
                await change_and_announce(self._store, _build_change(path, stored, wanted), _build_notice(resource))
                return wanted
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue


def _build_change(path: str, stored: StoredAcls, wanted: frozenset[AclEntry]) -> Create | Write | Delete:
    words = (*(_to_words(entry) for entry in sorted(wanted)), *stored.unknown)
    if stored.version is None:
        return Create(path, ResourceAcls(words).encode())
    return Write(path, ResourceAcls(words).encode(), stored.version) if words else Delete(path, stored.version)


def _build_notice(resource: ResourcePattern) -> Create:
    is_literal = resource.pattern is PatternType.LITERAL
    prefix = paths.ACL_CHANGE_PREFIX if is_literal else paths.ACL_EXTENDED_CHANGE_PREFIX
    return Create(prefix, AclChange(resource.type.name, resource.name, resource.pattern.name).encode(), sequence=True)


def changed_resource(data: bytes) -> ResourcePattern:
    """Return the pattern in a notification. Raises MalformedZnodeError."""
    change = AclChange.decode(data)
    try:
        return ResourcePattern(
            from_name(ResourceType, change.resource_type.replace("_", "")),
            change.name,
            from_name(PatternType, change.pattern_type),
        )
    except ValueError as problem:
        raise MalformedZnodeError("ACL change", str(problem)) from None


def _to_words(entry: AclEntry) -> AclWords:
    return AclWords(entry.principal, pascal_case(entry.permission), pascal_case(entry.operation), entry.host)


def _to_stored_acls(stored: ResourceAcls, version: int) -> StoredAcls:
    entries, unknown = [], []
    for words in stored.acls:
        if ":" not in words.principal:
            raise MalformedZnodeError("ACL", f"{words.principal[:80]!r} is no principal")
        try:
            operation = from_name(Operation, words.operation)
            permission = from_name(PermissionType, words.permission_type)
        except ValueError:
            unknown.append(words)
        else:
            entries.append(AclEntry(words.principal, words.host, operation, permission))
    return StoredAcls(frozenset(entries), version, tuple(unknown))
