"""Offsets `start` to `end` of one partition as Arrow record batches, without a consumer's assignment or position.

Columns: key and value (binary), partition (int32), offset (int64), timestamp (milliseconds, UTC), timestamp_type (int32: 0 create time,
1 log append time), headers (list of key and value). The next fetch is under way while a batch is decoded (`record_columns`). numpy and
pyarrow are imported at the first call (extra `spark`). What a batch becomes is bounded as for a consumer, and a batch that would hold the
event loop is decompressed by another thread (`fetch_buffer.AT_ONCE_BYTES`); others have their turn after each record batch.

Gaps (compaction), control batches and aborted transactions leave no rows. Offsets that the log does not have any more are an error,
never silently left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.consumer.fetch_buffer import AT_ONCE_BYTES, Chunk
from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.consumer.read_replicas import ReadReplicas
from kafkalite.client.errors import ClientError, ClientTimeoutError, error_of, raise_error
from kafkalite.client.record_codec import BatchRecords
from kafkalite.errors import ErrorCode
from kafkalite.lifecycle import end_tasks
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.compression import DECOMPRESSED_LIMIT_BYTES, DecompressedTooLarge
from kafkalite.types import NO_TOPIC_ID, BrokerId, TopicPartition

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

_NEWEST_FETCH_BY_NAME = 12

ALL_COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestamp_type", "headers")


@dataclass(frozen=True, slots=True)
class RangeSettings:
    """`fetch_bytes` is asked for at once; a record batch has about `batch_rows` rows, or fewer with `batch_bytes`, decompressed,
    however many a batch of the log has.

    Batches that fit into the processor's cache halve the time for a record of 100 B, measured with 2 MiB and 8 MiB. An answer of this
    size is received into memory that was used before (`net.frames.ReceiveBuffers`), which saves the kernel a fifth of its time.
    """

    isolation_level: int
    check_crcs: bool
    fetch_max_wait_ms: int
    timeout_s: float
    fetch_bytes: int = 5 * 512 * 1024
    batch_rows: int = 65_536
    batch_bytes: int = 2 * 1024 * 1024
    columns: Collection[str] = ALL_COLUMNS
    client_rack: str = ""


def range_settings(options: ConsumerOptions, batch_rows: int, columns: Collection[str] | None) -> RangeSettings:
    """Return the settings of a consumer's reader; all columns by default."""
    return RangeSettings(
        options.isolation,
        options.check_crcs,
        options.fetch_max_wait_ms,
        options.default_api_timeout_ms / 1000,
        batch_rows=batch_rows,
        columns=ALL_COLUMNS if columns is None else columns,
        client_rack=options.client_rack,
    )


