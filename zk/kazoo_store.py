"""The port over kazoo, to real ZooKeeper servers 3.5 to 3.9.

How a request goes: the caller's coroutine queues it; while the session is CONNECTED up to `max_in_flight_requests` are
handed to kazoo (`zookeeper.max.in.flight.requests`), which pipelines them on its connection; answers come back to the
loop in wire order (`kazoo_bridge`). A request that meets a lost connection goes back into the queue at its old place. A
request belongs to the session under which it was made: once that has expired it raises SessionExpiredError, even if
kazoo still carried it over into the next session.

While the session is EXPIRED, until kazoo has a new one, every request raises SessionExpiredError at once.

The chroot of the connect string is prefixed here, not by kazoo, so that it can be created through the same connection.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import kazoo.exceptions
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType as KazooEventType
from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry

from zk import paths
from zk.kazoo_bridge import Answer, LoopHandler, Mailbox
from zk.kazoo_watches import ArmedWatch, WatchKind, WatchTable
from zk.listeners import notify
from zk.store import (
    ANY_VERSION,
    BadVersionError,
    Create,
    Delete,
    EventType,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    Result,
    RolledBackError,
    SessionExpiredError,
    SessionListener,
    SessionState,
    Stat,
    StoreClosedError,
    StoreError,
    Watcher,
    WatchEvent,
    Write,
)
from zk.subtree import create_ancestors

logger = logging.getLogger(__name__)
T = TypeVar("T")

MAX_IN_FLIGHT_REQUESTS = 10
MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""Kafka's jute.maxbuffer; a server with its own default refuses more than 1 MiB by closing the connection."""

_SUSPECT_REQUEST_BYTES = 1_000_000
_MAX_LOSSES_OF_SUSPECT = 3
_CLOSE_TIMEOUT_S = 5.0
_RECONNECT_DELAY_S = 0.05
_MAX_RECONNECT_DELAY_S = 1.0
_EVENTS = {
    KazooEventType.CREATED: EventType.CREATED,
    KazooEventType.DELETED: EventType.DELETED,
    KazooEventType.CHANGED: EventType.CHANGED,
    KazooEventType.CHILD: EventType.CHILDREN,
}
_ERRORS: tuple[tuple[type[Exception], type[StoreError]], ...] = (
    (kazoo.exceptions.NoNodeError, NoNodeError),
    (kazoo.exceptions.NodeExistsError, NodeExistsError),
    (kazoo.exceptions.BadVersionError, BadVersionError),
    (kazoo.exceptions.NotEmptyError, NotEmptyError),
    (kazoo.exceptions.NoChildrenForEphemeralsError, NoChildrenForEphemeralsError),
    (kazoo.exceptions.RolledBackError, RolledBackError),
    (kazoo.exceptions.RuntimeInconsistency, RolledBackError),
    (kazoo.exceptions.ConnectionClosedError, StoreClosedError),
    (kazoo.exceptions.SessionExpiredError, SessionExpiredError),
    (kazoo.exceptions.AuthFailedError, StoreClosedError),
)
_LOST = (
    kazoo.exceptions.ConnectionLoss,
    kazoo.exceptions.OperationTimeoutError,
    kazoo.exceptions.SessionMovedError,
)


class _Request:
    """A request until it is answered; `order` is its place in the queue, also when it is sent again."""

    __slots__ = ("answer", "losses", "order", "path", "send", "session", "size_bytes")

    def __init__(
        self,
        order: int,
        session: int,
        path: str,
        size_bytes: int,
        send: Callable[[KazooClient], Any],
        answer: asyncio.Future[Any],
    ) -> None:
        self.order = order
        self.session = session
        self.path = path
        self.size_bytes = size_bytes
        self.send = send
        self.answer = answer
        self.losses = 0

    def __lt__(self, other: _Request) -> bool:
        return self.order < other.order


