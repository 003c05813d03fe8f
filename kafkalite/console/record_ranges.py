"""Ranges of offsets read through a consumer without a group, for a page of records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from kafkalite.client.errors import ClientTimeoutError
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import Consumer, ConsumerRecord

OpenConsumer = Callable[..., AbstractAsyncContextManager["Consumer"]]
"""Opens a connected consumer without a group; takes options of a consumer, such as `isolation_level`."""

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""The first offset, and the one behind the last, by partition."""

PAGE_TIMEOUT_S: Final = 10.0
POLL_MS: Final = 500.0
_BATCH: Final = 2_000


async def read_ranges(consumer: Consumer, ranges: Ranges, quota: int) -> dict[TopicPartition, list[ConsumerRecord]]:
    """Return the first records of ranges of offsets, `quota` of each at most. Raises ClientTimeoutError when they do not come in time."""
    found: dict[TopicPartition, list[ConsumerRecord]] = {each: [] for each in ranges}
    left = {each for each, (begin, end) in ranges.items() if begin < end}
    consumer.assign(sorted(left))
    for each in left:
        consumer.seek(each, ranges[each][0])
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PAGE_TIMEOUT_S
    while left and loop.time() < deadline_s:
        for place, records in (await consumer.getmany(*left, timeout_ms=POLL_MS, max_records=_BATCH)).items():
            taken = [record for record in records if record.offset < ranges[place][1]]
            found[place] += taken[: quota - len(found[place])]
        for each in sorted(left):
            if len(found[each]) >= quota or await consumer.position(each) >= ranges[each][1]:
                left.discard(each)
                consumer.pause(each)
    if left:
        raise ClientTimeoutError(f"{', '.join(map(str, sorted(left)[:5]))}: no records within {PAGE_TIMEOUT_S:g} s")
    return found
