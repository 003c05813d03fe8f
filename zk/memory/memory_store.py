"""A ZooKeeper server and sessions on it, in memory, for tests and simulation; same port and contract as `kazoo_store`.

Nothing here waits for real time: requests are answered through the running event loop (`call_soon`, or `call_later` when
the server has a latency), in the order in which they were made, so that a run under virtual time repeats exactly.

What the real thing does to its users can be done to a `MemoryStore`: `suspend` and `resume` its connection, let the
server `expire_session`, and lose the reply to a request that was carried out (`lose_next_reply`). A session that stays
suspended for its timeout expires; the client learns it when it is resumed, as over a network. `MemoryZooKeeper` can
lose its quorum: every session is suspended and none expires meanwhile.

A store belongs to the event loop on which it was started and calls its users there, whichever loop a fault or another
session's write comes from: simulated processes have a loop each. A server without a `loop` of its own carries a request out and
answers it in one step on the loop of who asks, and its timers run on the loop that causes them. One with a loop is a machine of its
own: requests reach it even when their sender is paused or killed meanwhile, and answers and watch events take their way back, in one
order as ZooKeeper promises, so that between a write and its answer everything can happen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeVar, cast

from zk import paths
from zk.listeners import notify
from zk.memory.memory_tree import ZnodeTree
from zk.memory.memory_watches import MemoryWatches
from zk.memory.store_request import StoreRequest
from zk.session_store import SessionStore
from zk.store import (
    ANY_VERSION,
    Create,
    Delete,
    Operation,
    Result,
    SessionEnding,
    SessionExpiredError,
    SessionState,
    Stat,
    StoreClosedError,
    StoreError,
    Watcher,
    WatchEvent,
    Write,
)

T = TypeVar("T")
_FIRST_SESSION_ID = 0x1000_0000_0001
_PASSWORD_KEY = b"the secret of the ZooKeeper in memory"
_PASSWORD_BYTES = 16
_START_AGAIN_S = 0.25
_NOTICE_FACTOR = 30
"""Measured: the owner of a session that another client ended has lost it after 71 to 157 ms."""


class MemoryZooKeeper:
    """The server: one tree, any number of sessions.

    `latency_s()` gives the time from a request to its answer, in seconds. `on_transaction` is called with every transaction:
    the session's id, the operations and their results.
    """

    def __init__(self, latency_s: Callable[[], float] = lambda: 0.0) -> None:
        self.tree = ZnodeTree()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.latency_s = latency_s
        self.on_transaction: Callable[[int, Sequence[Operation], list[Result]], None] | None = None
        self.has_quorum = True
        self._next_session_id = _FIRST_SESSION_ID
        self._sessions: dict[int, MemoryStore] = {}
        self._stores: dict[MemoryStore, None] = {}
        """Those that had a session and were not closed."""

    def lose_quorum(self) -> None:
        """Suspend every session; time does not count against them until the quorum is back."""
        self.has_quorum = False
        for store in list(self._sessions.values()):
            store._at_home(store._lose_connection)

    def regain_quorum(self) -> None:
        """Restore the connections that were lost with the quorum, also of sessions that have ended meanwhile."""
        self.has_quorum = True
        for store in list(self._stores):
            store._at_home(store._regain_connection)

    def expire(self, session_id: int, noticed_after_s: float = 0.0) -> None:
        """End a session and delete its ephemeral znodes; its client is notified after that, as soon as it is connected."""
        store = self._sessions.pop(session_id, None)
        if store is not None:
            self._delete_ephemerals(session_id)
            store._session_expired(noticed_after_s)

    def end_session(self, session_id: int, password: bytes) -> SessionEnding:
        """End a session for anybody who knows its password."""
        if session_id not in self._sessions or password != _password_of(session_id):
            return SessionEnding.REFUSED
        # The server only closes the connection of the owner, which learns the reason when it has connected again.
        self.expire(session_id, _NOTICE_FACTOR * self.latency_s() if self.loop is not None else 0.0)
        return SessionEnding.ENDED

    def administer(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out operations of no session, as an administrator's shell does."""
        return self._apply(operations, 0)

    def _open(self, store: MemoryStore) -> int:
        session_id = self._next_session_id
        self._next_session_id += 1
        self._sessions[session_id] = store
        self._stores[store] = None
        return session_id

    def _close(self, session_id: int) -> None:
        if self._sessions.pop(session_id, None) is not None:
            self._delete_ephemerals(session_id)

    def _delete_ephemerals(self, session_id: int) -> None:
        for path in self.tree.ephemerals_of(session_id):
            self._apply([Delete(path)], session_id)

    def _apply(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        """Carry out a transaction and notify the sessions that watch its changes."""
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        results, events = self.tree.apply(operations, session_id, now_ms)
        for event in events:
            for store in list(self._sessions.values()):
                store._event_happened(event)
        if self.on_transaction is not None:
            self.on_transaction(session_id, operations, results)
        return results


class MemoryStore(SessionStore):
    """A `zk.store.Store` with a session on a `MemoryZooKeeper`."""

    def __init__(self, server: MemoryZooKeeper, session_timeout_s: float = 18.0) -> None:
        super().__init__()
        self.server = server
        self.session_timeout_s = session_timeout_s
        self._expired_unnoticed = False
        self._cut_off = False
        self._requests: deque[StoreRequest] = deque()
        self._watches = MemoryWatches()
        self._expiry: asyncio.TimerHandle | None = None
        self._lose_reply = False
        self.lag_s = 0.0
        """How much later than usual its requests reach a server with a loop of its own, and answers and watch events come back."""
        self._connection = 0
        self._last_arrival_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- faults

    def suspend(self, noticed_after_s: float = 0.0) -> None:
        """Cut the connection; the server ends the session when it stays cut for the session timeout.

        The client notices it at once, or, as without a reset, when it misses answers to its pings.
        """
        self._cut_off = True
        if noticed_after_s:
            self._own_loop.call_later(noticed_after_s, self._notice_cut)
        else:
            self._at_home(self._lose_connection)
        self.fall_silent()

    def fall_silent(self) -> None:
        """Pause the client's process: requests that were sent arrive, no more are sent until `resume`."""
        if self._expiry is None and self._session_id in self.server._sessions:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self.session_timeout_s, self._time_out)

    def resume(self) -> None:
        """Restore the connection: to the same session, or, if that ended, to a new one after its end is reported."""
        self._cut_off = False
        self._cancel_expiry()
        self._at_home(self._regain_connection)

    def expire_session(self) -> None:
        """End the session on the server; a connected client then gets a new one."""
        self.server.expire(self._session_id)

    def lose_next_reply(self) -> None:
        """Carry out the next request, but break the connection before its reply; it is restored at once."""
        self._lose_reply = True

    # -- the port

    async def start(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        deadline_s = self._loop.time() + timeout_s
        while self._cut_off or not self.server.has_quorum:
            if self._loop.time() >= deadline_s:
                raise TimeoutError(f"no session with the ZooKeeper in memory within {timeout_s:g} s")
            await asyncio.sleep(min(_START_AGAIN_S, timeout_s))
        self._new_session()

    async def close(self) -> None:
        if self._state is SessionState.CLOSED:
            return
        self._cancel_expiry()
        self.server._close(self._session_id)
        self.server._stores.pop(self, None)
        self._watches.clear()
        self._fail_requests(StoreClosedError)
        self._set_state(SessionState.CLOSED)

    async def read(self, path: str, watcher: Watcher | None = None) -> tuple[bytes, Stat]:
        return await self._read(self.server.tree.read, path, self._watches.data, watcher)

    async def exists(self, path: str, watcher: Watcher | None = None) -> Stat | None:
        return await self._read(self.server.tree.exists, path, self._watches.data, watcher)

    async def children(self, path: str, watcher: Watcher | None = None) -> list[str]:
        return await self._read(self.server.tree.children, path, self._watches.children, watcher)

    async def write(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return cast(Stat, await self._request(path, lambda: self._single(Write(path, data, version))))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._request(path, lambda: self._single(Delete(path, version)))

    async def sync(self, path: str = "/") -> None:
        await self._request(path, lambda: None)

    async def end_session(self, session_id: int, password: bytes, timeout_s: float) -> SessionEnding:
        self._ensure_connected("/")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[SessionEnding] = loop.create_future()

        def arrive(result: SessionEnding) -> None:
            if not self._cut_off and not answer.done():
                answer.set_result(result)

        def serve() -> None:
            if self._cut_off or not self.server.has_quorum:
                return
            result = self.server.end_session(session_id, password)
            if self._lose_reply:
                self._lose_reply = False
            elif self.server.loop is not None:
                loop.call_later(self.server.latency_s() + self.lag_s, arrive, result)
            else:
                arrive(result)

        lag_s = self.lag_s if self.server.loop is not None else 0.0
        (self.server.loop or loop).call_later(self.server.latency_s() + lag_s, serve)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise StoreError("/", f"no answer within {timeout_s:g} s to the end of session 0x{session_id:x}") from None

    # -- requests

    async def _read(
        self, ask: Callable[[str], T], path: str, watches: dict[str, dict[Watcher, None]], watcher: Watcher | None
    ) -> T:
        """Request a read of the tree, which arms the watch unless it fails."""

        def carry_out() -> T:
            found = ask(path)
            if watcher is not None:
                watches.setdefault(path, {})[watcher] = None
            return found

        return await self._request(path, carry_out)

    async def _read_many(self, paths: list[str]) -> list[tuple[bytes, Stat] | None]:
        return await self._request(paths[0], lambda: self.server.tree.read_many(paths))

    async def _create(self, operation: Create) -> str:
        return cast(str, await self._request(operation.path, lambda: self._single(operation)))

    async def _multi(self, operations: list[Operation]) -> list[Result]:
        return await self._request(operations[0].path, lambda: self.server._apply(operations, self._session_id))

    async def _request(self, path: str, carry_out: Callable[[], T]) -> T:
        """Queue a request and await its answer, also through a lost connection."""
        paths.check(path)
        self._ensure_session(path)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._requests.append(StoreRequest(path, carry_out, answer))
        self._schedule_answer()
        return await answer

    def _schedule_answer(self) -> None:
        latency_s = self.server.latency_s()
        if self.server.loop is not None:
            if self._state is SessionState.CONNECTED:
                self.server.loop.call_later(latency_s + self.lag_s, self._serve_next)
        elif latency_s:
            self._own_loop.call_later(latency_s, self._answer_next)
        else:
            self._own_loop.call_soon(self._answer_next)

    def _answer_next(self) -> None:
        """Carry out the oldest request, unless the connection is away: then it waits for `_regain_connection`."""
        if self._state is not SessionState.CONNECTED or not self._requests:
            return
        request = self._requests[0]
        request.run()
        if self._lose_reply:
            self._lose_reply = False
            self._lose_connection()
            self._own_loop.call_soon(self._regain_connection)
            return
        self._requests.popleft()
        request.complete()

    def _serve_next(self) -> None:
        """Carry out the oldest request that is there and send the answer, on the server's machine."""
        if self._cut_off or not self.server.has_quorum or self._session_id not in self.server._sessions:
            return
        request = next((each for each in self._requests if not each.served), None)
        if request is None:
            return
        request.run()

        def arrive() -> None:
            if request in self._requests:
                self._requests.remove(request)
            request.complete()

        if self._lose_reply:
            self._lose_reply = False
            self._own_loop.call_soon(self._lose_connection)
            self._own_loop.call_soon(self._regain_connection)
        else:
            self._send_back(arrive)

    def _send_back(self, arrive: Callable[[], None]) -> None:
        """Schedule an arrival at the client behind all earlier ones, unless its connection ends first."""
        connection, loop = self._connection, self._own_loop
        self._last_arrival_s = max(self._last_arrival_s + 1e-7, loop.time() + self.server.latency_s() + self.lag_s)

        def arrive_if_connected() -> None:
            if connection == self._connection and self._state is SessionState.CONNECTED:
                arrive()

        loop.call_at(self._last_arrival_s, arrive_if_connected)

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

    def _event_happened(self, event: WatchEvent) -> None:
        """Remove the watches of an event, and call their watchers now or when the connection is restored."""
        for watcher in self._watches.disarm(event):
            if self.server.loop is not None:
                self._watches.keep(watcher, event)
                self._send_back(self._watches.deliver_oldest)
            elif self._state is SessionState.CONNECTED:
                self._own_loop.call_soon(notify, [watcher], event)
            else:
                self._watches.keep(watcher, event)

    # -- the session

    @property
    def _own_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop or asyncio.get_running_loop()

    def _at_home(self, step: Callable[[], None]) -> None:
        """Call `step` now if this is the store's loop, else schedule it there."""
        if self._own_loop is asyncio.get_running_loop():
            step()
        else:
            self._own_loop.call_soon(step)

    def _new_session(self) -> None:
        """Open a session, unless it was closed or cut off meanwhile."""
        if self._cut_off or not self.server.has_quorum:
            return
        self._session_id = self.server._open(self)
        self._session_password = _password_of(self._session_id)
        self._expired_unnoticed = False
        self._set_state(SessionState.CONNECTED)

    def _notice_cut(self) -> None:
        if self._cut_off:
            self._lose_connection()

    def _lose_connection(self) -> None:
        self._connection += 1
        if self._state is SessionState.CONNECTED:
            self._set_state(SessionState.SUSPENDED)

    def _regain_connection(self) -> None:
        if self._cut_off or not self.server.has_quorum:
            return
        if self._state is SessionState.EXPIRED:
            self._new_session()
        elif self._state is not SessionState.CLOSED and self._expired_unnoticed:
            self._notice_expiry()
        elif self._state is SessionState.CONNECTED and self.server.loop is not None:
            # What was sent into the cut is sent again.
            for _ in range(sum(not each.served for each in self._requests)):
                self._schedule_answer()
        elif self._state is SessionState.SUSPENDED:
            self._set_state(SessionState.CONNECTED)
            for request in self._requests:
                request.served = False
            self._watches.deliver_all()
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

    def _session_expired(self, noticed_after_s: float) -> None:
        """Handle the end of the session on the server."""
        self._cancel_expiry()
        self._expired_unnoticed = True
        if self._state is SessionState.CONNECTED and not (self._cut_off and self.server.loop):
            if noticed_after_s:
                self._own_loop.call_later(noticed_after_s + self.lag_s, self._notice_expiry_if_connected)
            else:
                self._at_home(self._notice_expiry)

    def _notice_expiry_if_connected(self) -> None:
        if self._state is SessionState.CONNECTED and not self._cut_off:
            self._notice_expiry()

    def _notice_expiry(self) -> None:
        if self._state in (SessionState.CLOSED, SessionState.EXPIRED) or not self._expired_unnoticed:
            return
        self._connection += 1
        self._watches.clear()
        self._set_state(SessionState.EXPIRED)
        self._fail_requests(SessionExpiredError)
        self._own_loop.call_soon(self._renew_session)

    def _renew_session(self) -> None:
        if self._state is SessionState.EXPIRED:
            self._new_session()


def _password_of(session_id: int) -> bytes:
    """Return the password of a session: repeatable, and not to be guessed from the id by who does not look here."""
    return blake2b(session_id.to_bytes(8), digest_size=_PASSWORD_BYTES, key=_PASSWORD_KEY).digest()
