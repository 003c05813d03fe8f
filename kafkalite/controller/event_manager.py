"""The queue of controller events with its one consumer, as Kafka's ControllerEventManager."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from kafkalite.controller import events
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.histogram import Histogram
from kafkalite.lifecycle import end_tasks, report

logger = logging.getLogger(__name__)

NOT_CONTROLLER_MESSAGE = "This is not the correct controller for this cluster."


@dataclass(slots=True)
class _Queued:
    event: events.Event
    reply: asyncio.Future[Any] | None
    since_s: float


class ControllerEventManager:
    """Handle one event at a time, to its end, in order of arrival.

    `handle` is awaited for each event; its result or error goes to the future that `submit` returned. Controlled shutdowns that wait one
    behind the other are one event, whose result is a list: a rack that stops moves each leadership once, and the brokers are told once.
    """

    def __init__(
        self,
        handle: Callable[[events.Event], Awaitable[Any]],
        on_fatal: Callable[[BaseException], None] | None = None,
        now_s: Callable[[], float] = perf_counter,
    ) -> None:
        self._handle = handle
        self._now_s = now_s
        self._on_fatal = on_fatal
        self._queued: deque[_Queued] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._handled: Counter[str] = Counter()
        self.waits = Histogram()
        """Time that events spent in the queue, in seconds."""
        self.handling = Histogram()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._consume(), name="controller-events")

    async def stop(self) -> None:
        """Drop all queued events and cancel the consumer, also in the middle of an event."""
        self.clear()
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None

    def put(self, event: events.Event) -> None:
        """Queue an event whose outcome nobody needs."""
        self._queued.append(_Queued(event, None, self._now_s()))
        self._wake.set()

    def submit(self, event: events.Event) -> asyncio.Future[Any]:
        """Queue an event and return a future of its result or KafkaError.

        Raises KafkaError NOT_CONTROLLER when the consumer is not running.
        """
        if self._task is None or self._task.done():
            raise not_controller_error(event)
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queued.append(_Queued(event, reply, self._now_s()))
        self._wake.set()
        return reply

    def clear(self) -> None:
        """Drop all queued events; futures of `submit` get the error NOT_CONTROLLER."""
        dropped, self._queued = self._queued, deque()
        for queued in dropped:
            _set_error((queued,), not_controller_error(queued.event))

    def statistics(self) -> dict[str, Any]:
        """Return the queue's length, the count of handled events by type, and histograms of waiting and handling."""
        return {
            "queued_events": len(self._queued),
            "handled_events": dict(self._handled),
            "event_waits": self.waits,
            "event_handling": self.handling,
        }

    async def _consume(self) -> None:
        while True:
            while not self._queued:
                self._wake.clear()
                await self._wake.wait()
            event, taken = self._take_event()
            began_s = self._now_s()
            for queued in taken:
                self._handled[type(queued.event).__name__] += 1
                self.waits.observe(began_s - queued.since_s)
            try:
                answer = await self._handle(event)
            except asyncio.CancelledError:
                _set_error(taken, not_controller_error(event))
                raise
            except KafkaError as problem:
                _set_error(taken, problem)
            except InvariantBroken as problem:
                logger.critical("the controller stops, an invariant is broken: %s", problem)
                _set_error(taken, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
                self.clear()
                if self._on_fatal is not None:
                    self._on_fatal(problem)
                raise
            except Exception as problem:
                report(f"the controller failed to handle {event}", problem)
                _set_error(taken, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)))
            else:
                for queued, outcome in zip(taken, [answer] if len(taken) == 1 else answer, strict=True):
                    _set_outcome(queued, outcome)
            finally:
                self.handling.observe(self._now_s() - began_s)
            if self._queued:
                await asyncio.sleep(0)  # events that need no I/O must not starve the event loop

    def _take_event(self) -> tuple[events.Event, list[_Queued]]:
        """Take the oldest event, with those that are handled together with it."""
        taken = [self._queued.popleft()]
        first = taken[0].event
        together = [first] if isinstance(first, events.ControlledShutdown) else []
        while together and self._queued and isinstance(following := self._queued[0].event, events.ControlledShutdown):
            together.append(following)
            taken.append(self._queued.popleft())
        return (events.ControlledShutdowns(tuple(together)) if len(together) > 1 else first), taken


def _set_outcome(queued: _Queued, outcome: Any) -> None:
    """Answer with a result, or with the error that one of several events was refused with."""
    if isinstance(outcome, KafkaError):
        _set_error((queued,), outcome)
    elif queued.reply is not None and not queued.reply.done():
        queued.reply.set_result(outcome)


def _set_error(taken: Iterable[_Queued], problem: KafkaError) -> None:
    for queued in taken:
        if queued.reply is not None and not queued.reply.done():
            queued.reply.set_exception(problem)


def not_controller_error(event: events.Event) -> KafkaError:
    """Return the error for a request to a broker that is not, or no longer, the controller."""
    if isinstance(event, events.ControlledShutdown | events.ControlledShutdowns):
        return KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH, "the controller moved to another broker")
    return KafkaError(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER_MESSAGE)
