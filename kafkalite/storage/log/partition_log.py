"""The log of one partition (Kafka's UnifiedLog): segments, and what is known of offsets, epochs and producers in them.

    log start offset <= recovery point, high watermark <= log end offset
    log start offset <= last stable offset = min(high watermark, first offset of a transaction that is not settled)

Offsets never go back except by truncation, which only followers do; batches lie in the segments in the order of offsets, not overlapping.
The high watermark is kept here for reading's sake, replication decides it. Everything but `flush_work` is done on one thread.

Its parts have modules of their own: `local_log` the segments and their files, `producer_state` the producers, `leader_epochs` and
`epoch_file` the epochs, `flush_work` how far the log is on the medium; `append_checks`, `log_read`, `rolling` and `retention` decide.
Every change of an offset is made here, in an order of steps on which recovery relies.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import Final

from kafkalite.config.topic import INT_MAX, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError, ensure
from kafkalite.protocol.record_batches.plain_batch import put_plain
from kafkalite.protocol.record_batches.records import MAGIC, BatchHeader, iter_batches, read_marker
from kafkalite.storage.cleaning.cleaning import CleanedSegment
from kafkalite.storage.log import append_checks, message_format
from kafkalite.storage.log.aborted_transactions import list_aborted
from kafkalite.storage.log.append_checks import AppendOrigin, AppendResult, ClientCheck
from kafkalite.storage.log.epoch_file import EpochFile
from kafkalite.storage.log.flush_work import FlushState, FlushWork
from kafkalite.storage.log.leader_epochs import LeaderEpochs
from kafkalite.storage.log.local_log import LocalLog
from kafkalite.storage.log.log_read import LogRead, read_from
from kafkalite.storage.log.noted_log import NotedLog
from kafkalite.storage.log.partition_metadata import write_topic_id
from kafkalite.storage.log.retention import find_deletable
from kafkalite.storage.log.rolling import can_append
from kafkalite.storage.log.stored_batches import assign_offsets
from kafkalite.storage.log_directory import LogDirectory, changes_disk, uses_disk
from kafkalite.storage.log_files import PARTITION_METADATA, TIME_INDEX, offset_name
from kafkalite.storage.producers.producer_files import ProducerSnapshots, restore_producers
from kafkalite.storage.producers.producer_state import ProducerState
from kafkalite.storage.producers.verification import UNGUARDED, VerificationGuard
from kafkalite.storage.segments.offset_order import ensure_order
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.transaction_index import AbortedTransaction
from kafkalite.types import NO_TOPIC_ID, Buffer, TopicPartition

logger = logging.getLogger(__name__)

_CLIENT: Final = AppendOrigin.CLIENT


class PartitionLog(NotedLog):
    """The log of `topic_partition` in `directory`; `recovery` makes it, from the files that are there or as a new one."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        log_directory: LogDirectory,
        directory: str,
        *,
        config: TopicConfig,
        rng: Random,
        topic_id: bytes,
        segments: Sequence[Segment],
        now_ms: int,
        epochs: LeaderEpochs,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        epochs_on_disk: Sequence[tuple[int, int]] = (),
        topic_id_on_disk: bytes | None = None,
    ) -> None:
        """`topic_id_on_disk` is the one in `partition.metadata`, where that is not `topic_id` yet."""
        super().__init__(topic_partition, log_directory, config)
        self.directory = directory
        self.topic_id = topic_id
        self.is_topic_id_behind = topic_id_on_disk is not None and topic_id_on_disk != topic_id
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.first_dirty_offset: int | None = None
        """Offset at which compaction continues; None before the first one."""
        self.future: PartitionLog | None = None
        """The copy of this log on its way to another directory; what is cut off here is cut off there."""
        self._now_ms = now_ms
        """The time as of the last append or load: new segments begin then."""
        self.local = LocalLog(log_directory, directory, segments, rng)
        self.segments = self.local.segments
        """Oldest first; the last one is the active one."""
        self.snapshots = snapshots
        self.flush_state = FlushState(log_directory.disk, directory, recovery_point)
        self.epoch_file = EpochFile(log_directory.disk, directory, self.flush_state, epochs, epochs_on_disk)

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    # Facts

    @property
    def last_stable_offset(self) -> int:
        """Return the offset up to which readers of committed records may read."""
        first = self.producers.first_unstable_offset
        return self.high_watermark if first is None else max(self.log_start_offset, min(first, self.high_watermark))

    @property
    def recovery_point(self) -> int:
        """Return the offset below which everything is on the medium."""
        return self.flush_state.recovery_point

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs.latest

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def only_in_memory(self) -> AbstractContextManager[None]:
        """Return a context in which reads raise NotInMemory where they would wait for the medium."""
        return self.log_directory.files

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (largest known epoch up to `epoch`, offset behind its last record), (-1, -1) when nothing is known (KIP-279)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Appending

    @changes_disk
    def append_as_leader(
        self,
        records: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        request_version: int = 9,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        check: ClientCheck = None,
        guard: VerificationGuard = UNGUARDED,
    ) -> AppendResult:
        """Append a producer's batch, which is checked as `check` says, or batches that a coordinator of this broker made.

        `records` must be writable: offsets and epoch are set in it. It may be reused afterwards. Raises KafkaError and TooMuchAtOnce as
        `validate_produced` and `ProducerState.check` do; RECORD_LIST_TOO_LARGE above segment.bytes; KAFKA_STORAGE_ERROR.
        """
        config, start = self._config, self.log_start_offset
        log_append_time = now_ms if config.message_timestamp_type == "LogAppendTime" else -1
        if origin is _CLIENT:
            records, known = append_checks.clients_batch(
                records, self.producers, config, now_ms, log_append_time, request_version, check, guard, start
            )
            if known is not None:
                append_time = known.timestamp if log_append_time >= 0 else -1
                return AppendResult(known.first_offset, known.last_offset, append_time, start, True)
            positions: Sequence[int] = (0,)
        else:
            positions = append_checks.own_batches(records, self.producers, log_append_time, guard)
        append_checks.check_size(records, config)
        if config.message_format_acts and (magic := message_format.stored_magic(config)) != MAGIC:
            ready = check.older if isinstance(check, append_checks.CheckedBatch) else None
            messages = message_format.convert_batches(records, positions, magic, self.log_end_offset, ready)
            first_offset = self.log_end_offset
            self._append(messages, list(iter_batches(messages)), now_ms)
            return AppendResult(first_offset, self.log_end_offset - 1, log_append_time, self.log_start_offset)
        placed = assign_offsets(records, positions, self.log_end_offset, leader_epoch)
        self._append(records, placed, now_ms)
        return AppendResult(placed[0].base_offset, placed[-1].last_offset, log_append_time, self.log_start_offset)

    @changes_disk
    def append_plain(self, records: bytearray, headers: list[BatchHeader], leader_epoch: int, now_ms: int) -> int:
        """Append clients' batches that are plain, all or none; the offset of the first. KafkaError KAFKA_STORAGE_ERROR."""
        first_offset = self.log_end_offset
        self._append(records, put_plain(records, headers, first_offset, leader_epoch), now_ms)
        return first_offset

    @changes_disk
    def append_as_follower(self, records: Buffer, *, now_ms: int, leader_epoch: int | None = None) -> AppendResult:
        """Append whole batches as the leader has them; a batch cut at the end is left out.

        `leader_epoch` and errors are as of `append_checks.leaders_batches`; KAFKA_STORAGE_ERROR.
        """
        headers = append_checks.leaders_batches(records, self.log_start_offset, self.log_end_offset, leader_epoch)
        first_offset = headers[0].base_offset if headers else self.log_end_offset
        if first_offset < self.log_end_offset:  # the leader's log starts within this batch
            self.truncate_fully_and_start_at(first_offset)
        if headers:
            self._append(memoryview(records)[: headers[-1].end], headers, now_ms)
        return AppendResult(first_offset, self.log_end_offset - 1, -1, self.log_start_offset)

    def _append(self, records: Buffer, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Write batches whose offsets are final.

        Raises OSError; then offsets, epochs and producers are as they were, though a new segment may have begun. Epochs are noted
        when their batches are written: entries beyond the log end would tell followers of records that there are not.
        """
        self._now_ms = now_ms
        if self.is_topic_id_behind:
            self._save_topic_id()  # or its records would be taken for those of a later topic of this name
        if self.epoch_file.is_wrong:  # these records would be taken for those of an epoch that is no history any more
            self.epoch_file.save(self.epochs)
        segment = self.segments.active
        if not can_append(segment, headers, len(records), self._config, now_ms):
            first = headers[0]  # where a wrapper's first record lies is not known before it is opened
            segment = self._roll_to(first.base_offset if first.magic == MAGIC else self.log_end_offset, now_ms)
        aborted: list[AbortedTransaction] = []
        for header in headers:
            if header.producer_id >= 0:
                entry = self.producers.apply(header, read_marker(records, header) if header.is_control else None)
                if entry is not None:
                    aborted.append(entry)
        position = segment.size
        try:
            segment.append([records], headers, self._config.index_interval_bytes, aborted)
        except OSError:
            if any(header.producer_id >= 0 for header in headers):
                self._restore_producers(self.log_end_offset)
            raise
        segment.modified_ms = now_ms
        self.segments.remember(headers[0].base_offset, segment, position)
        end = self.log_end_offset = self.producers.end_offset = headers[-1].next_offset
        if self.epochs.follow(headers):
            self.epoch_file.update(self.epochs, end)
        if end - self.flush_state.recovery_point >= self._config.flush_messages:
            self.flush()

    # Segments

    @changes_disk
    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end, unless the active one is empty."""
        if self.segments.active.size:
            self._roll_to(self.log_end_offset, now_ms)

    def _roll_to(self, base_offset: int, now_ms: int) -> Segment:
        """Seal the active segment and begin a new one; an empty active segment is replaced. Raises OSError."""
        self.segments.active.seal()
        self.snapshots.take_snapshot(self.producers)
        return self.local.roll(base_offset, self._config, now_ms)

    # Reading

    @uses_disk
    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one_batch: bool, to_send: bool = False
    ) -> LogRead:
        """Return bytes from the batch that holds `offset` on: none of a batch at or above `upper_bound`, at most `max_bytes`.

        The last batch may be cut by `max_bytes`; a first batch larger than that is left out, or with `min_one_batch` read
        whole. `to_send`: what is large is read when it is sent. Raises KafkaError OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        end = self.log_end_offset
        if not self.log_start_offset <= offset <= end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} has offsets {self.log_start_offset} to {end}, not {offset}",
            )
        return read_from(
            self.segments,
            offset,
            max_bytes,
            upper_bound=upper_bound,
            log_end_offset=end,
            min_one_batch=min_one_batch,
            read_later_in=self.log_directory if to_send else None,
        )

    @uses_disk
    def aborted_transactions(self, start: int, end: int, read: LogRead | None = None) -> list[AbortedTransaction]:
        """Return the aborted transactions that readers from `start` to before `end`, or of what was `read` there, leave out."""
        return list_aborted(self.segments, start, end, read)

    # High watermark, epochs, start

    def set_high_watermark(self, offset: int) -> None:
        """Move the high watermark, within log start and log end."""
        start, end = self.log_start_offset, self.log_end_offset
        self.high_watermark = reached = start if offset < start else end if offset > end else offset
        self.producers.advance_high_watermark(reached)
        if not self.is_noted:
            self.note_change()

    @changes_disk
    def assign_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the log end, even if nothing is ever written in it."""
        if self.epochs.assign(epoch, self.log_end_offset):
            self.epoch_file.update(self.epochs, self.log_end_offset)

    @property
    def has_files(self) -> bool:
        """True if all files are there, not just those that first records need."""
        return self.segments.active.has_files

    @changes_disk
    def make_files(self) -> None:
        """Make the files of a new log that its first records do not need, where they are missing."""
        self._complete_files()
        self.epoch_file.save(self.epochs)

    def _complete_files(self) -> None:
        if self.is_topic_id_behind:
            self._save_topic_id()
        self.segments.active.make_files()

    @changes_disk
    def set_topic_id(self, topic_id: bytes) -> None:
        """Note to which topic the log belongs. KafkaError INCONSISTENT_TOPIC_ID when it belongs to another one."""
        if topic_id == self.topic_id:
            return
        if self.topic_id != NO_TOPIC_ID:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{self.topic_partition} belongs to another topic id")
        self.topic_id = topic_id
        self.is_topic_id_behind = True
        if self.has_files:
            self._save_topic_id()

    def _save_topic_id(self) -> None:
        write_topic_id(self.log_directory.disk, os.path.join(self.directory, PARTITION_METADATA), self.topic_id)
        self.flush_state.note_file(PARTITION_METADATA)
        self.is_topic_id_behind = False

    @changes_disk
    def delete_records(self, offset: int) -> int:
        """Move the log start up to `offset`; returns where the log starts. Segments below go with the next retention.

        Leaders check the high watermark; what a follower knows of it may be behind. KafkaError OFFSET_OUT_OF_RANGE behind the log end.
        """
        if offset > self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self} ends before {offset}")
        if offset > self.log_start_offset:
            self._start_at(offset)
        return self.log_start_offset

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.flush_state.recovery_point = max(self.recovery_point, offset)
        self.set_high_watermark(max(self.high_watermark, offset))
        ensure_order(self)
        if self.epochs.truncate_from_start(offset):
            self.epoch_file.update(self.epochs, self.log_end_offset)

    # Retention

    @changes_disk
    def delete_old_segments(self, now_ms: int, most: int = INT_MAX) -> int:
        """Delete the segments that retention no longer keeps, `most` at most, and return how many; their files are queued for deletion."""
        if not (count := min(find_deletable(self, now_ms), most)):
            return 0
        if count == len(self.segments):
            self._roll_to(self.log_end_offset, now_ms)
        deleted = self.segments.drop_first(count)
        first = self.segments.first_base_offset
        if first > self.log_start_offset:
            self._start_at(first)
        self.snapshots.remove_below(first)
        self.local.queue_for_deletion(deleted, now_ms + self._config.file_delete_delay_ms)
        logger.info("%s: %d old segments deleted, the log starts at %d", self.topic_partition, count, first)
        return count

    @changes_disk
    def replace_segments(self, cleaned: CleanedSegment, now_ms: int) -> bool:
        """Put a compacted segment in the place of its sources; False when they are not as they were when it was made."""
        self.epoch_file.complete(self.epochs, self.log_end_offset)  # batches that tell of an epoch may be gone
        if not self.local.replace(cleaned, now_ms, self._config.file_delete_delay_ms):
            return False
        self.snapshots.remove_strays(segment.base_offset for segment in self.segments)
        return True

    # Truncation

    @changes_disk
    def truncate_to(self, offset: int) -> None:
        """Remove all from `offset` on, with the batch that holds it, and the leader epochs that begin there or later.

        A log that ends at `offset` may end in an epoch without records: this broker led, appended nothing, and another leader was elected
        that knows nothing of that epoch. While the entry stays, the two logs never agree where they part.
        """
        self._truncate_future(offset)
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(offset):
                self.epoch_file.update(self.epochs, self.log_end_offset)
            return
        if offset < self.segments.first_base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        end = self.segments.truncate_to(offset)
        self._end_at(end)
        self.snapshots.remove_above(end)
        self._restore_producers(end)

    @changes_disk
    def truncate_without_epochs(self, offset: int) -> None:
        """Remove all from `offset` on, and forget all epochs: the leader has messages of a format without them."""
        self.truncate_to(offset)
        self.epochs.clear()
        self.epoch_file.update(self.epochs, self.log_end_offset)

    @changes_disk
    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the log is empty at `offset` afterwards."""
        self._truncate_future(self.segments.first_base_offset)
        self.local.restart_at(offset, self._now_ms)
        self.epochs.clear()
        self.log_start_offset = self.flush_state.recovery_point = offset
        self._end_at(offset)
        self.epoch_file.update(self.epochs, self.log_end_offset)
        self.snapshots.clear()
        self.producers = ProducerState(end_offset=offset)

    def _truncate_future(self, offset: int) -> None:
        """Cut the copy too. When its directory fails it is given up, which is no concern of this log."""
        if self.future is not None:
            try:
                self.future.truncate_to(offset)
            except KafkaError as problem:
                logger.warning("%s: %s", self.future, problem)

    def _end_at(self, end: int) -> None:
        self.flush_state.note_truncation(self.log_end_offset, self.high_watermark, end)
        self.log_end_offset = end
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, end)
        self.log_start_offset = min(self.log_start_offset, end)
        self.high_watermark = max(min(self.high_watermark, end), self.log_start_offset)
        if self.epochs.truncate_from_end(end):
            self.epoch_file.update(self.epochs, end)

    def _restore_producers(self, end_offset: int) -> None:
        self.producers = restore_producers(self.snapshots, list(self.segments), end_offset)
        self.producers.advance_high_watermark(self.high_watermark)

    # Durability

    def flush_work(self) -> FlushWork | None:
        """Return what must be synced so that everything appended so far is safe, if anything; `mark_flushed` follows once it ran.

        While the disk has no room for the epochs the recovery point stays, because the batches behind it tell them.
        """
        self.note_change()
        self._complete_files()
        has_epochs = self.epoch_file.complete(self.epochs, self.log_end_offset)
        if self.flush_state.is_flushed(self.log_end_offset):
            return None
        return self.flush_state.make_work(self.segments, self.log_end_offset, moves_recovery_point=has_epochs)

    def flush_due_ms(self, now_ms: int) -> int | None:
        """Return when records or a truncation are to be flushed (`FlushState.due_ms`); None where all are."""
        return self.flush_state.due_ms(self.log_end_offset, now_ms, self._config.flush_ms)

    def mark_flushed(self, work: FlushWork) -> None:
        """Note that `work` ran without an error."""
        self.note_change()
        self.flush_state.mark_done(work)
        ensure_order(self)

    @changes_disk
    def flush(self) -> None:
        """Bring everything appended so far to the medium, in this thread."""
        if (work := self.flush_work()) is not None:
            work.run()
            self.mark_flushed(work)

    @changes_disk
    def prepare_close(self) -> FlushWork | None:
        """Leave indexes and producers so that the next start reads nothing twice; what must be synced then, as `flush_work`."""
        if self.segments.active.seal():  # its records may be on the medium already
            self.flush_state.note_file(offset_name(self.segments.active.base_offset, TIME_INDEX))
        self.snapshots.take_snapshot(self.producers)
        if self.snapshots.latest_name is not None and self.recovery_point < self.log_end_offset:
            self.flush_state.note_file(self.snapshots.latest_name)
        return None if self.flush_state.is_blank(self.log_end_offset) else self.flush_work()

    @changes_disk
    def close(self) -> None:
        """Flush, and close the files, so that the next start finds the log in good order."""
        self.prepare_close()
        self.flush()
        self.local.close_files()

    @changes_disk
    def inherit(self, other: PartitionLog) -> None:
        """Take over what is known of the same records in another directory: epochs, producers, the high watermark."""
        ensure(other.log_end_offset == self.log_end_offset, f"{other} has other records than {self}")
        self.epochs, self.producers = other.epochs, other.producers
        self.epoch_file.save(self.epochs)
        self.set_high_watermark(other.high_watermark)
