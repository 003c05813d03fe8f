"""The sources of the cluster's state: ZooKeeper, and single brokers, each asked once, without retries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kafkalite.client import BrokerNode
from kafkalite.client.admin.topics import describe_topic_view
from kafkalite.client.cluster.client import ClusterClient, version_for
from kafkalite.client.cluster.view import ClusterView, drop_unreliable_epochs, views_of
from kafkalite.console.membership import UNTOLD_CONTROLLER, Registered, Registration, Told
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.types import NO_BROKER, TopicPartition
from zk import paths
from zk.store import NoNodeError, Stat
from zk.znodes.brokers import BrokerRegistration
from zk.znodes.controller import ControllerSeat
from zk.znodes.fields import MalformedZnodeError
from zk.znodes.topics import PartitionState

if TYPE_CHECKING:
    from kafkalite.client.options import ConnectionOptions
    from kafkalite.clock import Clock
    from kafkalite.net.connection import Connection
    from zk.store import Store, WatchEvent

_LONGEST_S = 10.0
"""Longest wait for an answer; then the connection ends, and the next request opens another one."""


class BrokerSource(Protocol):
    """What the survey of the state asks brokers for. All methods raise OSError (also TimeoutError) and ClientError."""

    @property
    def servers(self) -> Sequence[tuple[str, int]]:
        """Return the addresses to begin with."""

    async def ask_members(self, host: str, port: int) -> Told:
        """Return the brokers and the controller as the broker at an address knows them."""

    async def ask_topics(self, host: str, port: int) -> Told:
        """Return the same with all topics, over a connection of its own."""

    async def close(self) -> None: ...


class ZooKeeperSource(Protocol):
    """What the survey of the state asks ZooKeeper for. All methods raise StoreError, and wait as long as there is no connection."""

    async def ask_registered(self, on_change: Callable[[], object]) -> Registered:
        """Return the registered brokers and the controller; `on_change` is called once when either changes."""

    async def ask_states(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[PartitionState, Stat]]:
        """Return the states of partitions with the stats of their znodes, without those that are not there."""


class BrokerConnections:
    """The brokers of a cluster, each with a connection for members and one for topics, opened when they are needed."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._cluster = ClusterClient(options)
        self._open: dict[tuple[str, int, bool], Connection] = {}

    @property
    def servers(self) -> Sequence[tuple[str, int]]:
        return self._cluster.servers

    async def ask_members(self, host: str, port: int) -> Told:
        """Return the members as the broker at an address knows them. Raises OSError, ClientError."""
        return await self._ask(host, port, with_topics=False)

    async def ask_topics(self, host: str, port: int) -> Told:
        """Return the members and all topics as the broker at an address knows them. Raises OSError, ClientError."""
        return await self._ask(host, port, with_topics=True)

    async def _ask(self, host: str, port: int, *, with_topics: bool) -> Told:
        """Ask over the open connection; one whose request is cancelled is closed, so that answers nobody waits for do not pile up."""
        place = host, port, with_topics
        connection = self._open.get(place)
        if connection is None or connection.closed:
            async with asyncio.timeout(_LONGEST_S):
                connection = self._open[place] = await self._cluster.open_separate(host, port)
        request = messages.metadata_request.MetadataRequest(
            topics=None if with_topics else [], allow_auto_topic_creation=False
        )
        try:
            version = version_for(connection, request)
            response = drop_unreliable_epochs(await connection.request(request, version, _LONGEST_S), version)
        except BaseException:
            connection.close()
            raise
        if _is_of_kraft(connection):
            response.controller_id = UNTOLD_CONTROLLER
        if not with_topics:
            return _members_of(ClusterView().with_metadata(response))
        view = ClusterView()
        for view in views_of(response):  # noqa: B007 -- the last one is whole
            await asyncio.sleep(0)
        members = _members_of(view)
        topics = {name: describe_topic_view(view.topics[name]) for name in sorted(view.topics)}
        return Told(members.cluster_id, members.controller_id, members.brokers, topics)

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()
        await self._cluster.close()


def _is_of_kraft(connection: Connection) -> bool:
    """True if the broker serves what only brokers with KRaft do, and not what a controller sends to brokers with ZooKeeper."""

    def serves(api: ApiKey) -> bool:
        try:
            connection.version_of(api)
        except ValueError:
            return False
        return True

    return serves(ApiKey.UNREGISTER_BROKER) and not serves(ApiKey.UPDATE_METADATA)


def _members_of(view: ClusterView) -> Told:
    return Told(view.cluster_id, view.controller_id, dict(sorted(view.brokers.items())))


class ZooKeeperStore:
    """ZooKeeper as the console's store reaches it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._on_change: Callable[[], object] = lambda: None

    async def ask_registered(self, on_change: Callable[[], object]) -> Registered:
        """Return brokers and controller. A registration that cannot be read has no address."""
        self._on_change = on_change
        asked_ms = self._clock.monotonic_ms()
        ids = [int(name) for name in await self._store.children(paths.BROKER_IDS, self._notify) if name.isdecimal()]
        found = await self._store.read_many([paths.broker(each) for each in ids])
        brokers = {
            broker: Registration(_node(broker, znode[0]), znode[1].czxid, znode[1].ctime_ms)
            for broker, znode in zip(ids, found, strict=True)
            if znode is not None
        }
        try:
            data, stat = await self._store.read(paths.CONTROLLER, self._notify)
            controller = ControllerSeat.decode(data).broker_id
        except (NoNodeError, MalformedZnodeError):
            return Registered(brokers, NO_BROKER, asked_ms)
        return Registered(brokers, controller, asked_ms, stat.ctime_ms, stat.czxid)

    async def ask_states(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[PartitionState, Stat]]:
        """Return the states of partitions with their stats; one that cannot be read is left out."""
        found = await self._store.read_many([paths.partition_state(*each) for each in partitions])
        states: dict[TopicPartition, tuple[PartitionState, Stat]] = {}
        for each, znode in zip(partitions, found, strict=True):
            try:
                if znode is not None:
                    states[each] = PartitionState.decode(znode[0]), znode[1]
            except MalformedZnodeError:
                continue
        return states

    def _notify(self, _: WatchEvent) -> None:
        self._on_change()


def _node(broker: int, data: bytes) -> BrokerNode:
    try:
        registration = BrokerRegistration.decode(data)
    except MalformedZnodeError:
        return BrokerNode(broker, "", -1)
    first = registration.endpoints[0] if registration.endpoints else None
    return BrokerNode(broker, first.host if first else "", first.port if first else -1, registration.rack)
