"""`Producer` for programs without asyncio.

`SyncProducer.send` does not cross threads for each record: it serializes in the caller's thread and puts the record into a queue that
the loop empties in one go. The queue is bounded by bytes, so a caller that is faster than the brokers waits, `max_block_ms` at most.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from kafkalite.client.blocking.client import BlockingClient, blocking
from kafkalite.client.errors import BufferFullError, ClientClosedError, ClientTimeoutError
from kafkalite.client.options import options_from_config, takes_options
from kafkalite.client.producer.columns import RecordColumns
from kafkalite.client.producer.deliveries import Delivery, OnDelivery, notify_delivery
from kafkalite.client.producer.options import ProducerKeywords, ProducerOptions
from kafkalite.client.producer.producer import Producer
from kafkalite.client.record_codec import RECORD_OVERHEAD_BYTES, record_bytes_bound
from kafkalite.client.records import Header, RecordMetadata

if TYPE_CHECKING:
    from kafkalite.client.producer.transaction_state import PreparedTransaction

Result = TypeVar("Result")

_BYTES_OR_NONE = (bytes, type(None))
_QUEUE_BYTES = 8 * 1024 * 1024
"""What may wait between the caller's thread and the loop, beside the producer's own `buffer_memory`."""


class SyncDelivery(Delivery):
    """The fate of one record: `result(timeout)` waits for it, `done()` asks."""

    __slots__ = ("handed_over", "problem", "producer")

    producer: SyncProducer
    handed_over: bool
    problem: Exception | None

    def done(self) -> bool:
        """True if the record was delivered, or failed."""
        return self.problem is not None or (self.handed_over and Delivery.done(self))

    def exception(self) -> Exception | None:
        """Return why the record was not delivered; None while that is open, and after success."""
        return self.problem or (Delivery.exception(self) if self.handed_over else None)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the record's metadata; raises its error, or ClientTimeoutError when it is not known within `timeout` seconds."""
        if not self.done():
            self.producer._wait_for(self, timeout)
        if self.problem is not None:
            raise self.problem
        if not self.handed_over:
            raise ClientClosedError("the producer")
        return Delivery.result(self)


_Queued = tuple[
    str,
    bytes | None,
    bytes | None,
    int | None,
    int | None,
    Sequence[Header] | None,
    OnDelivery | None,
    SyncDelivery,
    int,
]


