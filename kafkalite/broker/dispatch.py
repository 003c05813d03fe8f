"""From the bytes of a request to the bytes of its answer: header, version check, decoding, handler, encoding.

`HANDLERS` maps an API to its handler; what ApiVersions advertises is derived from it. A handler takes (broker, request, context)
and returns the reply, None for no answer, or an awaitable of either. Errors are translated here, once: a `KafkaError` that a
handler lets out becomes the API's error reply, a `ProtocolViolation` closes the connection, anything else is reported
(`lifecycle.report`) and answered with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkalite.broker.error_replies import error_reply
from kafkalite.broker.fetching import replica_id_of
from kafkalite.errors import ErrorCode, KafkaError, ProtocolViolation
from kafkalite.histogram import Histogram
from kafkalite.lifecycle import report
from kafkalite.net.frames import read_head, read_request_header, response_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, Api, ApiKey, request_header_version
from kafkalite.types import Buffer

if TYPE_CHECKING:
    from kafkalite.broker.app import Broker
    from kafkalite.broker.connection import ServerConnection

Reply: TypeAlias = Any
Handler: TypeAlias = Callable[["Broker", Any, "RequestContext"], Reply | Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a handler knows of the caller besides the request."""

    api_version: int
    client_id: str | None
    connection: ServerConnection
    request_bytes: int = 0

    @property
    def listener(self) -> str:
        return self.connection.listener

    @property
    def user(self) -> str:
        """Name of the principal, by which quotas are found; who is not authenticated is Kafka's ANONYMOUS."""
        return "ANONYMOUS"


class Dispatcher:
    """See the module. `now_s` measures latencies."""

    def __init__(
        self,
        broker: Broker,
        handlers: dict[ApiKey, Handler],
        now_s: Callable[[], float] = perf_counter,
    ) -> None:
        self._broker = broker
        self.now_s = now_s
        self.routes = {
            int(key): (APIS[key], handler, inspect.iscoroutinefunction(handler)) for key, handler in handlers.items()
        }
        self._tasks: set[asyncio.Task[Any]] = set()
        self.latencies = {int(key): Histogram() for key in handlers}
        """From the turn of a request to its answer, what it waits for included, by API; of fetches, those of consumers."""
        self.follower_fetches = Histogram()

    def handle(self, frame: memoryview, connection: ServerConnection) -> list[Buffer] | asyncio.Future[Any] | None:
        """The answer's frame, a future of it, or None for no answer. ProtocolViolation when it is no request we know."""
        api_key, version, correlation_id = read_head(frame)
        route = self.routes.get(api_key)
        if route is None:
            raise ProtocolViolation(f"unknown api key {api_key}")
        api, handler, is_async = route
        if not api.min_version <= version <= api.max_version:
            if api_key == ApiKey.API_VERSIONS:
                return self._unknown_api_versions(correlation_id)
            raise ProtocolViolation(f"{api.name} version {version}; spoken are {api.min_version} to {api.max_version}")
        began_s = self.now_s()
        header = read_request_header(frame, request_header_version(api, version))
        request = codec.decode_request(api_key, version, frame, header.body_position)
        latency = self.latencies[api_key]
        if api_key == ApiKey.FETCH and replica_id_of(request) >= 0:
            latency = self.follower_fetches
        context = RequestContext(version, header.client_id, connection, len(frame))
        if is_async:
            awaited = handler(self._broker, request, context)
            return self._later(self._awaited(awaited, api, request, version, correlation_id, latency, began_s))
        try:
            reply = handler(self._broker, request, context)
            if isinstance(reply, asyncio.Future):
                return self._later(self._awaited(reply, api, request, version, correlation_id, latency, began_s))
            answer = _frame(api, version, correlation_id, reply)
        except ProtocolViolation:
            raise
        except Exception as problem:
            answer = _frame(api, version, correlation_id, self._failed(api, request, version, problem))
        latency.observe(self.now_s() - began_s)
        return answer

    def _later(self, coroutine: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _awaited(
        self,
        awaitable: Any,
        api: Api,
        request: Any,
        version: int,
        correlation_id: int,
        latency: Histogram,
        began_s: float,
    ) -> list[Buffer] | None:
        try:
            answer = _frame(api, version, correlation_id, await awaitable)
        except ProtocolViolation:
            raise
        except Exception as problem:
            answer = _frame(api, version, correlation_id, self._failed(api, request, version, problem))
        latency.observe(self.now_s() - began_s)
        return answer

    def _failed(self, api: Api, request: Any, version: int, problem: Exception) -> Reply:
        if isinstance(problem, KafkaError):
            return error_reply(api, request, version, problem.code, problem.message)
        report(f"{api.name} version {version} failed", problem)
        return error_reply(api, request, version, ErrorCode.UNKNOWN_SERVER_ERROR, "The server met an unexpected error.")

    def _unknown_api_versions(self, correlation_id: int) -> list[Buffer]:
        """Version 0, error 35, and the range of ApiVersions itself, so that the client asks again (KIP-511)."""
        m = messages.api_versions_response
        api = APIS[ApiKey.API_VERSIONS]
        only = m.ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        reply = m.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
        return response_frame(api, 0, correlation_id, codec.encode_response(reply, 0))

    def cancel_all(self) -> None:
        """Give up requests in progress, at shutdown."""
        for task in tuple(self._tasks):
            task.cancel()


def _frame(api: Api, version: int, correlation_id: int, reply: Reply) -> list[Buffer] | None:
    """The reply's frame; None where there is no answer."""
    if reply is None:
        return None
    return response_frame(api, version, correlation_id, codec.encode_response(reply, version))
