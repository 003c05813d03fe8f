"""The port over kazoo, to real ZooKeeper servers 3.5 to 3.9.

How a request goes: `kazoo_requests` keeps up to `max_in_flight_requests` of them with kazoo
(`zookeeper.max.in.flight.requests`), which pipelines them on its connection; answers, watch events and changes of state
come back to the loop in wire order (`kazoo_bridge`); `WatchTable` keeps watches through changes of connection.

While the session is EXPIRED, until kazoo has a new one, every request raises SessionExpiredError at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, TypeVar, cast

import kazoo.exceptions
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType as KazooEventType
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent, ZnodeStat

from zk.ensemble_store import MAX_IN_FLIGHT_REQUESTS, MAX_LOSSES_OF_MULTI_READ, EnsembleStore
from zk.kazoo_adapter.kazoo_client import kazoo_acl, make_client, znode_acl
from zk.kazoo_adapter.kazoo_multi import Multi
from zk.kazoo_adapter.kazoo_multi_read import Found, MultiRead
from zk.kazoo_adapter.kazoo_requests import (
    RequestQueue,
    store_error,
)
from zk.listeners import report
from zk.mailbox import Mailbox
from zk.protocol.requests import ResultError
from zk.request_errors import MAX_REQUEST_BYTES
from zk.security.store_security import PLAINTEXT, StoreSecurity
from zk.security.znode_acls import ZnodeAcl
from zk.size_limits import operation_bytes
from zk.store import (
    ANY_VERSION,
    Create,
    EventType,
    NoNodeError,
    Operation,
    Result,
    SessionExpiredError,
    SessionState,
    Stat,
    StoreClosedError,
    Watcher,
    WatchEvent,
    Write,
)
from zk.watch_table import ArmedWatch, WatchKind

logger = logging.getLogger(__name__)
T = TypeVar("T")

_REFUSED_DELAY_S = 1.0
"""Kafka's: after it, credentials that were refused are tried again."""
_EVENTS = {
    KazooEventType.CREATED: EventType.CREATED,
    KazooEventType.DELETED: EventType.DELETED,
    KazooEventType.CHANGED: EventType.CHANGED,
    KazooEventType.CHILD: EventType.CHILDREN,
}


