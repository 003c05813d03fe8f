"""The consumer: reads assigned partitions from the positions that it is given.

A fetcher fills a buffer ahead of the reader; `getmany`, `getone` and `async for` take from it. Which partitions are read is decided
by the program (`assign`) or by a group (`subscribe`, `GroupSession`); reading is the same in both cases.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, overload

from kafkalite.client.cluster.client import ClusterClient
from kafkalite.client.cluster.offset_lookup import EARLIEST, LATEST, list_offsets
from kafkalite.client.consumer.fetch_buffer import FetchBuffer, PartitionState
from kafkalite.client.consumer.fetcher import Fetcher
from kafkalite.client.consumer.large_batches import LargeBatches
from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.consumer.ungiven import UngivenRecords, first_offset, first_offsets, none_of, only_of, ungiven
from kafkalite.client.consumer.waiting_reads import BufferedReads, Piece, ReadBuffer, read_within
from kafkalite.client.consumer_record import ConsumerRecord, K, V
from kafkalite.client.errors import ClientClosedError, ClientTimeoutError, error_of
from kafkalite.client.group.committable import Committable, OnCommit, committable, notify_commit
from kafkalite.client.group.metadata import GroupMetadata
from kafkalite.client.options import options_from_config, takes_options
from kafkalite.client.record_batches import RecordBatch
from kafkalite.client.records import OffsetAndMetadata, OffsetAndTimestamp
from kafkalite.client.serializers import TopicDeserializers
from kafkalite.errors import ErrorCode
from kafkalite.lifecycle import end_tasks
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.group.session import GroupSession
    from kafkalite.client.keywords import KT, VT, ConsumerKeywords, TypedBoth, TypedKeys, TypedValues


class Consumer(Generic[K, V]):
    """Reads records. Use it as `async with Consumer(bootstrap_servers=…) as consumer`, or `connect` and `close` it.

    `options` are the fields of `ConsumerOptions`, by keyword. Topics given to the constructor are subscribed to at `connect`, which
    needs a `group_id`.

    For type checkers keys and values are what functions given as deserializers return, or None; with names of formats they are Any.
    """

    @overload
    def __init__(self: Consumer[KT | None, VT | None], *topics: str, **options: Unpack[TypedBoth[KT, VT]]) -> None: ...
    @overload
    def __init__(self: Consumer[Any, VT | None], *topics: str, **options: Unpack[TypedValues[VT]]) -> None: ...
    @overload
    def __init__(self: Consumer[KT | None, Any], *topics: str, **options: Unpack[TypedKeys[KT]]) -> None: ...
    @overload
    def __init__(self: Consumer[Any, Any], *topics: str, **options: Unpack[ConsumerKeywords]) -> None: ...
    @takes_options(ConsumerOptions)
    def __init__(self, *topics: str, **options: Unpack[ConsumerKeywords]) -> None:
        self.options = chosen = ConsumerOptions(**options)
        self._api_timeout_s = chosen.default_api_timeout_ms / 1000
        self._cluster = ClusterClient(chosen)
        decoders_of = TopicDeserializers(chosen.key_deserializer, chosen.value_deserializer)
        self._buffer = FetchBuffer(chosen.max_partition_fetch_bytes, chosen.check_crcs, decoders_of)
        self._data = asyncio.Event()
        self._large = LargeBatches(self._buffer, self._data.set)
        self._fetcher = Fetcher(self._cluster, self._buffer, chosen, self._data.set)
        self._reads = BufferedReads(self._buffer, self._large, self._fetcher)
        self._fetching: asyncio.Task[None] | None = None
        self._iterated: UngivenRecords = []
        self._closed = False
        self.on_assignment_change: Callable[[], None] = lambda: None
        self._wanted: tuple[tuple[str, ...], str | re.Pattern[str] | None, Any] | None = None
        self._group: GroupSession | None = None
        if chosen.group_id is not None:
            from kafkalite.client.group.session import GroupSession

            self._group = GroupSession(
                self._cluster, self._buffer, chosen, consumed=self.consumed_offsets, on_change=self._assignment_changed
            )
        if topics:
            self.subscribe(topics)

    @classmethod
    @takes_options(ConsumerOptions)
    def from_config(cls, config: Mapping[str, Any], **options: Unpack[ConsumerKeywords]) -> Self:
        """Return a consumer from Java's dotted names, `{"bootstrap.servers": …}`; `options` are keyword arguments.

        UnknownOptionError for a name that is no option, ValueError for text that does not fit.
        """
        return cls(**{**options_from_config(ConsumerOptions, config), **options})

    async def connect(self, timeout: float = 10.0) -> None:
        """Reach the cluster within `timeout` seconds. NoBrokersAvailableError names, per bootstrap server, what went wrong."""
        self._check_open()
        await self._cluster.connect(timeout)
        if self._fetching is None:
            self._fetching = asyncio.get_running_loop().create_task(self._fetcher.run(), name="kafkalite-fetcher")
            self._begin_subscription()
            if self._group is not None:
                self._group.positions.start_lookup()

    async def close(self, timeout: float = 30.0, *, commit: bool = True) -> None:
        """Commit what was read (with `enable_auto_commit`, unless `commit` is False), leave the group, let go of all connections.

        Leaving takes `timeout` seconds at most. Readers that wait get ClientClosedError.
        """
        if self._closed:
            return
        self._closed = True
        self._data.set()
        try:
            if self._group is not None:
                await self._group.close(commit and self._fetching is not None, timeout)
        finally:
            if self._fetching is not None:
                await end_tasks([self._fetching])
            await self._fetcher.stop()
            await self._large.close()
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
        # After an error the records in hand were perhaps not dealt with: they are read again rather than lost.
        await self.close(commit=kind is None)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("the consumer")

    # assignment

    def subscribe(
        self, topics: str | Iterable[str] = (), *, pattern: str | re.Pattern[str] | None = None, listener: Any = None
    ) -> None:
        """Read these topics, or all whose whole name `pattern` matches, sharing their partitions with the other members of the group.

        `listener` is a `RebalanceListener` or anything with its methods. Replaces an earlier subscription. ValueError without a
        `group_id`, without topics or pattern, with both, and when partitions were assigned by hand.
        """
        self._check_open()
        names = tuple(dict.fromkeys([topics] if isinstance(topics, str) else topics))
        if self._group is None:
            raise ValueError("subscribe needs a group_id; assign does not")
        if bool(names) == (pattern is not None):
            raise ValueError("subscribe needs either topics or a pattern")
        if self._buffer.states and not self._group.is_subscribed:
            raise ValueError("partitions are assigned by hand; unsubscribe first")
        self._wanted = (names, pattern, listener)
        if self._fetching is not None:
            self._begin_subscription()

    def _begin_subscription(self) -> None:
        if self._group is not None and self._wanted is not None:
            wanted, self._wanted = self._wanted, None
            self._group.subscribe(*wanted)

    def unsubscribe(self) -> None:
        """Read nothing: drop the assignment; in a group, commit what was handed out (`enable_auto_commit`) and leave, in the background."""
        self._check_open()
        self._wanted = None
        if self._group is not None and self._group.is_subscribed:
            self._group.unsubscribe()
        else:
            self._buffer.assign(())
            self._assignment_changed()

    def subscription(self) -> set[str]:
        """Return the topics that this member reads; for a pattern those that match now."""
        if self._wanted is not None:
            return set(self._wanted[0])
        return self._group.subscription if self._group is not None else set()

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions and no others; those that stay keep their position. ValueError after `subscribe`.

        With a `group_id` they begin where the group committed.
        """
        self._check_open()
        if self._wanted is not None or (self._group is not None and self._group.is_subscribed):
            raise ValueError("the group decides the assignment; unsubscribe first")
        wanted = [TopicPartition(*each) for each in partitions]
        self._buffer.assign(wanted, awaits_committed=self._group is not None)
        self._assignment_changed()
        if self._cluster.watch_topics({each.topic for each in wanted}):
            self._cluster.request_refresh()
        if self._group is not None and self._fetching is not None:
            self._group.positions.start_lookup()

    def _assignment_changed(self) -> None:
        self._iterated = only_of(self._iterated, self._buffer.states)
        self._data.set()
        self._fetcher.wake()
        self.on_assignment_change()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read now, given by `assign` or by the group."""
        return set(self._buffer.states)

    def _state(self, topic_partition: TopicPartition | tuple[str, int]) -> PartitionState:
        state = self._buffer.states.get(TopicPartition(*topic_partition))
        if state is None:
            raise ValueError(f"{TopicPartition(*topic_partition)} is not assigned to this consumer")
        return state

    def _choose_partitions(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [self._state(each).topic_partition for each in partitions] or list(self._buffer.states)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`. ValueError for one that is not assigned."""
        for each in partitions:
            state = self._state(each)
            state.paused = True
            unread = first_offset(self._iterated, state.topic_partition)
            if unread is not None:
                self.seek(state.topic_partition, unread)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again. ValueError for one that is not assigned."""
        for each in partitions:
            self._state(each).paused = False
        self._data.set()
        self._fetcher.wake()

    def paused(self) -> set[TopicPartition]:
        """Return the assigned partitions that `pause` stopped."""
        return {each for each, state in self._buffer.states.items() if state.paused}

    # positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from `offset`. ValueError when it is negative or the partition is not assigned."""
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        moved = self._state(partition).topic_partition
        self._buffer.seek(moved, offset)
        self._drop_unread({moved})

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first records; all assigned partitions by default. Takes effect before the next record."""
        self._seek_all(dict.fromkeys(self._choose_partitions(partitions), EARLIEST))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on behind the last records; all assigned partitions by default. The end is looked up now."""
        ends = await self.end_offsets(self._choose_partitions(partitions))
        for each, offset in ends.items():
            self.seek(each, offset)

    async def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Read on from the first record at or after a time (ms since 1970 UTC), the end where there is none."""
        self._seek_all(dict.fromkeys(self._choose_partitions(partitions), timestamp_ms))

    def _seek_all(self, wanted: Mapping[TopicPartition, int]) -> None:
        for each, timestamp in wanted.items():
            self._buffer.seek_to_time(each, timestamp)
        self._drop_unread(wanted)

    def _drop_unread(self, partitions: Collection[TopicPartition]) -> None:
        """Records that `async for` has not given yet are of the old position."""
        self._iterated = none_of(self._iterated, partitions)
        self._fetcher.wake()

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the offset of the next record. ClientTimeoutError when it is not known in `timeout` seconds (default_api_timeout_ms)."""
        timeout = self._api_timeout_s if timeout is None else timeout
        state = self._state(partition)
        try:
            async with asyncio.timeout(timeout):
                while state.position is None:
                    if state.error is not None:
                        raise state.error
                    await self._wait_for_news()
        except TimeoutError:
            code = self._cluster.view.topic_errors.get(state.topic_partition.topic)
            why = f": {error_of(code, 'metadata').name}" if code else ""
            raise ClientTimeoutError(f"no position of {state.topic_partition} within {timeout:g} s{why}") from None
        unread = first_offset(self._iterated, state.topic_partition)
        return state.position if unread is None else unread

    # commits

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each assigned partition that has one, as it would be committed now."""
        found = {}
        unread = first_offsets(self._iterated)
        for each, state in self._buffer.states.items():
            if each in unread:
                found[each] = OffsetAndMetadata(unread[each])
            elif state.position is not None:
                found[each] = OffsetAndMetadata(state.position, "", state.position_epoch)
        return found

    def _session(self) -> GroupSession:
        if self._group is None or not self._group.in_listener:  # which `close` calls, too, and which may commit then
            self._check_open()
        if self._group is None:
            raise ValueError("commits need a group_id")
        return self._group

    async def commit(self, offsets: Mapping[TopicPartition, Committable] | None = None) -> None:
        """Commit `offsets`, by default the positions of all assigned partitions, and wait for the answer.

        CommitFailedError when the partitions are another member's by now; ClientTimeoutError, ClientError. ValueError without a group.
        """
        session = self._session()
        if self._fetching is None:
            await self.connect()
        await session.commit(None if offsets is None else committable(offsets))

    def commit_async(
        self, offsets: Mapping[TopicPartition, Committable] | None = None, callback: OnCommit | None = None
    ) -> asyncio.Task[None]:
        """`commit` in the background; the task, or `callback`, tells the outcome."""
        session = self._session()
        chosen = self.consumed_offsets() if offsets is None else committable(offsets)
        task = asyncio.get_running_loop().create_task(session.commit(chosen))
        task.add_done_callback(lambda done: notify_commit(done, chosen, callback))
        return task

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the offset that the group committed for a partition; None for nothing."""
        found = (await self.committed_offsets([partition]))[TopicPartition(*partition)]
        return None if found is None else found.offset

    async def committed_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset and metadata of each partition; None for nothing."""
        session = self._session()
        if self._fetching is None:
            await self.connect()
        return await session.fetch_committed([TopicPartition(*each) for each in partitions])

    def group_metadata(self) -> GroupMetadata:
        """Return who this consumer is in its group, for `Producer.send_offsets_to_transaction` (KIP-447); call it for each transaction.

        CommitFailedError when partitions from which the last records came are another member's by now. ValueError without a group.
        """
        return self._session().group_metadata()

    # offsets

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still has."""
        return await self._offsets_at(EARLIEST, partitions)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset behind the last record that this consumer's isolation level may see."""
        return await self._offsets_at(LATEST, partitions)

    async def _offsets_at(self, timestamp: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = {TopicPartition(*each): timestamp for each in partitions}
        found = await list_offsets(self._cluster, wanted, self.options.isolation, self._api_timeout_s)
        ends: dict[TopicPartition, int] = {}
        for each, answer in found.items():
            if answer is None:
                raise error_of(ErrorCode.UNKNOWN_SERVER_ERROR, f"offsets of {each}", "the answer is no offset")
            ends[each] = answer.offset
        return ends

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return for each partition the first offset at or after a time (ms since 1970 UTC); None where there is none."""
        wanted = {TopicPartition(*each): timestamp for each, timestamp in timestamps.items()}
        return await list_offsets(self._cluster, wanted, self.options.isolation, self._api_timeout_s)

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark as of the last fetch; None before the first. ValueError when not assigned."""
        return self._state(partition).high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how far the position is behind the end that this consumer may see, as of the last fetch; None before the first."""
        state = self._state(partition)
        end = state.last_stable_offset if self.options.isolation else state.high_watermark
        position = self.consumed_offsets().get(state.topic_partition)
        return None if end is None or position is None else max(end - position.offset, 0)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset (KIP-98) as of the last fetch; None before the first. ValueError when not assigned."""
        return self._state(partition).last_stable_offset

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the partitions of a topic. ClientError UNKNOWN_TOPIC_OR_PARTITION when there is no such topic."""
        view = await self._cluster.fetch_topics([topic])
        return set(view.topics[topic].partitions)

    async def topics(self) -> set[str]:
        """Return all topics that this client may see."""
        return set((await self._cluster.fetch_all_topics()).topics)

    # reading

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return the next records by partition, of all assigned ones by default; {} when none came within `timeout_ms`.

        Raises RecordDeserializationError (the position stays before the record: seek past it), NoOffsetForPartitionError and
        ClientError of a partition that cannot be read; records before the trouble are returned first.
        """
        limit = self.options.max_poll_records if max_records is None else max_records
        return await self._poll(partitions, timeout_ms, limit, self._buffer.read_many)

    async def poll_batches(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int = 65_536
    ) -> dict[TopicPartition, list[RecordBatch]]:
        """Return the next records as arrays, each batch of the log as a `RecordBatch` of its own; else as `getmany`.

        Nothing is made for a single record. Keys and values are bytes, whatever the deserializers.
        """
        return await self._poll(partitions, timeout_ms, max_records, self._buffer.read_batches)

    async def _poll(
        self, partitions: Sequence[TopicPartition], timeout_ms: float, limit: int, read: ReadBuffer[Piece]
    ) -> dict[TopicPartition, list[Piece]]:
        if limit < 1:
            raise ValueError(f"max_records is {limit}; it must be at least 1")
        await self._ensure_connected()

        async def read_assigned() -> dict[TopicPartition, list[Piece]]:
            only = {self._state(each).topic_partition for each in partitions} or None
            return await read_within(timeout_ms, partial(self._reads.read, read, limit, only), self._wait_for_news)

        return await (read_assigned() if self._group is None else self._group.poll(read_assigned))

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """`getmany` over all assigned partitions, by the name that kafka-python gives it."""
        return await self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[K, V]:
        """Return the next record, however long it takes."""
        while True:
            found = await self.getmany(*partitions, timeout_ms=60_000, max_records=1)
            for records in found.values():
                return records[0]

    def read_range(
        self,
        topic_partition: TopicPartition | tuple[str, int],
        start: int,
        end: int,
        *,
        columns: Collection[str] | None = None,
        batch_rows: int = 65_536,
    ) -> AsyncIterator[Any]:
        """Return the records from offset `start` to before `end` as `pyarrow.RecordBatch`es of about `batch_rows` rows (`range_reader`).

        Independent of assignment and positions. Columns: key, value, partition, offset, timestamp, timestamp_type, headers, or those
        of them that are in `columns`. Waits for offsets that are not written yet, `default_api_timeout_ms` at most without news.
        ClientError OFFSET_OUT_OF_RANGE, ClientTimeoutError; ImportError without pyarrow and numpy.
        """
        from kafkalite.client.consumer.range_reader import RangeReader, range_settings

        self._check_open()
        settings = range_settings(self.options, batch_rows, columns)
        return RangeReader(self._cluster, TopicPartition(*topic_partition), settings).read(start, end)

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        return self

    async def __anext__(self) -> ConsumerRecord[K, V]:
        while not self._iterated:
            self._iterated = ungiven(await self.getmany(timeout_ms=60_000))
        return self._iterated.pop()

    async def _ensure_connected(self) -> None:
        self._check_open()
        if self._fetching is None:
            await self.connect()

    async def _wait_for_news(self) -> None:
        await self._data.wait()
        self._data.clear()
        self._check_open()
        if self._group is not None:
            await self._group.wait_until_settled()
            self._check_open()

    def statistics(self) -> dict[str, int]:
        """Return what is buffered now, and the number of Fetch requests so far."""
        return {
            "buffered_bytes": self._buffer.buffered_bytes,
            "fetch_requests": self._fetcher.requests,
            "assigned_partitions": len(self._buffer.states),
        }
