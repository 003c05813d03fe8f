"""The synchronous face of the client: the asyncio core on a loop thread, same options, same results, same errors.

`SyncProducer.send` does not cross threads for each record: it serializes in the caller's thread and puts the record into a queue that
the loop empties in one go. The queue is bounded by bytes, so a caller that is faster than the brokers waits, `max_block_ms` at most.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from kafkalite.client.admin import (
    Admin,
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    DeletedRecords,
    GroupDescription,
    GroupListing,
    NewPartitions,
    NewTopic,
    PartitionReassignment,
    TopicDescription,
)
from kafkalite.client.consumer import Committable, Consumer, OnCommit
from kafkalite.client.deliveries import Delivery, OnDelivery
from kafkalite.client.errors import BufferFullError, ClientClosedError, ClientTimeoutError
from kafkalite.client.loop_thread import LoopThread
from kafkalite.client.options import options_from_config
from kafkalite.client.producer import Producer
from kafkalite.client.record_codec import RECORD_OVERHEAD_BYTES, record_bytes_bound
from kafkalite.client.records import ConsumerRecord, Header, OffsetAndMetadata, OffsetAndTimestamp, RecordMetadata
from kafkalite.types import TopicPartition

_BYTES_OR_NONE = (bytes, type(None))
_QUEUE_BYTES = 8 * 1024 * 1024
"""What may wait between the caller's thread and the loop, beside the producer's own `buffer_memory`."""


class _Face:
    """What the three faces share: a core on the loop thread, connect, close, context manager."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._thread: LoopThread | None = LoopThread.acquire()

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise ClientClosedError(f"the {type(self._core).__name__.lower()}")
        return self._thread

    def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        self._running().call(self._core.connect(timeout))

    def _end(self, closing: Any) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            closing.close()
            return
        try:
            thread.call(closing)
        finally:
            thread.release()

    def close(self) -> None:
        """Let go of all connections. Closing twice does nothing."""
        self._end(self._core.close())

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncDelivery(Delivery):
    """The fate of one record: `result(timeout)` waits for it, `done()` asks."""

    __slots__ = ("face", "handed_over", "problem")

    face: SyncProducer
    handed_over: bool
    problem: Exception | None

    def done(self) -> bool:
        return self.problem is not None or (self.handed_over and Delivery.done(self))

    def exception(self) -> Exception | None:
        """Why the record was not delivered; None while that is open, and after success."""
        return self.problem or (Delivery.exception(self) if self.handed_over else None)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The record's metadata; raises its error, or ClientTimeoutError when it is not known within `timeout` seconds."""
        if not self.done():
            self.face._wait_for(self, timeout)
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


