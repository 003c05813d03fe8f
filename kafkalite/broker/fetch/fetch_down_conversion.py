"""Fetch 0 to 9: down-convert record batches for old consumers, and replace errors that their version does not have.

- 0 to 3 get messages of magic 0 (0 and 1) or 1 (2 and 3): newer ones are converted (`protocol/record_batches/down_conversion`), unless the
  topic's message.downconversion.enable is false, whose answer is UNSUPPORTED_VERSION. A topic that is stored in such a format now
  (message.format.version) is sent as it is stored.
- Up to 5 KAFKA_STORAGE_ERROR is answered as NOT_LEADER_OR_FOLLOWER, upon which clients look for another leader.
- Up to 9 a topic with compression.type=zstd is answered with UNSUPPORTED_COMPRESSION_TYPE (KIP-110).

Where there is nothing but transaction markers, which the old formats do not have, the fetch continues behind them as long as it may wait.
Apache Kafka answers at once, with bytes that Java's old consumers take for a record that is too large.

What is read is bounded as for all versions: max.bytes, which versions 0 to 2 lack, is fetch.max.bytes at most. A few KiB are converted on
the event loop; the rest in another thread, one response at a time, which releases the interpreter to the event loop in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.broker.fetch.fetch_contexts import FullFetch
from kafkalite.broker.fetch.paced_fetch import PacedFullFetch
from kafkalite.broker.fetch.partition_reader import BATCHES_FROM
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Pace, Portions, Work, idle_units
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.protocol.record_batches.down_conversion import NOTHING_KEPT, ConvertedBatches, conversion
from kafkalite.protocol.record_batches.records import MAGIC, header_at, iter_batches
from kafkalite.storage.log.message_format import stored_magic
from kafkalite.types import Buffer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.fetch.down_conversion_cache import ConversionCache
    from kafkalite.broker.fetch.fetch_contexts import Parts, Reply, Response
    from kafkalite.broker.fetch.fetch_sessions import FetchItem, PartitionData, PartitionKey
    from kafkalite.broker.fetch.partition_reader import FetchParams
    from kafkalite.broker.requests.request_context import RequestContext

ALL_KNOWN_FROM: Final = 10
"""The first version that has all errors."""
_TIMESTAMPS_FROM: Final = 2
_STORAGE_ERROR_FROM: Final = 6

_AT_ONCE_BYTES: Final = 16 * 1024
"""Records converted on the event loop; decompressed they may be four times as large."""
_WITHOUT_PAUSE_S: Final = 1e-3
"""Time between pauses for uncompressed records: else the event loop gets the interpreter after Python's switch interval of 5 ms."""
_WITHOUT_PAUSE_ALONE_S: Final = 5e-3
"""The same for compressed records while no other response waits: codecs release the interpreter, some 30 times in a millisecond."""
_PAUSE_S: Final = 50e-6
_PIECE: Final = 500


class DownConvertedFetch:
    """A full fetch of version 0 to 3, repeated behind transaction markers until there are messages or max.wait has passed."""

    def __init__(
        self,
        parts: Parts,
        context: RequestContext,
        items: dict[PartitionKey, FetchItem],
        params: FetchParams,
        is_large: bool,
    ) -> None:
        self._parts, self._context, self._items, self._params = parts, context, items, params
        self._kind = PacedFullFetch if is_large else FullFetch
        self._magic = _newest_magic(params.version)

    def start(self) -> Reply:
        return asyncio.ensure_future(self._respond())

    async def _respond(self) -> Response:
        """Return the response, with messages that the version has."""
        clock, params, pace = self._parts.clock, self._params, self._context.portions.pace()
        deadline_ms = clock.monotonic_ms() + params.max_wait_ms
        while True:
            reply = self._kind(self._parts, None, self._items, params, self._context).start()
            response = await reply if isinstance(reply, asyncio.Future) else reply
            await self._context.portions.finish(_replace_errors(self._parts, response, params.version))
            items_behind = await self._convert(response, pace)
            left_ms = int(deadline_ms - clock.monotonic_ms())
            if not items_behind or left_ms <= 0:
                return response
            self._items |= items_behind
            params = replace(self._params, max_wait_ms=left_ms)

    async def _convert(self, response: Response, pace: Pace) -> dict[PartitionKey, FetchItem]:
        """Convert the records of a response. If it has none then, return the items that continue behind them."""
        conversions: list[_Conversion] = []
        is_empty = True
        for some in _cut(response):
            await pace.unit(len(some))
            for topic_partition, data in some:
                if not data.records:
                    is_empty = is_empty and not data.error_code
                elif _stored_magic(self._parts, topic_partition) > self._magic:
                    item = self._items[topic_partition]
                    conversions.append(_Conversion(item, data, data.records, self._magic))
                else:
                    is_empty = False
        room, large = _AT_ONCE_BYTES, []
        for each in conversions:
            room -= len(each.records)
            if room < 0 or not each.run_if_small():
                large.append(each)
        if large:
            portions, cache = self._context.portions, self._parts.partition_reader.conversion_cache
            await portions.in_thread(partial(_run_all, large, cache, lambda: portions.in_threads == 1))
        if not is_empty or any(each.data.records or each.data.error_code for each in conversions):
            return {}
        return {each.item.key: each.item_behind() for each in conversions}


