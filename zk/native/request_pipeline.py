"""The requests of one store on their way: bounded in flight, in order, repeated after a lost connection. On the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from zk.protocol.connection import Reply
from zk.protocol.requests import Code, ErrorCode, Request
from zk.request_errors import ConnectionBrokenError, TooLargeError, UnknownRequestError, most_losses
from zk.store import (
    BadVersionError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    SessionExpiredError,
    StoreClosedError,
    StoreError,
)

T = TypeVar("T")

_ERRORS: Final[dict[int, type[StoreError]]] = {
    ErrorCode.OK: RolledBackError,  # of an operation before the one that failed
    ErrorCode.RUNTIME_INCONSISTENCY: RolledBackError,  # of one behind it
    ErrorCode.NO_NODE: NoNodeError,
    ErrorCode.NODE_EXISTS: NodeExistsError,
    ErrorCode.BAD_VERSION: BadVersionError,
    ErrorCode.NOT_EMPTY: NotEmptyError,
    ErrorCode.NO_AUTH: NoAuthError,
    ErrorCode.NO_CHILDREN_FOR_EPHEMERALS: NoChildrenForEphemeralsError,
    ErrorCode.UNIMPLEMENTED: UnknownRequestError,
    ErrorCode.MARSHALLING: UnknownRequestError,
    ErrorCode.SESSION_EXPIRED: SessionExpiredError,
    ErrorCode.AUTH_FAILED: StoreClosedError,
}
_NAMES: Final = {each.value: each.name for each in ErrorCode}


def store_error(path: str, code: int) -> StoreError:
    """Return the error for a code of a reply, or of a result in a multi that failed."""
    return _ERRORS.get(code, StoreError)(path, f"ZooKeeper: {_NAMES.get(code, f'error {code}')}")


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request until its reply; `path` is without chroot, for errors."""

    request: Request
    path: str
    answer: asyncio.Future[Any]
    convert: Callable[[Any], Any] | None
    size_bytes: int
    max_losses: float
    losses: int = 0

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def complete(self, reply: Reply) -> None:
        """Convert the value and set the result; also after the caller was cancelled, because a watch may be armed."""
        if reply.error != ErrorCode.OK:
            self.fail(store_error(self.path, reply.error))
            return
        value = reply.value
        if self.convert is not None:
            try:
                value = self.convert(value)
            except Exception as error:
                self.fail(error)
                return
        if not self.answer.done():
            self.answer.set_result(value)


class RequestPipeline:
    """Requests of one store; none is sent until `open`. `submit` gets the number of the connection and the request.

    Requests that are repeated keep their place in the order. A request belongs to the session in which it was made: after
    `session_ended` it fails with SessionExpiredError.
    """

    def __init__(self, submit: Callable[[int, Request], object], max_in_flight: int, max_request_bytes: int) -> None:
        self._submit = submit
        self._max_in_flight = max_in_flight
        self._max_request_bytes = max_request_bytes
        self._connection: int | None = None
        self._waiting: deque[PendingRequest] = deque()
        self._in_flight: deque[PendingRequest] = deque()

    def request(
        self,
        path: str,
        request: Request,
        convert: Callable[[Any], T] | None = None,
        *,
        size_bytes: int = 0,
        max_losses: float | None = None,
    ) -> asyncio.Future[T]:
        """Queue a request and return a future of its result, which `convert` makes on the loop in the order of the replies.

        Raises TooLargeError. The future fails with ConnectionBrokenError when the connection breaks `max_losses` times on it, by default 3
        times on a request that is nearly as large as a server takes and never on others.
        """
        if size_bytes > self._max_request_bytes:
            raise TooLargeError(path, size_bytes, self._max_request_bytes)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if max_losses is None:
            max_losses = most_losses(size_bytes)
        pending = PendingRequest(request, path, answer, convert, size_bytes, max_losses)
        if self._connection is None or self._waiting or len(self._in_flight) >= self._max_in_flight:
            self._waiting.append(pending)
        else:
            self._send(self._connection, pending)
        return answer

    def open(
        self, connection: int, rearming: Iterable[tuple[Request, Callable[[Any], object]]] = ()
    ) -> list[asyncio.Future[Any]]:
        """Send the requests that arm watches again, then those that wait, over a new connection; return the futures of the former."""
        answers: list[asyncio.Future[Any]] = []
        self._connection = connection
        for request, convert in rearming:
            answers.append(asyncio.get_running_loop().create_future())
            self._send(connection, PendingRequest(request, "/", answers[-1], convert, 0, most_losses(0)))
        self._send_waiting()
        return answers

    def complete(self, reply: Reply) -> None:
        """Complete the oldest request in flight. More are sent with `send_more`."""
        pending = self._in_flight.popleft()
        if pending.request is not reply.request:
            raise RuntimeError(f"the reply is not that to the request for {pending.path}")
        pending.complete(reply)

    def send_more(self) -> None:
        """Send requests in the place of those that were completed."""
        if self._waiting:
            self._send_waiting()

    def block(self) -> None:
        """Keep requests after a lost connection, those in flight too: they are sent again."""
        self._connection = None
        again: list[PendingRequest] = []
        for pending in self._in_flight:
            pending.losses += 1
            if pending.request.code is Code.SET_WATCHES:
                pending.answer.cancel()
            elif pending.losses >= pending.max_losses:
                pending.fail(ConnectionBrokenError(pending.path, pending.losses, pending.size_bytes))
            else:
                again.append(pending)
        self._in_flight.clear()
        self._waiting.extendleft(reversed(again))

    def session_ended(self) -> None:
        """Fail all requests, and block."""
        self._fail_all(SessionExpiredError, "the session ended before the request was answered")

    def close(self) -> None:
        """Fail all requests, for good."""
        self._fail_all(StoreClosedError, "the store was closed")

    def _fail_all(self, error: type[StoreError], why: str) -> None:
        self._connection = None
        failed = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for pending in failed:
            pending.fail(error(pending.path, why))

    def _send_waiting(self) -> None:
        while self._waiting and self._connection is not None and len(self._in_flight) < self._max_in_flight:
            pending = self._waiting.popleft()
            if not pending.answer.done():
                self._send(self._connection, pending)

    def _send(self, connection: int, pending: PendingRequest) -> None:
        self._in_flight.append(pending)
        self._submit(connection, pending.request)
