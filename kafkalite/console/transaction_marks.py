"""Which records of a page belong to an aborted transaction, and which wait for the end of an open one (KIP-98).

A consumer that reads uncommitted records does not learn that, so the same offsets are read once more by one that reads committed records:
what it does not get was aborted, and what lies at or behind the last stable offset is not decided yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Self

from kafkalite.client.errors import ClientError
from kafkalite.console.record_ranges import OpenConsumer, read_ranges
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Consumer, ConsumerRecord

ABORTED: Final = "aborted"
OPEN: Final = "open"
"""In an open transaction, or behind the beginning of one: no consumer that reads committed records gets it yet."""

Marks = dict[tuple[int, int], str]
"""ABORTED or OPEN by partition and offset; committed records, and those without a transaction, have no mark."""


class Marking:
    """Finds marks by one consumer of committed records, which is opened for the first of them. An asynchronous context manager."""

    def __init__(self, open_consumer: OpenConsumer) -> None:
        self._open_consumer = open_consumer
        self._stack = AsyncExitStack()
        self._consumer: Consumer | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._stack.aclose()

    async def marks(self, records: Sequence[ConsumerRecord]) -> tuple[Marks, str | None]:
        """Return the marks of `records`, which are of one topic, or why there are none."""
        try:
            if self._consumer is None and records:
                opened = self._open_consumer(isolation_level="read_committed")
                self._consumer = await self._stack.enter_async_context(opened)
            return (await transaction_marks(self._consumer, records) if self._consumer and records else {}), None
        except (OSError, ClientError) as problem:
            return {}, str(problem) or type(problem).__name__


async def transaction_marks(consumer: Consumer, records: Sequence[ConsumerRecord]) -> Marks:
    """Return the marks of `records`, read again by a consumer of committed records. Raises ClientError where that fails."""
    offsets: dict[TopicPartition, list[int]] = {}
    for record in records:
        offsets.setdefault(record.topic_partition, []).append(record.offset)
    first, stable = await consumer.beginning_offsets(offsets), await consumer.end_offsets(offsets)
    ranges = {
        place: (max(min(each), first[place]), min(max(each) + 1, stable[place])) for place, each in offsets.items()
    }
    found = await read_ranges(consumer, ranges, max(end - begin for begin, end in ranges.values()))
    marks: Marks = {}
    for place, each in offsets.items():
        begin, end = ranges[place]
        committed = {record.offset for record in found[place]}
        for offset in each:
            if offset >= stable[place]:
                marks[place.partition, offset] = OPEN
            elif begin <= offset < end and offset not in committed:
                marks[place.partition, offset] = ABORTED
    return marks
