"""Brings back what administrators have changed in the target since the switch: reads both sides, carries out what `changes` plans, and
compares again.

What is begun is on disk before: topics by their id in the target, everything else by its identity. So a call after one that died knows its
own work. A topic of the source is the command's own only by the id with which a broker has answered its creation: another client may make
one of that name at the same moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.mirror.administered import scram_users
from kafkalite.cli.mirror.administered.reading import read_administered
from kafkalite.cli.mirror.administered.state import Administered
from kafkalite.cli.mirror.back.changes import (
    Change,
    ChangePlan,
    Kind,
    Source,
    WantedBack,
    find_leavable,
    is_left,
    plan_changes,
)
from kafkalite.cli.mirror.plan import KnownTopic
from kafkalite.client.errors import AdminError, ClientError
from kafkalite.config.topic import TOPIC_KEYS
from kafkalite.errors import ErrorCode
from kafkalite.security.acl import AclBinding, AclFilter

if TYPE_CHECKING:
    from kafkalite.cli.mirror.clusters import Clusters
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorState
    from kafkalite.client import NewTopic

_QUOTAS: Final = frozenset(
    {
        "consumer_byte_rate",
        "producer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
    }
)
"""Keys of quotas in Kafka 3.9."""


class BringingBack:
    """Keeps the source set as administrators have set the target since the switch."""

    def __init__(self, clusters: Clusters, files: MirrorDirectory, state: MirrorState, wanted: WantedBack) -> None:
        """Raises MirrorFileError."""
        self._clusters, self._files, self._state = clusters, files, state
        self.wanted = wanted
        self._at_switch = files.read_at_switch()
        self.planned: dict[str, Change] = {}
        """All changes that were ever to be made, by identity."""
        self._left: list[Change] = []
        self.notes: list[str] = []

    def count(self) -> tuple[int, int]:
        """Return how many changes the source has at the last comparison, and how many were planned in all."""
        missing = {each.identity for each in self._left}
        return len(self.planned.keys() - missing), len(self.planned)

    def is_left(self, name: str) -> bool:
        """True for a topic that is left in the target though it was begun in the source."""
        then = Administered() if self._at_switch is None else self._at_switch.target
        return is_left(name, self._state.topics, then, self.wanted)

    async def find_leavable(self) -> list[str] | None:
        """Return the topics of the target that can be left there, None where the directory does not tell what was there at the switch.

        Raises ClientError, OSError.
        """
        if self._at_switch is None:
            return None
        return find_leavable(self._at_switch, await self._read(of_target=True), self._state.topics)

    async def plan(self) -> ChangePlan:
        """Return what is to be done now. Raises ClientError, OSError."""
        source, target = await self._read_both()
        return self._plan(source, target)

    async def validate(self, plan: ChangePlan) -> list[str]:
        """Return what the source's brokers would refuse. Raises ClientError, OSError."""
        return await self._alter(plan, validate_only=True)

    async def bring_back(self) -> tuple[list[str], list[str]]:
        """Do once what is to be done; return what is wrong, and what the source still lacks. Raises ClientError, OSError."""
        plan = await self.plan()
        self.planned |= {each.identity: each for each in plan.changes}
        self._left = plan.changes
        problems = list(plan.problems)
        if plan.changes:
            self._note_begun(plan)
            problems += await self._delete_topics(plan)
            problems += await self._alter(plan, validate_only=False)
            plan = await self.plan()
            self._left = plan.changes
            problems += [each for each in plan.problems if each not in problems]
        return problems, [f"not in the source yet: {each}" for each in self._left]

    async def _read_both(self) -> tuple[Administered, Administered]:
        source, target = await asyncio.gather(self._read(of_target=False), self._read(of_target=True))
        return source, target

    async def _read(self, *, of_target: bool) -> Administered:
        clusters, known = self._clusters, self._state.topics.keys()
        if of_target:
            return await read_administered(clusters.target, clusters.target_cluster, "target", known)
        return await read_administered(clusters.source, clusters.source_cluster, "source", known)

    def _plan(self, source: Administered, target: Administered) -> ChangePlan:
        can_have = Source(len(self._clusters.source_cluster.view.brokers), TOPIC_KEYS.keys(), _QUOTAS)
        plan = plan_changes(self._at_switch, source, target, self._state.topics, can_have, self.wanted)
        then = target.users if self._at_switch is None else self._at_switch.target.users
        self.notes = plan.left_out + scram_users.tell_changes(then, target.users, source.users)
        return plan

    def _note_begun(self, plan: ChangePlan) -> None:
        for name, topic in plan.creations.items():
            self._state.topics[name] = KnownTopic("", topic.topic_id, is_unconfirmed=True)
        if plan.creations:
            self._files.write_state(self._state)
        begun = {each.identity for each in plan.changes if each.kind not in (Kind.TOPIC, Kind.PARTITIONS)}
        if self._at_switch is not None and not begun <= self._at_switch.brought_back:
            self._at_switch.brought_back |= begun
            self._files.write_at_switch(self._at_switch)

    async def _create_topics(self, topics: list[NewTopic]) -> list[str]:
        """Create topics in the source, and write down which ones they are; return what is wrong."""
        problems: list[str] = []
        try:
            created = await self._clusters.source.create_topics(topics)
        except AdminError as problem:
            problems = [str(each) for each in problem.failures.values()]
            created = list(problem.done.values())
        for each in created:
            begun = self._state.topics[each.name]
            self._state.topics[each.name] = KnownTopic(each.topic_id, begun.target_id)
        if created:
            self._files.write_state(self._state)
        return problems

    async def _delete_topics(self, plan: ChangePlan) -> list[str]:
        """Delete topics in the source that the target has lost, asked for each of them by name; return what is wrong."""
        problems = []
        for name in plan.deletions:
            if not await self._is_gone(name):
                problems.append(f"topic {name} is not deleted in the source: the target has it")
                continue
            problems += await _attempt(self._clusters.source.delete_topics([name]))
        return problems

    async def _is_gone(self, name: str) -> bool:
        """True if the target says that it has no such topic, not only that it does not show one, or has another of that name."""
        try:
            (found,) = await self._clusters.target.describe_topics([name])
        except ClientError as problem:
            if problem.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return True
        return found.topic_id != self._state.topics[name].target_id

    async def _alter(self, plan: ChangePlan, *, validate_only: bool) -> list[str]:
        """Carry out all but deletions, or ask whether it can be done; return what was refused."""
        from kafkalite.client import ConfigChange, ConfigResource, NewPartitions, NewTopic

        source = self._clusters.source
        topics = [
            NewTopic(name, each.partitions, each.replicas, topic_configs=each.settings)
            for name, each in plan.creations.items()
        ]
        partitions = {name: NewPartitions(count) for name, count in plan.partitions.items()}
        settings = {
            ConfigResource("topic", name): [
                ConfigChange(key, "delete" if value is None else "set", value) for key, value in changes.items()
            ]
            for name, changes in plan.settings.items()
        }
        problems: list[str] = []
        if topics and validate_only:
            problems += await _attempt(source.create_topics(topics, validate_only=True))
        elif topics:
            problems += await self._create_topics(topics)
        if partitions:
            problems += await _attempt(source.create_partitions(partitions, validate_only=validate_only))
        if settings:
            problems += await _attempt(source.incremental_alter_configs(settings, validate_only=validate_only))
        if plan.quotas:
            problems += await _attempt(source.alter_client_quotas(plan.quotas, validate_only=validate_only))
        if plan.new_acls and not validate_only:
            problems += await _attempt(source.create_acls(plan.new_acls))
        if plan.old_acls and not validate_only:
            problems += await _attempt(source.delete_acls([_filter_of(each) for each in plan.old_acls]))
        return [f"the source refuses: {each}" for each in problems]


def _filter_of(acl: AclBinding) -> AclFilter:
    """Return the filter that takes this ACL alone."""
    resource, entry = acl
    return AclFilter(*resource, entry.principal, entry.host, entry.operation, entry.permission)


async def _attempt(call: Awaitable[Any]) -> list[str]:
    """Return what failed of a call for several items."""
    try:
        await call
    except AdminError as problem:
        return [str(each) for each in problem.failures.values()]
    return []
