"""All access control lists of a cluster, and what follows from them (Kafka's `AclAuthorizer`). Pure.

A question looks at few entries however many there are: those of the resource's name, of `*`, and of the prefixes of the name, one
look-up for each length that some prefix has; and of each of these only the entries of the principal and of everybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from kafkalite.security.acl import (
    EVERYBODY,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    implying,
    spellings,
)

_ByPrincipal: TypeAlias = dict[str, tuple[AclEntry, ...]]
_Key: TypeAlias = tuple[AclEntry, ResourceType, PatternType]


class AclIndex:
    """All ACLs of a cluster, indexed by resource and principal. Its one owner changes it by `replace`."""

    def __init__(self) -> None:
        self._resources: dict[ResourcePattern, _ByPrincipal] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        self._names: dict[_Key, dict[str, None]] = {}
        """The resources that have an entry, for questions about a type of resources."""

    def __len__(self) -> int:
        """Return the number of resources with entries."""
        return len(self._resources)

    def __contains__(self, resource: ResourcePattern) -> bool:
        return resource in self._resources

    def resources(self) -> list[ResourcePattern]:
        return list(self._resources)

    def entries(self, resource: ResourcePattern) -> Iterator[AclEntry]:
        """Return the entries of exactly this pattern."""
        for entries in self._resources.get(resource, {}).values():
            yield from entries

    def bindings(self, wanted: AclFilter) -> Iterator[AclBinding]:
        """Yield every rule that a filter matches; few patterns are examined where it names them."""
        named = wanted.named_patterns
        for resource in named or list(self._resources):
            if wanted.matches_resource(resource):
                for entry in self.entries(resource):
                    if wanted.matches_entry(entry):
                        yield AclBinding(resource, entry)

    def replace(self, resource: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        """Replace the entries of the pattern; without entries it is removed."""
        before, now = set(self.entries(resource)), set(entries)
        for entry in before - now:
            key = (entry, resource.type, resource.pattern)
            del self._names[key][resource.name]
            if not self._names[key]:
                del self._names[key]
        for entry in now - before:
            self._names.setdefault((entry, resource.type, resource.pattern), {})[resource.name] = None
        self._count_prefix(resource, bool(now) - bool(before))
        by_principal: dict[str, list[AclEntry]] = {}
        for entry in now:
            by_principal.setdefault(entry.principal, []).append(entry)
        if now:
            self._resources[resource] = {principal: tuple(some) for principal, some in by_principal.items()}
        else:
            self._resources.pop(resource, None)

    def _count_prefix(self, resource: ResourcePattern, change: int) -> None:
        if resource.pattern is PatternType.PREFIXED and change:
            lengths = self._prefix_lengths.setdefault(resource.type, Counter())
            length = len(resource.name)
            lengths[length] += change
            if not lengths[length]:
                del lengths[length]

    def allows(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        if_none: bool = False,
    ) -> bool:
        """True if `principal` may do this from the address `host`. `if_none` where no pattern covers the resource.

        A denial takes precedence over any permission.
        """
        allowing, hosts, is_covered, is_allowed = implying(operation), spellings(host), False, False
        for by_principal in self._covering(resource_type, name):
            is_covered = True
            for who in (principal, EVERYBODY):
                for entry in by_principal.get(who, ()):
                    if entry.host not in hosts:
                        continue
                    if entry.permission is PermissionType.ALLOW:
                        is_allowed = is_allowed or entry.operation in allowing
                    elif entry.operation in (operation, Operation.ALL):
                        return False
        return is_allowed if is_covered else if_none

    def _covering(self, resource_type: ResourceType, name: str) -> Iterator[_ByPrincipal]:
        resources = self._resources
        for literal in (name, WILDCARD):
            if (found := resources.get(ResourcePattern(resource_type, literal))) is not None:
                yield found
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                found = resources.get(ResourcePattern(resource_type, name[:length], PatternType.PREFIXED))
                if found is not None:
                    yield found

    def allows_some(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, *, if_none: bool = False
    ) -> bool:
        """True if `principal` may do this to some resource of a type (KIP-679), as Kafka's `AclAuthorizer.authorizeByResourceType`."""

        def find_names(permission: PermissionType, pattern: PatternType) -> list[Mapping[str, None]]:
            found = [
                self._names.get((AclEntry(who, where, what, permission), resource_type, pattern))
                for who in dict.fromkeys((principal, EVERYBODY))
                for where in dict.fromkeys(spellings(host))
                for what in (operation, Operation.ALL)
            ]
            return [each for each in found if each is not None]

        denied = find_names(PermissionType.DENY, PatternType.LITERAL)
        if any(WILDCARD in names for names in denied):
            return False
        if if_none:
            return True
        denied_prefixes = find_names(PermissionType.DENY, PatternType.PREFIXED)

        def is_free(name: str) -> bool:
            return not any(name[:end] in names for names in denied_prefixes for end in range(1, len(name) + 1))

        if any(is_free(prefix) for names in find_names(PermissionType.ALLOW, PatternType.PREFIXED) for prefix in names):
            return True
        return any(
            name == WILDCARD or (is_free(name) and not any(name in names for names in denied))
            for names in find_names(PermissionType.ALLOW, PatternType.LITERAL)
            for name in names
        )
