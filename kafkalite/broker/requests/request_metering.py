"""Counts the time of the event loop that handlers take for request_percentage, and silences clients that take too much (KIP-124, KIP-219).

Dispatch runs handlers within it only while somebody has such a quota. What a handler does in several steps or portions counts, what
it waits for does not, nor what reading and writing the messages takes. Other than in Kafka a fetch that is throttled has its
records, as they have been read for it already. Exempt, as in Kafka, is what brokers ask of each
other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final

from kafkalite.broker.requests.guards import Handle, narrow
from kafkalite.broker.requests.request_fields import find_replica_id
from kafkalite.errors import KafkaError
from kafkalite.portions import Portions, T, Work
from kafkalite.protocol.apis import ApiKey

if TYPE_CHECKING:
    from kafkalite.broker.requests.request_context import RequestContext
    from kafkalite.broker.requests.served_api import Reply, ServedApi
    from kafkalite.broker.settings.quotas import RequestTimeQuota

_NS_OF_A_MS: Final = 1_000_000
_EXEMPT: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
_SHAPED_BYTES: Final = 16 * 1024
"""The failure of a longer request is shaped elsewhere, in portions, and without a throttle time."""


class RequestMetering:
    """Charges clients for the time that their requests take, and delays them. `now_ms` is monotonic, with fractions."""

    def __init__(self, quota: RequestTimeQuota, now_ms: Callable[[], float]) -> None:
        self._quota, self._now_ms = quota, now_ms

    def around(self, served: ServedApi[Any], handle: Handle) -> Handle:
        """Return the handler, whose time is charged to clients."""
        if served.api.key in _EXEMPT:
            return handle
        of_followers_too = served.api.key == ApiKey.FETCH

        def meter_call(parts: Any, request: Any, context: RequestContext) -> Any:
            if of_followers_too and find_replica_id(request) >= 0:
                return handle(parts, request, context)
            spent = _Spent(self._now_ms)
            context.portions = _CountedPortions(context.portions, spent)
            try:
                with spent:
                    reply = handle(parts, request, context)
            except KafkaError as problem:
                return self._make_failure(problem, served, request, spent, context)
            if isinstance(reply, asyncio.Future):
                return asyncio.ensure_future(self._meter_delayed(reply, spent, context))
            if isinstance(reply, Coroutine):
                return asyncio.ensure_future(self._later(_Steps(reply, spent), served, request, spent, context))
            return _set_throttle(reply, self._charge(spent, context))

        return meter_call

    async def _later(
        self, steps: _Steps, served: ServedApi[Any], request: Any, spent: _Spent, context: RequestContext
    ) -> Reply:
        try:
            answer = await steps
        except KafkaError as problem:
            return self._make_failure(problem, served, request, spent, context)
        except BaseException:
            self._charge(spent, context)
            raise
        return _set_throttle(answer, self._charge(spent, context))

    async def _meter_delayed(self, reply: asyncio.Future[Reply], spent: _Spent, context: RequestContext) -> Reply:
        """Charge a delayed reply once it is complete, without the request, which a delayed fetch would keep in memory."""
        try:
            answer = await reply
        except BaseException:
            self._charge(spent, context)
            raise
        return _set_throttle(answer, self._charge(spent, context))

    def _make_failure(
        self, problem: KafkaError, served: ServedApi[Any], request: Any, spent: _Spent, context: RequestContext
    ) -> Reply:
        """Return the failure with its throttle time. Raises it for dispatch if there is none."""
        throttle_ms = self._charge(spent, context)
        if not throttle_ms or context.request_bytes > _SHAPED_BYTES:
            raise problem
        return _set_throttle(served.failure(request, problem.code, problem.message), throttle_ms)

    def _charge(self, spent: _Spent, context: RequestContext) -> int:
        """Charge the client and mute its connection; return for how many ms."""
        throttle_ms = self._quota.charge(
            context.user, context.client_id or "", int(spent.ms * _NS_OF_A_MS), self._now_ms()
        )
        if throttle_ms:
            context.connection.mute(throttle_ms / 1000)
        return throttle_ms


class _Spent:
    """Adds up the time that passes within it."""

    __slots__ = ("_began_ms", "_now_ms", "ms")

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms, self._began_ms = now_ms, 0.0
        self.ms = 0.0

    def __enter__(self) -> None:
        self._began_ms = self._now_ms()

    def __exit__(self, *_: object) -> None:
        self.ms += self._now_ms() - self._began_ms


class _Steps:
    """Awaits a coroutine, and counts its steps without the time between them."""

    def __init__(self, coroutine: Coroutine[Any, Any, Reply], spent: _Spent) -> None:
        self._coroutine, self._spent = coroutine, spent

    def __await__(self) -> Generator[Any, None, Reply]:
        steps, problem = self._coroutine, None
        while True:
            try:
                with self._spent:
                    awaited = steps.send(None) if problem is None else steps.throw(problem)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
            problem = None
            try:
                yield awaited
            except BaseException as thrown:  # cancelled
                problem = thrown


class _CountedPortions(Portions):
    """Those of the whole broker; the portions of this request's work are counted."""

    def __init__(self, shared: Portions, spent: _Spent) -> None:
        super().__init__()
        self._shared, self._spent, self._at_once = shared, spent, shared._at_once

    def _queue(self, work: Work[T], is_fresh: bool = False) -> asyncio.Future[T]:
        return self._shared._queue(self._count_time(work), is_fresh)

    async def in_thread(self, function: Callable[[], T]) -> T:
        return await self._shared.in_thread(function)

    def _count_time(self, work: Work[T]) -> Work[T]:
        try:
            while True:
                try:
                    with self._spent:
                        next(work)
                except StopIteration as end:
                    result: T = end.value
                    return result
                yield
        finally:
            work.close()


def _set_throttle(reply: Reply, throttle_ms: int) -> Reply:
    """Return the reply with the longer of two throttle times, if it has a field for one."""
    if reply is None or not throttle_ms or throttle_ms <= getattr(reply, "throttle_time_ms", throttle_ms):
        return reply
    return narrow(reply, throttle_time_ms=throttle_ms)  # a copy: some replies are made once for everybody
