"""Load on a cluster, measured and not printed, for `kafkalite perf` and Kafka's perf tools.

Rates are from the first record to the last acknowledgement or receipt, as Kafka's ProducerPerformance and ConsumerPerformance count.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.group.rebalance_listener import RebalanceListener
from kafkalite.perf.flow import Flow, Meter, Pace, Report

if TYPE_CHECKING:
    from kafkalite.client.consumer.consumer import Consumer
    from kafkalite.client.consumer_record import ConsumerRecord
    from kafkalite.client.producer.accumulator import Batch
    from kafkalite.client.producer.deliveries import Delivery
    from kafkalite.client.producer.producer import Producer
    from kafkalite.clock import Clock
    from kafkalite.types import TopicPartition

_POLL_MS: Final = 100.0
_POLL_RECORDS: Final = 2000


@dataclass(frozen=True, slots=True)
class ProduceLoad:
    """The records to send: `value_of(n)` is the value of record n. `records_per_s` limits the rate, -1 does not.

    With `transaction_ms` records are sent in transactions of that age, by a transactional producer.
    """

    topic: str
    num_records: int
    value_of: Callable[[int], bytes]
    records_per_s: float = -1
    transaction_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ProduceOutcome:
    """The acknowledged records, with latencies from `send` to the acknowledgement; the number of failed ones, and the first error."""

    flow: Flow
    failed: int
    first_error: Exception | None

    def to_dict(self) -> dict[str, Any]:
        return {**self.flow.to_dict(), "failed": self.failed}


async def produce_load(
    producer: Producer, load: ProduceLoad, clock: Clock, report: Report, interval_ms: float = 5000
) -> ProduceOutcome:
    """Send the load and wait for the last acknowledgement; nobody else may use the producer meanwhile.

    ClientError when records cannot be sent at all.
    """
    return await _Production(producer, load, clock, report, interval_ms).run()


class _Sent:
    """The records of one batch in flight, in order: when each was sent, in ms, and its size. `first` is the first one's delivery.

    Nothing is kept per record but numbers: objects would be work for the garbage collector, which would be measured.
    """

    __slots__ = ("began_ms", "first", "sizes")

    def __init__(self, first: Delivery) -> None:
        self.first = first
        self.began_ms: list[float] = []
        self.sizes: list[int] = []

    def errors(self) -> list[Exception | None]:
        """Return the error of each record once the batch is done, None for delivered ones: it may have been sent in halves, of which one
        arrived.
        """
        batch, begin = self.first.batch, self.first.index
        return [batch.part_of(index)[0].error for index in range(begin, begin + len(self.sizes))]


class _Transactions:
    """Consecutive transactions; one is committed when it is `age_ms` old."""

    def __init__(self, producer: Producer, age_ms: int) -> None:
        self._producer, self._age_ms = producer, age_ms
        self._began_ms: float | None = None

    async def begin_if_due(self, now_ms: float) -> None:
        """Begin a transaction for the next record where none is open, after the commit of one that is old enough."""
        if self._began_ms is not None and now_ms - self._began_ms >= self._age_ms:
            await self.commit()
        if self._began_ms is None:
            await self._producer.begin_transaction()
            self._began_ms = now_ms

    async def commit(self) -> None:
        """Commit what is open."""
        if self._began_ms is not None:
            await self._producer.commit_transaction()
            self._began_ms = None


class _Production:
    """Sends a load. Times are noted per record, but completion is noted once per batch: records of a batch share their fate."""

    def __init__(self, producer: Producer, load: ProduceLoad, clock: Clock, report: Report, interval_ms: float) -> None:
        self._producer, self._load, self._clock = producer, load, clock
        self._meter = Meter(clock, report, interval_ms)
        self._open: dict[Batch, _Sent] = {}
        self._failed = 0
        self._first_error: Exception | None = None

    async def run(self) -> ProduceOutcome:
        load, now_ms = self._load, self._clock.monotonic_ms
        pace = Pace(load.records_per_s, self._clock) if load.records_per_s > 0 else None
        transaction = _Transactions(self._producer, load.transaction_ms) if load.transaction_ms is not None else None
        for number in range(load.num_records):
            value = load.value_of(number)
            began_ms = now_ms()
            if transaction is not None:
                await transaction.begin_if_due(began_ms)
            delivery = await self._producer.send(load.topic, value)
            sent = self._open.get(delivery.batch)
            if sent is None:
                sent = self._open_batch(delivery)
            sent.began_ms.append(began_ms)
            sent.sizes.append(len(value))
            if pace is not None and (wait_ms := pace.ahead_ms(number + 1)):
                await asyncio.sleep(wait_ms / 1000)
        if transaction is not None:
            await transaction.commit()
        await self._producer.flush()
        for batch in list(self._open):
            self._settle_batch(batch)
        return ProduceOutcome(self._meter.finish(), self._failed, self._first_error)

    def _open_batch(self, delivery: Delivery) -> _Sent:
        """Return the notes of a new batch. One that is done already, because `send` let the sender run, is settled last."""
        sent = self._open[delivery.batch] = _Sent(delivery)
        if not delivery.done():
            delivery.add_done_callback(lambda done: self._settle_batch(done.batch))
        return sent

    def _settle_batch(self, batch: Batch) -> None:
        now_ms = self._clock.monotonic_ms()
        sent = self._open.pop(batch)
        began_ms, sizes = sent.began_ms, sent.sizes
        if batch.error is not None:
            errors = sent.errors()
            arrived = [number for number, error in enumerate(errors) if error is None]
            self._failed += len(errors) - len(arrived)
            self._first_error = self._first_error or next(each for each in errors if each is not None)
            began_ms, sizes = [began_ms[each] for each in arrived], [sizes[each] for each in arrived]
        self._meter.add(len(sizes), sum(sizes), [now_ms - each for each in began_ms])


@dataclass(frozen=True, slots=True)
class ConsumeOutcome:
    """The records that were read; their latencies are those of the polls, from the call until it returned records. `timed_out`: not all
    records came.

    `joining_ms` is the time until the group assigned partitions to this member, 0 without a group.
    """

    flow: Flow
    joining_ms: float
    timed_out: bool

    def to_dict(self) -> dict[str, Any]:
        joining_ms = round(self.joining_ms, 1)
        return {**self.flow.to_dict(), "joining_ms": joining_ms, "timed_out": self.timed_out}


class JoinTimer(RebalanceListener):
    """Measures how long a group member had no partitions, as Kafka's ConsumerPerformance does: from the start of the measurement, and
    from every revocation, until partitions are assigned. A listener for `Consumer.subscribe`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ms: float | None = clock.monotonic_ms()
        self.total_ms = 0.0

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._began_ms = self._clock.monotonic_ms()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        if self._began_ms is not None:
            self.total_ms += self._clock.monotonic_ms() - self._began_ms
            self._began_ms = None


