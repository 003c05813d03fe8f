"""Many records at once, as columns: whole batches are made of them, and a record costs what its bytes cost.

`send` takes 2 µs for a record, with its delivery and its callback; rows of a column take a quarter of that. What is sent before and after
by `send` keeps its order in each partition, because a batch that is open is closed before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final

from kafkalite.client.errors import ClientError
from kafkalite.client.producer.accumulator import Batch
from kafkalite.client.producer.partitioner import Partitioner
from kafkalite.client.producer.producer import Producer, Route
from kafkalite.client.record_codec import Row
from kafkalite.client.records import Header
from kafkalite.errors import ErrorCode

OnFailure = Callable[[Exception], None]
"""Called with the error of a batch that was not delivered."""

_ROWS_AT_ONCE: Final = 4096
_NO_HEADERS: Final[tuple[Header, ...]] = ()


async def send_columns(
    producer: Producer,
    topic: str,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    timestamps_ms: Sequence[int] | None = None,
    partitions: Sequence[int | None] | None = None,
    headers: Sequence[Sequence[Header] | None] | None = None,
    on_failure: OnFailure | None = None,
) -> None:
    """Put records on their way, one for each value; the other columns have as many entries, or are left out. Returns once all are in
    batches; `flush` waits for their delivery.

    Raises what `Producer.send` raises, ValueError for columns of different lengths.
    """
    count = len(values)
    for name, column in (
        ("keys", keys),
        ("timestamps_ms", timestamps_ms),
        ("partitions", partitions),
        ("headers", headers),
    ):
        if column is not None and len(column) != count:
            raise ValueError(f"{len(column)} {name} for {count} values")
    times: Iterable[int] = repeat(producer.now_ms(), count) if timestamps_ms is None else timestamps_ms
    all_headers: Iterable[Sequence[Header]] = (
        repeat(_NO_HEADERS, count) if headers is None else (each or _NO_HEADERS for each in headers)
    )
    rows: list[Row] = list(zip(times, repeat(None, count) if keys is None else keys, values, all_headers, strict=True))
    producer.check_rows(topic, rows)
    try:
        await _send_rows(producer, topic, rows, partitions, on_failure)
    except ClientError as problem:
        producer.send_failed(problem)
        raise


async def _send_rows(
    producer: Producer,
    topic: str,
    rows: list[Row],
    partitions: Sequence[int | None] | None,
    on_failure: OnFailure | None,
) -> None:
    route = await producer.prepare(topic)
    chosen = _choose_partitions(producer.partitioner, topic, rows, partitions, route)
    groups: dict[int | None, list[Row]] = {}
    for partition, row in zip(chosen, rows, strict=True):
        group = groups.get(partition)
        if group is None:
            group = groups[partition] = []
        group.append(row)
    for partition, group in groups.items():
        start = 0
        while start < len(group):
            route = await producer.prepare(topic, partition)
            target = partition
            if target is None:  # sticky: null keys fill one partition's batch, then another's
                target = producer.partitioner.partition(topic, None, route.topic.all_partitions, route.topic.available)
            queue = route.queues.get(target)
            if queue is None:
                raise ClientError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"the partitioner chose {target!r}, none of the {len(route.queues)} partitions of topic {topic} that it was given",
                )
            batch = producer.append_rows(queue, group[start : start + _ROWS_AT_ONCE])
            if on_failure is not None:
                batch.on_done.append(_make_notice(batch, on_failure))
            start += batch.record_count
            if partition is None and start < len(group):
                producer.partitioner.batch_filled(topic)
            await asyncio.sleep(0)  # the sender has something to do


def _choose_partitions(
    partitioner: Partitioner, topic: str, rows: Sequence[Row], given: Sequence[int | None] | None, route: Route
) -> Iterator[int | None]:
    """Yield the partition of each row; None for one that goes where the batch goes that is being filled."""
    topic_view = route.topic
    chosen = partitioner.partitions(
        topic, [key for _, key, _, _ in rows], topic_view.all_partitions, topic_view.available
    )
    if given is None:
        return iter(chosen)
    return (own if asked is None else asked for asked, own in zip(given, chosen, strict=True))


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
