"""The producer: records in, batches to the leaders, the fate of each record back.

`send` puts a record into its partition's batch and returns at once with a `Delivery`; it waits only for the first metadata of a topic
and for memory (`buffer_memory`). The rest is the sender's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.cluster.view import TopicView
from kafkalite.client.errors import (
    BufferFullError,
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    SerializationError,
)
from kafkalite.client.group.committable import Committable, committable
from kafkalite.client.group.metadata import GroupMetadata
from kafkalite.client.options import options_from_config, takes_options
from kafkalite.client.producer import columns
from kafkalite.client.producer.accumulator import Accumulator, Batch, PartitionQueue
from kafkalite.client.producer.columns import RecordColumns
from kafkalite.client.producer.deliveries import Delivery, OnDelivery, callback_for
from kafkalite.client.producer.options import ProducerOptions
from kafkalite.client.producer.partitioner import Partitioner
from kafkalite.client.producer.route import Route, Routes
from kafkalite.client.producer.sender import Sender
from kafkalite.client.producer.sequence_numbers import SequenceNumbers
from kafkalite.client.record_codec import RECORD_OVERHEAD_BYTES, check_record_size
from kafkalite.client.records import Header, RecordMetadata
from kafkalite.client.serializers import Serializer, serializer_for
from kafkalite.clock import SystemClock
from kafkalite.errors import ErrorCode
from kafkalite.lifecycle import end_tasks
from kafkalite.protocol.record_batches.records import HEADER_SIZE
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.keywords import ProducerKeywords
    from kafkalite.client.producer.transaction_state import PreparedTransaction
    from kafkalite.client.producer.transactions import TransactionManager

log = logging.getLogger(__name__)

_NO_HEADERS: list[Header] = []


class Producer:
    """Publishes records. Use it as `async with Producer(bootstrap_servers=…) as producer`, or `connect` and `close` it.

    `options` are the fields of `ProducerOptions`, by keyword.

    `takes_bytes` says that there are no serializers; `crowded`, that a batch was filled and the sender should run.
    """

    @takes_options(ProducerOptions)
    def __init__(self, **options: Unpack[ProducerKeywords]) -> None:
        self.options = chosen = ProducerOptions(**options)
        self._clock = chosen.clock or SystemClock()
        self._serializers: dict[str, tuple[Serializer, Serializer]] = {}
        self.takes_bytes = chosen.key_serializer is None and chosen.value_serializer is None
        self.crowded = False
        self.partitioner = Partitioner(chosen.partitioner)
        self._hashes_keys = self.partitioner.hashes_keys
        self._max_block_s = chosen.max_block_ms / 1000
        self._max_request_size = chosen.max_request_size
        self._surely_fitting_bytes = chosen.max_request_size - HEADER_SIZE - RECORD_OVERHEAD_BYTES
        self._cluster = ClusterClient(chosen)
        self._accumulator = Accumulator(
            batch_size=min(chosen.batch_size, chosen.max_request_size),
            linger_ms=chosen.linger_ms,
            buffer_memory=chosen.buffer_memory,
            max_in_flight_per_partition=chosen.max_in_flight_per_partition,
            is_transactional=chosen.transactional_id is not None,
            content_limit_bytes=self._surely_fitting_bytes,
            now_ms=None if chosen.clock is None else chosen.clock.now_ms,
        )
        self._routes = Routes(self._cluster, self._accumulator)
        self._route_of = self._routes.by_topic
        self._room = asyncio.Event()
        sequences = SequenceNumbers() if chosen.idempotent else None
        self._sender = Sender(self._cluster, self._accumulator, chosen, sequences, self._room.set, self.flush)
        self._sending: asyncio.Task[None] | None = None
        self._closing = False

    @classmethod
    @takes_options(ProducerOptions)
    def from_config(cls, config: Mapping[str, Any], **options: Unpack[ProducerKeywords]) -> Self:
        """Return a producer from Java's dotted names, `{"bootstrap.servers": …, "batch.size": …}`; `options` are keyword arguments.

        UnknownOptionError for a name that is no option, ValueError for text that does not fit.
        """
        return cls(**{**options_from_config(ProducerOptions, config), **options})

    async def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        self._check_open()
        await self._cluster.connect(timeout)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._sender.run(), name="kafkalite-sender")

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close(timeout=0)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            await self._abort_quietly(None)
        await self.close(timeout=None if kind is None else 0)

    def _check_open(self) -> None:
        if self._closing:
            raise ClientClosedError("the producer")

    # sending

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Put a record on its way; await the returned `Delivery`, or give `on_delivery`, to learn its fate.

        `timestamp_ms` (since 1970 UTC) is now by default. `headers` are (name, bytes or None) pairs.
        Raises SerializationError, BufferFullError, ClientTimeoutError (no metadata within `max_block_ms`), ClientError
        UNKNOWN_TOPIC_OR_PARTITION (still not there after `max_block_ms`) or MESSAGE_TOO_LARGE, ClientClosedError. With a
        `transactional_id` also TransactionStateError outside of a transaction, and the error of a transaction that failed; any but
        SerializationError makes the transaction one that failed.
        """
        if not (self.takes_bytes and (type(value) is bytes or value is None) and (key is None or type(key) is bytes)):
            key, value = self.serialize_record(topic, key, value)
        if headers is None and on_delivery is None:
            # As `try_append` would do; its calls cost as much as what is done here.
            chosen = partition
            try:
                route = self._route_of[topic]
                if chosen is None and key is not None and self._hashes_keys:
                    chosen = self.partitioner.partition(topic, key, route.topic.all_partitions, route.topic.available)
                batch = None if chosen is None else route.queues[chosen].open_batch
            except KeyError:  # a topic or a partition that is not known yet
                batch = None
            if (
                batch is not None
                and route.view is self._cluster.view
                and self._sender.refusal is None
                and (index := batch.add(timestamp_ms, key, value, _NO_HEADERS)) >= 0
            ):
                delivery = Delivery()
                delivery.batch = batch
                delivery.index = index
                return delivery
        return await self.send_bytes(topic, value, key, partition, timestamp_ms, headers, on_delivery)

    def try_append(
        self,
        delivery: Delivery,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
        on_delivery: OnDelivery | None,
    ) -> bool:
        """Put a serialized record into its batch, and into `delivery` where it is; False when something must be awaited first.

        ClientError MESSAGE_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION (by the partitioner's choice), and what the partitioner raises.
        """
        route = self._route_of.get(topic)
        if route is None or route.view is not self._cluster.view or self._sender.refusal is not None:
            return False
        chosen = partition
        if chosen is None:
            chosen = self.partitioner.partition(topic, key, route.topic.all_partitions, route.topic.available)
        queue = route.queues.get(chosen)
        if queue is None:
            if partition is None:
                raise ClientError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"the partitioner chose {chosen!r}, none of the {len(route.queues)} partitions of topic {topic} that it was given",
                )
            return False
        if headers:
            headers = headers if type(headers) is list else list(headers)
            check_record_size(topic, key, value, headers, self._max_request_size)
        else:
            headers = _NO_HEADERS
        batch = queue.open_batch
        index = -1 if batch is None else batch.add(timestamp_ms, key, value, headers)
        if batch is None or index < 0:
            if not self._accumulator.has_room:
                return False
            check_record_size(topic, key, value, headers, self._max_request_size)
            batch, index = self._append_to_new(topic, queue, timestamp_ms, key, value, headers), 0
        delivery.batch = batch
        delivery.index = index
        if on_delivery is not None:
            batch.callbacks.append((index, callback_for(on_delivery)))
        return True

    def _append_to_new(
        self,
        topic: str,
        queue: PartitionQueue,
        timestamp_ms: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
    ) -> Batch:
        if queue.open_batch is not None:
            self.partitioner.batch_filled(topic)
            self.crowded = True
        if timestamp_ms is None:
            timestamp_ms = self._clock.now_ms()
        now_ms = asyncio.get_running_loop().time() * 1000
        batch = self._accumulator.append_to_new(queue, timestamp_ms, key, value, headers, now_ms)
        if self._sender.transactions is not None:
            self._sender.transactions.admits(queue.topic_partition)
        self._sender.wake()
        return batch

    async def append(
        self,
        delivery: Delivery,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
        on_delivery: OnDelivery | None,
    ) -> None:
        """`try_append` until it succeeds, after connecting, and waiting for the partition and for room. Errors as `send`."""
        while True:
            await self._prepare(topic, partition)
            if self.try_append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery):
                return

    async def _prepare(self, topic: str, partition: int | None = None) -> Route:
        """Connect, wait for the partition and for room, and return where records of the topic go. Errors as `send`."""
        if partition is not None and partition < 0:
            raise ClientError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} cannot have a partition {partition}"
            )
        route = None
        while route is None:
            self._check_open()
            if self._sending is None:
                await self.connect()
            if self._sender.refusal is not None:
                raise self._sender.refusal
            known = self._cluster.view.topics.get(topic)
            if known is None or (partition is not None and partition not in known.partitions):
                await self._topic_view(topic, partition)
            if not self._accumulator.has_room:
                await self._wait_for_room()
            route = self._routes.find(topic)
        return route

    async def send_columns(self, topic: str, values: Sequence[bytes | None], **more: Unpack[RecordColumns]) -> None:
        """Put many records on their way at once, of bytes, at half of the price: `columns.send_columns`."""
        await columns.send_columns(self, topic, values, **more)

    async def send_bytes(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """`send` for a record that is serialized already."""
        delivery = Delivery()
        try:
            if not self.try_append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery):
                await self.append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery)
            elif self.crowded:
                self.crowded = False
                await asyncio.sleep(0)  # a busy caller must not keep the sender from running
        except ClientError as problem:
            self.send_failed(problem)
            raise
        return delivery

    def send_failed(self, problem: Exception) -> None:
        """A record is in no batch: its transaction, if there is one, cannot be committed any more."""
        if self._sender.transactions is not None:
            self._sender.transactions.fail_record(problem)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> RecordMetadata:
        """`send`, and wait until the record is delivered."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def serialize_record(self, topic: str, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        """Return key and value as bytes, by the topic's serializers; None stays None. SerializationError."""
        found = self._serializers.get(topic)
        if found is None:
            found = (
                serializer_for(self.options.key_serializer, topic),
                serializer_for(self.options.value_serializer, topic),
            )
            self._serializers[topic] = found
        part = "key"
        try:
            key_bytes = None if key is None else found[0](key)
            part = "value"
            return key_bytes, None if value is None else found[1](value)
        except Exception as problem:
            raise SerializationError(topic, part, problem) from problem

    async def _topic_view(self, topic: str, partition: int | None = None) -> TopicView:
        may_create = self.options.allow_auto_create_topics
        await self._cluster.wait_for_topic(topic, self._max_block_s, may_create, partition)
        return self._cluster.view.topics[topic]

    async def _wait_for_room(self) -> None:
        try:
            async with asyncio.timeout(self._max_block_s):
                while not self._accumulator.has_room:
                    self._room.clear()
                    self._sender.wake()
                    await self._room.wait()
                    self._check_open()
        except TimeoutError:
            raise BufferFullError(
                f"no room for a record within {self._max_block_s:g} s: {self._accumulator.used_bytes} bytes wait for brokers"
            ) from None

    # flush and close

    async def flush(self, timeout: float | None = None) -> None:
        """Send all that was given so far and wait until its fate is known; ClientTimeoutError after `timeout` seconds.

        A record that fails raises nothing here: its `Delivery` does.
        """
        pending = self._accumulator.begin_flush()
        try:
            if not pending:
                return
            finished = asyncio.get_running_loop().create_future()
            left = len(pending)

            def one_done() -> None:
                nonlocal left
                left -= 1
                if not left and not finished.done():
                    finished.set_result(None)

            for batch in pending:
                batch.on_done.append(one_done)
            self._sender.wake()
            async with asyncio.timeout(timeout):
                await finished
        except TimeoutError:
            raise ClientTimeoutError(f"{left} batches were not delivered within {timeout:g} s") from None
        finally:
            self._accumulator.end_flush()

    # transactions

    def _transactional(self) -> TransactionManager:
        self._check_open()
        if self._sender.transactions is None:
            raise ValueError("transactions need a transactional_id")
        return self._sender.transactions

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Fence earlier producers of the `transactional_id`, and end what they left open; once, before the first transaction.

        A call that takes longer than `timeout` seconds (`max_block_ms`) goes on, and raises ClientTimeoutError; call it again to wait
        on. So it is with those below. Raises TransactionStateError for a call that comes at the wrong time, FatalTransactionError, and
        its subclass ProducerFencedError, when the producer cannot go on; ValueError without a `transactional_id`. Source: KIP-98.
        """
        manager = self._transactional()
        if self._sending is None:
            await self.connect()
        await manager.initialize(timeout or self._max_block_s)

    async def begin_transaction(self) -> None:
        """Begin a transaction, to which all records sent from now on belong. Errors as `init_transactions`."""
        self._transactional().begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, Committable],
        group: GroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Let `offsets` (of the next record to read) be committed for the group together with the transaction (KIP-447).

        `group` is what `Consumer.group_metadata()` gives. AbortableTransactionError when the group went on without that member; else
        errors as `init_transactions`.
        """
        manager = self._transactional()
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await manager.send_offsets(committable(offsets), metadata, timeout or self._max_block_s)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver what was sent and make it visible, with the offsets, to all who read committed records.

        AbortableTransactionError when something of the transaction failed: `abort_transaction` is next. Else errors as `init_transactions`.
        """
        await self._transactional().commit(timeout or self._max_block_s)

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction | None:
        """Deliver what was sent, and leave the end of the transaction to `Admin.end_transaction`, in whatever process; None when
        nothing was sent. `close` leaves it open. Errors as `commit_transaction`."""
        return await self._transactional().prepare(timeout or self._max_block_s)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Let nobody who reads committed records see what was sent; what is not sent yet fails with TransactionAbortedError."""
        await self._transactional().abort(timeout or self._max_block_s)

    @asynccontextmanager
    async def transaction(self, timeout: float | None = None) -> AsyncIterator[Self]:
        """`async with producer.transaction():` commits at its end, and aborts when something is raised within, or the commit fails."""
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction(timeout)
        except BaseException:
            await self._abort_quietly(timeout)
            raise

    async def _abort_quietly(self, timeout: float | None) -> None:
        transactions = self._sender.transactions
        if transactions is None or not transactions.may_be_aborted or self._sending is None:
            return
        try:
            await transactions.abort(timeout or self._max_block_s)
        except ClientError as problem:
            log.warning("a transaction was not aborted, its timeout will: %s", problem)

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds (None: until each record's delivery timeout), then let go.

        A transaction that is still open is aborted, unless `timeout` is 0: then the coordinator aborts it after its timeout.
        """
        if self._closing:
            return
        self._closing = True
        self._route_of.clear()
        self._room.set()
        try:
            if timeout != 0 and self._sending is not None:
                await self._abort_quietly(timeout)
                await self.flush(timeout)
        except ClientTimeoutError:
            pass  # what is left fails below, each record with its own error
        finally:
            if self._sending is not None:
                await end_tasks([self._sending])
            await self._sender.stop(ClientClosedError("the producer"))
            await self._cluster.close()

    # looking

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic. ClientError UNKNOWN_TOPIC_OR_PARTITION, ClientTimeoutError."""
        return set((await self._topic_view(topic)).partitions)

    def statistics(self) -> dict[str, int]:
        """Return counts since the start, and what waits now."""
        return {
            "delivered_records": self._sender.delivered_records,
            "failed_records": self._sender.failed_records,
            "produce_requests": self._sender.requests,
            "buffered_bytes": self._accumulator.used_bytes,
            "unfinished_batches": self._accumulator.unfinished,
        }