async def consume_load(
    consumer: Consumer,
    num_records: int,
    clock: Clock,
    report: Report,
    *,
    timeout_ms: float,
    interval_ms: float = 5000,
    joined: JoinTimer | None = None,
) -> ConsumeOutcome:
    """Read `num_records`, or until none came for `timeout_ms`. The consumer has its partitions or its subscription already."""
    meter = Meter(clock, report, interval_ms)
    last_ms = clock.monotonic_ms()
    while meter.total.records < num_records and clock.monotonic_ms() - last_ms < timeout_ms:
        asked_ms = clock.monotonic_ms()
        room = min(num_records - meter.total.records, _POLL_RECORDS)
        found = await consumer.getmany(timeout_ms=min(timeout_ms, _POLL_MS), max_records=room)
        now_ms = clock.monotonic_ms()
        if not found:
            meter.tick(now_ms)
            continue
        last_ms = now_ms
        records = [each for taken in found.values() for each in taken]
        size_bytes = sum(len(each.key or b"") + len(each.value or b"") for each in records)
        meter.add(len(records), size_bytes, [now_ms - asked_ms])
    timed_out = meter.total.records < num_records
    return ConsumeOutcome(meter.finish(), 0.0 if joined is None else joined.total_ms, timed_out)


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Records that are sent and read again: one after the other, or at a rate. Values have `record_size` bytes, at least 16.

    `run_id` tells the records of this measurement from others in the topic.
    """

    topic: str
    num_records: int
    record_size: int
    run_id: int
    records_per_s: float = -1
    timeout_ms: float = 10_000


MARK: Final = struct.Struct(">QQ")
"""The start of a value of an end-to-end measurement: the run, and the record's number in it."""


class RoundTripLostError(Exception):
    """Raised when an acknowledged record did not come back in time."""


async def round_trips(
    producer: Producer, consumer: Consumer, wanted: RoundTrips, clock: Clock, report: Report, interval_ms: float = 5000
) -> Flow:
    """Return latencies from `send` until the consumer, which reads from the topic's end, has the record. Raises RoundTripLostError,
    ClientError.
    """
    meter = Meter(clock, report, interval_ms)
    sent_ms: dict[int, float] = {}
    news = asyncio.Event()

    async def receive() -> None:
        while meter.total.records < wanted.num_records:
            found = await consumer.getmany(timeout_ms=_POLL_MS)
            now_ms = clock.monotonic_ms()
            for number, size_bytes in _own_records(found, wanted.run_id):
                if (began_ms := sent_ms.pop(number, None)) is not None:
                    meter.add(1, size_bytes, [now_ms - began_ms])
            meter.tick(now_ms)
            news.set()

    async def send() -> None:
        pace, padding = Pace(wanted.records_per_s, clock), bytes(wanted.record_size - MARK.size)
        for number in range(wanted.num_records):
            sent_ms[number] = clock.monotonic_ms()
            await producer.send(wanted.topic, MARK.pack(wanted.run_id, number) + padding)
            if wanted.records_per_s <= 0:
                await _until_all_came()
            elif wait_ms := pace.ahead_ms(number + 1):
                await asyncio.sleep(wait_ms / 1000)
        await producer.flush()
        await _until_all_came()

    async def _until_all_came() -> None:
        try:
            async with asyncio.timeout(wanted.timeout_ms / 1000):
                while sent_ms:
                    news.clear()
                    await news.wait()
        except TimeoutError:
            raise RoundTripLostError(
                f"{len(sent_ms)} of the records sent to {wanted.topic} did not come back within {wanted.timeout_ms:g} ms"
            ) from None

    receiving = asyncio.ensure_future(receive())
    sending = asyncio.ensure_future(send())
    try:
        await asyncio.gather(receiving, sending)
    finally:
        for each in (receiving, sending):
            each.cancel()
        await asyncio.gather(receiving, sending, return_exceptions=True)
    return meter.finish()


def _own_records(found: Mapping[TopicPartition, Sequence[ConsumerRecord]], run_id: int) -> Iterator[tuple[int, int]]:
    """Yield number and size of the records of this run."""
    for records in found.values():
        for each in records:
            if each.value is not None and len(each.value) >= MARK.size:
                run, number = MARK.unpack_from(each.value)
                if run == run_id:
                    yield number, len(each.value)
