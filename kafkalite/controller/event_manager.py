"""The controller's two engines: the queue of events with its one consumer, and the driver that performs a procedure's I/O.

`ControllerEventManager` handles one event at a time, to its end, in order of arrival. `Tenure` is one term in office: the seat with
its fenced writes, the cluster state, the channels to the brokers, the watches. Once it has ended (`end`) it
performs nothing more, so that nothing is written under a later session; its watches are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

from kafkalite.controller import events, steps
from kafkalite.controller.channel_manager import ControllerChannelManager
from kafkalite.controller.cluster_state import ClusterState, RegisteredBroker
from kafkalite.controller.topics.topic_znodes import random_topic_id
from kafkalite.controller.watches import event_for_watch
from kafkalite.controller.wire import encode_commands
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.failpoints import reach
from kafkalite.histogram import Histogram
from kafkalite.lifecycle import end_tasks, report
from kafkalite.portions import Portions
from zk.controller_seat import FencedWriter, Seat, vacate
from zk.store import NoNodeError, Operation, Result, Stat, Store, StoreError, WatchEvent

logger = logging.getLogger(__name__)

T = TypeVar("T")

NOT_CONTROLLER_MESSAGE = "This is not the correct controller for this cluster."

CONCURRENT_READS = 256
"""Reads that are under way at once; the session pipelines them."""

WRITES_TOGETHER = 64
"""Writes in one multi; far below ZooKeeper's limit of 1 MiB for a request."""


@dataclass(slots=True)
class _Queued:
    event: events.Event
    reply: asyncio.Future[Any] | None
    since_s: float


class ControllerEventManager:
    """See the module. `handle` is awaited for each event; what it returns or raises goes to whoever waits for it."""

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
        """How long events waited for their turn."""
        self.handling = Histogram()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._consume(), name="controller-events")

    async def stop(self) -> None:
        """Drop what waits and end the consumer, wherever it stands."""
        self.clear()
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None

    def put(self, event: events.Event) -> None:
        """Queue an event that nobody waits for."""
        self._queued.append(_Queued(event, None, self._now_s()))
        self._wake.set()

    def submit(self, event: events.Event) -> asyncio.Future[Any]:
        """Queue an event; the future gets the answer, or a KafkaError. KafkaError at once when nobody consumes."""
        if self._task is None or self._task.done():
            raise not_controller_error(event)
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queued.append(_Queued(event, reply, self._now_s()))
        self._wake.set()
        return reply

    def clear(self) -> None:
        """Drop what waits; who waits for an answer hears that this is not the controller."""
        dropped, self._queued = self._queued, deque()
        for queued in dropped:
            _set_error(queued, not_controller_error(queued.event))

    def statistics(self) -> dict[str, Any]:
        """Events that wait, how many of each type were handled, and how long they waited and took."""
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
            queued = self._queued.popleft()
            self._handled[type(queued.event).__name__] += 1
            began_s = self._now_s()
            self.waits.observe(began_s - queued.since_s)
            try:
                answer = await self._handle(queued.event)
            except asyncio.CancelledError:
                _set_error(queued, not_controller_error(queued.event))
                raise
            except KafkaError as problem:
                _set_error(queued, problem)
            except InvariantBroken as problem:
                logger.critical("the controller stops, an invariant is broken: %s", problem)
                _set_error(queued, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
                self.clear()
                if self._on_fatal is not None:
                    self._on_fatal(problem)
                raise
            except Exception as problem:
                report(f"the controller failed to handle {queued.event}", problem)
                _set_error(queued, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)))
            else:
                if queued.reply is not None and not queued.reply.done():
                    queued.reply.set_result(answer)
            finally:
                self.handling.observe(self._now_s() - began_s)
            if self._queued:
                await asyncio.sleep(0)  # an event that needs no I/O must not keep the loop from its turn


def _set_error(queued: _Queued, problem: KafkaError) -> None:
    if queued.reply is not None and not queued.reply.done():
        queued.reply.set_exception(problem)


def not_controller_error(event: events.Event) -> KafkaError:
    """What a broker that is not, or no longer, the controller answers."""
    if isinstance(event, events.ControlledShutdown):
        return KafkaError(ErrorCode.STALE_CONTROLLER_EPOCH, "the controller moved to another broker")
    return KafkaError(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER_MESSAGE)


