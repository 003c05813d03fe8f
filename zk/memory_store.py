"""A ZooKeeper server and sessions on it, in memory, for tests and simulation; same port and contract as `kazoo_store`.

Nothing here waits for real time: requests are answered through the running event loop (`call_soon`, or `call_later` when
the server has a latency), in the order in which they were made, so that a run under virtual time repeats exactly.

What the real thing does to its users can be done to a `MemoryStore`: `suspend` and `resume` its connection, let the
server `expire_session`, and lose the reply to a request that was carried out (`lose_next_reply`). A session that stays
suspended for its timeout expires; the client learns it when it is resumed, as over a network. `MemoryZooKeeper` can
lose its quorum: every session is suspended and none expires meanwhile.

A store belongs to the event loop on which it was started and calls its users there, whichever loop a fault or another
session's write comes from: simulated processes have a loop each. Timers of the server run on the loop that causes them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from zk import paths
from zk.listeners import notify
from zk.memory_tree import ZnodeTree
from zk.store import (
    ANY_VERSION,
    Create,
    Delete,
    EventType,
    NoNodeError,
    Operation,
    Result,
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

T = TypeVar("T")
_FIRST_SESSION_ID = 0x1000_0000_0001
_CHILD_EVENTS = (EventType.CHILDREN, EventType.DELETED)


class MemoryZooKeeper:
    """The server: one tree, any number of sessions.

    `latency_s()` gives the time from a request to its answer, in seconds. `on_transaction` is told of every transaction:
    the session's id, the operations and their results.
    """

    def __init__(self, latency_s: Callable[[], float] = lambda: 0.0) -> None:
        self.tree = ZnodeTree()
        self.latency_s = latency_s
        self.on_transaction: Callable[[int, Sequence[Operation], list[Result]], None] | None = None
        self.has_quorum = True
        self._next_session_id = _FIRST_SESSION_ID
        self._sessions: dict[int, MemoryStore] = {}

    def lose_quorum(self) -> None:
        """Suspend every session; time does not count against them until the quorum is back."""
        self.has_quorum = False
        for store in list(self._sessions.values()):
            store._at_home(store._lose_connection)

    def regain_quorum(self) -> None:
        """Resume the sessions that lost their connection with the quorum."""
        self.has_quorum = True
        for store in list(self._sessions.values()):
            store._at_home(store._regain_connection)

    def expire(self, session_id: int) -> None:
        """End a session: its ephemeral znodes vanish, its client learns it as soon as it is connected."""
        store = self._sessions.pop(session_id, None)
        if store is not None:
            self._delete_ephemerals(session_id)
            store._session_expired()

    def _open(self, store: MemoryStore) -> int:
        session_id = self._next_session_id
        self._next_session_id += 1
        self._sessions[session_id] = store
        return session_id

    def _close(self, session_id: int) -> None:
        if self._sessions.pop(session_id, None) is not None:
            self._delete_ephemerals(session_id)

    def _delete_ephemerals(self, session_id: int) -> None:
        for path in self.tree.ephemerals_of(session_id):
            self._apply([Delete(path)], session_id)

    def _apply(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        """Carry out a transaction and tell the sessions that watch what it changed."""
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        results, events = self.tree.apply(operations, session_id, now_ms)
        for event in events:
            for store in list(self._sessions.values()):
                store._event_happened(event)
        if self.on_transaction is not None:
            self.on_transaction(session_id, operations, results)
        return results


class _Request:
    """A request on its way; `carry_out` runs on the server."""

    __slots__ = ("answer", "carry_out", "path")

    def __init__(self, path: str, carry_out: Callable[[], Any], answer: asyncio.Future[Any]) -> None:
        self.path = path
        self.carry_out = carry_out
        self.answer = answer


class MemoryStore:
    """A session on a `MemoryZooKeeper`; see `zk.store.Store`."""

    def __init__(self, server: MemoryZooKeeper, session_timeout_s: float = 18.0) -> None:
        self.server = server
        self.session_timeout_s = session_timeout_s
        self._state = SessionState.CLOSED
        self._session_id = 0
        self._expired_unnoticed = False
        self._cut_off = False
        self._listeners: list[SessionListener] = []
        self._requests: deque[_Request] = deque()
        self._data_watches: dict[str, dict[Watcher, None]] = {}
        self._child_watches: dict[str, dict[Watcher, None]] = {}
        self._undelivered: list[tuple[Watcher, WatchEvent]] = []
        self._expiry: asyncio.TimerHandle | None = None
        self._lose_reply = False
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- faults

    def suspend(self) -> None:
        """Cut the connection; the server ends the session when it stays cut for the session timeout."""
        self._cut_off = True
        self._at_home(self._lose_connection)
        if self._expiry is None and self._session_id in self.server._sessions:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self.session_timeout_s, self._time_out)

    def resume(self) -> None:
        """Mend the connection: to the same session, or, if that ended, to its end and then to a new one."""
        self._cut_off = False
        self._cancel_expiry()
        self._at_home(self._regain_connection)

    def expire_session(self) -> None:
        """Have the server end the session now; a connected client then gets a new one by itself."""
        self.server.expire(self._session_id)

    def lose_next_reply(self) -> None:
        """The next request is carried out, but the connection breaks before its reply; it comes back at once."""
        self._lose_reply = True

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
        if self._cut_off or not self.server.has_quorum:
            await asyncio.sleep(timeout_s)
        if self._cut_off or not self.server.has_quorum:
            raise TimeoutError(f"no session with the ZooKeeper in memory within {timeout_s:g} s")
        self._loop = asyncio.get_running_loop()
        self._new_session()

    async def close(self) -> None:
        if self._state is SessionState.CLOSED:
            return
        self._cancel_expiry()
        self.server._close(self._session_id)
        self._forget_watches()
        self._fail_requests(StoreClosedError)
        self._enter(SessionState.CLOSED)

    async def read(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, Stat]:
        def carry_out() -> tuple[bytes, Stat]:
            found = self.server.tree.read(path)
            self._watch(self._data_watches, path, watcher)
            return found

        return await self._request(path, carry_out)

    async def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        def carry_out() -> Stat | None:
            self._watch(self._data_watches, path, watcher)
            return self.server.tree.exists(path)

        return await self._request(path, carry_out)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        def carry_out() -> list[str]:
            names = self.server.tree.children(path)
            self._watch(self._child_watches, path, watcher)
            return names

        return await self._request(path, carry_out)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False, parents: bool = False
    ) -> str:
        operation = Create(path, data, ephemeral, sequence)
        try:
            return cast(str, await self._request(path, lambda: self._single(operation)))
        except NoNodeError:
            if not parents:
                raise
        await create_ancestors(self, path)
        return cast(str, await self._request(path, lambda: self._single(operation)))

    async def write(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return cast(Stat, await self._request(path, lambda: self._single(Write(path, data, version))))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._request(path, lambda: self._single(Delete(path, version)))

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        if not operations:
            return []
        fixed = list(operations)
        for operation in fixed:
            paths.check(operation.path)
        return await self._request(fixed[0].path, lambda: self.server._apply(fixed, self._session_id))

    async def sync(self, path: str = "/") -> None:
        await self._request(path, lambda: None)

    # -- requests

    async def _request(self, path: str, carry_out: Callable[[], T]) -> T:
        """Queue a request and await its answer; it waits as long as the connection is away."""
        paths.check(path)
        if self._state is SessionState.CLOSED:
            raise StoreClosedError(path, "the store is closed")
        if self._state is SessionState.EXPIRED:
            raise SessionExpiredError(path, "the session has expired")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._requests.append(_Request(path, carry_out, answer))
        self._schedule_answer()
        return await answer

    def _schedule_answer(self) -> None:
        latency_s = self.server.latency_s()
        if latency_s:
            self._own_loop.call_later(latency_s, self._answer_next)
        else:
            self._own_loop.call_soon(self._answer_next)

    def _answer_next(self) -> None:
        """Carry out the oldest request, unless the connection is away: then it waits for `_regain_connection`."""
        if self._state is not SessionState.CONNECTED or not self._requests:
            return
        request = self._requests[0]
        try:
            result, error = request.carry_out(), None
        except Exception as refusal:
            result, error = None, refusal
        if self._lose_reply:
            self._lose_reply = False
            self._lose_connection()
            self._own_loop.call_soon(self._regain_connection)
            return
        self._requests.popleft()
        if request.answer.done():
            return
        if error is None:
            request.answer.set_result(result)
        else:
            request.answer.set_exception(error)

    def _single(self, operation: Operation) -> Result:
        (result,) = self.server._apply([operation], self._session_id)
        if isinstance(result, StoreError):
            raise result
        return result

    def _fail_requests(self, error: type[StoreError]) -> None:
        requests, self._requests = self._requests, deque()
        for request in requests:
            if not request.answer.done():
                request.answer.set_exception(error(request.path, "the session ended before the request was answered"))

    # -- watches

    def _watch(self, watches: dict[str, dict[Watcher, None]], path: str, watcher: Watcher | None) -> None:
        if watcher is not None:
            watches.setdefault(path, {})[watcher] = None

    def _event_happened(self, event: WatchEvent) -> None:
        """Take the watches that this event ends, and call their watchers now or when the connection is back."""
        watchers: dict[Watcher, None] = {}
        if event.type is not EventType.CHILDREN:
            watchers |= self._data_watches.pop(event.path, {})
        if event.type in _CHILD_EVENTS:
            watchers |= self._child_watches.pop(event.path, {})
        for watcher in watchers:
            if self._state is SessionState.CONNECTED:
                self._own_loop.call_soon(notify, [watcher], event)
            else:
                self._undelivered.append((watcher, event))

    def _forget_watches(self) -> None:
        self._data_watches.clear()
        self._child_watches.clear()
        self._undelivered.clear()

    # -- the session

    @property
    def _own_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop or asyncio.get_running_loop()

    def _at_home(self, step: Callable[[], None]) -> None:
        """Take the step now, or, when the cause is on another loop, as the next thing on the store's own."""
        if self._own_loop is asyncio.get_running_loop():
            step()
        else:
            self._own_loop.call_soon(step)

    def _enter(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            notify(self._listeners, state)

    def _new_session(self) -> None:
        """Open a session, unless it was closed or cut off meanwhile."""
        if self._cut_off or not self.server.has_quorum:
            return
        self._session_id = self.server._open(self)
        self._expired_unnoticed = False
        self._enter(SessionState.CONNECTED)

    def _lose_connection(self) -> None:
        if self._state is SessionState.CONNECTED:
            self._enter(SessionState.SUSPENDED)

    def _regain_connection(self) -> None:
        if self._cut_off or not self.server.has_quorum:
            return
        if self._state is SessionState.EXPIRED:
            self._new_session()
        elif self._state is SessionState.SUSPENDED and self._expired_unnoticed:
            self._notice_expiry()
        elif self._state is SessionState.SUSPENDED:
            self._enter(SessionState.CONNECTED)
            undelivered, self._undelivered = self._undelivered, []
            for watcher, event in undelivered:
                notify([watcher], event)
            for _ in self._requests:
                self._schedule_answer()

    def _time_out(self) -> None:
        self._expiry = None
        if self.server.has_quorum:
            self.server.expire(self._session_id)
        else:
            self._expiry = asyncio.get_running_loop().call_later(self.session_timeout_s, self._time_out)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _session_expired(self) -> None:
        """The server ended the session."""
        self._cancel_expiry()
        self._expired_unnoticed = True
        if self._state is SessionState.CONNECTED:
            self._at_home(self._notice_expiry)

    def _notice_expiry(self) -> None:
        if self._state is SessionState.CLOSED:
            return
        self._forget_watches()
        self._enter(SessionState.EXPIRED)
        self._fail_requests(SessionExpiredError)
        self._own_loop.call_soon(self._renew_session)

    def _renew_session(self) -> None:
        if self._state is SessionState.EXPIRED:
            self._new_session()
