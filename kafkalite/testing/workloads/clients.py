"""Writers and readers that record what they do: librdkafka's client and our own, each in a thread of its own.

A writer numbers its records per partition and sends them in bursts at a bounded rate. A partition's next burst waits while
`unacknowledged_bursts` are on their way: one for producers without idempotence, because librdkafka prepares the next request
while one is in flight, also with max.in.flight=1, and a refusal of the first would put them out of order by the client's doing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import confluent_kafka

from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.producer.producer import Producer
from kafkalite.client.records import RecordMetadata
from kafkalite.testing.history.events import (
    ProducerStarted,
    RecordRead,
    SendAcknowledged,
    SendFailed,
    SendInvoked,
    SendUnknown,
    Value,
)
from kafkalite.testing.history.recorder import Recorder
from kafkalite.testing.workloads.threads import WorkloadThread
from kafkalite.types import TopicPartition

DELIVERY_TIMEOUT_MS: Final = 60_000
_BURST: Final = 5
_VALUE_BYTES: Final = 100
_RETRY_BACKOFF_MS: Final = 100
_EARLIEST_RETRY_MS: Final = 75
"""Both clients shorten their backoff by a random part of at most a quarter."""

_METADATA_REFRESH_MS: Final = 1_000
"""librdkafka's default is 5 minutes; it asks nobody else as long as a broker answers that it cannot replicate."""

_STATISTICS_MS: Final = 5_000

_TOLD_OF_PARTITION: Final = ("leader", "broker", "msgq_cnt", "xmit_msgq_cnt", "msgs_inflight", "next_err_seq")
"""Of librdkafka's statistics, for a report."""

_NEVER_APPENDED: Final = frozenset({"MSG_SIZE_TOO_LARGE", "_QUEUE_FULL", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"})


@dataclass(frozen=True)
class WriterOptions:
    """`acks` is -1 for all; `records_per_s` is the rate over all partitions.

    `request_timeout_ms` is for how long a leader that cannot replicate may keep a request.
    """

    name: str
    topic: str
    partitions: int
    acks: Literal[-1, 0, 1] = -1
    idempotent: bool = True
    records_per_s: int = 200
    request_timeout_ms: int = 30_000

    @property
    def unacknowledged_bursts(self) -> int:
        return 4 if self.idempotent else 1


class Writer(WorkloadThread):
    """A producer at work from `start` to `finish`; `problems` are the sends that were not acknowledged."""

    def __init__(self, recorder: Recorder, bootstrap_servers: str, options: WriterOptions) -> None:
        super().__init__(recorder, options.name)
        self.options = options
        self.acknowledged = 0
        self._servers = bootstrap_servers
        self._next = [0] * options.partitions
        self._open: list[dict[Value, None]] = [{} for _ in range(options.partitions)]
        self._last_ack_ns = [0] * options.partitions
        self._turn = 0

    def start(self) -> None:
        options = self.options
        started = ProducerStarted(
            self._recorder.now_ns(), options.name, options.acks, options.idempotent, _EARLIEST_RETRY_MS
        )
        self._recorder.add(started)
        super().start()

    def finish(self, timeout_s: float = 60) -> None:
        """Send no more, and wait for what is on its way; what is then still open has an unknown fate."""
        super().finish(timeout_s + 10)
        for partition, values in enumerate(self._open):
            for value in list(values):
                self._record_failure(partition, value, "no answer")

    def acknowledged_on_all_since(self, at_ns: int) -> bool:
        """True if every partition has taken a record since that moment."""
        return min(self._last_ack_ns) > at_ns

    def acknowledged_on(self, partition: int, at_ns: int) -> bool:
        return self._last_ack_ns[partition] > at_ns

    def describe_partition(self, partition: int) -> str:
        """Return what the client itself knows of a partition on which it has no acknowledgements; empty where it does not tell."""
        return ""

    def _find_due(self, elapsed_s: float) -> list[int]:
        """Return the partitions whose burst is due now and may go."""
        bursts = int(elapsed_s * self.options.records_per_s / _BURST)
        turns = range(self._turn, min(bursts, self._turn + self.options.partitions))
        self._turn = bursts
        limit = (self.options.unacknowledged_bursts - 1) * _BURST
        return [
            turn % self.options.partitions for turn in turns if len(self._open[turn % self.options.partitions]) <= limit
        ]

    def _start_record(self, partition: int) -> Value:
        value = Value(self.options.name, self._next[partition])
        self._next[partition] += 1
        self._open[partition][value] = None
        self._recorder.add(SendInvoked(self._recorder.now_ns(), self.options.topic, partition, *value))
        return value

    def _record_acknowledgement(self, partition: int, value: Value, offset: int) -> None:
        now_ns = self._recorder.now_ns()
        self._open[partition].pop(value, None)
        self._last_ack_ns[partition] = now_ns
        self.acknowledged += 1
        self._recorder.add(SendAcknowledged(now_ns, self.options.topic, partition, *value, offset))

    def _record_failure(self, partition: int, value: Value, error: str) -> None:
        self._open[partition].pop(value, None)
        self.problems.append(f"{self.options.topic}-{partition} {value}: {error}")
        kind = SendFailed if error in _NEVER_APPENDED else SendUnknown
        self._recorder.add(kind(self._recorder.now_ns(), self.options.topic, partition, *value, error))


class ConfluentWriter(Writer):
    """librdkafka's producer."""

    _statistics = "{}"
    """The newest that it has told."""

    def describe_partition(self, partition: int) -> str:
        """Return the leader as librdkafka knows it, the broker that it sends to, and how many records wait or are on their way."""
        topic = json.loads(self._statistics).get("topics", {}).get(self.options.topic, {})
        told = topic.get("partitions", {}).get(str(partition))
        return "" if told is None else ", ".join(f"{name} {told.get(name)}" for name in _TOLD_OF_PARTITION)

    def _keep_statistics(self, statistics: str) -> None:
        self._statistics = statistics

    def _run(self) -> None:
        options = self.options
        client = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._servers,
                "client.id": options.name,
                "acks": options.acks,
                "enable.idempotence": options.idempotent,
                "max.in.flight.requests.per.connection": 5 if options.idempotent else 1,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "request.timeout.ms": options.request_timeout_ms,
                "retry.backoff.ms": _RETRY_BACKOFF_MS,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": _METADATA_REFRESH_MS,
                "linger.ms": 5,
                "log_level": 0,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._keep_statistics,
            }
        )
        began = time.monotonic()
        while not self._stopping.is_set():
            for partition in self._find_due(time.monotonic() - began):
                for _ in range(_BURST):
                    self._send(client, partition)
            client.poll(0.005)
        client.flush(DELIVERY_TIMEOUT_MS / 1000)

    def _send(self, client: confluent_kafka.Producer, partition: int) -> None:
        value = self._start_record(partition)

        def record_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is not None:
                self._record_failure(partition, value, error.name())
            else:
                offset = message.offset()
                self._record_acknowledgement(partition, value, -1 if offset is None else offset)

        client.produce(
            self.options.topic, value.to_bytes(_VALUE_BYTES), partition=partition, on_delivery=record_delivery
        )


