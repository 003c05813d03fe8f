"""The queue of requests to kazoo: bounded in flight, in order, repeated after a lost connection."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import kazoo.exceptions
from kazoo.client import KazooClient

from zk.kazoo_adapter.kazoo_bridge import Answer
from zk.request_errors import (
    MAX_REQUEST_BYTES,
    ConnectionBrokenError,
    TooLargeError,
    UnknownRequestError,
    most_losses,
)
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


_URGENT = 2**62
_ERRORS: tuple[tuple[type[Exception], type[StoreError]], ...] = (
    (kazoo.exceptions.NoNodeError, NoNodeError),
    (kazoo.exceptions.NodeExistsError, NodeExistsError),
    (kazoo.exceptions.BadVersionError, BadVersionError),
    (kazoo.exceptions.NotEmptyError, NotEmptyError),
    (kazoo.exceptions.NoAuthError, NoAuthError),
    (kazoo.exceptions.NoChildrenForEphemeralsError, NoChildrenForEphemeralsError),
    (kazoo.exceptions.RolledBackError, RolledBackError),
    (kazoo.exceptions.RuntimeInconsistency, RolledBackError),
    (kazoo.exceptions.UnimplementedError, UnknownRequestError),
    (kazoo.exceptions.MarshallingError, UnknownRequestError),
    # Before SessionExpiredError, of which kazoo makes it a subclass.
    (kazoo.exceptions.ConnectionClosedError, StoreClosedError),
    (kazoo.exceptions.SessionExpiredError, SessionExpiredError),
    (kazoo.exceptions.AuthFailedError, StoreClosedError),
)
_LOST = (
    kazoo.exceptions.ConnectionLoss,
    kazoo.exceptions.OperationTimeoutError,
    kazoo.exceptions.SessionMovedError,
)


@dataclass(slots=True, eq=False)
class _Request:
    """A request until it is answered; `order` is its place in the queue."""

    order: int
    path: str
    size_bytes: int
    send: Callable[[KazooClient], Any]
    answered: Callable[[Any], Any]
    answer: asyncio.Future[Any]
    max_losses: float
    losses: int = 0

    def __lt__(self, other: _Request) -> bool:
        return self.order < other.order

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def succeed(self, value: Any) -> None:
        """Convert the answer and set the result; also after the caller was cancelled, because a watch may be armed."""
        try:
            result = self.answered(value)
        except Exception as error:
            self.fail(error)
            return
        if not self.answer.done():
            self.answer.set_result(result)


class RequestQueue:
    """Requests of one store; blocked until `unblock`.

    A repeated request keeps its place in the order. A request belongs to the session in which it was made: after `session_ended` it
    fails with SessionExpiredError, even if kazoo carries it over into the next session.
    """

    def __init__(self, client: KazooClient, max_in_flight: int, max_request_bytes: int = MAX_REQUEST_BYTES) -> None:
        self._client = client
        self._max_request_bytes = max_request_bytes
        self._max_in_flight = max_in_flight
        self._blocked = True
        self._next_order = 0
        self._waiting: list[_Request] = []
        self._in_flight: set[_Request] = set()

    def request(
        self,
        path: str,
        send: Callable[[KazooClient], Any],
        answered: Callable[[Any], T],
        *,
        size_bytes: int = 0,
        urgent: bool = False,
        max_losses: float | None = None,
    ) -> asyncio.Future[T]:
        """Queue a request and return a future of its result; an urgent one goes before all others.

        `answered` converts kazoo's answer; it runs on the loop in the order of the answers. Raises StoreError when the request
        is too large. The future fails with ConnectionBrokenError when the connection breaks `max_losses` times on it, by default 3
        times on a request that is nearly as large as a server takes and never on others.
        """
        if size_bytes > self._max_request_bytes:
            raise TooLargeError(path, size_bytes, self._max_request_bytes)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        order = self._next_order - _URGENT if urgent else self._next_order
        self._next_order += 1
        if max_losses is None:
            max_losses = most_losses(size_bytes)
        heapq.heappush(self._waiting, _Request(order, path, size_bytes, send, answered, answer, max_losses))
        self._send_waiting()
        return answer

    def block(self) -> None:
        """Keep requests after a lost connection."""
        self._blocked = True

    def unblock(self) -> None:
        """Send the queued requests over a new connection."""
        self._blocked = False
        self._send_waiting()

    def session_ended(self) -> None:
        """Fail all requests, and block."""
        self._fail_all(SessionExpiredError, "the session ended before the request was answered")

    def close(self) -> None:
        """Fail all requests, for good."""
        self._fail_all(StoreClosedError, "the store was closed")

    def _fail_all(self, error: type[StoreError], why: str) -> None:
        self._blocked = True
        requests = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for request in requests:
            request.fail(error(request.path, why))

    def _send_waiting(self) -> None:
        """Send requests, oldest first, as many as may be in flight."""
        while self._waiting and not self._blocked and len(self._in_flight) < self._max_in_flight:
            request = heapq.heappop(self._waiting)
            if request.answer.done():
                continue
            self._in_flight.add(request)
            try:
                request.send(self._client).rawlink(partial(self._on_answer, request))
            except Exception as problem:
                self._in_flight.discard(request)
                request.fail(problem)

    def _on_answer(self, request: _Request, answer: Answer) -> None:
        if request not in self._in_flight:
            # Of a session that is over; kazoo may have carried the request over into the next one.
            return
        self._in_flight.discard(request)
        error = answer.exception
        if error is None:
            request.succeed(answer.value)
        elif isinstance(error, _LOST):
            # kazoo fails what is pending before it reports the change of state; sending again now would meet the same.
            self._blocked = self._blocked or isinstance(error, kazoo.exceptions.ConnectionLoss)
            self._send_again(request)
        else:
            request.fail(store_error(request.path, error))
        self._send_waiting()

    def _send_again(self, request: _Request) -> None:
        """Queue a request again after a lost connection, unless it seems to be the reason for the loss."""
        request.losses += 1
        if request.losses >= request.max_losses:
            request.fail(ConnectionBrokenError(request.path, request.losses, request.size_bytes))
        else:
            heapq.heappush(self._waiting, request)


def store_error(path: str, error: BaseException) -> StoreError:
    """Convert an error of kazoo."""
    text = f"ZooKeeper: {error}" if str(error) else f"ZooKeeper: {type(error).__name__}"
    return next((ours for theirs, ours in _ERRORS if isinstance(error, theirs)), StoreError)(path, text)