class _Conversion(NamedTuple):
    """The records of one partition in a response, to be converted in `data`."""

    item: FetchItem
    data: PartitionData
    records: Buffer
    magic: int

    def run_if_small(self) -> bool:
        """Convert the records, and return True; False if they decompress to more than four times `_AT_ONCE_BYTES`."""
        try:
            self.run(NOTHING_KEPT, 4 * _AT_ONCE_BYTES, lambda: None)
        except DecompressedTooLarge:
            return False
        return True

    def run(self, kept: ConvertedBatches, limit_bytes: int, pause: Callable[[], None]) -> None:
        """Convert the records, calling `pause` after each piece. Raises DecompressedTooLarge."""
        work = conversion(self.records, self.magic, self.item.fetch_offset, kept, limit_bytes)
        try:
            while True:
                next(work)
                pause()
        except StopIteration as end:
            self.data.records = end.value
        except DecompressedTooLarge:
            raise
        except KafkaError as problem:
            _refuse(self.data, problem.code)

    @property
    def is_compressed(self) -> bool:
        """True if the first batch is compressed; mostly the others are like it."""
        header = header_at(self.records)
        return header is not None and header.codec != 0

    def item_behind(self) -> FetchItem:
        """Return the item that continues behind these batches."""
        offset = self.item.fetch_offset
        for header in iter_batches(self.records):
            offset = header.next_offset
        return replace(self.item, fetch_offset=offset)


def _run_all(conversions: list[_Conversion], cache: ConversionCache, is_alone: Callable[[], bool]) -> None:
    """Convert all of these; runs in another thread, one call at a time."""
    since_s = time.perf_counter()
    is_compressed = False

    def pause() -> None:
        nonlocal since_s
        without_s = _WITHOUT_PAUSE_ALONE_S if is_compressed and is_alone() else _WITHOUT_PAUSE_S
        if time.perf_counter() - since_s > without_s:
            time.sleep(_PAUSE_S)
            since_s = time.perf_counter()

    for each in conversions:
        is_compressed = each.is_compressed
        try:
            each.run(cache.of(each.item.topic_partition), DECOMPRESSED_LIMIT_BYTES, pause)
        except DecompressedTooLarge as problem:
            _refuse(each.data, problem.code)


def replace_unknown_errors(parts: Parts, reply: Reply, version: int, portions: Portions) -> Reply:
    """Return the reply with the errors that a version before `ALL_KNOWN_FROM` has."""
    if isinstance(reply, asyncio.Future):
        return asyncio.ensure_future(_replace_errors_later(parts, reply, version, portions))
    return portions.run(_replace_errors(parts, reply, version))


async def _replace_errors_later(
    parts: Parts, reply: asyncio.Future[Response], version: int, portions: Portions
) -> Response:
    return await portions.finish(_replace_errors(parts, await reply, version))


def _replace_errors(parts: Parts, response: Response, version: int) -> Work[Response]:
    for some in _cut(response):
        for topic_partition, data in some:
            _replace_error(parts, topic_partition, data, version)
        yield from idle_units(len(some))
    return response


def _replace_error(parts: Parts, topic_partition: TopicPartition, data: PartitionData, version: int) -> None:
    if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM:
        data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition = parts.replicas.partitions.get(topic_partition)
    if partition is None:
        return
    config = partition.log.config
    if config.compression_type == "zstd":
        _refuse(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    elif (
        version < BATCHES_FROM
        and not config.message_downconversion_enable
        and stored_magic(config) > _newest_magic(version)
    ):
        _refuse(data, ErrorCode.UNSUPPORTED_VERSION)


def _newest_magic(version: int) -> int:
    """Return the newest message format of a version before `BATCHES_FROM`."""
    return 1 if version >= _TIMESTAMPS_FROM else 0


def _stored_magic(parts: Parts, topic_partition: TopicPartition) -> int:
    partition = parts.replicas.partitions.get(topic_partition)
    return MAGIC if partition is None else stored_magic(partition.log.config)


def _refuse(data: PartitionData, code: ErrorCode) -> None:
    data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset = code, -1, -1, -1
    data.records, data.aborted_transactions = b"", None


def _cut(response: Response) -> Iterator[list[tuple[TopicPartition, PartitionData]]]:
    """Yield the answers of a response, at most `_PIECE` at a time."""
    for topic in response.responses:
        partitions = topic.partitions
        for first in range(0, len(partitions), _PIECE):
            yield [
                (TopicPartition(topic.topic, data.partition_index), data) for data in partitions[first : first + _PIECE]
            ]