class KafkaliteWriter(Writer):
    """Our own producer."""

    def _run(self) -> None:
        asyncio.run(self._produce())

    async def _produce(self) -> None:
        options = self.options
        loop = asyncio.get_running_loop()
        async with Producer(
            bootstrap_servers=self._servers,
            client_id=options.name,
            acks=options.acks,
            enable_idempotence=options.idempotent,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=options.request_timeout_ms,
            retry_backoff_ms=_RETRY_BACKOFF_MS,
            retry_backoff_max_ms=500,
            metadata_max_age_ms=_METADATA_REFRESH_MS,
            linger_ms=5,
        ) as producer:
            began = loop.time()
            while not self._stopping.is_set():
                for partition in self._find_due(loop.time() - began):
                    for _ in range(_BURST):
                        await self._send(producer, partition)
                await asyncio.sleep(0.005)
            await producer.flush(DELIVERY_TIMEOUT_MS / 1000)

    async def _send(self, producer: Producer, partition: int) -> None:
        value = self._start_record(partition)

        def record_delivery(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is None:
                self._record_failure(partition, value, repr(error))
            else:
                self._record_acknowledgement(partition, value, metadata.offset)

        await producer.send_bytes(
            self.options.topic, value.to_bytes(_VALUE_BYTES), None, partition=partition, on_delivery=record_delivery
        )


class Reader(WorkloadThread):
    """A consumer at work from the beginning of every partition; `problems` are errors that it met."""

    def __init__(self, recorder: Recorder, bootstrap_servers: str, name: str, topic: str, partitions: int) -> None:
        super().__init__(recorder, name)
        self.positions = [0] * partitions
        self._servers = bootstrap_servers
        self._topic = topic

    def has_reached(self, ends: Sequence[int]) -> bool:
        """True if the position in every partition is at or behind these offsets."""
        return all(position >= end for position, end in zip(self.positions, ends, strict=True))

    def _read(self, partition: int, offset: int, value: bytes | None) -> None:
        now_ns = self._recorder.now_ns()
        self._recorder.add(RecordRead(now_ns, self.name, self._topic, partition, offset, *Value.from_bytes(value)))
        self.positions[partition] = offset + 1


class ConfluentReader(Reader):
    """librdkafka's consumer, without a group; a position that is out of range is an error."""

    def _run(self) -> None:
        client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": _METADATA_REFRESH_MS,
                "log_level": 0,
            }
        )
        try:
            places = enumerate(self.positions)
            client.assign([confluent_kafka.TopicPartition(self._topic, *place) for place in places])
            while not self._stopping.is_set():
                for message in client.consume(500, 0.1):
                    partition, offset, error = message.partition(), message.offset(), message.error()
                    if error is not None or partition is None or offset is None:
                        self.problems.append(f"{self._topic}-{partition}: {error}")
                    else:
                        self._read(partition, offset, message.value())
        finally:
            client.close()


class KafkaliteReader(Reader):
    """Our own consumer."""

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        async with Consumer(
            bootstrap_servers=self._servers,
            client_id=self.name,
            auto_offset_reset="none",
            fetch_max_wait_ms=100,
            metadata_max_age_ms=_METADATA_REFRESH_MS,
        ) as consumer:
            consumer.assign(TopicPartition(self._topic, partition) for partition in range(len(self.positions)))
            for name in consumer.assignment():
                consumer.seek(name, 0)
            while not self._stopping.is_set():
                for name, records in (await consumer.getmany(timeout_ms=100)).items():
                    for record in records:
                        self._read(name.partition, record.offset, record.value)