class KazooStore(EnsembleStore):
    """A `zk.store.Store` over kazoo; `connect` is Kafka's `zookeeper.connect`, with an optional chroot."""

    def __init__(
        self,
        connect: str,
        session_timeout_s: float = 18.0,
        max_in_flight_requests: int = MAX_IN_FLIGHT_REQUESTS,
        security: StoreSecurity = PLAINTEXT,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        super().__init__(connect, security, max_request_bytes)
        self._session_timeout_s = session_timeout_s
        self._max_in_flight_requests = max_in_flight_requests
        self._client: KazooClient | None = None
        self._requests: RequestQueue | None = None

    # -- the port

    async def start(self, timeout_s: float) -> None:
        if self._client is not None:
            raise StoreClosedError("/", "a store is started once")
        self._mailbox = Mailbox(asyncio.get_running_loop())
        self._client = make_client(
            self._servers, self._session_timeout_s, self._mailbox, self._security, self._on_usable
        )
        self._requests = RequestQueue(self._client, self._max_in_flight_requests, self._max_request_bytes)
        self._client.add_listener(self._on_kazoo_state)
        self._client.start_async()
        handler = self._client.handler
        await self._await_session(timeout_s, lambda: handler.tls_problem)

    async def close(self) -> None:
        if self._closing or self._client is None or self._requests is None:
            return
        self._closing = True
        self._set_state(SessionState.CLOSED)
        self._requests.close()
        self._watches.clear()
        stopped = asyncio.Event()
        # kazoo's stop() blocks until its thread has ended, which may hang in a connection attempt; so not on the loop.
        self._client.handler.spawn(self._stop_client, stopped)
        await self._await_stop(stopped)

    async def read(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, Stat]:
        def convert(answer: tuple[bytes, ZnodeStat]) -> tuple[bytes, Stat]:
            data = answer[0] or b""
            self._sizes.note(path, len(data))
            return data, _stat(answer[1])

        return await self._read("get_async", path, WatchKind.DATA, watcher, convert)

    async def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        def convert(stat: ZnodeStat | None) -> Stat | None:
            return None if stat is None else _stat(stat)

        return await self._read("exists_async", path, WatchKind.DATA, watcher, convert)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        return await self._read("get_children_async", path, WatchKind.CHILDREN, watcher, sorted)

    async def write(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        send = methodcaller("set_async", self._full(path), data, version)
        return await self._request(path, send, _stat, operation_bytes(Write(path, data)))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._request(path, methodcaller("delete_async", self._full(path), version), lambda _: None)

    async def sync(self, path: str = "/") -> None:
        await self._request(path, methodcaller("sync_async", self._full(path)), lambda _: None)

    async def write_acl(self, path: str, acl: Sequence[ZnodeAcl]) -> None:
        """Replace a znode's ACL, for the tool that protects znodes. Raises NoNodeError, NoAuthError."""
        send = methodcaller("set_acls_async", self._full(path), kazoo_acl(acl))
        await self._request(path, send, lambda _: None)

    async def read_acl(self, path: str) -> list[ZnodeAcl]:
        """Return a znode's ACL. Raises NoNodeError, NoAuthError."""
        return await self._request(path, methodcaller("get_acls_async", self._full(path)), znode_acl)

    # -- requests

    async def _read(
        self, method: str, path: str, kind: WatchKind, watcher: Watcher | None, convert: Callable[[Any], T]
    ) -> T:
        """Call a reading method of kazoo's client, and arm the watch as soon as it has answered."""

        def arm_and_convert(answer: Any) -> T:
            if watcher is not None:
                self._watches.arm(kind, path, watcher, present=answer is not None)
            return convert(answer)

        send = methodcaller(method, self._full(path), watch=None if watcher is None else self._on_watch)
        return await self._request(path, send, arm_and_convert)

    async def _send_multi_read(self, paths: list[str]) -> list[tuple[bytes, Stat] | None]:
        def convert(results: list[Found]) -> list[tuple[bytes, Stat] | None]:
            found = [_existing(path, result) for path, result in zip(paths, results, strict=True)]
            self._note_read(paths, found)
            return found

        send = MultiRead([self._add_chroot(path) for path in paths]).send
        return await self._request(paths[0], send, convert, max_losses=MAX_LOSSES_OF_MULTI_READ)

    async def _create_znode(self, operation: Create, full: str, acl: tuple[ZnodeAcl, ...] | None) -> str:
        send = methodcaller(
            "create_async",
            full,
            # Empty znodes of Kafka have no data at all; with an empty /latest_producer_id_block it does not start.
            operation.data or None,
            acl=None if acl is None else kazoo_acl(acl),
            ephemeral=operation.ephemeral,
            sequence=operation.sequence,
        )
        requests = cast(RequestQueue, self._requests)
        return await requests.request(operation.path, send, str, size_bytes=operation_bytes(operation))

    async def _send_multi(self, operations: list[Operation], size_bytes: int) -> list[Result]:
        def convert(results: list[Any]) -> list[Result]:
            return [self._result(operation, result) for operation, result in zip(operations, results, strict=True)]

        send = Multi([(each, self._add_chroot(each.path), self._acl_of(each.path)) for each in operations]).send
        return await self._request(operations[0].path, send, convert, size_bytes)

    async def _request(
        self,
        path: str,
        send: Callable[[KazooClient], Any],
        convert: Callable[[Any], T],
        size_bytes: int = 0,
        max_losses: int | None = None,
    ) -> T:
        """Send a request as `RequestQueue.request`. Raises SessionExpiredError, StoreClosedError at once without a session."""
        self._ensure_session(path)
        requests = cast(RequestQueue, self._requests)  # there is one in every other state
        return await requests.request(path, send, convert, size_bytes=size_bytes, max_losses=max_losses)

    def _result(self, operation: Operation, result: Any) -> Result:
        if isinstance(result, ResultError):
            return store_error(operation.path, kazoo.exceptions.EXCEPTIONS[result.code]())
        return self._strip_chroot(result) if isinstance(operation, Create) else cast(Result, result)

    # -- watches

    def _on_watch(self, event: WatchedEvent) -> None:
        """Fire a watch, on the loop. Events that a connection was lost are left out, the table handles those."""
        if event.type in _EVENTS and not self._closing:
            self._watches.fire(WatchEvent(_EVENTS[event.type], self._strip_chroot(event.path)))

    def _rearm(self, requests: RequestQueue) -> None:
        """Rearm the watches of a lost connection before any other request, and report the changes that were missed."""
        for watch in self._watches.list_disarmed():
            full = self._full(watch.path)
            if watch.kind is WatchKind.DATA:
                send = methodcaller("exists_async", full, watch=self._on_watch)
            else:
                send = methodcaller("get_children_async", full, watch=self._on_watch, include_data=True)
            answer = requests.request(watch.path, send, partial(self._complete_rearm, watch), urgent=True)
            answer.add_done_callback(partial(self._on_rearmed, watch))

    def _complete_rearm(self, watch: ArmedWatch, answer: Any) -> None:
        """Complete the rearming of a watch by kazoo's answer: a stat, or None for an absent znode (DATA), names and stat (CHILDREN)."""
        if watch.kind is WatchKind.CHILDREN:
            self._watches.complete_rearm(watch, answer[1].pzxid)
        else:
            self._watches.complete_rearm(watch, None if answer is None else answer.mzxid)

    def _on_rearmed(self, watch: ArmedWatch, answer: asyncio.Future[None]) -> None:
        error = None if answer.cancelled() else answer.exception()
        if isinstance(error, NoNodeError):
            self._watches.complete_rearm(watch, None)
        elif error is not None and not isinstance(error, SessionExpiredError | StoreClosedError):
            report(f"arming the watch on {watch.path} again failed", error)
            self._watches.give_up(watch)

    # -- the session

    def _on_kazoo_state(self, state: str) -> None:
        """Post a state change to the loop, from kazoo's thread."""
        if state != KazooState.CONNECTED:
            self._post_state(state)
        elif self._security.credentials is None:
            self._on_usable()

    def _on_usable(self) -> None:
        """Post that there is an authenticated connection, from kazoo's thread."""
        if self._client is not None:
            self._client.handler.session_opened()
        self._post_state(KazooState.CONNECTED)

    def _post_state(self, state: str) -> None:
        client = self._client
        if client is None:
            return
        client_id = client.client_id
        self._mailbox.post(self._on_state, state, client.client_state, client_id or (0, b""), client.last_zxid)

    def _on_state(self, state: str, keeper_state: str, client_id: tuple[int, bytes], last_zxid: int) -> None:
        requests = self._requests
        if self._closing or requests is None:
            return
        if state == KazooState.CONNECTED:
            self._on_connected(client_id, requests)
        elif state == KazooState.SUSPENDED:
            logger.warning("connection to ZooKeeper lost (session 0x%x)", self._session_id)
            requests.block()
            self._watches.connection_lost(last_zxid)
            self._set_state(SessionState.SUSPENDED)
        else:
            self._on_session_end(keeper_state, requests)

    def _on_connected(self, client_id: tuple[int, bytes], requests: RequestQueue) -> None:
        self._session_id, self._session_password = client_id
        logger.info("connected to ZooKeeper at %s (session 0x%x)", self._servers, self._session_id)
        self._connected.set()
        self._set_state(SessionState.CONNECTED)
        self._rearm(requests)
        requests.unblock()

    def _on_session_end(self, keeper_state: str, requests: RequestQueue) -> None:
        logger.warning("ZooKeeper session 0x%x ended (%s)", self._session_id, keeper_state)
        requests.session_ended()
        self._watches.clear()
        self._set_state(SessionState.EXPIRED)
        if keeper_state == KeeperState.AUTH_FAILED and self._client is not None:
            logger.error("ZooKeeper at %s refused who this client is, or is not who it says", self._servers)
            self._refused = True
            self._connected.set()
            asyncio.get_running_loop().call_later(_REFUSED_DELAY_S, self._client.handler.spawn, self._restart_client)
        elif keeper_state == KeeperState.CLOSED and self._client is not None:
            # kazoo's thread died of something unforeseen, which it has logged; it does not come back by itself.
            self._client.handler.spawn(self._restart_client)

    def _restart_client(self) -> None:
        """Start the client again, in a thread of its own. Stopping it first would leave a close in its queue for the next session."""
        if not self._closing:
            cast(KazooClient, self._client).start_async()

    def _stop_client(self, stopped: asyncio.Event) -> None:
        """Stop the client, in a thread of its own."""
        client = cast(KazooClient, self._client)
        try:
            client.stop()
            client.close()
        except Exception as problem:
            logger.warning("closing the ZooKeeper connection: %s", problem)
        finally:
            self._mailbox.post(stopped.set)


def _existing(path: str, found: Found) -> tuple[bytes, Stat] | None:
    """Return data and stat, None for an absent znode. Raises StoreError for any other error."""
    if not isinstance(found, Exception):
        return found
    error = store_error(path, found)
    if isinstance(error, NoNodeError):
        return None
    raise error


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        data_length=stat.dataLength,
        children_count=stat.numChildren,
    )