class RangeReader:
    """Reads a range of offsets of one partition as Arrow record batches; owns no assignment and no position."""

    def __init__(self, cluster: ClusterClient, topic_partition: TopicPartition, settings: RangeSettings) -> None:
        self._cluster = cluster
        self._topic_partition = topic_partition
        self._settings = settings
        self._what = f"reading {topic_partition}"
        self._read_replicas = ReadReplicas(settings.client_rack)

    async def read(self, start: int, end: int) -> AsyncIterator[pyarrow.RecordBatch]:
        """Yield the records from `start` to before `end`, in order.

        ClientError OFFSET_OUT_OF_RANGE when the log does not reach from `start`, ClientTimeoutError when no more comes within the
        timeout, CORRUPT_MESSAGE and others as for consumers.
        """
        from kafkalite.client.consumer.record_columns import record_batch, schema_of

        settings, schema = self._settings, schema_of(self._settings.columns)
        gathered: list[BatchRecords] = []
        rows = size_bytes = 0
        async with aclosing(self._chunks(start, end)) as chunks:
            async for chunk, position in chunks:
                while batch := await self._next_batch(chunk, position):
                    for part in batch.parts(settings.batch_rows, settings.batch_bytes):
                        gathered.append(part)
                        rows += part.header.records_count
                        size_bytes += part.decompressed_size()
                        if rows >= settings.batch_rows or size_bytes >= settings.batch_bytes:
                            if len(found := record_batch(gathered, start, end, schema)):
                                yield found
                            gathered, rows, size_bytes = [], 0, 0
                            await asyncio.sleep(0)
            if gathered and len(found := record_batch(gathered, start, end, schema)):
                yield found

    async def batches(self, start: int, end: int) -> AsyncGenerator[BatchRecords, None]:
        """Yield the batches that have records from `start` to before `end`, decompressed, in order. Errors as of `read`."""
        async with aclosing(self._chunks(start, end)) as chunks:
            async for chunk, position in chunks:
                while batch := await self._next_batch(chunk, position):
                    yield batch

    async def _chunks(self, start: int, end: int) -> AsyncGenerator[tuple[Chunk, int], None]:
        """Yield what fetches bring, each with the offset from which on it is wanted; the next one is under way meanwhile."""
        position = start
        fetching = self._start_fetch(position) if position < end else None
        try:
            while fetching is not None:
                chunk = await fetching
                following = max(position, chunk.next_offset)
                fetching = self._start_fetch(following) if following < end else None
                yield chunk, position
                position = following
        finally:
            if fetching is not None:
                await end_tasks([fetching])

    async def _next_batch(self, chunk: Chunk, position: int) -> BatchRecords | None:
        """Decompressed; what becomes much is by another thread."""
        check_crcs = self._settings.check_crcs
        try:
            return chunk.take_batch(position, check_crcs, AT_ONCE_BYTES)
        except DecompressedTooLarge:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, chunk.take_batch, position, check_crcs, DECOMPRESSED_LIMIT_BYTES)

    def _start_fetch(self, offset: int) -> asyncio.Task[Chunk]:
        return asyncio.get_running_loop().create_task(self._fetch(offset))

    async def _fetch(self, offset: int) -> Chunk:
        """Return the next chunk with something from `offset` on; it waits for records that are not there yet."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._settings.timeout_s
        size_bytes = self._settings.fetch_bytes
        empty = 0
        while True:
            began_s = loop.time()
            answer = await self._cluster.retrying(
                lambda: self._fetch_once(offset, size_bytes), self._what, self._settings.timeout_s
            )
            if len(answer.records or b""):
                aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
                chunk = Chunk(self._topic_partition, answer.records, aborted)
                if chunk.headers and chunk.next_offset > offset:
                    return chunk
                raise ClientError(
                    ErrorCode.MESSAGE_TOO_LARGE, f"{self._what}: the batch at {offset} does not fit into a fetch"
                )
            if answer.preferred_read_replica >= 0:
                continue
            if loop.time() >= deadline_s:
                raise ClientTimeoutError(
                    f"{self._what}: nothing at offset {offset} within {self._settings.timeout_s:g} s; "
                    f"the high watermark is {answer.high_watermark}"
                )
            if loop.time() < began_s + self._settings.fetch_max_wait_ms / 2000:  # the leader does not wait for records
                empty += 1
                await asyncio.sleep(self._cluster.retry.delay_ms(empty, self._cluster.chance()) / 1000)

    async def _fetch_once(self, offset: int, size_bytes: int) -> Any:
        """Ask the leader, or the replica that it has named; the leader alone once that has failed."""
        now_s = asyncio.get_running_loop().time()
        topic = self._topic_partition.topic
        if self._cluster.watch_topics([topic]) or topic not in self._cluster.view.topics:
            await self._cluster.wait_for_topic(topic, self._settings.timeout_s)
        source = self._read_replicas.choose(self._topic_partition, self._cluster.view, now_s)
        try:
            answer = await self._fetch_from(source, offset, size_bytes)
        except (OSError, ClientError):
            if not self._read_replicas.avoid(self._topic_partition, now_s):
                raise
            source = self._read_replicas.choose(self._topic_partition, self._cluster.view, now_s)
            answer = await self._fetch_from(source, offset, size_bytes)
        self._read_replicas.note(self._topic_partition, answer.preferred_read_replica, now_s)
        return answer

    async def _fetch_from(self, source: BrokerId, offset: int, size_bytes: int) -> Any:
        m = messages.fetch_request
        topic, partition = self._topic_partition
        known = self._cluster.view.partition(self._topic_partition)
        if known is None:
            raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._what)
        if source < 0:
            raise error_of(ErrorCode.LEADER_NOT_AVAILABLE, self._what)
        topic_id = self._cluster.view.topics[topic].topic_id
        question = m.FetchPartition(
            partition=partition,
            current_leader_epoch=known.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=size_bytes,
        )
        request = m.FetchRequest(
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=size_bytes,
            isolation_level=self._settings.isolation_level,
            topics=[m.FetchTopic(topic=topic, topic_id=topic_id, partitions=[question])],
            rack_id=self._read_replicas.rack_for([self._topic_partition], asyncio.get_running_loop().time()),
        )
        newest = _NEWEST_FETCH_BY_NAME if topic_id == NO_TOPIC_ID else None
        response = await self._cluster.request(source, request, max_version=newest)
        raise_error(response, f"{self._what} at offset {offset}")
        for each in response.responses:
            if topic == each.topic or (topic_id == each.topic_id != NO_TOPIC_ID):
                for answer in each.partitions:
                    if answer.partition_index == partition:
                        raise_error(answer, f"{self._what} at offset {offset}")
                        return answer
        raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._what)
