"""`Producer` for programs without asyncio.

`SyncProducer.send` does not cross threads for each record: it serializes in the caller's thread and puts the record into a queue that
the loop empties in one go. The queue is bounded by bytes, so a caller that is faster than the brokers waits, `max_block_ms` at most.

No lock is taken for a record. Threads that send add to the queue, and the loop alone takes from it:

1. A sender counts the bytes, adds the record, and has the loop call `_drain` unless it is to do so already (`_is_called`).
2. The loop sets `_is_called` to False and then takes until the queue is empty. For a record that comes too late it is called again.
3. Where something must be awaited for the first record of the queue, a task does that (`_waiting`), and `_drain` goes on behind it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from kafkalite.client.blocking.client import BlockingClient, blocking
from kafkalite.client.errors import BufferFullError, ClientClosedError, ClientTimeoutError
from kafkalite.client.options import options_from_config, takes_options
from kafkalite.client.producer.columns import RecordColumns
from kafkalite.client.producer.deliveries import Delivery, OnDelivery, notify_delivery
from kafkalite.client.producer.options import ProducerOptions
from kafkalite.client.producer.producer import Producer
from kafkalite.client.producer.record_queue import RECORD_BYTES, RecordQueue, headers_bytes
from kafkalite.client.records import Header, RecordMetadata

if TYPE_CHECKING:
    from kafkalite.client.keywords import ProducerKeywords
    from kafkalite.client.producer.transaction_state import PreparedTransaction

Result = TypeVar("Result")

_BYTES_OR_NONE = (bytes, type(None))
_QUEUE_BYTES = 1024 * 1024
"""What may wait between the caller's thread and the loop, beside the producer's own `buffer_memory`. With more, records leave the
processor's cache before the loop takes them, and cost half as much again."""
_CALLBACK_BYTES = 32 * 1024 * 1024
"""The same for records that callbacks send, on the thread that makes room: they cannot wait."""


class SyncDelivery(Delivery):
    """The fate of one record: `result(timeout)` waits for it, `done()` asks.

    It has a `batch` once the record is in one, a `problem` if it came into none.
    """

    __slots__ = ("problem", "producer")

    producer: SyncProducer
    problem: Exception

    def _is_in_batch(self) -> bool:
        return hasattr(self, "batch")

    def done(self) -> bool:
        """True if the record was delivered, or failed."""
        return hasattr(self, "problem") or (self._is_in_batch() and Delivery.done(self))

    def exception(self) -> Exception | None:
        """Return why the record was not delivered; None while that is open, and after success."""
        return getattr(self, "problem", None) or (Delivery.exception(self) if self._is_in_batch() else None)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the record's metadata; raises its error, or ClientTimeoutError when it is not known within `timeout` seconds."""
        if not self.done():
            self.producer._wait_for(self, timeout)
        if hasattr(self, "problem"):
            raise self.problem
        if not self._is_in_batch():
            raise ClientClosedError("the producer")
        return Delivery.result(self)


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
        self._queue = RecordQueue()
        self._room = threading.Condition()
        self._is_room_wanted = False
        self._plain = core.takes_bytes
        self._is_called = False
        self._waiting: asyncio.Task[None] | None = None
        self._drained: list[asyncio.Future[None]] = []
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
        thread = self._thread or self._running()
        if not self._plain or type(value) not in _BYTES_OR_NONE or type(key) not in _BYTES_OR_NONE:
            key, value = self._core.serialize_record(topic, key, value)
        size = RECORD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += headers_bytes(headers)
        queue = self._queue
        if queue.sent_bytes - queue.taken_bytes + size > _QUEUE_BYTES:
            self._wait_for_room(size)
        delivery = SyncDelivery()
        delivery.producer = self
        queue.sent_bytes += size
        queue.records.append((delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery))
        if not self._is_called:
            self._is_called = True
            try:
                thread.loop.call_soon_threadsafe(self._drain)
            except BaseException:  # of a signal handler perhaps
                self._is_called = False
                raise
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
        """Wait until the queue is half empty: a thread that wakes for each record has more work with that than with the record."""
        queue = self._queue
        is_callback = self._running().is_current
        wait_s, most_bytes = (0.0, _CALLBACK_BYTES) if is_callback else (self._max_block_s, _QUEUE_BYTES)
        if not is_callback:
            with self._room:
                self._is_room_wanted = True
                self._room.wait_for(lambda: queue.waiting_bytes <= most_bytes // 2, wait_s)
        if queue.waiting_bytes and queue.waiting_bytes + size > most_bytes:
            raise BufferFullError(f"no room for a record within {wait_s:g} s")

    def _drain(self) -> None:
        """Hand queued records to the core, in order, until there are none or something must be awaited; on the loop."""
        self._is_called = False
        if self._waiting is not None:
            return
        core, queue = self._core, self._queue
        while queue.records and not core.crowded:
            try:
                queue.append_to(core)
                break
            except Exception as problem:
                self._fail_first(problem)
        self._show_room()
        if core.crowded:  # the sender has something to do
            core.crowded = False
            self._call_drain()
        elif queue.records:
            self._waiting = asyncio.get_running_loop().create_task(self._append_first(), name="kafkalite-queue")

    def _show_room(self) -> None:
        """Wake threads that wait for room in the queue, and coroutines that wait for its end."""
        queue = self._queue
        if not queue.records:
            queue.taken_bytes = queue.sent_bytes
            for each in self._drained:
                if not each.done():
                    each.set_result(None)
            self._drained.clear()
        if self._is_room_wanted and queue.waiting_bytes <= _QUEUE_BYTES // 2:
            with self._room:
                self._is_room_wanted = False
                self._room.notify_all()

    def _call_drain(self) -> None:
        if not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._drain)

    async def _append_first(self) -> None:
        """Append the first record of the queue, whatever must be awaited for that."""
        try:
            await self._core.append(*self._queue.records[0])
            self._queue.take_first()
        except Exception as problem:
            self._fail_first(problem)
        finally:
            self._waiting = None
            self._call_drain()

    def _fail_first(self, problem: Exception) -> None:
        delivery, *_, on_delivery = self._queue.take_first()
        self._core.send_failed(problem)
        cast("SyncDelivery", delivery).problem = problem
        if on_delivery is not None:
            notify_delivery(on_delivery, None, problem)

    async def _wait_for_drain(self) -> None:
        """Wait until the core has all that was sent before this call."""
        if self._queue.records:
            loop = asyncio.get_running_loop()
            drained = loop.create_future()
            self._drained.append(drained)
            loop.call_soon(self._drain)  # whatever a signal handler kept `send` from
            await drained

    def _wait_for(self, delivery: SyncDelivery, timeout: float | None) -> None:
        async def wait_until_done() -> None:
            try:
                async with asyncio.timeout(timeout):
                    await self._wait_for_drain()
                    if delivery._is_in_batch() and not delivery.done():
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
        if self._waiting is not None:  # it hears of that
            await asyncio.wait([self._waiting])
        while self._queue.records:
            self._fail_first(ClientClosedError("the producer"))
        self._show_room()

    partitions_for = blocking(Producer.partitions_for)

    def statistics(self) -> dict[str, int]:
        """Return `Producer.statistics`, and the bytes that wait between this thread and the loop."""
        return {**self._core.statistics(), "queued_bytes": self._queue.waiting_bytes}
