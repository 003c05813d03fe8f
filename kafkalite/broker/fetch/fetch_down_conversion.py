"""Fetch 0 to 9: down-convert record batches for old consumers, and replace errors that their version does not have.

- 0 to 3 take messages of magic 0 (0 and 1) or 1 (2 and 3): what is newer is rewritten (`protocol/record_batches/down_conversion`), unless
the topic's   message.downconversion.enable says no, whose answer is UNSUPPORTED_VERSION. A topic that is stored in such a format now
(message.format.version) is sent as it lies there. - Up to 5 KAFKA_STORAGE_ERROR is answered as NOT_LEADER_OR_FOLLOWER, upon which clients
look for another leader. - Up to 9 a topic with compression.type=zstd is answered with UNSUPPORTED_COMPRESSION_TYPE (KIP-110).

Where nothing but markers of transactions is there, which old consumers have no place for, the fetch goes on behind them as long as it may
wait. Apache Kafka answers at once, with bytes that Java's old consumers take for a record that is too large.

What is read is bounded as for all versions: max.bytes, which versions 0 to 2 lack, is fetch.max.bytes at most. Little is rewritten at
once; the rest in another thread, one answer at a time, which lets the event loop have the interpreter in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from kafkalite.broker.fetch.partition_reader import BATCHES_FROM
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.portions import Pace
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.protocol.record_batches.down_conversion import NOTHING_KEPT, ConvertedBatches, conversion
from kafkalite.protocol.record_batches.records import MAGIC, header_at, iter_batches
from kafkalite.storage.log.message_format import stored_magic
from kafkalite.types import Buffer, TopicPartition

if TYPE_CHECKING:
    from kafkalite.broker.fetch.down_conversion_cache import ConversionCache
    from kafkalite.broker.fetch.fetch_sessions import FetchItem
    from kafkalite.broker.fetch.partition_reader import FetchParams, PartitionData
    from kafkalite.broker.replication.replicas import Replicas
    from kafkalite.broker.requests.request_context import RequestContext
    from kafkalite.clock import Clock

    Reply: TypeAlias = messages.fetch_response.FetchResponse | asyncio.Future[messages.fetch_response.FetchResponse]

ALL_KNOWN_FROM: Final = 10
"""The version from which no error is answered as another."""
_TIMESTAMPS_FROM: Final = 2
_STORAGE_ERROR_FROM: Final = 6

_AT_ONCE_BYTES: Final = 16 * 1024
"""Of records that are rewritten on the event loop; what they decompress to may be four times as much."""
_WITHOUT_PAUSE_S: Final = 1e-3
"""Of records that are not compressed: without a pause the event loop gets the interpreter after Python's 5 ms only."""
_WITHOUT_PAUSE_ALONE_S: Final = 5e-3
"""Of compressed records while nobody else waits for the thread: codecs work without the interpreter, some 30 times in a millisecond,
which is enough for a loop that has little to do, and a pause is time in which nothing is done."""
_PAUSE_S: Final = 50e-6
_PIECE: Final = 500


class Parts(Protocol):
    """What this uses of the broker."""

    @property
    def clock(self) -> Clock: ...

    @property
    def replicas(self) -> Replicas: ...


class OldFetch:
    """A full fetch of version 0 to 3; `begin` starts one of given items with given parameters."""

    def __init__(
        self,
        parts: Parts,
        context: RequestContext,
        cache: ConversionCache,
        items: Iterable[FetchItem],
        params: FetchParams,
        begin: Callable[[list[FetchItem], FetchParams], Reply],
    ) -> None:
        self._parts, self._context, self._cache, self._begin = parts, context, cache, begin
        self._params = params
        self._items = {item.topic_partition: item for item in items}
        self._magic = _magic_of(params.version)

    async def answered(self) -> messages.fetch_response.FetchResponse:
        """The response, with messages that the version knows."""
        clock, params, pace = self._parts.clock, self._params, self._context.portions.pace()
        deadline_ms = clock.monotonic_ms() + params.max_wait_ms
        while True:
            reply = self._begin(list(self._items.values()), params)
            response = await reply if isinstance(reply, asyncio.Future) else reply
            await tell_known_errors(self._parts, response, params.version, pace)
            behind = await self._rewrite(response, pace)
            left_ms = int(deadline_ms - clock.monotonic_ms())
            if not behind or left_ms <= 0:
                return response
            self._items |= behind
            params = replace(self._params, max_wait_ms=left_ms)

    async def _rewrite(
        self, response: messages.fetch_response.FetchResponse, pace: Pace
    ) -> dict[TopicPartition, FetchItem]:
        """Rewrite the records of a response. Where that leaves nothing in it, what is to be asked to get on."""
        conversions: list[_Conversion] = []
        is_empty = True
        for some in _pieces(response):
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
            if room < 0 or not each.is_done_at_once():
                large.append(each)
        if large:
            portions = self._context.portions
            await portions.in_thread(partial(_convert, large, self._cache, lambda: portions.in_threads == 1))
        if not is_empty or any(each.data.records or each.data.error_code for each in conversions):
            return {}
        return {each.item.topic_partition: each.behind() for each in conversions}