class SyncProducer(_Face):
    """`Producer` for programs without asyncio; takes the same options. `on_delivery` is called on the loop's thread."""

    _core: Producer

    def __init__(self, **options: Any) -> None:
        core = Producer(**options)
        super().__init__(core)
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._plain = core.takes_bytes
        self._draining = False
        self._max_block_s = options.get("max_block_ms", 60_000) / 1000

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> Self:
        """A producer from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments."""
        return cls(**{**options_from_config(Producer, config), **options})

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
            key, value = self._core.serialized(topic, key, value)
        if headers:
            size = record_bytes_bound(key, value, headers)
        else:
            size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        delivery = SyncDelivery()
        delivery.face, delivery.handed_over, delivery.problem = self, False, None
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
        with self._changed:
            if not self._changed.wait_for(
                lambda: not self._queued_bytes or self._queued_bytes + size <= _QUEUE_BYTES, self._max_block_s
            ):
                raise BufferFullError(f"no room for a record within {self._max_block_s:g} s")

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
                    delivery.problem = problem
                    if on_delivery is not None:
                        on_delivery(None, problem)
            with self._changed:
                self._queued_bytes -= freed
                self._changed.notify_all()
            await asyncio.sleep(0)

    async def _drained(self) -> None:
        """Wait until the core has all that was sent before this call."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._wait_until_drained)

    def _wait_until_drained(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._draining)

    def _wait_for(self, delivery: SyncDelivery, timeout: float | None) -> None:
        async def known() -> None:
            await self._drained()
            if delivery.handed_over and not delivery.done():
                done = asyncio.Event()
                delivery.add_done_callback(lambda _: done.set())
                await done.wait()

        async def known_in_time() -> None:
            try:
                async with asyncio.timeout(timeout):
                    await known()
            except TimeoutError:
                raise ClientTimeoutError(f"the record is not delivered within {timeout:g} s") from None

        self._running().call(known_in_time())

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the fate of all records sent so far is known; ClientTimeoutError after `timeout` seconds."""
        self._running().call(self._flush(timeout))

    async def _flush(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._drained()
                await self._core.flush()
        except TimeoutError:
            raise ClientTimeoutError(f"not all records were delivered within {timeout:g} s") from None

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds, then let go of all connections."""
        self._end(self._close(timeout))

    async def _close(self, timeout: float | None) -> None:
        if timeout != 0:
            try:
                await self._flush(timeout)
            except ClientTimeoutError:
                pass  # what is left fails with the core's own errors
        await self._core.close(0)

    def partitions_for(self, topic: str) -> set[int]:
        return self._running().call(self._core.partitions_for(topic))

    def statistics(self) -> dict[str, int]:
        """As `Producer.statistics`, and the bytes between this thread and the loop."""
        return {**self._core.statistics(), "queued_bytes": self._queued_bytes}


class SyncConsumer(_Face):
    """`Consumer` for programs without asyncio; takes the same options. `for record in consumer` reads on and on."""

    _core: Consumer

    def __init__(self, *topics: str, **options: Any) -> None:
        super().__init__(Consumer(*topics, **options))
        self._iterated: deque[ConsumerRecord] = deque()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> Self:
        """A consumer from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments."""
        return cls(**{**options_from_config(Consumer, config), **options})

    def _now(self, function: Callable[[], Any]) -> Any:
        return self._running().call_function(function)

    def subscribe(
        self, topics: str | Iterable[str] = (), *, pattern: str | re.Pattern[str] | None = None, listener: Any = None
    ) -> None:
        """As `Consumer.subscribe`. The listener's methods run on a thread of their own, and may commit and seek."""
        names = [topics] if isinstance(topics, str) else list(topics)
        heard = None if listener is None else _ThreadedListener(listener)
        self._now(lambda: self._core.subscribe(names, pattern=pattern, listener=heard))

    def unsubscribe(self) -> None:
        self._now(self._core.unsubscribe)

    def subscription(self) -> set[str]:
        return self._core.subscription()

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions without the records that `for` has not given yet."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = self._now(self._core.consumed_offsets)
        for record in reversed(self._iterated):
            if record.topic_partition in offsets:
                offsets[record.topic_partition] = OffsetAndMetadata(record.offset)
        return offsets

    def commit(self, offsets: Mapping[TopicPartition, Committable] | None = None) -> None:
        self._running().call(self._core.commit(self._consumed() if offsets is None else offsets))

    def commit_async(
        self, offsets: Mapping[TopicPartition, Committable] | None = None, callback: OnCommit | None = None
    ) -> None:
        """`commit` without waiting; `callback` is called on the loop's thread."""
        chosen = self._consumed() if offsets is None else offsets
        self._now(lambda: self._core.commit_async(chosen, callback))

    def committed(self, partition: TopicPartition) -> int | None:
        return self._running().call(self._core.committed(partition))

    def committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._running().call(self._core.committed_offsets(partitions))

    def lag(self, partition: TopicPartition) -> int | None:
        return self._core.lag(partition)

    def close(self, timeout: float = 30.0, *, commit: bool = True) -> None:
        """As `Consumer.close`; records that `for` has not given are not committed."""
        if self._thread is not None and self._iterated:
            self._unread(())
        self._end(self._core.close(timeout, commit=commit))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(commit=kind is None)

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        wanted = list(partitions)
        self._now(lambda: self._core.assign(wanted))
        assigned = self._core.assignment()
        self._iterated = deque(each for each in self._iterated if each.topic_partition in assigned)

    def assignment(self) -> set[TopicPartition]:
        return self._core.assignment()

    def pause(self, *partitions: TopicPartition) -> None:
        self._unread(partitions)
        self._now(lambda: self._core.pause(*partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        self._now(lambda: self._core.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        return self._core.paused()

    def _unread(self, partitions: Sequence[TopicPartition]) -> None:
        """Records that `for` has not given yet are read again later."""
        for each in {TopicPartition(*each) for each in partitions} or self.assignment():
            offsets = [record.offset for record in self._iterated if record.topic_partition == each]
            if offsets:
                self._now(partial(self._core.seek, each, min(offsets)))
                self._iterated = deque(record for record in self._iterated if record.topic_partition != each)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._unread([partition])
        self._now(lambda: self._core.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._unread(partitions)
        self._running().call(self._core.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._unread(partitions)
        self._running().call(self._core.seek_to_end(*partitions))

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        self._unread(partitions)
        self._running().call(self._core.seek_to_time(timestamp_ms, *partitions))

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        offsets = [record.offset for record in self._iterated if record.topic_partition == partition]
        return min(offsets) if offsets else self._running().call(self._core.position(partition, timeout))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._running().call(self._core.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._running().call(self._core.end_offsets(partitions))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._running().call(self._core.offsets_for_times(timestamps))

    def highwater(self, partition: TopicPartition) -> int | None:
        return self._core.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        return self._core.last_stable_offset(partition)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self._running().call(self._core.partitions_for_topic(topic))

    def topics(self) -> set[str]:
        return self._running().call(self._core.topics())

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        thread = self._running()
        return thread.call(self._core.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records))

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> dict[TopicPartition, list[ConsumerRecord]]:
        return self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        return self._running().call(self._core.getone(*partitions))

    def read_range(
        self, topic_partition: TopicPartition | tuple[str, int], start: int, end: int, *, batch_rows: int = 65_536
    ) -> Iterator[Any]:
        """As `Consumer.read_range`; one hop between threads for each record batch."""
        batches = self._core.read_range(topic_partition, start, end, batch_rows=batch_rows)

        async def following() -> Any:
            return await anext(batches, None)

        while (batch := self._running().call(following())) is not None:
            yield batch

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        while not self._iterated:
            for records in self.getmany(timeout_ms=60_000).values():
                self._iterated += records
        return self._iterated.popleft()

    def statistics(self) -> dict[str, int]:
        return self._core.statistics()


class _ThreadedListener:
    """A rebalance listener that may call the consumer: its methods run beside the loop."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._listener, name)

        async def beside_the_loop(partitions: set[TopicPartition]) -> None:
            await asyncio.get_running_loop().run_in_executor(None, method, partitions)

        return beside_the_loop


class SyncAdmin(_Face):
    """`Admin` for programs without asyncio; takes the same options."""

    _core: Admin

    def __init__(self, **options: Any) -> None:
        super().__init__(Admin(**options))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> Self:
        """An admin client from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments."""
        return cls(**{**options_from_config(Admin, config), **options})

    def create_topics(
        self, new_topics: Iterable[NewTopic], *, timeout_ms: int | None = None, validate_only: bool = False
    ) -> list[CreatedTopic]:
        calling = self._core.create_topics(new_topics, timeout_ms=timeout_ms, validate_only=validate_only)
        return self._running().call(calling)

    def delete_topics(self, topics: Iterable[str], *, timeout_ms: int | None = None) -> None:
        self._running().call(self._core.delete_topics(topics, timeout_ms=timeout_ms))

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        return self._running().call(self._core.list_topics(include_internal=include_internal))

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[TopicDescription]:
        return self._running().call(self._core.describe_topics(topics))

    def create_partitions(
        self,
        new_partitions: Mapping[str, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        calling = self._core.create_partitions(new_partitions, validate_only=validate_only, timeout_ms=timeout_ms)
        self._running().call(calling)

    def elect_leaders(
        self,
        election_type: str = "preferred",
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, bool]:
        return self._running().call(self._core.elect_leaders(election_type, partitions, timeout_ms=timeout_ms))

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int | None = None
    ) -> None:
        self._running().call(self._core.alter_partition_reassignments(targets, timeout_ms=timeout_ms))

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        return self._running().call(self._core.list_partition_reassignments(partitions, timeout_ms=timeout_ms))

    def list_groups(self, states: Iterable[str] = ()) -> list[GroupListing]:
        return self._running().call(self._core.list_groups(states))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        return self._running().call(self._core.describe_groups(group_ids))

    def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._running().call(self._core.list_group_offsets(group_id, partitions))

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> None:
        self._running().call(self._core.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        self._running().call(self._core.delete_group_offsets(group_id, partitions))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        self._running().call(self._core.delete_groups(group_ids))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> list[DeletedRecords]:
        return self._running().call(self._core.delete_records(offsets))

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int | str], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._running().call(self._core.list_offsets(wanted, isolation_level=isolation_level))

    def describe_cluster(self) -> ClusterDescription:
        return self._running().call(self._core.describe_cluster())

    def describe_configs(
        self, resource_type: str, name: str, *, keys: Sequence[str] | None = None, documentation: bool = False
    ) -> dict[str, ConfigEntry]:
        calling = self._core.describe_configs(resource_type, name, keys=keys, documentation=documentation)
        return self._running().call(calling)
