"""A broker's registration: the ephemeral `/brokers/ids/<id>`, whose czxid is the broker's epoch (KIP-380).

The znode is made by create and setData in one multi, so that its version is 1 and the reply carries the stat. Cases:

1. The reply was lost: the request is sent again and meets its own znode, owned by this session. That is success.
2. The znode is of this process's earlier session, which the server has not given up yet: it is deleted.
3. It is of another session. Mostly that is this broker's predecessor, killed within its session timeout: Apache Kafka
   gives up and exits; here the broker waits until the znode vanishes, and gives up only after `stale_wait_s`, because
   then the owner is alive: two brokers have the same id. Time without a connection does not
   count: when an ensemble has its quorum again, all sessions begin their timeouts from the start.
"""

from __future__ import annotations

import asyncio
import logging

from zk import paths
from zk.store import (
    BadVersionError,
    Create,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    SessionState,
    Stat,
    Store,
    StoreError,
    Write,
)
from zk.subtree import list_children, read_if_there
from zk.watches import wait_for_change
from zk.znodes import BrokerRegistration, MalformedZnodeError

logger = logging.getLogger(__name__)

_RECHECK_S = 1.0
"""Interval of reading the znode again, because a watch is lost with the session."""


class DuplicateBrokerError(Exception):
    """Raised when another live broker has the same id, or advertises the same host and port."""


class BrokerRegistrar:
    """Registers one broker; `register` must be called again after each new session."""

    def __init__(self, store: Store, broker_id: int, stale_wait_s: float) -> None:
        self._store = store
        self._broker_id = broker_id
        self._stale_wait_s = stale_wait_s
        self._path = paths.broker(broker_id)
        self._earlier_sessions: set[int] = set()
        self._connected_s = 0.0
        """Time of the last connection, on the loop's clock."""
        store.add_session_listener(self._on_state)
        self.broker_epoch = -1

    async def register(self, registration: BrokerRegistration) -> int:
        """Register the broker and return its epoch, which is also kept in `broker_epoch`.

        Raises DuplicateBrokerError, SessionExpiredError.
        """
        await self._refuse_shared_endpoints(registration)
        data = registration.encode()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        announced = False
        while True:
            stat = await self._create(data)
            if stat is not None:
                self._earlier_sessions.add(self._store.session_id)
                self.broker_epoch = stat.czxid
                return stat.czxid
            owner = await self._foreign_owner()
            if owner is None:
                continue
            if not announced:
                logger.warning(
                    "%s is held by session 0x%x, probably of this broker before it was killed; waiting up to %g s for it to end",
                    self._path,
                    owner,
                    self._stale_wait_s,
                )
                announced = True
            remaining_s = max(began_s, self._connected_s) + self._stale_wait_s - loop.time()
            if remaining_s <= 0:
                raise DuplicateBrokerError(
                    f"broker id {self._broker_id} is taken: {self._path} is still held by session 0x{owner:x} "
                    f"after {self._stale_wait_s:g} s"
                )
            await wait_for_change(self._store, self._path, min(remaining_s, _RECHECK_S))

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._connected_s = asyncio.get_running_loop().time()

    async def update(self, registration: BrokerRegistration) -> None:
        """Replace listeners or features; the epoch stays, the controller sees the change of data.

        Raises NoNodeError when the broker is not registered.
        """
        await self._store.write(self._path, registration.encode())

    async def _create(self, data: bytes) -> Stat | None:
        """Create the registration and return its stat, None if it is another session's."""
        created, written = await self._store.multi(
            [Create(self._path, ephemeral=True), Write(self._path, data, version=0)]
        )
        if isinstance(written, Stat):
            return written
        failure = written if isinstance(created, RolledBackError) else created
        if not isinstance(failure, NodeExistsError | BadVersionError):
            raise failure if isinstance(failure, StoreError) else StoreError(self._path, f"unexpected {failure!r}")
        found = await read_if_there(self._store, self._path)
        if found is None or found[1].ephemeral_owner != self._store.session_id:
            return None
        return found[1] if found[0] == data else await self._store.write(self._path, data)

    async def _foreign_owner(self) -> int | None:
        """Return the foreign session that owns the znode, None for no owner; delete that of our own earlier session."""
        try:
            _, stat = await self._store.read(self._path)
            if stat.ephemeral_owner == self._store.session_id:
                return None
            if stat.ephemeral_owner not in self._earlier_sessions:
                return stat.ephemeral_owner
            await self._store.delete(self._path, stat.version)
        except (NoNodeError, BadVersionError):
            pass
        return None

    async def _refuse_shared_endpoints(self, registration: BrokerRegistration) -> None:
        """Refuse a second broker at the same advertised host and port, as Kafka does."""
        ours = {(endpoint.host, endpoint.port) for endpoint in registration.endpoints}
        names = await list_children(self._store, paths.BROKER_IDS)
        others = [name for name in names if name != str(self._broker_id)]
        found = await self._store.read_many([paths.child(paths.BROKER_IDS, name) for name in others])
        for name, znode in zip(others, found, strict=True):
            other = None if znode is None else _decode_other(name, znode[0])
            shared = ours & {(endpoint.host, endpoint.port) for endpoint in other.endpoints} if other else set()
            if shared:
                host, port = min(shared)
                raise DuplicateBrokerError(f"broker {name} advertises {host}:{port} already")


def _decode_other(name: str, data: bytes) -> BrokerRegistration | None:
    """Return the registration of another broker, None if it is unreadable."""
    try:
        return BrokerRegistration.decode(data)
    except MalformedZnodeError as problem:
        logger.warning("broker %s: %s", name, problem)
        return None
