"""`Consumer` for programs without asyncio."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from kafkalite.client.blocking.client import BlockingClient, blocking, direct, on_loop
from kafkalite.client.consumer.consumer import Consumer
from kafkalite.client.consumer.fetch_buffer import PartitionState
from kafkalite.client.consumer.options import ConsumerOptions
from kafkalite.client.consumer.ungiven import UngivenRecords, first_offset, first_offsets, none_of, ungiven
from kafkalite.client.consumer.waiting_reads import Piece, ReadBuffer
from kafkalite.client.consumer_record import ConsumerRecord, K, V
from kafkalite.client.group.committable import Committable, OnCommit
from kafkalite.client.options import options_from_config, takes_options
from kafkalite.client.record_batches import RecordBatch
from kafkalite.client.records import OffsetAndMetadata
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client.keywords import KT, VT, ConsumerKeywords, TypedBoth, TypedKeys, TypedValues

Result = TypeVar("Result")


class _ThreadedListener:
    """A rebalance listener that may call the consumer: its methods run beside the loop."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._listener, name)

        async def beside_the_loop(partitions: set[TopicPartition]) -> None:
            await asyncio.get_running_loop().run_in_executor(None, method, partitions)

        return beside_the_loop


class SyncConsumer(BlockingClient[Consumer[K, V]], Generic[K, V], twin=Consumer):
    """`Consumer` for programs without asyncio. `for record in consumer` reads on and on.

    `options` are the fields of `ConsumerOptions`, by keyword.
    """

    @overload
    def __init__(
        self: SyncConsumer[KT | None, VT | None], *topics: str, **options: Unpack[TypedBoth[KT, VT]]
    ) -> None: ...
    @overload
    def __init__(self: SyncConsumer[Any, VT | None], *topics: str, **options: Unpack[TypedValues[VT]]) -> None: ...
    @overload
    def __init__(self: SyncConsumer[KT | None, Any], *topics: str, **options: Unpack[TypedKeys[KT]]) -> None: ...
    @overload
    def __init__(self: SyncConsumer[Any, Any], *topics: str, **options: Unpack[ConsumerKeywords]) -> None: ...
    @takes_options(ConsumerOptions)
    def __init__(self, *topics: str, **options: Unpack[ConsumerKeywords]) -> None:
        core: Consumer[K, V] = Consumer(*topics, **options)
        super().__init__(core)
        self.options = core.options
        self._iterated: UngivenRecords = []
        self._iterated_states: dict[TopicPartition, PartitionState | None] = {}
        """The states that the partitions in `_iterated` had then; a partition that was lost, and came back, has another one."""
        self._assignment_changed = False
        core.on_assignment_change = self._note_assignment_change

    @classmethod
    @takes_options(ConsumerOptions)
    def from_config(cls, config: Mapping[str, Any], **options: Unpack[ConsumerKeywords]) -> Self:
        return cls(**{**options_from_config(ConsumerOptions, config), **options})

    def _call_on_loop(self, function: Callable[[], Result]) -> Result:
        return self._running().call_function(function)

    def subscribe(
        self, topics: str | Iterable[str] = (), *, pattern: str | re.Pattern[str] | None = None, listener: Any = None
    ) -> None:
        """Subscribe as `Consumer.subscribe` does. The listener's methods run on a thread of their own, and may commit and seek."""
        names = [topics] if isinstance(topics, str) else list(topics)
        threaded = None if listener is None else _ThreadedListener(listener)
        self._call_on_loop(lambda: self._core.subscribe(names, pattern=pattern, listener=threaded))

    def unsubscribe(self) -> None:
        self._return_unread(())
        self._call_on_loop(self._core.unsubscribe)

    subscription = direct(Consumer.subscription)

    def _note_assignment_change(self) -> None:
        self._assignment_changed = True

    def _ungiven(self) -> UngivenRecords:
        """Return the records that `for` has not given yet, without those of partitions that were lost since, even if they are back."""
        if self._assignment_changed:
            self._assignment_changed = False
            states, read = self._core._buffer.states, self._iterated_states
            self._iterated = none_of(self._iterated, [each for each in read if states.get(each) is not read[each]])
        return self._iterated

    def _consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions without the records that `for` has not given yet."""

        def list_consumed() -> dict[TopicPartition, OffsetAndMetadata]:
            offsets = self._core.consumed_offsets()
            unread = first_offsets(self._ungiven())
            return {each: OffsetAndMetadata(unread[each]) if each in unread else offsets[each] for each in offsets}

        return self._call_on_loop(list_consumed)

    def commit(self, offsets: Mapping[TopicPartition, Committable] | None = None) -> None:
        self._running().call(self._core.commit(self._consumed_offsets() if offsets is None else offsets))

    def commit_async(
        self, offsets: Mapping[TopicPartition, Committable] | None = None, callback: OnCommit | None = None
    ) -> None:
        """`commit` without waiting; `callback` is called on the loop's thread, where calls that wait for brokers raise RuntimeError."""
        chosen = self._consumed_offsets() if offsets is None else offsets
        self._call_on_loop(lambda: self._core.commit_async(chosen, callback))

    committed = blocking(Consumer.committed)
    committed_offsets = blocking(Consumer.committed_offsets)
    group_metadata = direct(Consumer.group_metadata)
    lag = direct(Consumer.lag)

    def close(self, timeout: float = 30.0, *, commit: bool = True) -> None:
        """Close as `Consumer.close` does; records that `for` has not given are not committed."""
        if self._thread is not None and self._iterated:
            self._return_unread(())
        self._close_with(self._core.close(timeout, commit=commit))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(commit=kind is None)

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        wanted = list(partitions)
        self._call_on_loop(lambda: self._core.assign(wanted))

    assignment = direct(Consumer.assignment)

    def pause(self, *partitions: TopicPartition) -> None:
        self._return_unread(partitions)
        self._call_on_loop(lambda: self._core.pause(*partitions))

    resume = on_loop(Consumer.resume)
    paused = direct(Consumer.paused)

    def _return_unread(self, partitions: Sequence[TopicPartition]) -> None:
        """Records that `for` has not given yet are read again later."""
        chosen = {TopicPartition(*each) for each in partitions}

        def return_unread() -> None:
            for each, unread in first_offsets(self._ungiven()).items():
                if not chosen or each in chosen:
                    self._core.seek(each, unread)
                    self._iterated = none_of(self._iterated, {each})

        self._call_on_loop(return_unread)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._return_unread([partition])
        self._call_on_loop(lambda: self._core.seek(partition, offset))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._return_unread(partitions)
        self._running().call(self._core.seek_to_beginning(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._return_unread(partitions)
        self._running().call(self._core.seek_to_end(*partitions))

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        self._return_unread(partitions)
        self._running().call(self._core.seek_to_time(timestamp_ms, *partitions))

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        unread = first_offset(self._ungiven(), partition)
        return self._running().call(self._core.position(partition, timeout)) if unread is None else unread

    beginning_offsets = blocking(Consumer.beginning_offsets)
    end_offsets = blocking(Consumer.end_offsets)
    offsets_for_times = blocking(Consumer.offsets_for_times)
    highwater = direct(Consumer.highwater)
    last_stable_offset = direct(Consumer.last_stable_offset)
    partitions_for_topic = blocking(Consumer.partitions_for_topic)
    topics = blocking(Consumer.topics)

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        limit = self.options.max_poll_records if max_records is None else max_records
        return self._read(partitions, timeout_ms, limit, self._core._buffer.read_many)

    def poll_batches(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int = 65_536
    ) -> dict[TopicPartition, list[RecordBatch]]:
        return self._read(partitions, timeout_ms, max_records, self._core._buffer.read_batches)

    def _read(
        self, partitions: Sequence[TopicPartition], timeout_ms: float, limit: int, read: ReadBuffer[Piece]
    ) -> dict[TopicPartition, list[Piece]]:
        """Read on this thread, and wait on the loop's where nothing is there; what cannot be read here is read there."""
        found = self._read_at_once(partitions, limit, read)
        if found:
            return found
        core, thread = self._core, self._running()
        call = thread.call
        if thread.is_current:
            call(core.getmany())  # is refused
        if timeout_ms > 0:
            end_s = time.monotonic() + timeout_ms / 1000
            if not call(core._poll(partitions, timeout_ms, limit, core._buffer.find_readable)):
                return {}
            found = self._read_at_once(partitions, limit, read)
            timeout_ms = max(end_s - time.monotonic(), 0) * 1000
        return found or call(core._poll(partitions, timeout_ms, limit, read))

    def _read_at_once(
        self, partitions: Sequence[TopicPartition], limit: int, read: ReadBuffer[Piece]
    ) -> dict[TopicPartition, list[Piece]]:
        """Return what is buffered, read on this thread; {} where that is nothing, or something is to be awaited first."""
        core, thread = self._core, self._running()

        def read_assigned() -> dict[TopicPartition, list[Piece]]:
            only = {core._state(each).topic_partition for each in partitions} or None
            return core._reads.read(read, limit, only, thread.loop.call_soon_threadsafe)

        def poll() -> dict[TopicPartition, list[Piece]]:
            if core._closed or core._fetching is None:
                return {}
            return (
                read_assigned()
                if core._group is None
                else core._group.poll_at_once(read_assigned, thread.loop.time()) or {}
            )

        return thread.at_once(poll, {})

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        return self.getmany(timeout_ms=timeout_ms, max_records=max_records)

    def getone(self, *partitions: TopicPartition) -> ConsumerRecord[K, V]:
        while True:
            for records in self.getmany(*partitions, timeout_ms=60_000, max_records=1).values():
                return records[0]

    def read_range(
        self,
        topic_partition: TopicPartition | tuple[str, int],
        start: int,
        end: int,
        *,
        columns: Collection[str] | None = None,
        batch_rows: int = 65_536,
    ) -> Iterator[Any]:
        """Yield record batches as `Consumer.read_range` does, with one hop between threads for each."""
        batches = self._core.read_range(topic_partition, start, end, columns=columns, batch_rows=batch_rows)

        async def following() -> Any:
            return await anext(batches, None)

        while (batch := self._running().call(following())) is not None:
            yield batch

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        while not self._iterated or (self._assignment_changed and not self._ungiven()):
            self._read_ahead()
        return self._iterated.pop()

    def _read_ahead(self) -> None:
        def read_and_keep(
            limit: int, only: Collection[TopicPartition] | None
        ) -> dict[TopicPartition, list[ConsumerRecord]]:
            found = self._core._buffer.read_many(limit, only)
            try:
                self._keep(found)
            except BaseException:  # of a signal handler
                for each, records in found.items():
                    self._core._buffer.seek(each, records[0].offset)
                raise
            return found

        self._read((), 60_000, self.options.max_poll_records, read_and_keep)

    def _keep(self, found: Mapping[TopicPartition, list[ConsumerRecord]]) -> None:
        self._iterated = ungiven(found)
        self._iterated_states = {each: self._core._buffer.states.get(each) for each in found}

    statistics = direct(Consumer.statistics)
