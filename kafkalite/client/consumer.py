"""The consumer: reads assigned partitions from where it is told to.

A fetcher fills a buffer ahead of the reader; `getmany`, `getone` and `async for` take from it. Group membership, when it comes, calls
`assign` and `seek` from outside; nothing here depends on who decides the assignment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from kafkalite.client.cluster_client import ClusterClient, Opener
from kafkalite.client.errors import ClientClosedError, ClientError, ClientTimeoutError, RecordDeserializationError
from kafkalite.client.fetch_buffer import FetchBuffer, PartitionState
from kafkalite.client.fetcher import Fetcher, FetcherSettings
from kafkalite.client.offset_lookup import EARLIEST, LATEST, list_offsets
from kafkalite.client.options import options_from_config
from kafkalite.client.records import ConsumerRecord, ConsumerRecordDraft, OffsetAndTimestamp
from kafkalite.client.retry import RetryPolicy
from kafkalite.client.serializers import Deserializer, DeserializerChoice, check_choice, deserializer_for
from kafkalite.errors import ErrorCode
from kafkalite.types import TopicPartition

_RESETS = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


class Consumer:
    """Reads records. Use it as `async with Consumer(bootstrap_servers=…) as consumer`, or `connect` and `close` it.

    Times are in ms, sizes in bytes, names and meanings are Kafka's; what is worth knowing:

    - `auto_offset_reset`: "earliest", "latest" or "none", for partitions without a position or with one out of range.
    - `isolation_level`: "read_uncommitted" or "read_committed".
    - `key_deserializer`, `value_deserializer`: a name of `serializers.FORMATS`, a callable, or a mapping from topic to either.
    - `prefetch_max_bytes` bounds what is fetched ahead of the reader, over all partitions; `max_partition_fetch_bytes` for each.
    - `max_poll_records` is the default limit of `getmany`.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        client_id: str | None = "kafkalite-consumer",
        auto_offset_reset: str = "latest",
        isolation_level: str = "read_uncommitted",
        key_deserializer: DeserializerChoice = None,
        value_deserializer: DeserializerChoice = None,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        prefetch_max_bytes: int = 64 * 1024 * 1024,
        max_poll_records: int = 500,
        check_crcs: bool = True,
        request_timeout_ms: int = 30_000,
        default_api_timeout_ms: int = 60_000,
        retry_backoff_ms: float = 100,
        retry_backoff_max_ms: float = 1000,
        metadata_max_age_ms: int = 300_000,
        security_protocol: str = "PLAINTEXT",
        opener: Opener | None = None,
    ) -> None:
        if auto_offset_reset not in _RESETS:
            raise ValueError(f"auto_offset_reset is {auto_offset_reset!r}; it may be {', '.join(_RESETS)}")
        if isolation_level not in _ISOLATION_LEVELS:
            raise ValueError(f"isolation_level is {isolation_level!r}; it may be {', '.join(_ISOLATION_LEVELS)}")
        check_choice(key_deserializer)
        check_choice(value_deserializer)
        self._key_choice, self._value_choice = key_deserializer, value_deserializer
        self._deserializers: dict[str, tuple[Deserializer | None, Deserializer | None]] = {}
        self._max_poll_records = max_poll_records
        self._api_timeout_s = default_api_timeout_ms / 1000
        self._isolation_level = _ISOLATION_LEVELS[isolation_level]
        self._cluster = ClusterClient(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            retry=RetryPolicy(retry_backoff_ms, retry_backoff_max_ms),
            security_protocol=security_protocol,
            opener=opener,
        )
        self._buffer = FetchBuffer(max_partition_fetch_bytes, check_crcs)
        settings = FetcherSettings(
            reset_to=_RESETS[auto_offset_reset],
            isolation_level=self._isolation_level,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            prefetch_max_bytes=prefetch_max_bytes,
            request_timeout_ms=request_timeout_ms,
        )
        self._data = asyncio.Event()
        self._fetcher = Fetcher(self._cluster, self._buffer, settings, self._data.set)
        self._fetching: asyncio.Task[None] | None = None
        self._iterated: list[ConsumerRecord] = []
        self._closed = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **options: Any) -> Self:
        """A consumer from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments."""
        return cls(**{**options_from_config(cls, config), **options})

    async def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        self._check_open()
        await self._cluster.connect(timeout)
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetcher.run(), name="kafkalite-fetcher")

    async def close(self) -> None:
        """Stop fetching and let go of all connections; readers that wait get ClientClosedError."""
        self._closed = True
        self._data.set()
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        await self._fetcher.stop()
        await self._cluster.close()

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("the consumer")

    # assignment

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions and no others; those that stay keep their position."""
        self._check_open()
        wanted = [TopicPartition(*each) for each in partitions]
        self._buffer.assign(wanted)
        self._iterated = [record for record in self._iterated if record.topic_partition in self._buffer.states]
        if self._cluster.watch_topics({each.topic for each in wanted}):
            self._cluster.request_refresh()
        self._fetcher.wake()

    def assignment(self) -> set[TopicPartition]:
        return set(self._buffer.states)

    def _state(self, topic_partition: TopicPartition | tuple[str, int]) -> PartitionState:
        state = self._buffer.states.get(TopicPartition(*topic_partition))
        if state is None:
            raise ValueError(f"{TopicPartition(*topic_partition)} is not assigned to this consumer")
        return state

    def _chosen(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [self._state(each).topic_partition for each in partitions] or list(self._buffer.states)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        for each in partitions:
            state = self._state(each)
            state.paused = True
            unread = [r.offset for r in self._iterated if r.topic_partition == state.topic_partition]
            if unread:
                self.seek(state.topic_partition, min(unread))

    def resume(self, *partitions: TopicPartition) -> None:
        for each in partitions:
            self._state(each).paused = False
        self._data.set()
        self._fetcher.wake()

    def paused(self) -> set[TopicPartition]:
        return {each for each, state in self._buffer.states.items() if state.paused}

    # positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from `offset`. ValueError when it is negative or the partition is not assigned."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        moved = self._state(partition).topic_partition
        self._buffer.seek(moved, offset)
        self._moved({moved})

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first records; all assigned partitions by default. Takes effect before the next record."""
        self._seek_all(dict.fromkeys(self._chosen(partitions), EARLIEST))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on behind the last records; all assigned partitions by default. The end is looked up now."""
        ends = await self.end_offsets(self._chosen(partitions))
        for each, offset in ends.items():
            self.seek(each, offset)

    async def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Read on from the first record at or after a time (ms since 1970 UTC), the end where there is none."""
        self._seek_all(dict.fromkeys(self._chosen(partitions), timestamp_ms))

    def _seek_all(self, wanted: Mapping[TopicPartition, int]) -> None:
        for each, timestamp in wanted.items():
            self._buffer.seek_to_time(each, timestamp)
        self._moved(wanted)

    def _moved(self, partitions: Collection[TopicPartition]) -> None:
        """Records that `async for` has not given yet are of the old position."""
        self._iterated = [record for record in self._iterated if record.topic_partition not in partitions]
        self._fetcher.wake()

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the next record. ClientTimeoutError when it is not known in `timeout` seconds (default_api_timeout_ms)."""
        timeout = self._api_timeout_s if timeout is None else timeout
        state = self._state(partition)
        try:
            async with asyncio.timeout(timeout):
                while state.position is None:
                    if state.error is not None:
                        raise state.error
                    await self._news()
        except TimeoutError:
            code = self._cluster.view.topic_errors.get(state.topic_partition.topic)
            why = f": {ErrorCode(code).name}" if code else ""
            raise ClientTimeoutError(f"no position of {state.topic_partition} within {timeout:g} s{why}") from None
        unread = [r.offset for r in self._iterated if r.topic_partition == state.topic_partition]
        return min(unread, default=state.position)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        return await self._offsets_at(EARLIEST, partitions)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record that this consumer's isolation level may see."""
        return await self._offsets_at(LATEST, partitions)

    async def _offsets_at(self, timestamp: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = {TopicPartition(*each): timestamp for each in partitions}
        found = await list_offsets(self._cluster, wanted, self._isolation_level, self._api_timeout_s)
        return {each: answer.offset for each, answer in found.items() if answer is not None}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after a time (ms since 1970 UTC); None where there is none."""
        wanted = {TopicPartition(*each): timestamp for each, timestamp in timestamps.items()}
        return await list_offsets(self._cluster, wanted, self._isolation_level, self._api_timeout_s)

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark that the last fetch told; None before the first."""
        return self._state(partition).high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        return self._state(partition).last_stable_offset

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """The partitions of a topic. ClientError UNKNOWN_TOPIC_OR_PARTITION when there is no such topic."""
        view = await self._cluster.fetch_topics([topic])
        return set(view.topics[topic].partitions)

    async def topics(self) -> set[str]:
        """All topics that this client may see."""
        return set((await self._cluster.fetch_all_topics()).topics)

    # reading

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records by partition, of all assigned ones by default; {} when none came within `timeout_ms`.

        Raises RecordDeserializationError (the position stays before the record: seek past it), NoOffsetForPartitionError and
        ClientError of a partition that cannot be read; records before the trouble are returned first.
        """
        limit = self._max_poll_records if max_records is None else max_records
        if limit < 1:
            raise ValueError(f"max_records is {limit}; it must be at least 1")
        only = {self._state(each).topic_partition for each in partitions} or None
        await self._ensure_connected()
        found = self._take(limit, only)
        if not found and timeout_ms > 0:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    while not found:
                        await self._news()
                        found = self._take(limit, only)
            except TimeoutError:
                pass
        elif not found:
            await asyncio.sleep(0)  # a caller that polls must not keep the fetcher from running
        return found

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """`getmany` over all assigned partitions, by the name that kafka-python gives it."""
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record, however long it takes."""
        while True:
            found = await self.getmany(*partitions, timeout_ms=60_000, max_records=1)
            for records in found.values():
                return records[0]

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        return self

    async def __anext__(self) -> ConsumerRecord:
        if not self._iterated:
            found: dict[TopicPartition, list[ConsumerRecord]] = {}
            while not found:
                found = await self.getmany(timeout_ms=60_000)
            self._iterated = [record for records in reversed(found.values()) for record in reversed(records)]
        return self._iterated.pop()

    async def _ensure_connected(self) -> None:
        self._check_open()
        if self._fetching is None:
            await self.connect()

    async def _news(self) -> None:
        await self._data.wait()
        self._data.clear()
        self._check_open()

    def _take(self, limit: int, only: set[TopicPartition] | None) -> dict[TopicPartition, list[ConsumerRecord]]:
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        try:
            while limit > 0:
                taken = self._buffer.take(limit, only)
                if taken is None:
                    break
                state, drafts = taken
                limit -= len(drafts)
                records = found.setdefault(state.topic_partition, [])
                self._finish(state, drafts, records)
        except ClientError:
            found = {each: records for each, records in found.items() if records}
            if not found:
                raise
        self._fetcher.wake()
        return found

    def _finish(self, state: PartitionState, drafts: list[ConsumerRecordDraft], records: list[ConsumerRecord]) -> None:
        """Decode keys and values and append the records; after one that cannot be decoded the position is before it."""
        topic = state.topic_partition.topic
        found = self._deserializers.get(topic)
        if found is None:
            found = deserializer_for(self._key_choice, topic), deserializer_for(self._value_choice, topic)
            self._deserializers[topic] = found
        to_key, to_value = found
        part = "key"
        done = 0
        try:
            for draft in drafts:
                part = "key"
                if to_key is not None and draft.key is not None:
                    draft.key = to_key(draft.key)
                part = "value"
                if to_value is not None and draft.value is not None:
                    draft.value = to_value(draft.value)
                draft.__class__ = ConsumerRecord  # type: ignore[assignment]
                done += 1
        except Exception as problem:
            bad = drafts[done].offset
            records += drafts[:done]  # type: ignore[arg-type]
            self._buffer.read_again(state, bad)
            raise RecordDeserializationError(state.topic_partition, bad, part, problem) from problem
        records += drafts  # type: ignore[arg-type]

    def statistics(self) -> dict[str, int]:
        """What is buffered now, and the number of Fetch requests so far."""
        return {
            "buffered_bytes": self._buffer.buffered_bytes,
            "fetch_requests": self._fetcher.requests,
            "assigned_partitions": len(self._buffer.states),
        }
