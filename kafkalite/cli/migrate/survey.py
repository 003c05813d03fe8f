"""What a migration has to know of a cluster: its brokers with kind, release and settings, and what is kept in ZooKeeper. Reads only.

The kind of a broker shows in its settings: ours describes all that it has, with their defaults, and some of them Apache Kafka lacks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from kafkalite import NAME, OWN_SETTINGS
from kafkalite.administration.broker_releases import Release, find_release
from zk import paths
from zk.subtree import list_children, read_if_there
from zk.znodes import ClusterId, ConfigEntity, Feature, ResourceAcls, TopicAssignment

if TYPE_CHECKING:
    from kafkalite.cli.doctor.cluster import Reached
    from kafkalite.client import Admin
    from kafkalite.client.admin.configs import ConfigEntry
    from zk.store import Store

_MARGIN_MS: Final = 60_000
"""A coordinator ends a transaction at its timeout, looking every 10 s; one that is open a minute later is not ended by it."""


class Side(StrEnum):
    """The two programs that a broker may be."""

    KAFKALITE = NAME
    APACHE_KAFKA = "apache-kafka"


NAMES: Final[Mapping[Side, str]] = {Side.KAFKALITE: NAME, Side.APACHE_KAFKA: "Apache Kafka"}


@dataclass(frozen=True, slots=True)
class SurveyedBroker:
    """A registered broker. `problem` says why it could not be asked; without an answer it has no release and no settings."""

    id: int
    address: str
    side: Side | None = None
    release: Release | None = None
    settings: Mapping[str, ConfigEntry] = field(default_factory=dict)
    problem: str | None = None

    def value_of(self, name: str) -> str | None:
        """Return the value of a setting; None when it is not set, is a secret, or the broker does not have it."""
        entry = self.settings.get(name)
        return None if entry is None else entry.value


@dataclass(frozen=True, slots=True)
class SurveyedMetadata:
    """The state in ZooKeeper. Settings and quotas are by the entity's path below `/config`: `topics/t`, `users/u/clients/c`."""

    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    acls: int = 0
    tokens: int = 0
    features: Mapping[str, int] = field(default_factory=dict)
    moving: tuple[str, ...] = ()
    deleting: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    """What znodes are malformed, with the reason."""
    cluster_id: str | None = None
    """That of ZooKeeper; None where it has none, as below a wrong chroot."""


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """Numbers of transactions that are going on, and the ids of those that their coordinators have not ended in time."""

    ongoing: int
    overdue: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found. `transactions` is None where brokers cannot list them (before 3.0)."""

    cluster_id: str | None
    controller: int
    brokers: tuple[SurveyedBroker, ...]
    metadata: SurveyedMetadata = SurveyedMetadata()
    transactions: OpenTransactions | None = None


def side_of(settings: Mapping[str, ConfigEntry]) -> Side:
    """Return which program has these settings. Apache Kafka also describes unknown ones of its file, but never with a default."""
    ours = any(name.startswith(OWN_SETTINGS) and entry.is_default for name, entry in settings.items())
    return Side.KAFKALITE if ours else Side.APACHE_KAFKA


async def survey_brokers(admin: Admin, security: Mapping[str, Any], timeout_s: float) -> Survey:
    """Return brokers and transactions. `security` are options of `Connection.open`. Raises ClientError when nobody answers."""
    from kafkalite.cli.doctor.cluster import reach_broker

    described = await admin.describe_cluster()
    reached = await asyncio.gather(*[reach_broker(each, security, timeout_s) for each in described.brokers])
    brokers = await asyncio.gather(*[_survey_broker(admin, each) for each in reached])
    return Survey(
        described.cluster_id,
        described.controller_id,
        tuple(sorted(brokers, key=lambda each: each.id)),
        transactions=await find_transactions(admin, int(time.time() * 1000)),
    )


async def _survey_broker(admin: Admin, reached: Reached) -> SurveyedBroker:
    from kafkalite.client.errors import ClientError
    from kafkalite.server_addresses import address_text

    node = reached.broker
    found = SurveyedBroker(node.id, address_text(node.host, node.port), problem=reached.problem)
    if reached.problem is not None:
        return found
    try:
        settings = await admin.describe_configs("broker", str(node.id))
    except ClientError as failed:
        return SurveyedBroker(found.id, found.address, release=find_release(reached.versions), problem=str(failed))
    return SurveyedBroker(found.id, found.address, side_of(settings), find_release(reached.versions), settings)


async def find_transactions(admin: Admin, now_ms: int) -> OpenTransactions | None:
    """Return the open transactions, None where a broker cannot list them. Raises ClientError."""
    from kafkalite.client.errors import AdminError, ClientError
    from kafkalite.errors import ErrorCode

    try:
        listed = await admin.list_transactions(("Ongoing", "PrepareCommit", "PrepareAbort"))
    except ClientError as failed:
        if failed.code is ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise
    overdue = []
    for name in [each.transactional_id for each in listed]:
        try:
            found = (await admin.describe_transactions([name]))[name]
        except AdminError:  # it has ended, and was forgotten meanwhile
            continue
        if found.start_time_ms is not None and found.start_time_ms + found.timeout_ms + _MARGIN_MS < now_ms:
            overdue.append(name)
    return OpenTransactions(len(listed), tuple(overdue))


async def survey_metadata(store: Store, chroot: str = "") -> SurveyedMetadata:
    """Read what is in ZooKeeper. Raises StoreError."""
    reading = _Reading(store, chroot)
    features = await reading.decode(paths.FEATURE, Feature.decode)
    cluster = await reading.decode(paths.CLUSTER_ID, ClusterId.decode)
    topics = await reading.decode_children(paths.TOPICS, TopicAssignment.decode)
    return SurveyedMetadata(
        await reading.settings(),
        await reading.count_acls(),
        len(await list_children(store, chroot + paths.DELEGATION_TOKENS)),
        {} if features is None else features.features,
        tuple(sorted(name for name, each in topics.items() if each.adding or each.removing)),
        tuple(await list_children(store, chroot + paths.DELETE_TOPICS)),
        tuple(reading.unreadable),
        None if cluster is None else cluster.cluster_id,
    )


async def read_cluster_id(store: Store, chroot: str = "") -> str | None:
    """Return the id of the cluster below the chroot, None where there is none. Raises StoreError, ValueError for a malformed one."""
    found = await read_if_there(store, chroot + paths.CLUSTER_ID)
    return None if found is None else ClusterId.decode(found[0]).cluster_id


class _Reading:
    """Reads znodes and keeps what is malformed in `unreadable`."""

    def __init__(self, store: Store, chroot: str) -> None:
        self._store, self._chroot = store, chroot
        self.unreadable: list[str] = []

    async def decode(self, path: str, decode: Callable[[bytes], Any]) -> Any:
        """Return a decoded znode, None for one that is absent or malformed."""
        found = await read_if_there(self._store, self._chroot + path)
        return None if found is None else self._decode(path, found[0], decode)

    def _decode(self, path: str, data: bytes, decode: Callable[[bytes], Any]) -> Any:
        try:
            return decode(data)
        except ValueError as failed:
            self.unreadable.append(f"{path}: {failed}")
            return None

    async def decode_children(self, parent: str, decode: Callable[[bytes], Any]) -> dict[str, Any]:
        """Return the decoded children of a znode by name, those that are there and well-formed."""
        names = await list_children(self._store, self._chroot + parent)
        read = await self._store.read_many([self._chroot + paths.child(parent, name) for name in names])
        decoded = {
            name: self._decode(paths.child(parent, name), found[0], decode)
            for name, found in zip(names, read, strict=True)
            if found is not None
        }
        return {name: each for name, each in decoded.items() if each is not None}

    async def settings(self) -> dict[str, Mapping[str, str]]:
        """Return all that is set, by the entity's path below `/config`; entities without anything are left out."""
        found: dict[str, Mapping[str, str]] = {}
        for parent in (paths.CONFIG_TOPICS, paths.CONFIG_CLIENTS, paths.CONFIG_USERS, paths.CONFIG_IPS):
            await self._collect(parent, found)
        users = await list_children(self._store, self._chroot + paths.CONFIG_USERS)
        for user in users:
            await self._collect(paths.user_clients(user), found)
        return found

    async def _collect(self, parent: str, found: dict[str, Mapping[str, str]]) -> None:
        for name, entity in (await self.decode_children(parent, ConfigEntity.decode)).items():
            if entity.config:
                found[paths.child(parent, name).removeprefix(f"{paths.CONFIG}/")] = entity.config

    async def count_acls(self) -> int:
        """Return the number of ACLs of all patterns."""
        return await self._count_acls(paths.ACL) + await self._count_acls(paths.ACL_PREFIXED)

    async def _count_acls(self, parent: str) -> int:
        count = 0
        for kind in await list_children(self._store, self._chroot + parent):
            patterns = await self.decode_children(paths.child(parent, kind), ResourceAcls.decode)
            count += sum(len(each.acls) for each in patterns.values())
        return count