class KazooStore:
    """See the module and `zk.store.Store`; `connect` is Kafka's `zookeeper.connect`, with an optional chroot."""

    def __init__(
        self,
        connect: str,
        session_timeout_s: float = 18.0,
        max_in_flight_requests: int = MAX_IN_FLIGHT_REQUESTS,
    ) -> None:
        self._servers, self._chroot = split_connect(connect)
        self._session_timeout_s = session_timeout_s
        self._max_in_flight_requests = max_in_flight_requests
        self._state = SessionState.CLOSED
        self._session_id = 0
        self._session = 0
        self._listeners: list[SessionListener] = []
        self._watches = WatchTable()
        self._queue: list[_Request] = []
        self._next_order = 0
        self._in_flight = 0
        self._client: KazooClient | None = None
        self._closing = False
        self._connected = asyncio.Event()
        self._rearming: asyncio.Task[None] | None = None

    # -- the port

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def session_id(self) -> int:
        return self._session_id

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def start(self, timeout_s: float) -> None:
        if self._client is not None:
            raise StoreClosedError("/", "a store is started once")
        self._mailbox = Mailbox(asyncio.get_running_loop())
        self._client = self._make_client()
        self._client.add_listener(self._on_kazoo_state)
        self._client.start_async()
        try:
            async with asyncio.timeout(timeout_s):
                await self._connected.wait()
                await self._create_chroot()
        except TimeoutError:
            await self.close()
            raise TimeoutError(f"no session with ZooKeeper at {self._servers} within {timeout_s:g} s") from None

    async def close(self) -> None:
        if self._closing or self._client is None:
            return
        self._closing = True
        self._enter(SessionState.CLOSED)
        self._fail_queued(StoreClosedError, "the store was closed")
        self._watches.clear()
        stopped = asyncio.Event()
        # kazoo's stop() blocks until its thread has ended, which may hang in a connection attempt; so not on the loop.
        self._client.handler.spawn(self._stop_client, stopped)
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await stopped.wait()
        except TimeoutError:
            logger.warning("the ZooKeeper connection did not close within %g s; it is left behind", _CLOSE_TIMEOUT_S)

    async def read(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, Stat]:
        full = self._full(path)
        bridge = self._on_watch if watcher else None

        def answered(answer: tuple[bytes, ZnodeStat]) -> tuple[bytes, Stat]:
            self._arm(WatchKind.DATA, path, watcher, present=True)
            return answer[0] or b"", _stat(answer[1])

        return await self._request(path, lambda client: client.get_async(full, watch=bridge), answered)

    async def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        full = self._full(path)
        bridge = self._on_watch if watcher else None

        def answered(stat: ZnodeStat | None) -> Stat | None:
            self._arm(WatchKind.DATA, path, watcher, present=stat is not None)
            return None if stat is None else _stat(stat)

        return await self._request(path, lambda client: client.exists_async(full, watch=bridge), answered)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        full = self._full(path)
        bridge = self._on_watch if watcher else None

        def answered(names: list[str]) -> list[str]:
            self._arm(WatchKind.CHILDREN, path, watcher, present=True)
            return sorted(names)

        return await self._request(path, lambda client: client.get_children_async(full, watch=bridge), answered)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, parents: bool = False
    ) -> str:
        try:
            return await self._create(path, data, ephemeral=ephemeral, sequence=sequence)
        except NoNodeError:
            if not parents:
                raise
        await create_ancestors(self, path)
        return await self._create(path, data, ephemeral=ephemeral, sequence=sequence)

    async def write(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        full = self._full(path)
        return await self._request(path, lambda client: client.set_async(full, data, version), _stat, len(data))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        full = self._full(path)
        await self._request(path, lambda client: client.delete_async(full, version), lambda _: None)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        if not operations:
            return []
        fixed = list(operations)
        for operation in fixed:
            paths.check(operation.path)
        size_bytes = sum(len(o.path) + (len(o.data) if isinstance(o, Create | Write) else 0) for o in fixed)

        def send(client: KazooClient) -> Any:
            transaction = client.transaction()
            for operation in fixed:
                self._add_operation(transaction, operation)
            return transaction.commit_async()

        def answered(results: list[Any]) -> list[Result]:
            return [self._result(operation, result) for operation, result in zip(fixed, results, strict=True)]

        return await self._request(fixed[0].path, send, answered, size_bytes)

    async def sync(self, path: str = "/") -> None:
        full = self._full(path)
        await self._request(path, lambda client: client.sync_async(full), lambda _: None)

    # -- requests

    async def _create(self, path: str, data: bytes, *, ephemeral: bool, sequence: bool) -> str:
        full = self._full(path)
        return await self._request(
            path,
            lambda client: client.create_async(full, data, ephemeral=ephemeral, sequence=sequence),
            self._stripped,
            len(data),
        )

    async def _request(
        self, path: str, send: Callable[[KazooClient], Any], answered: Callable[[Any], T], size_bytes: int = 0
    ) -> T:
        """Queue a request and await its answer; `answered` turns kazoo's into ours, on the loop, in wire order."""
        if self._state is SessionState.CLOSED:
            raise StoreClosedError(path, "the store is closed")
        if self._state is SessionState.EXPIRED:
            raise SessionExpiredError(path, "the session has expired")
        if size_bytes > MAX_REQUEST_BYTES:
            raise StoreError(path, f"a request of {size_bytes} bytes is above the limit of {MAX_REQUEST_BYTES}")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        request = _Request(self._next_order, self._session, path, size_bytes, send, answer)
        request.send = lambda client: self._send(client, request, send, answered)
        self._next_order += 1
        heapq.heappush(self._queue, request)
        self._send_queued()
        return await answer

    def _send(
        self,
        client: KazooClient,
        request: _Request,
        send: Callable[[KazooClient], Any],
        answered: Callable[[Any], Any],
    ) -> None:
        mailbox = self._mailbox
        send(client).rawlink(lambda answer: mailbox.post(self._on_answer, request, answer, answered))

    def _send_queued(self) -> None:
        """Hand requests to kazoo, oldest first, as many as may be in flight."""
        while self._queue and self._state is SessionState.CONNECTED and self._in_flight < self._max_in_flight_requests:
            request = heapq.heappop(self._queue)
            if request.answer.done():
                continue
            self._in_flight += 1
            try:
                request.send(self._client)
            except Exception as problem:
                self._in_flight -= 1
                request.answer.set_exception(problem)

    def _on_answer(self, request: _Request, answer: Answer, answered: Callable[[Any], Any]) -> None:
        self._in_flight -= 1
        error = answer.exception
        if request.session != self._session:
            self._fail(request, SessionExpiredError, "the session ended before the request was answered")
        elif error is None:
            self._settle(request, answer.value, answered)
        elif isinstance(error, _LOST) and not self._closing:
            self._send_again(request)
        elif not request.answer.done():
            request.answer.set_exception(_store_error(request.path, error))
        self._send_queued()

    def _settle(self, request: _Request, value: Any, answered: Callable[[Any], Any]) -> None:
        """Also for a caller that gave up waiting: the watch is armed all the same."""
        try:
            result, problem = answered(value), None
        except Exception as error:
            result, problem = None, error
        if request.answer.done():
            return
        if problem is None:
            request.answer.set_result(result)
        else:
            request.answer.set_exception(problem)

    def _send_again(self, request: _Request) -> None:
        """After a lost connection; unless it is the request itself that makes the server hang up."""
        request.losses += 1
        if request.size_bytes > _SUSPECT_REQUEST_BYTES and request.losses >= _MAX_LOSSES_OF_SUSPECT:
            text = f"the connection broke {request.losses} times on a request of {request.size_bytes} bytes; "
            self._fail(request, StoreError, text + "is the servers' jute.maxbuffer large enough?")
        else:
            heapq.heappush(self._queue, request)

    def _fail_queued(self, error: type[StoreError], why: str) -> None:
        queue, self._queue = self._queue, []
        for request in queue:
            self._fail(request, error, why)

    def _fail(self, request: _Request, error: type[StoreError], why: str) -> None:
        if not request.answer.done():
            request.answer.set_exception(error(request.path, why))

    def _add_operation(self, transaction: Any, operation: Operation) -> None:
        full = self._full(operation.path)
        if isinstance(operation, Create):
            transaction.create(full, operation.data, ephemeral=operation.ephemeral, sequence=operation.sequence)
        elif isinstance(operation, Write):
            transaction.set_data(full, operation.data, operation.version)
        elif isinstance(operation, Delete):
            transaction.delete(full, operation.version)
        else:
            transaction.check(full, operation.version)

    def _result(self, operation: Operation, result: Any) -> Result:
        if isinstance(result, Exception):
            return _store_error(operation.path, result)
        if isinstance(operation, Create):
            return self._stripped(result)
        return _stat(result) if isinstance(operation, Write) else None

    # -- paths

    def _full(self, path: str) -> str:
        """The path that the server knows. ValueError when it is none."""
        paths.check(path)
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _stripped(self, full: str) -> str:
        return full[len(self._chroot) :] or "/"

    async def _create_chroot(self) -> None:
        """Kafka creates the chroot, and what is above it, as persistent empty znodes."""
        if not self._chroot:
            return
        chroot, self._chroot = self._chroot, ""
        try:
            await self.create(chroot, parents=True)
        except NodeExistsError:
            pass
        finally:
            self._chroot = chroot

    # -- watches

    def _arm(self, kind: WatchKind, path: str, watcher: Watcher | None, *, present: bool) -> None:
        if watcher is not None:
            self._watches.arm(kind, path, watcher, present=present)

    def _on_watch(self, event: WatchedEvent) -> None:
        """On the loop. kazoo also reports that watches went with a connection; the table knows what to do then."""
        if event.type in _EVENTS and not self._closing:
            self._watches.fire(WatchEvent(_EVENTS[event.type], self._stripped(event.path)))

    async def _rearm(self, session: int) -> None:
        """Arm again what a lost connection disarmed, and report what was missed."""
        try:
            await asyncio.gather(*(self._rearm_one(watch) for watch in self._watches.disarmed()))
        except (SessionExpiredError, StoreClosedError):
            logger.debug("session %d ended before all its watches were armed again", session)

    async def _rearm_one(self, watch: ArmedWatch) -> None:
        full = self._full(watch.path)
        if watch.kind is WatchKind.DATA:

            def data_answered(stat: ZnodeStat | None) -> None:
                self._watches.rearmed(watch, None if stat is None else stat.mzxid)

            await self._request(
                watch.path, lambda client: client.exists_async(full, watch=self._on_watch), data_answered
            )
            return

        def children_answered(answer: tuple[list[str], ZnodeStat]) -> None:
            self._watches.rearmed(watch, answer[1].pzxid)

        try:
            await self._request(
                watch.path,
                lambda client: client.get_children_async(full, watch=self._on_watch, include_data=True),
                children_answered,
            )
        except NoNodeError:
            self._watches.rearmed(watch, None)

    # -- the session

    def _make_client(self) -> KazooClient:
        servers = self._servers.count(",") + 1
        handler = LoopHandler(self._mailbox, connect_timeout_s=max(1.0, self._session_timeout_s / servers))
        quiet = logging.getLogger("zk.kazoo")
        quiet.setLevel(logging.ERROR)
        return KazooClient(
            hosts=self._servers,
            timeout=self._session_timeout_s,
            handler=handler,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=_RECONNECT_DELAY_S,
                max_delay=_MAX_RECONNECT_DELAY_S,
                sleep_func=handler.sleep_func,
            ),
            logger=quiet,
        )

    def _on_kazoo_state(self, state: str) -> None:
        """In kazoo's thread: note what only this moment knows, and go to the loop."""
        client = self._client
        if client is None:
            return
        client_id = client.client_id
        session_id = client_id[0] if client_id else 0
        self._mailbox.post(self._on_state, state, client.client_state, session_id, client.last_zxid)

    def _on_state(self, state: str, keeper_state: str, session_id: int, last_zxid: int) -> None:
        if self._closing:
            return
        if state == KazooState.CONNECTED:
            self._on_connected(session_id)
        elif state == KazooState.SUSPENDED:
            logger.warning("connection to ZooKeeper lost (session 0x%x)", self._session_id)
            self._watches.connection_lost(last_zxid)
            self._enter(SessionState.SUSPENDED)
        else:
            self._on_session_end(keeper_state)

    def _on_connected(self, session_id: int) -> None:
        logger.info("connected to ZooKeeper at %s (session 0x%x)", self._servers, session_id)
        self._session_id = session_id
        self._connected.set()
        self._enter(SessionState.CONNECTED)
        if len(self._watches):
            self._rearming = asyncio.get_running_loop().create_task(self._rearm(session_id))
        self._send_queued()

    def _on_session_end(self, keeper_state: str) -> None:
        logger.warning("ZooKeeper session 0x%x ended (%s)", self._session_id, keeper_state)
        self._session += 1
        self._watches.clear()
        self._enter(SessionState.EXPIRED)
        self._fail_queued(SessionExpiredError, "the session ended before the request was answered")
        if keeper_state == KeeperState.CLOSED and self._client is not None:
            # kazoo's thread died of something unforeseen, which it has logged; it does not come back by itself.
            self._client.handler.spawn(self._restart_client)

    def _restart_client(self) -> None:
        """In a thread of its own."""
        client = cast(KazooClient, self._client)
        client.stop()
        if not self._closing:
            client.start_async()

    def _stop_client(self, stopped: asyncio.Event) -> None:
        """In a thread of its own."""
        client = cast(KazooClient, self._client)
        try:
            client.stop()
            client.close()
        except Exception as problem:
            logger.warning("closing the ZooKeeper connection: %s", problem)
        finally:
            self._mailbox.post(stopped.set)

    def _enter(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            notify(self._listeners, state)


def split_connect(connect: str) -> tuple[str, str]:
    """Servers and chroot of `h1:2181,h2:2181/kafka`; the chroot is empty or starts with a slash.

    ValueError when there is no server or the chroot is no path.
    """
    servers, slash, chroot = connect.strip().partition("/")
    hosts = [server.strip() for server in servers.split(",")]
    if not all(hosts):
        raise ValueError(f"zookeeper.connect {connect!r} does not name a server")
    chroot = slash + chroot.strip("/") if chroot.strip("/") else ""
    if chroot:
        paths.check(chroot)
    return ",".join(hosts), chroot


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


def _store_error(path: str, error: BaseException) -> StoreError:
    for kazoo_type, store_type in _ERRORS:
        if isinstance(error, kazoo_type):
            return store_type(path, "ZooKeeper: " + (str(error) or type(error).__name__))
    return StoreError(path, f"ZooKeeper: {type(error).__name__} {error}".rstrip())
