"""From the bytes of a request to the bytes of its answer: header, version check, decoding, authorisation, handler, encoding.

What is served comes from the records of `handlers`. A handler takes (parts, request, context) and returns the reply, None for no answer,
or an awaitable of either. Errors are translated here, once: a `KafkaError` that a handler lets out becomes the failure that the API's
record shapes, a `ProtocolViolation` closes the connection, anything else is reported (`lifecycle.report`) and answered
with UNKNOWN_SERVER_ERROR.

A request of more than 16 KiB, of Produce and Fetch more than `bounds.PLAIN_BYTES`, is decoded against a budget. Mostly the first portion
is all there is; what is longer is decoded a portion at each turn of the loop, one request at a time, and nothing behind it on its
connection begins before it is answered. While long requests in progress take more than 256 MiB, no other is decoded. A reply of many items
is written in portions too. Of more than a KiB not all requests begin in the turn of the loop in which they come: see `request_turns`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from kafkalite.broker.identity.authorizer import ALLOW_ALL, Authorizer, Permission
from kafkalite.broker.produce.request_template import FRAME_BYTES
from kafkalite.broker.requests.guards import Handle
from kafkalite.broker.requests.request_context import ClientConnection, RequestContext
from kafkalite.broker.requests.request_fields import find_replica_id
from kafkalite.broker.requests.request_handler import Answer
from kafkalite.broker.requests.request_turns import LONG_BYTES, TINY_BYTES, Line, RequestTurns
from kafkalite.broker.requests.served_api import PartsT_contra, Reply, ServedApi
from kafkalite.errors import BoundExceeded, ErrorCode, KafkaError, ProtocolViolation
from kafkalite.histogram import Histogram
from kafkalite.lifecycle import report
from kafkalite.net.frames import RECEIVE_BYTES, owned_copy, read_head, read_request_header, response_frame
from kafkalite.portions import Portions
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, Api, ApiKey, request_header_version
from kafkalite.protocol.bounds import PLAIN_BYTES, REQUEST_MEMORY_BYTES
from kafkalite.protocol.produce_outline import one_batch_at
from kafkalite.types import FrameMemory
from zk.store import SessionExpiredError

if TYPE_CHECKING:
    from kafkalite.broker.produce.fast_path import FastPath
    from kafkalite.net.frames import RequestHeader
    from kafkalite.protocol.messages import Message
    from kafkalite.protocol.schemas.compiler import Reading


_ITEMS_AT_ONCE: Final = 2000
_ONE_PARTITION: Final = 2
"""Number of names in a Produce of one topic with one partition."""
_ANY: Final = -1
"""Items of a reply that are written in one go."""
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)
"""To look up a member of an enum takes as long as two calls."""
_AS_LONG_AS_ASKED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""APIs whose reply has no more items than a short request can name, or than are answered at once; not to be counted each time."""
_KEPT_DECODED_BYTES: Final = 1024
"""A longer fetch is not kept decoded while it waits, for as long as its client likes: 4 KiB of the shortest topics take 180 KiB then."""
_SELDOM_PLAIN_BYTES: Final = 16 * 1024
"""As `PLAIN_BYTES`, for APIs of which there are few requests: their items may be so short that 128 KiB take 50 ms."""
_DECODED_BYTES_MAX = 4 * REQUEST_MEMORY_BYTES


class _Route(NamedTuple, Generic[PartsT_contra]):
    """The facts about an API that dispatch needs for each request, in one look-up."""

    served: ServedApi[PartsT_contra]
    api: Api
    first_version: int
    last_version: int
    handle: Callable[[PartsT_contra, Any, RequestContext], Any]
    """Its replies are distinguished by `is_async` and, where a handler may delay its answer, by their class."""
    is_async: bool
    cluster_permission: Permission | None
    latency: Histogram
    plain_bytes: int
    """A longer request is decoded against a budget."""
    fast_path: FastPath | None
    """Serves requests that repeat each other together."""


class _Decoded(NamedTuple):
    """A long request that was decoded in portions, and when its turn began."""

    request: Any
    began_s: float


class _Undecoded(NamedTuple):
    """A fetch that waits, as it came: decoded it may take forty times as much, and only its failure needs it once more."""

    frame: bytes
    api_key: int
    version: int
    body_position: int

    def decode(self) -> Message:
        request: Message = codec.reader(self.api_key, "request", self.version)(self.frame, self.body_position)
        return request


