"""The authorizer of ACLs in ZooKeeper: Kafka's `AclAuthorizer`, which `authorizer.class.name` names.

A denial wins over what allows; `super.users` may do everything; where no pattern covers a resource, `allow.everyone.if.no.acl.found`
decides. Decisions are kept until an ACL changes. All brokers follow the notices of changes, so a change is obeyed by all of them within
moments; under a new session everything is read again, as notices may have been missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kafkalite.broker.identity.authorizer import Permission
from kafkalite.broker.settings.change_notifications import ChangeNotifications
from kafkalite.controller.acls import AclZnodes, changed_resource
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.security.acl import (
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kafkalite.security.acl_index import AclIndex
from kafkalite.security.principal import KafkaPrincipal
from zk import paths
from zk.store import Store

if TYPE_CHECKING:
    from kafkalite.clock import Clock
    from kafkalite.lifecycle import Jobs
    from kafkalite.portions import Pace, Work
    from zk.session import Session
    from zk.watches import ChildWatch

logger = logging.getLogger("kafkalite.broker.identity.acl_authorizer")

_KEPT_DECISIONS_MAX: Final = 100_000
"""Bound of some 25 MB, which requests for ever new names cannot exceed."""
_READ_AT_ONCE: Final = 200

_Question: TypeAlias = "tuple[str, str, str, Operation, ResourceType, str]"


class Deleted(NamedTuple):
    """The rules that a filter deleted, and the errors of those it could not."""

    bindings: list[AclBinding]
    problems: dict[AclBinding, KafkaError]


class AclAuthorizer:
    """An `Authorizer` by the ACLs in ZooKeeper, of which it keeps a copy in memory.

    Without `may_prefix` there may be brokers that do not obey ACLs of prefixes, and none is created.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        supers: frozenset[KafkaPrincipal],
        allow_if_none: bool,
        may_prefix: bool = True,
    ) -> None:
        self._znodes = AclZnodes(store)
        self._supers, self._allow_if_none, self._may_prefix = supers, allow_if_none, may_prefix
        self.index = AclIndex()
        self.generation = 0
        self._decisions: dict[_Question, bool] = {}
        self._notifications = [
            ChangeNotifications(store, clock, parent, self._take_change)
            for parent in (paths.ACL_CHANGES, paths.ACL_EXTENDED_CHANGES)
        ]
        self._watches: list[ChildWatch] = []

    # Judging

    def allows(self, principal: KafkaPrincipal, host: str, permission: Permission, name: str) -> bool:
        question = (principal.type, principal.name, host, *permission, name)
        decision = self._decisions.get(question)
        if decision is None:
            decision = principal in self._supers or self.index.allows(
                str(principal), host, permission.operation, permission.resource, name, if_none=self._allow_if_none
            )
            if len(self._decisions) >= _KEPT_DECISIONS_MAX:
                self._decisions.clear()
            self._decisions[question] = decision
        return decision

    def allows_some(self, principal: KafkaPrincipal, host: str, permission: Permission) -> bool:
        return principal in self._supers or self.index.allows_some(
            str(principal), host, permission.operation, permission.resource, if_none=self._allow_if_none
        )

    # Following ZooKeeper

    async def start(self, session: Session, jobs: Jobs) -> None:
        """Read all ACLs and follow changes. Raises StoreError, after which it may be called again."""
        await self.stop()
        await self._znodes.create_parents()
        for each in self._notifications:
            watch = each.watch(session, jobs)
            await watch.start()
            self._watches.append(watch)
        await self.load()
        session.on_renewed(self.load)

    async def stop(self) -> None:
        watches, self._watches = self._watches, []
        for watch in watches:
            await watch.stop()

    async def load(self) -> None:
        """Read all ACLs."""
        there = [each async for each in self._znodes.resources()]
        # What is known and not listed is read as well: it may have been made since.
        wanted = list(dict.fromkeys((*there, *self.index.resources())))
        for first in range(0, len(wanted), _READ_AT_ONCE):
            await asyncio.gather(*map(self._read, wanted[first : first + _READ_AT_ONCE]))

    async def _take_change(self, data: bytes) -> None:
        await self._read(changed_resource(data))

    async def _read(self, resource: ResourcePattern) -> None:
        self._replace(resource, (await self._znodes.read(resource)).entries)

    def _replace(self, resource: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        self.index.replace(resource, entries)
        self.generation += 1
        self._decisions.clear()

    # Administration

    async def create(self, resource: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        """Add entries to a pattern. Raises KafkaError, StoreError."""
        if resource.pattern is PatternType.PREFIXED and not self._may_prefix:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "ACLs of prefixes need an inter.broker.protocol.version of 2.0 or newer"
            )
        added = frozenset(entries)
        self._replace(resource, await self._znodes.update(resource, lambda current: current | added))
        logger.info("%s: %d entries were added", resource.name, len(added))

    async def delete(self, filters: list[AclFilter], pace: Pace) -> list[Deleted]:
        """Delete what any filter matches; each ACL is in the outcome of the first filter that matches it. Raises StoreError."""
        outcomes = [Deleted([], {}) for _ in filters]
        named = [pattern for each in filters for pattern in each.named_patterns]
        candidates = dict.fromkeys((*self.index.resources(), *named))
        if all(each.named_patterns for each in filters):
            candidates = dict.fromkeys(named)
        for resource in candidates:
            await pace.unit(len(filters))
            takers = [number for number, each in enumerate(filters) if each.matches_resource(resource)]
            if takers:
                await self._delete_of(resource, takers, filters, outcomes)
        return outcomes

    async def _delete_of(
        self, resource: ResourcePattern, takers: list[int], filters: list[AclFilter], outcomes: list[Deleted]
    ) -> None:
        taken: dict[AclEntry, int] = {}

        def change(current: frozenset[AclEntry]) -> frozenset[AclEntry]:
            taken.clear()
            for entry in sorted(current):
                taker = next((number for number in takers if filters[number].matches_entry(entry)), None)
                if taker is not None:
                    taken[entry] = taker
            return current - taken.keys()

        try:
            self._replace(resource, await self._znodes.update(resource, change))
        except KafkaError as problem:
            logger.error("%s: ACLs cannot be deleted: %s", resource.name, problem)
            change(frozenset(self.index.entries(resource)))
            for entry, taker in taken.items():
                outcomes[taker].problems[AclBinding(resource, entry)] = problem.as_outcome()
        for entry, taker in taken.items():
            outcomes[taker].bindings.append(AclBinding(resource, entry))

    def find(self, wanted: AclFilter) -> Work[dict[ResourcePattern, list[AclEntry]]]:
        """Return the entries that a filter matches, by pattern."""
        found: dict[ResourcePattern, list[AclEntry]] = {}
        for resource in wanted.named_patterns or self.index.resources():
            yield
            if wanted.matches_resource(resource):
                for entry in sorted(self.index.entries(resource)):
                    yield
                    if wanted.matches_entry(entry):
                        found.setdefault(resource, []).append(entry)
        return found
