"""Offsets `start` to `end` of one partition as Arrow record batches, without a consumer's assignment or position.

Columns: key and value (binary), partition (int32), offset (int64), timestamp (milliseconds, UTC), timestamp_type (int32: 0 create time,
1 log append time), headers (list of key and value). The next fetch is under way while a batch is decoded. Records come out of the compiled
codec and go column by column into Arrow, no Python code runs for each; pyarrow is imported at the first call (extra `spark`).

Gaps (compaction), control batches and aborted transactions leave no rows. Offsets that the log does not have any more are an error,
never silently left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafkalite.client.cluster_client import ClusterClient
from kafkalite.client.errors import ClientError, ClientTimeoutError, error_of
from kafkalite.client.fetch_buffer import Chunk
from kafkalite.client.record_codec import BatchRecords
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.types import NO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

_NEWEST_FETCH_BY_NAME = 12
_COLUMNS = attrgetter("key", "value", "timestamp", "offset", "headers")
_COLUMN_COUNT = 5
_PIECE_ROWS = 512
"""Few enough that the records of a piece do not set off a collection of garbage (see `record_codec`)."""


@dataclass(frozen=True, slots=True)
class RangeSettings:
    """`fetch_bytes` is asked for at once, `batch_rows` is about the size of a record batch; times in s."""

    isolation_level: int
    check_crcs: bool
    fetch_max_wait_ms: int
    timeout_s: float
    fetch_bytes: int = 8 * 1024 * 1024
    batch_rows: int = 65_536


class _Columns:
    """Rows that wait to become a record batch."""

    def __init__(self, partition: int) -> None:
        import pyarrow

        self._arrow = pyarrow
        self._partition = partition
        header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
        self.schema = pyarrow.schema(
            [
                ("key", pyarrow.binary()),
                ("value", pyarrow.binary()),
                ("partition", pyarrow.int32()),
                ("offset", pyarrow.int64()),
                ("timestamp", pyarrow.timestamp("ms", tz="UTC")),
                ("timestamp_type", pyarrow.int32()),
                ("headers", pyarrow.list_(header)),
            ]
        )
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._types: list[tuple[int, int]] = []
        self._headers: list[Any] = []

    def add(self, batch: BatchRecords, start: int, end: int) -> None:
        """Take the records of `batch` with offsets from `start` to before `end`."""
        header = batch.header
        records: Iterator[Any] = batch.records()
        if header.base_offset < start or header.next_offset > end:
            records = (record for record in records if start <= record.offset < end)
        before = self.rows
        with batch.named():
            self._take(records)
        if header.uses_log_append_time:
            self._timestamps[before:] = [header.max_timestamp] * (self.rows - before)
        self._types.append((int(header.uses_log_append_time), self.rows - before))

    def _take(self, records: Iterator[Any]) -> None:
        while flat := list(chain.from_iterable(map(_COLUMNS, islice(records, _PIECE_ROWS)))):
            self._keys += flat[0::_COLUMN_COUNT]
            self._values += flat[1::_COLUMN_COUNT]
            self._timestamps += flat[2::_COLUMN_COUNT]
            self._offsets += flat[3::_COLUMN_COUNT]
            self._take_headers(flat[4::_COLUMN_COUNT])
            self.rows += len(flat) // _COLUMN_COUNT

    def _take_headers(self, headers: list[Any]) -> None:
        """Nothing is kept for rows before the first with a header."""
        if self._headers or any(headers):
            self._headers += [()] * (self.rows - len(self._headers))
            self._headers += headers

    def flush(self) -> pyarrow.RecordBatch:
        """The rows so far as a record batch."""
        pa, schema, rows = self._arrow, self.schema, self.rows
        types = [pa.repeat(pa.scalar(kind, pa.int32()), count) for kind, count in self._types]
        arrays = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.repeat(pa.scalar(self._partition, pa.int32()), rows),
            pa.array(self._offsets, pa.int64()),
            pa.array(self._timestamps, pa.int64()).cast(schema.field("timestamp").type),
            types[0] if len(types) == 1 else pa.concat_arrays(types),
            self._header_array(rows),
        ]
        self._clear()
        return pa.record_batch(arrays, schema=schema)

    def _header_array(self, rows: int) -> Any:
        pa, kind = self._arrow, self.schema.field("headers").type
        if not self._headers:
            empty = pa.array([], kind.value_type)
            return pa.ListArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows + 1), empty, type=kind)
        return pa.array(
            [[{"key": k, "value": v} for k, v in each] for each in self._headers] + [[]] * (rows - len(self._headers)),
            kind,
        )


class RangeReader:
    """See the module."""

    def __init__(self, cluster: ClusterClient, topic_partition: TopicPartition, settings: RangeSettings) -> None:
        self._cluster = cluster
        self._topic_partition = topic_partition
        self._settings = settings
        self._what = f"reading {topic_partition}"

    async def read(self, start: int, end: int) -> AsyncIterator[pyarrow.RecordBatch]:
        """The records from `start` to before `end`, in order.

        ClientError OFFSET_OUT_OF_RANGE when the log does not reach from `start`, ClientTimeoutError when no more comes within the
        timeout, CORRUPT_MESSAGE and others as for consumers.
        """
        columns = _Columns(self._topic_partition.partition)
        position = start
        fetching = self._begin(position) if position < end else None
        try:
            while fetching is not None:
                chunk = await fetching
                following = max(position, chunk.next_offset)
                fetching = self._begin(following) if following < end else None
                for batch in chunk.take_batches(position, self._settings.check_crcs):
                    columns.add(batch, position, end)
                    if columns.rows >= self._settings.batch_rows:
                        yield columns.flush()
                position = following
            if columns.rows:
                yield columns.flush()
        finally:
            if fetching is not None:
                fetching.cancel()
                await asyncio.gather(fetching, return_exceptions=True)

    def _begin(self, offset: int) -> asyncio.Task[Chunk]:
        return asyncio.get_running_loop().create_task(self._fetch(offset))

    async def _fetch(self, offset: int) -> Chunk:
        """The next chunk with something from `offset` on; it waits for records that are not there yet."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._settings.timeout_s
        size_bytes = self._settings.fetch_bytes
        while True:
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
            if loop.time() >= deadline_s:
                raise ClientTimeoutError(
                    f"{self._what}: nothing at offset {offset} within {self._settings.timeout_s:g} s; "
                    f"the high watermark is {answer.high_watermark}"
                )

    async def _fetch_once(self, offset: int, size_bytes: int) -> Any:
        m = messages.fetch_request
        topic, partition = self._topic_partition
        if self._cluster.watch_topics([topic]) or topic not in self._cluster.view.topics:
            await self._cluster.wait_for_topic(topic, self._settings.timeout_s)
        known = self._cluster.view.partition(self._topic_partition)
        if known is None:
            raise error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, self._what)
        if known.leader < 0:
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
        )
        newest = _NEWEST_FETCH_BY_NAME if topic_id == NO_TOPIC_ID else None
        response = await self._cluster.request(known.leader, request, max_version=newest)
        answers = list(chain.from_iterable(each.partitions for each in response.responses))
        code = response.error_code or (answers[0].error_code if answers else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if code:
            raise error_of(code, f"{self._what} at offset {offset}")
        return answers[0]
