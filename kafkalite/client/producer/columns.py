"""Many records at once, as columns: whole batches are made of them, and a record costs what its bytes cost.

`send` makes a coroutine and a delivery for each record; rows of a column have neither, and take half of its time. What is sent before and
after by `send` keeps its order in each partition, because a batch that is open is closed before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Final, Protocol, TypedDict, Unpack

from kafkalite.client.errors import ClientError
from kafkalite.client.producer.accumulator import Accumulator, Batch, PartitionQueue
from kafkalite.client.producer.options import ProducerOptions
from kafkalite.client.producer.partitioner import Partitioner
from kafkalite.client.producer.route import Route
from kafkalite.client.producer.sender import Sender
from kafkalite.client.record_codec import Row, check_record_size
from kafkalite.client.records import Header
from kafkalite.clock import Clock
from kafkalite.errors import ErrorCode

OnFailure = Callable[[Exception], None]
"""Called with the error of a batch that was not delivered."""

_ROWS_AT_ONCE: Final = 4096
_NO_HEADERS: Final[tuple[Header, ...]] = ()


class RecordColumns(TypedDict, total=False):
    """Columns beside the values, with as many entries, and what is called for a batch that fails."""

    keys: Sequence[bytes | None] | None
    timestamps_ms: Sequence[int | None] | None
    partitions: Sequence[int | None] | None
    headers: Sequence[Sequence[Header] | None] | None
    on_failure: OnFailure | None


class ColumnProducer(Protocol):
    """What of a producer is used here."""

    options: ProducerOptions
    partitioner: Partitioner
    _accumulator: Accumulator
    _clock: Clock
    _sender: Sender
    _surely_fitting_bytes: int

    async def _prepare(self, topic: str, partition: int | None = None) -> Route: ...

    def send_failed(self, problem: Exception) -> None: ...


async def send_columns(
    producer: ColumnProducer, topic: str, values: Sequence[bytes | None], **more: Unpack[RecordColumns]
) -> None:
    """Put records on their way, one for each value; the other columns have as many entries, or are left out. Returns once all are in
    batches; `flush` waits for their delivery.

    Raises what `Producer.send` raises, ValueError for columns of different lengths.
    """
    keys, timestamps_ms, headers = more.get("keys"), more.get("timestamps_ms"), more.get("headers")
    partitions, on_failure = more.get("partitions"), more.get("on_failure")
    count = len(values)
    for name, column in (
        ("keys", keys),
        ("timestamps_ms", timestamps_ms),
        ("partitions", partitions),
        ("headers", headers),
    ):
        if column is not None and len(column) != count:
            raise ValueError(f"{len(column)} {name} for {count} values")
    now_ms = producer._clock.now_ms()
    times: Iterable[int] = repeat(now_ms, count)
    if timestamps_ms is not None:
        times = (now_ms if each is None else each for each in timestamps_ms)
    all_headers: Iterable[Sequence[Header]] = (
        repeat(_NO_HEADERS, count) if headers is None else (each or _NO_HEADERS for each in headers)
    )
    rows: list[Row] = list(zip(times, repeat(None, count) if keys is None else keys, values, all_headers, strict=True))
    _check_sizes(producer, topic, rows, (keys, values), headers is not None)
    try:
        await _send_rows(producer, topic, rows, partitions, on_failure)
    except ClientError as problem:
        producer.send_failed(problem)
        raise


async def _send_rows(
    producer: ColumnProducer,
    topic: str,
    rows: list[Row],
    partitions: Sequence[int | None] | None,
    on_failure: OnFailure | None,
) -> None:
    route = await producer._prepare(topic)
    chosen = _choose_partitions(producer.partitioner, topic, rows, partitions, route)
    for partition, group in _group(rows, chosen).items():
        start = 0
        while start < len(group):
            route = await producer._prepare(topic, partition)
            target = partition
            if target is None:  # sticky: null keys fill one partition's batch, then another's
                target = producer.partitioner.partition(topic, None, route.topic.all_partitions, route.topic.available)
            queue = route.queues.get(target)
            if queue is None:
                raise ClientError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"the partitioner chose {target!r}, none of the {len(route.queues)} partitions of topic {topic} that it was given",
                )
            batch = _append_rows(producer, queue, group[start : start + _ROWS_AT_ONCE])
            if on_failure is not None:
                batch.on_done.append(_make_notice(batch, on_failure))
            start += batch.record_count
            if partition is None and start < len(group):
                producer.partitioner.batch_filled(topic)
            await asyncio.sleep(0)  # the sender has something to do


def _group(rows: list[Row], chosen: Sequence[int | None]) -> dict[int | None, list[Row]]:
    """Return the rows by their partitions, in order."""
    if len(set(chosen)) == 1:
        return {chosen[0]: rows}
    groups: dict[int | None, list[Row]] = {}
    for partition, row in zip(chosen, rows, strict=True):
        group = groups.get(partition)
        if group is None:
            group = groups[partition] = []
        group.append(row)
    return groups


def _check_sizes(
    producer: ColumnProducer,
    topic: str,
    rows: Iterable[Row],
    columns: Iterable[Sequence[bytes | None] | None],
    has_headers: bool,
) -> None:
    """Raise ClientError MESSAGE_TOO_LARGE for a row that fits into no request; none does where the longest key and value would."""
    most = producer._surely_fitting_bytes
    longest = sum(max(map(len, filter(None, column)), default=0) for column in columns if column)
    if longest <= most and not has_headers:
        return
    for _, key, value, headers in rows:
        if headers or (len(key) if key else 0) + (len(value) if value else 0) > most:
            check_record_size(topic, key, value, headers, producer.options.max_request_size)


def _append_rows(producer: ColumnProducer, queue: PartitionQueue, rows: Sequence[Row]) -> Batch:
    """Put rows of a partition, as many as it takes, into a batch that is complete with that."""
    sender = producer._sender
    batch = producer._accumulator.add_complete(queue, rows, asyncio.get_running_loop().time() * 1000)
    if sender.transactions is not None:
        sender.transactions.admits(queue.topic_partition)
    sender.wake()
    return batch


def _choose_partitions(
    partitioner: Partitioner, topic: str, rows: Sequence[Row], given: Sequence[int | None] | None, route: Route
) -> Sequence[int | None]:
    """Return the partition of each row; None for one that goes where the batch goes that is being filled."""
    if given is not None and None not in given:
        return given
    asking = [key for row, (_, key, _, _) in enumerate(rows) if given is None or given[row] is None]
    found = partitioner.partitions(topic, asking, route.topic.all_partitions, route.topic.available)
    if given is None:
        return found
    chosen = iter(found)
    return [next(chosen) if each is None else each for each in given]


def _make_notice(batch: Batch, on_failure: OnFailure) -> Callable[[], None]:
    def notice() -> None:
        parts = deque([batch])
        while parts:
            part = parts.popleft()
            if part.parts is not None:
                parts.extend(part.parts)
            elif part.error is not None:
                on_failure(part.error)
                return

    return notice