class SyncProducer(BlockingClient[Producer], twin=Producer):
    """`Producer` for programs without asyncio. `on_delivery` is called on the loop's thread, where `send` may be called,
    and what waits for brokers raises RuntimeError.

    `options` are the fields of `ProducerOptions`, by keyword.
    """

    @takes_options(ProducerOptions)
    def __init__(self, **options: Unpack[ProducerKeywords]) -> None:
        core = Producer(**options)
        super().__init__(core)
        self.options = core.options
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._plain = core.takes_bytes
        self._draining = False
        self._max_block_s = core.options.max_block_ms / 1000

    @classmethod
    @takes_options(ProducerOptions)
    def from_config(cls, config: Mapping[str, Any], **options: Unpack[ProducerKeywords]) -> Self:
        return cls(**{**options_from_config(ProducerOptions, config), **options})

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> SyncDelivery:
        """Put a record on its way. SerializationError, BufferFullError and ClientClosedError come here, all else by the delivery."""
        thread = self._running()
        if not self._plain or type(value) not in _BYTES_OR_NONE or type(key) not in _BYTES_OR_NONE:
            key, value = self._core.serialize_record(topic, key, value)
        if headers:
            size = record_bytes_bound(key, value, headers)
        else:
            size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        delivery = SyncDelivery()
        delivery.producer, delivery.handed_over, delivery.problem = self, False, None
        if self._queued_bytes and self._queued_bytes + size > _QUEUE_BYTES:
            self._wait_for_room(size)
        item = (topic, value, key, partition, timestamp_ms, headers, on_delivery, delivery, size)
        with self._lock:
            self._queue.append(item)
            self._queued_bytes += size
            start = not self._draining
            self._draining = True
        if start:
            asyncio.run_coroutine_threadsafe(self._drain(), thread.loop)
        return delivery

    def send_columns(self, topic: str, values: Sequence[bytes | None], **more: Unpack[RecordColumns]) -> None:
        """`Producer.send_columns`, behind what was sent before."""
        self._running().call(self._after_all_sent(lambda: self._core.send_columns(topic, values, **more)))

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> RecordMetadata:
        """`send`, and wait until the record is delivered."""
        return self.send(topic, value, key, partition, timestamp_ms, headers).result()

    def _wait_for_room(self, size: int) -> None:
        wait_s = (
            0.0 if self._running().is_current else self._max_block_s
        )  # the thread of callbacks is the one that makes room
        with self._changed:
            if not self._changed.wait_for(
                lambda: not self._queued_bytes or self._queued_bytes + size <= _QUEUE_BYTES, wait_s
            ):
                raise BufferFullError(f"no room for a record within {wait_s:g} s")

    async def _drain(self) -> None:
        """Hand queued records to the core, in order, until there are none."""
        core = self._core
        try_append = core.try_append
        while True:
            with self._changed:
                if not self._queue:
                    self._draining = False
                    self._changed.notify_all()
                    return
                items, self._queue = self._queue, deque()
            freed = 0
            for topic, value, key, partition, timestamp_ms, headers, on_delivery, delivery, size in items:
                freed += size
                try:
                    if not try_append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery):
                        await core.append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery)
                    delivery.handed_over = True
                    if core.crowded:
                        core.crowded = False
                        await asyncio.sleep(0)  # the sender has something to do
                except Exception as problem:
                    core.send_failed(problem)
                    delivery.problem = problem
                    if on_delivery is not None:
                        notify_delivery(on_delivery, None, problem)
            with self._changed:
                self._queued_bytes -= freed
                self._changed.notify_all()
            await asyncio.sleep(0)

    async def _wait_for_drain(self) -> None:
        """Wait until the core has all that was sent before this call."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._block_until_drained)

    def _block_until_drained(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._draining)

    def _wait_for(self, delivery: SyncDelivery, timeout: float | None) -> None:
        async def wait_until_done() -> None:
            try:
                async with asyncio.timeout(timeout):
                    await self._wait_for_drain()
                    if delivery.handed_over and not delivery.done():
                        done = asyncio.Event()
                        delivery.add_done_callback(lambda _: done.set())
                        await done.wait()
            except TimeoutError:
                raise ClientTimeoutError(f"the record is not delivered within {timeout:g} s") from None

        self._running().call(wait_until_done())

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the fate of all records sent so far is known; ClientTimeoutError after `timeout` seconds."""
        self._running().call(self._flush(timeout))

    async def _flush(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._wait_for_drain()
                await self._core.flush()
        except TimeoutError:
            raise ClientTimeoutError(f"not all records were delivered within {timeout:g} s") from None

    # transactions

    init_transactions = blocking(Producer.init_transactions)

    def begin_transaction(self) -> None:
        self._running().call(self._after_all_sent(self._core.begin_transaction))

    send_offsets_to_transaction = blocking(Producer.send_offsets_to_transaction)

    def commit_transaction(self, timeout: float | None = None) -> None:
        self._running().call(self._after_all_sent(lambda: self._core.commit_transaction(timeout)))

    def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
        return self._running().call(self._after_all_sent(lambda: self._core.prepare_transaction(timeout)))

    def abort_transaction(self, timeout: float | None = None) -> None:
        self._running().call(self._after_all_sent(lambda: self._core.abort_transaction(timeout)))

    async def _after_all_sent(self, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Await `call` once the core has all records: one belongs to the transaction in which `send` was called."""
        await self._wait_for_drain()
        return await call()

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Self]:
        """`with producer.transaction():` commits at its end, and aborts when something is raised within, or the commit fails."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction(timeout)
        except BaseException:
            self._running().call(self._after_all_sent(lambda: self._core._abort_quietly(timeout)))
            raise

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds, then let go of all connections."""
        self._close_with(self._close(timeout))

    async def _close(self, timeout: float | None) -> None:
        if timeout != 0:
            try:
                await self._flush(timeout)
            except ClientTimeoutError:
                pass  # what is left fails with the core's own errors
            await self._core._abort_quietly(timeout)
        await self._core.close(0)

    partitions_for = blocking(Producer.partitions_for)

    def statistics(self) -> dict[str, int]:
        """Return `Producer.statistics`, and the bytes that wait between this thread and the loop."""
        return {**self._core.statistics(), "queued_bytes": self._queued_bytes}