class TenureEnded(Exception):
    """A procedure went on after its controller had left office."""


class Tenure:
    """See the module. `put` queues an event. `settled` is set once the cluster was read, or the tenure ended."""

    def __init__(
        self,
        store: Store,
        seat: Seat,
        cluster: ClusterState,
        channels: ControllerChannelManager,
        put: Callable[[events.Event], None],
        rng: random.Random,
    ) -> None:
        self.seat = seat
        self.cluster = cluster
        self.channels = channels
        self.ended = False
        self.settled = asyncio.Event()
        self._store = store
        self._writer = FencedWriter(store, seat)
        self._put = put
        self._rng = rng
        self._reads = asyncio.Semaphore(CONCURRENT_READS)
        self._portions = Portions()

    def end(self) -> None:
        """Leave office: no more effects, no more requests to brokers."""
        self.ended = True
        self.settled.set()
        self.channels.stop()

    async def perform(self, procedure: steps.Steps[T]) -> T:
        """Run a procedure to its end and return its result.

        Raises ControllerMovedError when the seat is lost, TenureEnded after `end`, SessionExpiredError, and whatever the
        procedure raises.
        """
        answer: Any = None
        try:
            while True:
                effect = procedure.send(answer)
                if self.ended:
                    raise TenureEnded
                answer = await self._perform(effect)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        finally:
            procedure.close()

    async def release(self) -> None:
        """Give up the seat so that another broker can take it."""
        await vacate(self._store, self.seat)

    async def _perform(self, effect: steps.Effect) -> Any:
        match effect:
            case steps.Read(paths, watch):
                return await asyncio.gather(*(self._read(path, watch) for path in paths))
            case steps.Write(operations):
                return await self._write(operations)
            case steps.ListChildren(paths, watch):
                return await asyncio.gather(*(self._children(path, watch) for path in paths))
            case steps.Exists(path):
                return await self._store.exists(path, self._watch_fired) is not None
            case steps.Publish(commands):
                written = encode_commands(commands, self.cluster.settings.request_versions)
                self.channels.send(await self._portions.finish(written))
                await asyncio.sleep(0)
            case steps.Pause():
                await asyncio.sleep(0)
            case steps.Connect(broker):
                self._connect(broker)
            case steps.Disconnect(broker_id):
                self.channels.remove(broker_id)
            case steps.DrawTopicIds(count):
                return [random_topic_id(self._rng) for _ in range(count)]
        return None

    async def _write(self, operations: Sequence[Operation]) -> list[Result]:
        """Many writes travel as few multis; a group that fails as a whole is written again, each for itself."""
        reach("controller.writing")
        groups = [operations[at : at + WRITES_TOGETHER] for at in range(0, len(operations), WRITES_TOGETHER)]
        written = await asyncio.gather(*(self._write_group(group) for group in groups))
        reach("controller.written")
        return [result for results in written for result in results]

    async def _write_group(self, group: Sequence[Operation]) -> list[Result]:
        if len(group) > 1:
            results = await self._writer.write_together(group)
            if not any(isinstance(result, StoreError) for result in results):
                return results
        return await self._writer.write(group)

    async def _read(self, path: str, watch: bool) -> tuple[bytes, Stat] | None:
        async with self._reads:
            try:
                return await self._store.read(path, self._watch_fired if watch else None)
            except NoNodeError:
                return None

    async def _children(self, path: str, watch: bool) -> list[str]:
        async with self._reads:
            try:
                return await self._store.children(path, self._watch_fired if watch else None)
            except NoNodeError:
                return []

    def _connect(self, broker: RegisteredBroker) -> None:
        endpoint = broker.endpoint(self.cluster.settings.control_listener)
        if endpoint is None:
            logger.error(
                "broker %d has no listener %s and is not told anything",
                broker.broker_id,
                self.cluster.settings.control_listener,
            )
        else:
            self.channels.add(broker.broker_id, broker.epoch, endpoint)

    def _watch_fired(self, notification: WatchEvent) -> None:
        event = None if self.ended else event_for_watch(notification)
        if event is not None:
            self._put(event)
