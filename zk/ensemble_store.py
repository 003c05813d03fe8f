"""What the stores over real servers have in common, whichever client they have: chroot, ACLs, limits of size, and reads of many znodes."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable

from zk import paths
from zk.connect_string import split_connect
from zk.request_errors import ConnectionBrokenError, TooLargeError, UnknownRequestError
from zk.security.store_security import StoreSecurity
from zk.security.znode_acls import ZnodeAcl, default_acl
from zk.session_ending import request_session_end
from zk.session_store import SessionStore
from zk.size_limits import operation_bytes
from zk.store import (
    AuthFailedError,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    Result,
    RolledBackError,
    SessionEnding,
    Stat,
    StoreError,
)
from zk.watch_table import WatchTable
from zk.znode_sizes import ZnodeSizes

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT_REQUESTS = 10
_CLOSE_TIMEOUT_S = 5.0
MAX_LOSSES_OF_MULTI_READ = 2
"""Connections that break on a multiRead until its znodes are read one by one."""


class EnsembleStore(SessionStore):
    """A store over real servers; `connect` is Kafka's `zookeeper.connect`, with an optional chroot.

    The chroot is prefixed here, not by the client, so that it can be created through the same connection.
    """

    def __init__(self, connect: str, security: StoreSecurity, max_request_bytes: int) -> None:
        super().__init__()
        self._servers, self._chroot = split_connect(connect)
        self._security = security
        self._max_request_bytes = max_request_bytes
        self._sizes = ZnodeSizes(max_request_bytes)
        self._watches = WatchTable()
        self._closing = self._refused = False
        self._connected = asyncio.Event()
        """Set with the first session, or when a server `_refused` who this is."""
        self._serves_multi_read: bool | None = None
        """True if a server has answered a multiRead, None before any has.

        False, until the store is closed, once one refused it: in an ensemble of several versions each refusal would cost a connection.
        """

    # -- start and stop

    async def _await_session(self, timeout_s: float, find_tls_problem: Callable[[], str]) -> None:
        """Wait for the first session, and create the chroot. Closes the store if it raises TimeoutError or AuthFailedError."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._connected.wait()
                if self._refused:
                    raise AuthFailedError(
                        "/", f"ZooKeeper at {self._servers} refused who this client is, or is not who it says"
                    )
                await self._create_chroot()
        except TimeoutError:
            why = find_tls_problem()
            await self.close()
            raise TimeoutError(
                f"no session with ZooKeeper at {self._servers} within {timeout_s:g} s{f': {why}' if why else ''}"
            ) from None
        except AuthFailedError:
            await self.close()
            raise

    async def _await_stop(self, stopped: asyncio.Event) -> None:
        """Wait until the client's thread has ended, unless it hangs."""
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await stopped.wait()
        except TimeoutError:
            logger.warning("the ZooKeeper connection did not close within %g s; it is left behind", _CLOSE_TIMEOUT_S)

    async def end_session(self, session_id: int, password: bytes, timeout_s: float) -> SessionEnding:
        self._ensure_connected("/")
        return await request_session_end(self._servers, session_id, password, self._security, timeout_s)

    # -- creation and transactions

    async def _create(self, operation: Create) -> str:
        full = self._full(operation.path)
        self._ensure_session(operation.path)
        return self._strip_chroot(await self._create_znode(operation, full, self._acl_of(operation.path)))

    @abstractmethod
    async def _create_znode(self, operation: Create, full: str, acl: tuple[ZnodeAcl, ...] | None) -> str:
        """Create a znode at `full`, which has the chroot, and return the path made; `acl` is None for one open to all."""

    async def _create_chroot(self) -> None:
        if not self._chroot:
            return
        for full in (*paths.ancestors(self._chroot), self._chroot):
            try:
                await self._create_znode(Create(full), full, self._acl_of(full))
            except NodeExistsError:
                pass

    async def _multi(self, operations: list[Operation]) -> list[Result]:
        size_bytes = sum(map(operation_bytes, operations))
        if size_bytes > self._max_request_bytes:
            return self._refuse(operations, size_bytes)
        return await self._send_multi(operations, size_bytes)

    @abstractmethod
    async def _send_multi(self, operations: list[Operation], size_bytes: int) -> list[Result]:
        """Send the operations, which are not too large, as one transaction."""

    def _refuse(self, operations: list[Operation], size_bytes: int) -> list[Result]:
        """Return the results of a multi that is too large, as if the servers had refused its largest operation."""
        largest = max(operations, key=operation_bytes)
        refusal = TooLargeError(largest.path, size_bytes, self._max_request_bytes)
        return [refusal if each is largest else RolledBackError(each.path, str(refusal)) for each in operations]

    def _acl_of(self, path: str) -> tuple[ZnodeAcl, ...] | None:
        """Return the ACL for a new znode, None for one open to all."""
        return default_acl(path, is_secure=True) if self._security.sets_acls else None

    # -- reads of many znodes

    async def _read_many(self, paths: list[str]) -> list[tuple[bytes, Stat] | None]:
        groups = list(self._sizes.split_paths(paths))
        found: list[tuple[bytes, Stat] | None] = []
        if self._serves_multi_read is None:
            # The first goes alone: a server that does not know it closes the connection, and the others would be sent again.
            found += await self._read_together(groups.pop(0))
        for some in await asyncio.gather(*(self._read_together(group) for group in groups)):
            found += some
        return found

    async def _read_together(self, paths: list[str]) -> list[tuple[bytes, Stat] | None]:
        """Read znodes by one multiRead, or one by one when the server does not know it or the connection breaks on it."""
        if len(paths) > 1 and self._serves_multi_read is not False:
            try:
                return await self._send_multi_read(paths)
            except UnknownRequestError as refusal:
                self._forgo_multi_read(refusal)
            except ConnectionBrokenError as refusal:
                if self._serves_multi_read is None:
                    self._forgo_multi_read(refusal)
        return await asyncio.gather(*(self._read_if_exists(path) for path in paths))

    @abstractmethod
    async def _send_multi_read(self, paths: list[str]) -> list[tuple[bytes, Stat] | None]:
        """Read znodes by one multiRead, and `_note_read` them. Raises ConnectionBrokenError after `MAX_LOSSES_OF_MULTI_READ`."""

    def _note_read(self, paths: list[str], found: list[tuple[bytes, Stat] | None]) -> None:
        """Note that a multiRead was answered, and by how much."""
        self._serves_multi_read = True
        for path, znode in zip(paths, found, strict=True):
            self._sizes.note(path, 0 if znode is None else len(znode[0]))

    async def _read_if_exists(self, path: str) -> tuple[bytes, Stat] | None:
        try:
            return await self.read(path)
        except NoNodeError:
            return None

    def _forgo_multi_read(self, refusal: StoreError) -> None:
        if self._serves_multi_read is not False:
            self._serves_multi_read = False
            logger.info("ZooKeeper at %s serves no multiRead, which is new in 3.6: %s", self._servers, refusal)

    # -- paths

    def _full(self, path: str) -> str:
        """Return the path with the chroot. Raises ValueError for an invalid path."""
        return self._add_chroot(paths.check(path))

    def _add_chroot(self, path: str) -> str:
        """Return a path that was checked with the chroot."""
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _strip_chroot(self, full: str) -> str:
        return full[len(self._chroot) :] or "/"