class _Conversion(NamedTuple):
    """The records that one partition answers, to be rewritten in `data`."""

    item: FetchItem
    data: PartitionData
    records: Buffer
    magic: int

    def is_done_at_once(self) -> bool:
        """Rewrite here and now; False where it would be more than it looks like."""
        try:
            self.run(NOTHING_KEPT, 4 * _AT_ONCE_BYTES, lambda: None)
        except DecompressedTooLarge:
            return False
        return True

    def run(self, kept: ConvertedBatches, limit_bytes: int, pause: Callable[[], None]) -> None:
        """Rewrite, with a pause after each piece. Raises DecompressedTooLarge."""
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
        """By its first batch, as most are."""
        header = header_at(self.records)
        return header is not None and header.codec != 0

    def behind(self) -> FetchItem:
        """What is to be asked behind these batches."""
        offset = self.item.fetch_offset
        for header in iter_batches(self.records):
            offset = header.next_offset
        return replace(self.item, fetch_offset=offset)


def _convert(conversions: list[_Conversion], cache: ConversionCache, is_alone: Callable[[], bool]) -> None:
    """Rewrite all of these; runs in another thread, one call at a time."""
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


def in_known_errors(parts: Parts, reply: Reply, version: int) -> Reply:
    """The reply to a fetch of few partitions, with errors that a version before `ALL_KNOWN_FROM` knows."""
    if isinstance(reply, asyncio.Future):
        return asyncio.ensure_future(_later_in_known_errors(parts, reply, version))
    for some in _pieces(reply):
        _tell_known_errors(parts, some, version)
    return reply


async def _later_in_known_errors(
    parts: Parts, reply: asyncio.Future[messages.fetch_response.FetchResponse], version: int
) -> messages.fetch_response.FetchResponse:
    response = await reply
    for some in _pieces(response):
        _tell_known_errors(parts, some, version)
    return response


async def tell_known_errors(
    parts: Parts, response: messages.fetch_response.FetchResponse, version: int, pace: Pace
) -> None:
    """Change the errors of a response for a version before `ALL_KNOWN_FROM`, in portions."""
    for some in _pieces(response):
        await pace.unit(len(some))
        _tell_known_errors(parts, some, version)


def _tell_known_errors(parts: Parts, answers: Iterable[tuple[TopicPartition, PartitionData]], version: int) -> None:
    for topic_partition, data in answers:
        if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = parts.replicas.partitions.get(topic_partition)
        if partition is None:
            continue
        config = partition.log.config
        if config.compression_type == "zstd":
            _refuse(data, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        elif (
            version < BATCHES_FROM
            and not config.message_downconversion_enable
            and stored_magic(config) > _magic_of(version)
        ):
            _refuse(data, ErrorCode.UNSUPPORTED_VERSION)


def _magic_of(version: int) -> int:
    """The newest messages that a version before `BATCHES_FROM` knows."""
    return 1 if version >= _TIMESTAMPS_FROM else 0


def _stored_magic(parts: Parts, topic_partition: TopicPartition) -> int:
    partition = parts.replicas.partitions.get(topic_partition)
    return MAGIC if partition is None else stored_magic(partition.log.config)


def _refuse(data: PartitionData, code: ErrorCode) -> None:
    data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset = code, -1, -1, -1
    data.records, data.aborted_transactions = b"", None


def _pieces(
    response: messages.fetch_response.FetchResponse,
) -> Iterator[list[tuple[TopicPartition, PartitionData]]]:
    """The answers, some hundred at a time."""
    for topic in response.responses:
        partitions = topic.partitions
        for first in range(0, len(partitions), _PIECE):
            yield [
                (TopicPartition(topic.topic, data.partition_index), data) for data in partitions[first : first + _PIECE]
            ]
