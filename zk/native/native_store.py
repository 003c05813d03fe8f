"""The port over a client of our own, to real ZooKeeper servers 3.4 to 3.9.

How a request goes: `RequestPipeline` keeps up to `max_in_flight_requests` of them (`zookeeper.max.in.flight.requests`) with the thread
of the session, which encodes their numbers, sends them together, and posts replies, watch events and changes of state back to the loop,
many at a time and in wire order. Watches are kept through changes of connection by ZooKeeper's setWatches.

While the session is EXPIRED, until there is a new one, every request raises SessionExpiredError at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, cast

from kazoo.hosts import collect_hosts

from zk.ensemble_store import MAX_IN_FLIGHT_REQUESTS, MAX_LOSSES_OF_MULTI_READ, EnsembleStore
from zk.listeners import report
from zk.mailbox import Mailbox
from zk.native.request_pipeline import RequestPipeline, store_error
from zk.native.session_thread import SessionThread
from zk.protocol import requests
from zk.protocol.connection import Event, Reply, SessionTicket
from zk.protocol.requests import WATCHES_BYTES_TOGETHER, ErrorCode, Request, ResultError
from zk.request_errors import MAX_REQUEST_BYTES
from zk.security.store_security import PLAINTEXT, StoreSecurity
from zk.security.znode_acls import ZnodeAcl
from zk.size_limits import operation_bytes
from zk.store import (
    ANY_VERSION,
    Create,
    Operation,
    Result,
    SessionState,
    Stat,
    StoreClosedError,
    Watcher,
    WatchEvent,
    Write,
)
from zk.watch_table import ArmedWatch, WatchKind

logger = logging.getLogger(__name__)


class NativeStore(EnsembleStore):
    """A `zk.store.Store` over `zk.protocol`; `connect` is Kafka's `zookeeper.connect`, with an optional chroot."""

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
        self._pipeline = RequestPipeline(self._submit, max_in_flight_requests, max_request_bytes)
        self._thread: SessionThread | None = None
        self._stopped = asyncio.Event()

    # -- the port

    async def start(self, timeout_s: float) -> None:
        if self._thread is not None:
            raise StoreClosedError("/", "a store is started once")
        hosts = collect_hosts(self._servers)[0]
        mailbox = Mailbox(asyncio.get_running_loop())
        thread = self._thread = SessionThread(hosts, self._session_timeout_s, self._security, mailbox, self)
        thread.start()
        await self._await_session(timeout_s, lambda: thread.tls_problem)

    async def close(self) -> None:
        if self._closing or self._thread is None:
            return
        self._closing = True
        self._set_state(SessionState.CLOSED)
        self._pipeline.close()
        self._watches.clear()
        self._thread.stop()
        await self._await_stop(self._stopped)

    async def read(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, Stat]:
        request = requests.get_data(self._full(path), watch=watcher is not None)
        data, stat = await self._read(path, request, WatchKind.DATA, watcher)
        self._sizes.note(path, len(data))
        return data, stat

    async def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        request = requests.exists(self._full(path), watch=watcher is not None)
        return cast(Stat | None, await self._read(path, request, WatchKind.DATA, watcher))

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        request = requests.get_children(self._full(path), watch=watcher is not None)
        return sorted(await self._read(path, request, WatchKind.CHILDREN, watcher))

    async def write(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        request = requests.set_data(self._full(path), data, version)
        return cast(Stat, await self._request(path, request, size_bytes=operation_bytes(Write(path, data))))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._request(path, requests.delete(self._full(path), version))

    async def sync(self, path: str = "/") -> None:
        await self._request(path, requests.sync(self._full(path)))

    async def write_acl(self, path: str, acl: Sequence[ZnodeAcl]) -> None:
        """Replace a znode's ACL, for the tool that protects znodes. Raises NoNodeError, NoAuthError."""
        await self._request(path, requests.set_acl(self._full(path), acl))

    async def read_acl(self, path: str) -> list[ZnodeAcl]:
        """Return a znode's ACL. Raises NoNodeError, NoAuthError."""
        return cast(list[ZnodeAcl], await self._request(path, requests.get_acl(self._full(path))))

    # -- requests

    def _submit(self, connection: int, request: Request) -> None:
        if self._thread is not None:
            self._thread.submit(connection, request)

    def _request(
        self,
        path: str,
        request: Request,
        convert: Callable[[Any], Any] | None = None,
        size_bytes: int = 0,
        max_losses: int | None = None,
    ) -> asyncio.Future[Any]:
        """Send a request as `RequestPipeline.request`. Raises SessionExpiredError, StoreClosedError at once without a session."""
        self._ensure_session(path)
        return self._pipeline.request(path, request, convert, size_bytes=size_bytes, max_losses=max_losses)

    def _read(self, path: str, request: Request, kind: WatchKind, watcher: Watcher | None) -> asyncio.Future[Any]:
        """Send a read, and arm the watch as soon as it is answered."""
        if watcher is None:
            return self._request(path, request)

        def arm(value: Any) -> Any:
            self._watches.arm(kind, path, watcher, present=value is not None)
            return value

        return self._request(path, request, arm)

    async def _send_multi_read(self, paths: list[str]) -> list[tuple[bytes, Stat] | None]:
        def convert(results: list[Any]) -> list[tuple[bytes, Stat] | None]:
            found = [_existing(path, result) for path, result in zip(paths, results, strict=True)]
            self._note_read(paths, found)
            return found

        request = requests.multi_read([self._add_chroot(path) for path in paths])
        answer = self._request(paths[0], request, convert, max_losses=MAX_LOSSES_OF_MULTI_READ)
        return cast(list[tuple[bytes, Stat] | None], await answer)

    async def _create_znode(self, operation: Create, full: str, acl: tuple[ZnodeAcl, ...] | None) -> str:
        request = requests.create(operation, full, acl)
        return cast(str, await self._pipeline.request(operation.path, request, size_bytes=operation_bytes(operation)))

    async def _send_multi(self, operations: list[Operation], size_bytes: int) -> list[Result]:
        def convert(results: list[Any]) -> list[Result]:
            return [self._result(operation, result) for operation, result in zip(operations, results, strict=True)]

        request = requests.multi([(each, self._add_chroot(each.path), self._acl_of(each.path)) for each in operations])
        return cast(list[Result], await self._request(operations[0].path, request, convert, size_bytes))

    def _result(self, operation: Operation, result: Any) -> Result:
        if isinstance(result, ResultError):
            return store_error(operation.path, result.code)
        return self._strip_chroot(result) if isinstance(operation, Create) else cast(Result, result)

    # -- the session, called on the loop

    def on_connected(self, connection: int, ticket: SessionTicket) -> None:
        """Send the watches, then the requests that wait, over a new connection."""
        if self._closing:
            return
        self._session_id, self._session_password = ticket.session_id, ticket.password
        logger.info("connected to ZooKeeper at %s (session 0x%x)", self._servers, self._session_id)
        self._connected.set()
        self._set_state(SessionState.CONNECTED)
        for answer in self._pipeline.open(connection, self._rearm_requests()):
            answer.add_done_callback(_report_failure)

    def on_events(self, events: list[Event]) -> None:
        """Complete requests and fire watches, in wire order."""
        if self._thread is not None:
            self._thread.note_delivered()
        if self._closing:
            return
        for event in events:
            if isinstance(event, Reply):
                self._pipeline.complete(event)
            elif isinstance(event, WatchEvent):
                self._watches.fire(WatchEvent(event.type, self._strip_chroot(event.path)))
        self._pipeline.send_more()

    def on_lost(self, last_zxid: int) -> None:
        """Keep requests and watches for the next connection."""
        if self._closing:
            return
        logger.warning("connection to ZooKeeper lost (session 0x%x)", self._session_id)
        self._pipeline.block()
        self._watches.connection_lost(last_zxid)
        self._set_state(SessionState.SUSPENDED)

    def on_session_ended(self, *, was_refused: bool) -> None:
        """Fail all requests and forget the watches; the thread asks for the next session."""
        if self._closing:
            return
        logger.warning("ZooKeeper session 0x%x ended", self._session_id)
        self._pipeline.session_ended()
        self._watches.clear()
        self._set_state(SessionState.EXPIRED)
        if was_refused:
            logger.error("ZooKeeper at %s refused who this client is, or is not who it says", self._servers)
            self._refused = True
            self._connected.set()

    def on_stopped(self) -> None:
        """Let `close` return."""
        self._stopped.set()

    # -- watches

    def _rearm_requests(self) -> Iterator[tuple[Request, Callable[[Any], object]]]:
        """Return the requests that arm the watches of the lost connection again, each with what its reply completes."""
        most_bytes = min(WATCHES_BYTES_TOGETHER, self._max_request_bytes // 2)
        by_zxid: dict[int, list[ArmedWatch]] = {}
        for watch in self._watches.list_disarmed():
            by_zxid.setdefault(cast(int, watch.as_of_zxid), []).append(watch)
        for since_zxid, watches in by_zxid.items():
            left = iter(watches)
            for full in requests.split_paths((self._full(watch.path) for watch in watches), most_bytes):
                some = list(zip(islice(left, len(full)), full, strict=True))
                request = requests.set_watches(
                    since_zxid,
                    [path for watch, path in some if watch.kind is WatchKind.DATA and watch.present],
                    [path for watch, path in some if watch.kind is WatchKind.DATA and not watch.present],
                    [path for watch, path in some if watch.kind is WatchKind.CHILDREN],
                )
                yield request, partial(self._complete_rearm, [watch for watch, _ in some])

    def _complete_rearm(self, watches: list[ArmedWatch], _: None) -> None:
        """Note that watches are armed; the events that they missed have fired before this reply."""
        for watch in watches:
            watch.as_of_zxid = None


def _report_failure(answer: asyncio.Future[Any]) -> None:
    error = None if answer.cancelled() else answer.exception()
    if error is not None:
        report("arming watches again failed", error)


def _existing(path: str, found: tuple[bytes, Stat] | ResultError) -> tuple[bytes, Stat] | None:
    """Return data and stat, None for an absent znode. Raises StoreError for any other error."""
    if not isinstance(found, ResultError):
        return found
    if found.code == ErrorCode.NO_NODE:
        return None
    raise store_error(path, found.code)
