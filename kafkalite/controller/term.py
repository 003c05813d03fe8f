"""One term of a controller: performs the effects of procedures while this broker holds the seat."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kafkalite.change_signal import ChangeSignal
from kafkalite.controller import events, steps
from kafkalite.controller.channel_manager import ControllerChannelManager
from kafkalite.controller.cluster_state import ClusterState, RegisteredBroker
from kafkalite.controller.topics.topic_znodes import random_topic_id
from kafkalite.controller.watches import event_for_watch
from kafkalite.controller.wire import encode_commands
from kafkalite.failpoints import reach
from kafkalite.portions import Portions
from kafkalite.types import BrokerId
from zk.controller_seat import FencedWriter, Seat, vacate
from zk.size_limits import split_operations
from zk.store import NoNodeError, Operation, Result, Stat, Store, StoreError, WatchEvent

logger = logging.getLogger(__name__)

T = TypeVar("T")

CONCURRENT_READS = 256
"""Single reads that are under way at once; the session pipelines them."""

WRITES_TOGETHER = 256
"""Writes in one multi. ZooKeeper carries out twice as many in a second as in multis of 64."""

WRITES_APART = 16
"""Writes in one multi when a larger one was refused because of one of its writes."""

CONCURRENT_WRITES = 4
"""Multis that are under way at once. What is encoded at once is some milliseconds of work, and ZooKeeper has always something to do."""

WRITE_BYTES_TOGETHER = 256 * 1024
"""Bytes of the writes in one multi, far below the 1 MiB that servers take; 256 states of partitions have some 70 KB."""

_CHECK_BYTES = 256
"""The check of the controller epoch, which every multi begins with."""


class TermEnded(Exception):
    """Raised when a procedure continues after its controller has resigned."""


class ControllerTerm:
    """The seat with its fenced writes, the cluster state, the channels to the brokers and the watches of one term.

    After `end` nothing is performed any more, so nothing is written under a later session; watches that fire are ignored.
    `put` queues an event. `settled` is set once the cluster was read, or the term ended.
    """

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
        self._reads, self._writes = asyncio.Semaphore(CONCURRENT_READS), asyncio.Semaphore(CONCURRENT_WRITES)
        self._portions = Portions()
        self._timers: dict[type[events.Event], asyncio.TimerHandle] = {}
        """The latest one by type of the event that it queues."""
        self._answers = ChangeSignal()
        """Notified when a broker has answered with digests, and at the end."""

    def end(self) -> None:
        """End the term: no more effects, no more requests to brokers."""
        self.ended = True
        self.settled.set()
        for timer in self._timers.values():
            timer.cancel()
        self.channels.stop()
        self._answers.notify()

    def note_digests(self, broker_id: BrokerId, broker_epoch: int, digests: bytes | None) -> None:
        """Keep the digests of a broker's metadata, None if it proves nothing. They are of no use after the failover."""
        if self.cluster.known_metadata is not None:
            self.cluster.known_metadata.note_digests(broker_id, broker_epoch, digests)
            self._answers.notify()

    async def perform(self, procedure: steps.Steps[T]) -> T:
        """Run a procedure to its end and return its result.

        Raises ControllerMovedError when the seat is lost, TermEnded after `end`, SessionExpiredError, and the errors of
        the procedure.
        """
        answer: Any = None
        try:
            while True:
                effect = procedure.send(answer)
                if self.ended:
                    raise TermEnded
                answer = await self._perform(effect)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        finally:
            procedure.close()

    async def release(self) -> None:
        """Delete /controller so that another broker can be elected."""
        await vacate(self._store, self.seat)

    async def _perform(self, effect: steps.Effect) -> Any:
        match effect:
            case steps.Read(paths, watch=True):
                return await asyncio.gather(*(self._watch(path) for path in paths))
            case steps.Read(paths):
                return await self._store.read_many(paths)
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
            case steps.AwaitDigests(timeout_s):
                await self._answers.wait_until(self._has_all_answers, timeout_s)
            case steps.QueueLater(delay_s, event):
                self._put_later(delay_s, event)
            case steps.DrawTopicIds(count):
                return [random_topic_id(self._rng) for _ in range(count)]
        return None

    def _has_all_answers(self) -> bool:
        known = self.cluster.known_metadata
        return self.ended or known is None or known.has_all_answers

    async def _write(self, operations: Sequence[Operation]) -> list[Result]:
        """Write in few multis; the operations of a multi that failed are written again in smaller ones, in the end one by one."""
        reach("controller.writing")
        most_bytes = min(WRITE_BYTES_TOGETHER, self.cluster.settings.size_limits.request_bytes - _CHECK_BYTES)
        groups = split_operations(operations, WRITES_TOGETHER, most_bytes)
        written = await asyncio.gather(*(self._write_group(group) for group in groups), return_exceptions=True)
        results: list[Result] = []
        for outcome in written:  # when all have ended: none of them is written beside the next event
            if isinstance(outcome, BaseException):
                raise outcome
            results += outcome
        reach("controller.written")
        return results

    async def _write_group(self, group: Sequence[Operation]) -> list[Result]:
        """Write a group when its turn has come. Raises TermEnded if the term has ended meanwhile: nothing is written in a later session."""
        async with self._writes:
            results = await self._write_together(group)
            if results is None and len(group) > WRITES_APART:
                results = []
                for some in split_operations(group, WRITES_APART, WRITE_BYTES_TOGETHER):
                    results += await self._write_together(some) or await self._writer.write(some)
            return await self._writer.write(group) if results is None else results

    async def _write_together(self, group: Sequence[Operation]) -> list[Result] | None:
        """Write a group in one multi and return the results; None if nothing was written, or there is but one operation. TermEnded."""
        if self.ended:
            raise TermEnded
        if len(group) == 1:
            return None
        results = await self._writer.write_together(group)
        return None if any(isinstance(result, StoreError) for result in results) else results

    async def _watch(self, path: str) -> tuple[bytes, Stat] | None:
        async with self._reads:
            try:
                return await self._store.read(path, self._watch_fired)
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
                "broker %d has no listener %s, so the controller sends it no requests",
                broker.broker_id,
                self.cluster.settings.control_listener,
            )
        else:
            self.channels.add(broker.broker_id, broker.epoch, endpoint)

    def _put_later(self, delay_s: float, event: events.Event) -> None:
        """Queue an event after `delay_s`; a later call for its type replaces it."""
        earlier = self._timers.get(type(event))
        if earlier is not None:
            earlier.cancel()
        self._timers[type(event)] = asyncio.get_running_loop().call_later(delay_s, self._put, event)

    def _watch_fired(self, notification: WatchEvent) -> None:
        event = None if self.ended else event_for_watch(notification)
        if event is not None:
            self._put(event)
