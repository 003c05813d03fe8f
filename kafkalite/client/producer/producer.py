"""The producer: records in, batches to the leaders, the fate of each record back.

`send` puts a record into its partition's batch and returns at once with a `Delivery`; it waits only for the first metadata of a topic
and for memory (`buffer_memory`). The rest is the sender's.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kafkalite.client.cluster.client import ClusterClient, Opener
from kafkalite.client.cluster.retry import RetryPolicy
from kafkalite.client.cluster.view import ClusterView, TopicView
from kafkalite.client.errors import (
    BufferFullError,
    ClientClosedError,
    ClientError,
    ClientTimeoutError,
    SerializationError,
)
from kafkalite.client.options import options_from_config
from kafkalite.client.producer.accumulator import Accumulator, Batch, BatchState, PartitionQueue
from kafkalite.client.producer.deliveries import Delivery, OnDelivery, metadata_of
from kafkalite.client.producer.partitioner import Partitioner, PartitionFunction
from kafkalite.client.producer.sender import Sender, SenderSettings
from kafkalite.client.producer.state import ProducerState
from kafkalite.client.record_codec import RECORD_OVERHEAD_BYTES, record_bytes_bound
from kafkalite.client.records import Header, RecordMetadata
from kafkalite.client.serializers import Serializer, SerializerChoice, check_choice, serializer_for
from kafkalite.clock import Clock, SystemClock
from kafkalite.errors import ErrorCode
from kafkalite.protocol.compression import CODEC_OF_NAME
from kafkalite.protocol.records import HEADER_SIZE
from kafkalite.types import TopicPartition

_IN_FLIGHT_WITH_SEQUENCES = 5
"""Brokers remember the last five batches of a producer in each partition (KIP-98)."""

_ACKS = {"0": 0, "1": 1, "all": -1, "-1": -1}


def _acks_number(acks: int | str) -> int:
    number = _ACKS.get(str(acks))
    if number is None:
        raise ValueError(f"acks is {acks!r}; it may be 0, 1 or 'all'")
    return number


def _codec(compression_type: str | None) -> int:
    codec = CODEC_OF_NAME.get(compression_type or "none")
    if codec is None:
        raise ValueError(f"compression_type is {compression_type!r}; it may be {', '.join(CODEC_OF_NAME)}")
    return int(codec)


_BYTES_OR_NONE = (bytes, type(None))
_NO_HEADERS: list[Header] = []


@dataclass(frozen=True, slots=True)
class _Route:
    """Where the records of a topic go, as long as the view of the cluster is `view`."""

    view: ClusterView
    topic: TopicView
    queues: Mapping[int, PartitionQueue]


class Producer:
    """Publishes records. Use it as `async with Producer(bootstrap_servers=…) as producer`, or `connect` and `close` it.

    Times are in ms, sizes in bytes, names and meanings are Kafka's; what differs or is worth knowing:

    - `acks`: 0, 1 or "all". `enable_idempotence`: no duplicates and no reordering by retries; by default on with acks="all", and off
      otherwise. Asking for it with other acks is a ValueError.
    - `partitioner`: "murmur2" (keys as Java's default partitioner, null keys round robin), "round_robin" (the same), "sticky" (null
      keys stay on a partition for a batch), "murmur3" (keys by mmh3), or a callable (key, all partitions, available partitions).
    - `key_serializer`, `value_serializer`: a name of `serializers.FORMATS`, a callable, or a mapping from topic to either.
    - `buffer_memory`: what may wait for brokers; `send` waits up to `max_block_ms` for room, then raises BufferFullError.
    - `batch_size`: records of a partition travel together up to this size (uncompressed).
    - `request_timeout_ms` bounds one attempt, `delivery_timeout_ms` the whole life of a record, retries included.

    `takes_bytes` says that there are no serializers; `crowded`, that a batch was filled and the sender should run. Without idempotence
    one batch of a partition is in flight at a time, so that retries keep the order.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        client_id: str | None = "kafkalite-producer",
        acks: int | str = "all",
        enable_idempotence: bool | None = None,
        compression_type: str | None = None,
        partitioner: str | PartitionFunction = "murmur2",
        key_serializer: SerializerChoice = None,
        value_serializer: SerializerChoice = None,
        batch_size: int = 128 * 1024,
        linger_ms: float = 0,
        buffer_memory: int = 32 * 1024 * 1024,
        max_block_ms: int = 60_000,
        max_request_size: int = 1024 * 1024,
        max_in_flight_requests_per_connection: int = 5,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        retries: int = 2**31 - 1,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1000,
        metadata_max_age_ms: int = 300_000,
        allow_auto_create_topics: bool = True,
        security_protocol: str = "PLAINTEXT",
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        opener: Opener | None = None,
        chance: Callable[[], float] | None = None,
    ) -> None:
        acks_number = _acks_number(acks)
        idempotent = acks_number == -1 if enable_idempotence is None else enable_idempotence
        if idempotent and acks_number != -1:
            raise ValueError("enable_idempotence needs acks='all'")
        if idempotent and not 1 <= max_in_flight_requests_per_connection <= _IN_FLIGHT_WITH_SEQUENCES:
            raise ValueError("enable_idempotence needs max_in_flight_requests_per_connection between 1 and 5")
        if delivery_timeout_ms < linger_ms + request_timeout_ms:
            raise ValueError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")
        check_choice(key_serializer)
        check_choice(value_serializer)
        self._clock = clock or SystemClock()
        self._key_choice, self._value_choice = key_serializer, value_serializer
        self._serializers: dict[str, tuple[Serializer, Serializer]] = {}
        self.takes_bytes = key_serializer is None and value_serializer is None
        self._routes: dict[str, _Route] = {}
        self.crowded = False
        self._buffer_memory = buffer_memory
        self._partitioner = Partitioner(partitioner)
        self._max_block_s = max_block_ms / 1000
        self._max_request_size = max_request_size
        self._surely_fitting_bytes = max_request_size - HEADER_SIZE - RECORD_OVERHEAD_BYTES
        self._auto_create = allow_auto_create_topics
        self._cluster = ClusterClient(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            security_protocol=security_protocol,
            ssl_context=ssl_context,
            opener=opener,
            chance=chance,
        )
        in_flight = max_in_flight_requests_per_connection if idempotent or acks_number == 0 else 1
        self._accumulator = Accumulator(
            batch_size=min(batch_size, max_request_size),
            linger_ms=linger_ms,
            buffer_memory=buffer_memory,
            max_in_flight_per_partition=in_flight,
        )
        settings = SenderSettings(
            acks=acks_number,
            codec=_codec(compression_type),
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            max_request_size=max_request_size,
            max_in_flight_requests=max_in_flight_requests_per_connection,
            retries=retries,
        )
        state = ProducerState() if idempotent else None
        self._sender = Sender(self._cluster, self._accumulator, settings, state, self._progress)
        self._sending: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._closing = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> Self:
        """A producer from Java's dotted names, `{"bootstrap.servers": …, "batch.size": …}`; `options` are keyword arguments."""
        return cls(**{**options_from_config(cls, config), **options})

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
        UNKNOWN_TOPIC_OR_PARTITION or MESSAGE_TOO_LARGE, ClientClosedError.
        """
        if not self.takes_bytes or type(value) not in _BYTES_OR_NONE or type(key) not in _BYTES_OR_NONE:
            key, value = self.serialized(topic, key, value)
        delivery = Delivery()
        if not self.try_append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery):
            await self.append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery)
        elif self.crowded:
            self.crowded = False
            await asyncio.sleep(0)  # a busy caller must not keep the sender from running
        return delivery

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

        ClientError MESSAGE_TOO_LARGE.
        """
        route = self._routes.get(topic)
        if route is None or route.view is not self._cluster.view or self._accumulator.used_bytes >= self._buffer_memory:
            return False
        if self._sender.fatal is not None:
            return False
        if partition is None:
            partition = self._partitioner.partition(topic, key, route.topic.all_partitions, route.topic.available)
        queue = route.queues.get(partition)
        if queue is None:
            return False
        if headers:
            headers = headers if type(headers) is list else list(headers)
            self._check_size(topic, key, value, headers)
        else:
            headers = _NO_HEADERS
            if (len(key) if key else 0) + (len(value) if value else 0) > self._surely_fitting_bytes:
                self._check_size(topic, key, value, headers)
        if timestamp_ms is None:
            timestamp_ms = self._clock.now_ms()
        batch = self._accumulator.append_to(queue, timestamp_ms, key, value, headers)
        if batch is None:
            batch = self._append_to_new(topic, queue, timestamp_ms, key, value, headers)
        delivery.batch = batch
        delivery.index = index = len(batch.timestamps) - 1
        if on_delivery is not None:
            batch.callbacks.append((index, _adapted(on_delivery)))
        return True

    def _append_to_new(
        self,
        topic: str,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
    ) -> Batch:
        if queue.waiting and queue.waiting[-1].state is BatchState.OPEN:
            self._partitioner.batch_filled(topic)
            self.crowded = True
        now_ms = asyncio.get_running_loop().time() * 1000
        batch = self._accumulator.append_to_new(queue, timestamp_ms, key, value, headers, now_ms)
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
        """`try_append` until it succeeds, after connecting, and waiting for the topic and for room. Errors as `send`."""
        while True:
            self._check_open()
            if self._sending is None:
                await self.connect()
            if self._sender.fatal is not None:
                raise self._sender.fatal
            if topic not in self._cluster.view.topics:
                await self._topic_view(topic)
            if partition is not None and partition not in self._cluster.view.topics[topic].partitions:
                await self._check_partition(topic, partition)
            if not self._accumulator.has_room:
                await self._wait_for_room()
            self._find_route(topic)
            if self.try_append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery):
                return

    def _find_route(self, topic: str) -> None:
        view = self._cluster.view
        known = view.topics.get(topic)
        if known is not None:
            queues = {number: self._accumulator.queue(TopicPartition(topic, number)) for number in known.partitions}
            self._routes[topic] = _Route(view, known, queues)

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
        if not self.try_append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery):
            await self.append(delivery, topic, value, key, partition, timestamp_ms, headers, on_delivery)
        return delivery

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

    def serialized(self, topic: str, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        """Key and value as bytes, by the topic's serializers; None stays None. SerializationError."""
        found = self._serializers.get(topic)
        if found is None:
            found = serializer_for(self._key_choice, topic), serializer_for(self._value_choice, topic)
            self._serializers[topic] = found
        part = "key"
        try:
            key_bytes = None if key is None else found[0](key)
            part = "value"
            return key_bytes, None if value is None else found[1](value)
        except Exception as problem:
            raise SerializationError(topic, part, problem) from problem

    async def _topic_view(self, topic: str) -> TopicView:
        await self._cluster.wait_for_topic(topic, self._max_block_s, self._auto_create)
        return self._cluster.view.topics[topic]

    async def _check_partition(self, topic: str, partition: int) -> None:
        await self._cluster.try_refresh()
        count = len(self._cluster.view.topics[topic].partitions)
        if not 0 <= partition < count:
            raise ClientError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic} has partitions 0 to {count - 1}, not {partition}",
            )

    def _check_size(self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> None:
        size = HEADER_SIZE + record_bytes_bound(key, value, headers)
        if size > self._max_request_size:
            raise ClientError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of about {size} bytes for {topic} is larger than max_request_size ({self._max_request_size})",
            )

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

    def _progress(self) -> None:
        self._room.set()

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

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, for up to `timeout` seconds (None: until each record's delivery timeout), then let go."""
        if self._closing:
            return
        self._closing = True
        self._routes.clear()
        self._room.set()
        try:
            if timeout != 0 and self._sending is not None:
                await self.flush(timeout)
        except ClientTimeoutError:
            pass  # what is left fails below, each record with its own error
        finally:
            if self._sending is not None:
                self._sending.cancel()
                await asyncio.gather(self._sending, return_exceptions=True)
            await self._sender.stop(ClientClosedError("the producer"))
            await self._cluster.close()

    # looking

    async def partitions_for(self, topic: str) -> set[int]:
        """The partitions of a topic. ClientError UNKNOWN_TOPIC_OR_PARTITION, ClientTimeoutError."""
        return set((await self._topic_view(topic)).partitions)

    def statistics(self) -> dict[str, int]:
        """Counts since the start, and what waits now."""
        return {
            "delivered_records": self._sender.delivered_records,
            "failed_records": self._sender.failed_records,
            "produce_requests": self._sender.requests,
            "buffered_bytes": self._accumulator.used_bytes,
            "unfinished_batches": self._accumulator.unfinished,
        }


def _adapted(on_delivery: OnDelivery) -> Any:
    def callback(batch: Batch, index: int) -> None:
        error = batch.part_of(index)[0].error
        if error is not None:
            on_delivery(None, error)
        else:
            on_delivery(metadata_of(batch, index), None)

    return callback