class Dispatcher(Generic[PartsT_contra]):
    """Serves the requests of all connections with the handlers of their APIs. `now_s` measures latencies.

    APIs between brokers are served on the listener of the name `peer_listener` and unknown on others.
    """

    def __init__(
        self,
        parts: PartsT_contra,
        served: Iterable[ServedApi[PartsT_contra]],
        authorizer: Authorizer = ALLOW_ALL,
        now_s: Callable[[], float] = perf_counter,
        peer_listener: str | None = None,
    ) -> None:
        self._parts, self._authorizer, self._peer_listener = parts, authorizer, peer_listener
        self.now_s = now_s
        self.portions = Portions()
        self.request_turns = RequestTurns(self.portions)
        routes = {int(each.api.key): _route(each, authorizer, parts) for each in served}
        self._plain_routes = {key: route for key, route in routes.items() if not route.api.is_for_brokers}
        self._peer_routes = {key: route for key, route in routes.items() if route.api.is_for_brokers}
        self._routes = self._plain_routes
        self._fast_paths = [route.fast_path for route in self._routes.values() if route.fast_path is not None]
        self._tasks: dict[asyncio.Task[Answer], None] = {}
        self._decoding = asyncio.Lock()
        self._decoded_bytes = 0
        """Memory of the long requests in progress."""
        self._decoded_less = asyncio.Event()
        self.latencies = {key: route.latency for key, route in routes.items()}
        """From the turn of a request to its answer, what it waits for included, by API; of fetches, those of consumers."""
        self.follower_fetches = Histogram()

    def run_within(self, around: Callable[[ServedApi[PartsT_contra], Handle], Handle] | None) -> None:
        """Call handlers through what `around` makes of them from now on, or with None as they are, which costs nothing.

        `around` may return the handler that it is given; what it makes itself returns replies or futures. APIs between brokers are exempt.
        """
        self._routes = self._plain_routes
        for fast_path in self._fast_paths:
            fast_path.is_off = around is not None
        if around is not None:
            self._routes = {}
            for key, route in self._plain_routes.items():
                handle = around(route.served, route.handle)
                is_async = route.is_async and handle is route.handle
                self._routes[key] = route._replace(handle=handle, is_async=is_async)

    def handle(
        self,
        frame: memoryview,
        connection: ClientConnection,
        decoded: _Decoded | None = None,
        has_waited: bool = False,
    ) -> Answer | asyncio.Future[Answer]:
        """Return the response's frame, a future of it, or None for no response. Raises ProtocolViolation for unknown requests."""
        api_key, version, correlation_id = read_head(frame)
        route = self._routes.get(api_key)
        if route is None:
            route = self._peer_route(api_key, connection)
        (
            served,
            api,
            first_version,
            last_version,
            handle,
            is_async,
            cluster_permission,
            latency,
            plain_bytes,
            fast_path,
        ) = route
        if not first_version <= version <= last_version:
            if api_key == ApiKey.API_VERSIONS:
                return self._unknown_api_versions(served, correlation_id)
            raise ProtocolViolation(f"{api.name} version {version}; spoken are {first_version} to {last_version}")
        size, records_at, records_place = len(frame), 0, None
        turns = self.request_turns
        is_weighed = size > TINY_BYTES and not has_waited
        if is_weighed and (api_key != _PRODUCE or turns.left <= 0 or turns.are_waiting):
            its_turn = self._its_turn(api_key, size, connection)
            if its_turn is not None:
                return self._later(self._in_turn(its_turn, _detach_frame(frame, connection), connection))
        try:
            header = read_request_header(frame, request_header_version(api, version))
            if decoded is not None:
                request, began_s = decoded
            else:
                began_s = self.now_s()
                if size <= plain_bytes or (
                    api_key == _PRODUCE and (records_at := one_batch_at(frame, header.body_position, version))
                ):
                    request = codec.reader(api_key, "request", version)(frame, header.body_position)
                else:
                    portions = codec.request_portions(api_key, version, frame, header.body_position)
                    request = _at_once(portions)
                    if request is None:
                        frame = _detach_frame(frame, connection)
                        return self._later(self._in_portions(frame, header, connection, began_s))
        except BoundExceeded as problem:
            raise BoundExceeded(problem.bound, f"{api.name} version {version}: {problem}") from None
        if is_weighed and api_key == _PRODUCE:
            named = 0
            for each in request.topic_data:
                named += 1 + len(each.partition_data)
            turns.charge(named)
            if records_at and named == _ONE_PARTITION and type(frame.obj) is FrameMemory:
                records_place = frame.obj, records_at
        if api_key == _FETCH and find_replica_id(request) >= 0:
            latency = self.follower_fetches
        context = RequestContext(
            version, header.client_id, connection, size, self._authorizer, self.portions, api.name, records_place
        )
        try:
            if cluster_permission is not None:
                context.require(cluster_permission)
            if fast_path is not None and size <= FRAME_BYTES:  # learnt now, as a waiting request has no records
                fast_path.learn_template(connection, frame, version, header.body_position, request)
            reply = handle(self._parts, request, context)
            if is_async or isinstance(reply, asyncio.Future):
                if api_key == _FETCH and size > _KEPT_DECODED_BYTES and decoded is None:
                    request = _Undecoded(bytes(frame), api_key, version, header.body_position)
                items_at_once = _ANY if size <= PLAIN_BYTES and api_key in _AS_LONG_AS_ASKED else _ITEMS_AT_ONCE
                return self._later(
                    self._await_reply(reply, served, request, version, correlation_id, latency, began_s, items_at_once)
                )
            if decoded is not None:
                writing = self._encode_reply(api, version, correlation_id, reply, _ITEMS_AT_ONCE)
                return self._later(self._observe_latency(writing, latency, began_s))
            answer = _frame(api, version, correlation_id, reply)
        except ProtocolViolation:
            raise
        except Exception as problem:
            if size > _SELDOM_PLAIN_BYTES:
                refusing = self._encode_failure(served, request, version, correlation_id, problem)
                return self._later(self._observe_latency(refusing, latency, began_s))
            answer = _frame(api, version, correlation_id, self._failure(served, request, version, problem)())
        latency.observe(self.now_s() - began_s)
        return answer

    def _peer_route(self, api_key: int, connection: ClientConnection) -> _Route[PartsT_contra]:
        """Return the route of an API between brokers. Raises ProtocolViolation for other keys, and for all on listeners of clients."""
        route = self._peer_routes.get(api_key) if connection.listener == self._peer_listener else None
        if route is None:
            raise ProtocolViolation(f"unknown api key {api_key}")
        return route

    def _its_turn(self, api_key: int, size: int, connection: ClientConnection) -> asyncio.Future[None] | None:
        """Return the future that a request has to wait for before it begins, None if it need not wait."""
        turns = self.request_turns
        if api_key == _PRODUCE:  # mostly records; what it names is charged when it is known
            return turns.begin(Line.PRODUCE, size >> 4, connection)
        its_turn = turns.begin(Line.LONG if size > LONG_BYTES else Line.SHORT, size >> 2, connection)
        if its_turn is None:
            turns.charge(size >> 2)
        return its_turn

    async def _in_turn(self, its_turn: asyncio.Future[None], frame: memoryview, connection: ClientConnection) -> Answer:
        """Serve a request when its turn has come."""
        await its_turn
        if connection.closed:
            return None
        answer = self.handle(frame, connection, has_waited=True)
        del frame  # which may be of no more use while the answer is waited for
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def _in_portions(
        self, frame: memoryview, header: RequestHeader, connection: ClientConnection, began_s: float
    ) -> Answer:
        """Decode what did not fit into one portion, then serve it."""
        api_key, version, _, _, position = header
        budget = codec.request_budget(api_key, len(frame))
        async with self._decoding:
            while self._decoded_bytes > _DECODED_BYTES_MAX:
                self._decoded_less.clear()
                await self._decoded_less.wait()
            try:
                request = await _all_of(codec.request_portions(api_key, version, frame, position, budget), connection)
            except BoundExceeded as problem:
                raise BoundExceeded(problem.bound, f"{APIS[api_key].name} version {version}: {problem}") from None
            if request is None:
                return None
            taken_bytes = budget.charged_bytes
            self._decoded_bytes += taken_bytes
        try:
            answer = self.handle(frame, connection, _Decoded(request, began_s), has_waited=True)
            return await answer if isinstance(answer, asyncio.Future) else answer
        finally:
            self._decoded_bytes -= taken_bytes
            self._decoded_less.set()

    @property
    def is_busy(self) -> bool:
        """True while long requests are in progress, or anything that is done in portions."""
        return self._decoding.locked() or self._decoded_bytes > 0 or self.portions.is_busy

    def _later(self, coroutine: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def _await_reply(
        self,
        awaitable: Awaitable[Reply],
        served: ServedApi[PartsT_contra],
        request: Message | _Undecoded,
        version: int,
        correlation_id: int,
        latency: Histogram,
        began_s: float,
        items_at_once: int,
    ) -> Answer:
        try:
            reply = await awaitable
            answer = await self._encode_reply(served.api, version, correlation_id, reply, items_at_once)
        except ProtocolViolation:
            raise
        except Exception as problem:
            asked = request.decode() if isinstance(request, _Undecoded) else request
            answer = await self._encode_failure(served, asked, version, correlation_id, problem)
        latency.observe(self.now_s() - began_s)
        return answer

    async def _observe_latency(self, answering: Awaitable[Answer], latency: Histogram, began_s: float) -> Answer:
        answer = await answering
        latency.observe(self.now_s() - began_s)
        return answer

    async def _encode_reply(
        self, api: Api, version: int, correlation_id: int, reply: Reply, items_at_once: int
    ) -> Answer:
        """Return the reply's frame, encoded in portions if the reply has more items than `items_at_once`."""
        if reply is None or items_at_once == _ANY or not messages.has_more_items(reply, items_at_once):
            return _frame(api, version, correlation_id, reply)
        body = await self.portions.finish(codec.encode_long_response(reply, version))
        return response_frame(api, version, correlation_id, body)

    async def _encode_failure(
        self, served: ServedApi[PartsT_contra], request: Message, version: int, correlation_id: int, problem: Exception
    ) -> Answer:
        """Return the response to a request that failed. It has as many items as the request; one of many is made in another thread."""
        shape = self._failure(served, request, version, problem)
        is_long = messages.has_more_items(request, _ITEMS_AT_ONCE)
        failure = await self.portions.in_thread(shape) if is_long else shape()
        return await self._encode_reply(served.api, version, correlation_id, failure, _ITEMS_AT_ONCE)

    def _failure(
        self, served: ServedApi[PartsT_contra], request: Message, version: int, problem: Exception
    ) -> Callable[[], Message]:
        """Return the function that makes the failure of a request."""
        if isinstance(problem, KafkaError):
            problem.as_outcome()
            return partial(served.failure, request, problem.code, problem.message)
        if isinstance(problem, SessionExpiredError):
            # Who asks again is answered under the next session, with which controllers tell this broker everything anyway.
            text = "the broker's session with ZooKeeper ended meanwhile"
            return partial(served.failure, request, ErrorCode.REQUEST_TIMED_OUT, text)
        report(f"{served.api.name} version {version} failed", problem)
        return partial(served.failure, request, ErrorCode.UNKNOWN_SERVER_ERROR, "The server met an unexpected error.")

    def _unknown_api_versions(self, served: ServedApi[PartsT_contra], correlation_id: int) -> Answer:
        """Return version 0, error 35, and the range of ApiVersions itself, so that the client asks again (KIP-511)."""
        m = messages.api_versions_response
        api = served.api
        only = m.ApiVersion(api_key=api.key, min_version=served.first_version, max_version=served.last_version)
        reply = m.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
        return response_frame(api, 0, correlation_id, codec.encode_response(reply, 0))

    def cancel_all(self) -> None:
        """Serve what was accepted on the fast path and give up requests in progress, at shutdown."""
        for fast_path in self._fast_paths:
            fast_path.serve_accepted()
        for task in tuple(self._tasks):
            task.cancel()


def _detach_frame(frame: memoryview, connection: ClientConnection) -> memoryview:
    """Return a frame that may be kept while requests behind it wait: not in the receive buffer that all connections share."""
    connection.stop_pipelining()
    return owned_copy(frame) if len(frame) <= RECEIVE_BYTES else frame


def _at_once(portions: Reading) -> Any:
    """Return the request if its first portion is all of it, else None."""
    try:
        next(portions)
    except StopIteration as end:
        return end.value
    return None


async def _all_of(portions: Reading, connection: ClientConnection) -> Any:
    """Return the request, None if its client has left before it was decoded."""
    while not connection.closed:
        try:
            next(portions)
        except StopIteration as end:
            return end.value
        await asyncio.sleep(0)
    return None


def _route(served: ServedApi[PartsT_contra], authorizer: Authorizer, parts: PartsT_contra) -> _Route[PartsT_contra]:
    is_guarded = authorizer is not ALLOW_ALL
    is_behind_guard = is_guarded and served.guard is not None
    latency = Histogram()
    return _Route(
        served,
        served.api,
        served.first_version,
        served.last_version,
        served.guarded_handle if is_behind_guard else served.handle,
        served.is_async and not is_behind_guard,
        served.cluster_permission if is_guarded else None,
        latency,
        PLAIN_BYTES if served.api.key in _AS_LONG_AS_ASKED else _SELDOM_PLAIN_BYTES,
        served.fast_path(parts, latency, authorizer) if served.fast_path is not None else None,
    )


def _frame(api: Api, version: int, correlation_id: int, reply: Reply) -> Answer:
    """Return the reply's frame, None if there is no response."""
    if reply is None:
        return None
    return response_frame(api, version, correlation_id, codec.encode_response(reply, version))
