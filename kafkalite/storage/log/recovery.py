"""Opening a log: what a clean stop left is trusted, what a crash left is checked byte by byte.

1. Files of deletions and compactions that were under way are finished or removed (`_settle_files`).
2. A segment without a usable index gets new ones; an index without a segment is removed.
3. After a crash every segment from the recovery point on is read: size, magic, CRC and growing offsets of each batch, or message of
   an older format (magic 0 and 1; wrappers are not opened, as Kafka does not open them). The first byte that does not belong
   to a valid batch ends the log; segments behind it are removed. So does a segment that lost whole batches at its end, while the
   medium has some of the next one: where nothing was compacted, offsets follow each other. Indexes, leader epochs, aborted
   transactions and producers of what was read are written again. What older brokers did not write (the time index, epochs,
   topic ids) is made by the same steps.
4. After a clean stop only the batches behind the last index entry are looked at, to find the log end; a file that
   contradicts the clean stop is treated as after a crash.
5. A log that ends before its log start offset begins again there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from kafkalite.config.topic import TopicConfig
from kafkalite.protocol.record_batches.records import HEADER_SIZE, MAGIC, BatchHeader, checksum_of, header_at
from kafkalite.storage import checkpoints
from kafkalite.storage.disk import Entry
from kafkalite.storage.log.leader_epochs import LeaderEpochs
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.partition_metadata import read_topic_id
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.log_files import (
    CLEANED,
    DELETED,
    DIGESTS,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_name,
    offset_of,
)
from kafkalite.storage.open_files import OpenFiles
from kafkalite.storage.producers.producer_files import ProducerSnapshots, restore_producers
from kafkalite.storage.producers.producer_state import ProducerState
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.segment_files import FileSizes
from kafkalite.storage.segments.transaction_index import AbortedTransaction
from kafkalite.types import NO_TOPIC_ID, TopicPartition

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 1 << 20
_INDEXES: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
_SETTLED: Final = (*SEGMENT_SUFFIXES, DIGESTS, SNAPSHOT, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)
"""Files of a log to which nothing is left to be done."""


@dataclass(slots=True)
class LoadProgress:
    """Progress of one thread that opens logs: logs opened, bytes of batches checked."""

    logs: int = 0
    checked_bytes: int = 0


class LoadOptions(NamedTuple):
    """Facts about a log before it is opened; `recovery_point` counts only when the stop was not clean."""

    clean: bool
    recovery_point: int
    log_start_offset: int
    now_ms: int
    producer_expiration_ms: int


def create_log(
    topic_partition: TopicPartition,
    log_directory: LogDirectory,
    path: str,
    *,
    topic_id: bytes,
    config: TopicConfig,
    rng: Random,
    now_ms: int,
) -> PartitionLog:
    """Make a new, empty log in the directory `path`, with the file of its records; `make_files` makes the others. Raises OSError."""
    log_directory.disk.make_directory(path)
    segment = Segment.create(log_directory.files, path, 0, now_ms, is_complete=False)
    segment.close_files()
    return PartitionLog(
        topic_partition,
        log_directory,
        path,
        config=config,
        rng=rng,
        topic_id=topic_id,
        topic_id_on_disk=NO_TOPIC_ID,
        segments=[segment],
        now_ms=now_ms,
        epochs=LeaderEpochs(),
        producers=ProducerState(),
        snapshots=ProducerSnapshots(log_directory.disk, path),
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
    )


def load_log(
    topic_partition: TopicPartition,
    log_directory: LogDirectory,
    path: str,
    *,
    config: TopicConfig,
    rng: Random,
    options: LoadOptions,
    files: OpenFiles | None = None,
    progress: LoadProgress | None = None,
) -> PartitionLog:
    """Open the log in the directory `path`. Raises OSError.

    A thread that opens logs beside others has `files` of its own, through which it opens files until the log is complete.
    """
    progress = progress or LoadProgress()
    log = _Loader(topic_partition, log_directory, path, config, options, files or log_directory.files, progress).load(
        rng
    )
    progress.logs += 1
    if files is not None:
        for segment in log.segments:
            for name in segment.paths():
                files.forget(name)
            segment.use(log_directory.files)
    return log


@dataclass(slots=True)
class _Loader:
    """The steps of opening one log, with what they share."""

    topic_partition: TopicPartition
    log_directory: LogDirectory
    path: str
    config: TopicConfig
    options: LoadOptions
    files: OpenFiles
    progress: LoadProgress
    segments: list[Segment] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    epochs_on_disk: list[tuple[int, int]] = field(default_factory=list)
    has_malformed_epochs: bool = False
    rebuilt: set[int] = field(default_factory=set)
    blank_indexes: dict[int, Sequence[str]] = field(default_factory=dict)
    """The suffixes of the indexes without content, by the base offset of a segment that was not rebuilt."""
    has_gaps: bool = False
    """True if offsets are missing between batches, or may be, because the topic is compacted."""

    def load(self, rng: Random) -> PartitionLog:
        disk, options = self.log_directory.disk, self.options
        self.has_gaps = self.config.compacts
        entries = _settle_files(self.files, self.path)
        snapshots = ProducerSnapshots(disk, self.path, entries)
        self._read_epochs()  # first: who opens segments may find epochs in their batches
        self._open_segments(entries)
        recovery_point = options.recovery_point
        if not options.clean and self._is_without_epochs():
            recovery_point = 0  # the batches must tell the epochs, all of them
        if not options.clean:
            self._recover_from(recovery_point)
        log_end_offset = self._find_end()
        first_base = self.segments[0].base_offset if self.segments else 0
        log_start_offset = max(options.log_start_offset, first_base)
        if log_end_offset < log_start_offset:
            logger.warning(
                "%s ends at %d, before its start %d: beginning again there",
                self.topic_partition,
                log_end_offset,
                log_start_offset,
            )
            for segment in self.segments:
                segment.remove()
            self.segments.clear()
        if not self.segments:
            log_end_offset = log_start_offset
            self.segments.append(Segment.create(self.files, self.path, log_start_offset, options.now_ms))
        producers = self._restore_producers(snapshots, log_end_offset)
        self.epochs.truncate_from_end(log_end_offset)
        self.epochs.truncate_from_start(log_start_offset)
        if self.has_malformed_epochs:
            checkpoint = os.path.join(self.path, LEADER_EPOCH_CHECKPOINT)
            self.epochs_on_disk = self.epochs.entries()
            checkpoints.write_epochs(disk, checkpoint, self.epochs_on_disk, durable=True)
        log = PartitionLog(
            self.topic_partition,
            self.log_directory,
            self.path,
            config=self.config,
            rng=rng,
            topic_id=read_topic_id(disk, os.path.join(self.path, PARTITION_METADATA)),
            segments=self.segments,
            now_ms=options.now_ms,
            epochs=self.epochs,
            producers=producers,
            snapshots=snapshots,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=log_end_offset
            if options.clean
            else max(log_start_offset, min(recovery_point, log_end_offset)),
            epochs_on_disk=self.epochs_on_disk,
        )
        self._sync_below(recovery_point)
        return log

    # Segments

    def _open_segments(self, entries: dict[str, Entry]) -> None:
        found = _files_by_base(entries)
        for base, files in found.items():
            if LOG not in files:
                for suffix in files:
                    path = os.path.join(self.path, offset_name(base, suffix))
                    logger.warning("Removing %s, which belongs to no segment", path)
                    self.log_directory.disk.remove(path)
        bases = [base for base, files in sorted(found.items()) if LOG in files]
        for name in entries:
            if name.endswith(DIGESTS) and offset_of(name, DIGESTS) not in bases:
                self.log_directory.disk.remove(os.path.join(self.path, name))
        for number, base in enumerate(bases):
            is_last = number == len(bases) - 1
            files = found[base]
            missing = OFFSET_INDEX not in files or TIME_INDEX not in files
            is_begun = missing and is_last and not any(entry.size for entry in files.values())  # see `create_log`
            sizes = FileSizes(*(files[suffix].size if suffix in files else 0 for suffix in SEGMENT_SUFFIXES))
            segment = Segment(
                self.files,
                self.path,
                base,
                sizes,
                created_ms=self.options.now_ms,
                modified_ms=files[LOG].modified_ms,
                is_complete=not is_begun,
            )
            self.segments.append(segment)
            self.blank_indexes[base] = _blank_indexes(files)
            is_trusted = self.options.clean or (not is_last and bases[number + 1] <= self.options.recovery_point)
            if is_begun or not is_trusted:
                continue
            if missing or not segment.has_sane_indexes(sizes):
                logger.warning("Rebuilding the indexes of %s", segment.path)
                self._rebuild(segment)

    def _rebuild(self, segment: Segment) -> int:
        """Make new indexes for a segment, whose end is cut off behind its valid batches, and return the bytes cut off."""
        self.rebuilt.add(segment.base_offset)
        blank = self.blank_indexes.pop(segment.base_offset, ())
        return segment.rebuild_indexes(self._valid_batches(segment), self.config.index_interval_bytes, blank)

    def _valid_batches(self, segment: Segment) -> Iterator[BatchHeader]:
        next_offset = None
        for header in valid_batches(self.files, segment, self.progress):
            self.has_gaps |= next_offset is not None and header.base_offset > next_offset
            next_offset = header.next_offset
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            yield header

    def _recover_from(self, recovery_point: int) -> None:
        """Check every segment from the one that holds the recovery point on."""
        for number, segment in enumerate(self.segments):
            last = number == len(self.segments) - 1
            if not last and self.segments[number + 1].base_offset <= recovery_point:
                continue
            cut = 0 if segment.base_offset in self.rebuilt or self._is_blank(segment) else self._rebuild(segment)
            is_short = not last and not cut and self._lacks_its_end(segment, self.segments[number + 1])
            if cut or is_short:
                what = "batches that are missing" if is_short else f"{cut} bytes behind the last valid batch cut off"
                logger.warning("%s: %s at the end of %s", self.topic_partition, what, segment)
                for later in self.segments[number + 1 :]:
                    logger.warning("%s: removing %s, which lies behind", self.topic_partition, later)
                    later.remove()
                del self.segments[number + 1 :]
                return

    def _is_blank(self, segment: Segment) -> bool:
        """True if a segment is as new, so that there is nothing to check."""
        if segment.size:
            return False
        return not segment.has_files or len(self.blank_indexes[segment.base_offset]) == len(_INDEXES)

    def _lacks_its_end(self, segment: Segment, following: Segment) -> bool:
        last = segment.last_header()
        next_offset = segment.base_offset if last is None else last.next_offset
        return next_offset < following.base_offset and not self.has_gaps

    def _find_end(self) -> int:
        """Return the log end offset. A file that does not end with a whole batch is checked as after a crash."""
        while self.segments:
            active = self.segments[-1]
            if not active.size:
                return active.base_offset
            last = active.last_header()
            if last is not None and last.end == active.size:
                return last.next_offset
            logger.warning("%s: %s does not end with a whole batch", self.topic_partition, active)
            self._rebuild(active)
        return 0

    def _sync_below(self, recovery_point: int) -> None:
        """Make new indexes durable where the next recovery would not look; those behind it would write again."""
        for segment, following in pairwise(self.segments):
            if segment.base_offset in self.rebuilt and following.base_offset <= recovery_point:
                for path in segment.paths():
                    self.log_directory.disk.sync(path)

    # Epochs and producers

    def _is_without_epochs(self) -> bool:
        """True if leader-epoch-checkpoint is empty although there are batches, beside messages of older formats."""
        return not self.epochs_on_disk and any(segment.first_magic == MAGIC for segment in self.segments)

    def _read_epochs(self) -> None:
        """Read leader-epoch-checkpoint."""
        try:
            entries = checkpoints.read_epochs(self.log_directory.disk, os.path.join(self.path, LEADER_EPOCH_CHECKPOINT))
        except checkpoints.MalformedCheckpoint as problem:
            if self.options.clean:
                raise
            logger.warning("Rebuilding a leader-epoch-checkpoint from the batches: %s", problem)
            entries, self.has_malformed_epochs = [], True
        self.epochs, self.epochs_on_disk = LeaderEpochs(entries), entries

    def _restore_producers(self, snapshots: ProducerSnapshots, log_end_offset: int) -> ProducerState:
        options = self.options
        bases = [segment.base_offset for segment in self.segments]
        snapshots.remove_above(log_end_offset)
        snapshots.remove_strays(bases)
        if self.rebuilt:
            by_base = {segment.base_offset: segment for segment in self.segments}

            def note(segment: Segment, entry: AbortedTransaction) -> None:
                if segment.base_offset in self.rebuilt:
                    by_base[segment.base_offset].transaction_index.append(entry)

            state = restore_producers(
                snapshots, self.segments, log_end_offset, replay_from=min(self.rebuilt), on_aborted=note
            )
        else:
            if options.clean and not snapshots.offsets and log_end_offset > bases[0]:
                snapshots.add_empty([*bases[-2:], log_end_offset])
            state = restore_producers(snapshots, self.segments, log_end_offset)
        state.expire(options.now_ms, options.producer_expiration_ms)
        return state


def valid_batches(files: OpenFiles, segment: Segment, progress: LoadProgress) -> Iterator[BatchHeader]:
    """Yield the batches of a segment up to the first invalid byte: whole, right CRC, offsets that grow and fit its indexes.

    Messages of older formats count as batches. Raises OSError.
    """
    file = files.get(segment.path)
    size = file.size()
    position, next_offset = 0, segment.base_offset
    chunk, start = b"", 0
    while position < size:
        if position + HEADER_SIZE > start + len(chunk):
            chunk, start = file.read_at(position, min(_CHUNK_BYTES, size - position)), position
        header = header_at(chunk, position - start, start)
        if header is None or header.end > size or not segment.can_follow(header, next_offset):
            return
        checked_from, checksum = checksum_of(header.magic)
        crc, at = 0, position + checked_from
        while at < header.end:
            if at >= start + len(chunk):
                chunk, start = file.read_at(at, _CHUNK_BYTES), at
            part = memoryview(chunk)[at - start : header.end - start]
            crc = checksum(part, crc)
            at += len(part)
        if crc != header.crc:
            return
        progress.checked_bytes += header.size
        yield header
        position, next_offset = header.end, header.next_offset


def _settle_files(files: OpenFiles, path: str) -> dict[str, Entry]:
    """Finish or undo what a stop interrupted (see `segment_swap`); returns the files left, by name."""
    disk = files.disk
    found = {entry.name: entry for entry in disk.list(path) if not entry.is_directory}
    if all(name.endswith(_SETTLED) for name in found):
        return found
    names = dict.fromkeys(found)

    def bases_of(suffix: str) -> list[int]:
        return [base for name in names if (base := offset_of(name, LOG + suffix)) is not None]

    def remove(unwanted: Sequence[str]) -> None:
        for name in unwanted:
            disk.remove(os.path.join(path, name))
            del names[name]

    unfinished = min(bases_of(CLEANED), default=None)
    remove([name for name in names if name.endswith((DELETED, ".tmp"))])
    if unfinished is not None:
        remove([name for name in names if name.endswith(SWAP) and _base(name) >= unfinished])
    remove([name for name in names if name.endswith(CLEANED) and not name.endswith(LOG + CLEANED)])
    remove([name for name in names if name.endswith(CLEANED)])
    swaps = sorted(bases_of(SWAP))
    if swaps:
        end = _end_of_swap(files, path, swaps[-1])
        replaced = [
            name
            for name in names
            if name.endswith(SEGMENT_SUFFIXES) and not name.endswith(SWAP) and swaps[0] <= _base(name) < end
        ]
        remove(sorted(replaced, reverse=True))
    finished = [name for name in names if name.endswith(SWAP)]
    for name in sorted(finished, key=lambda each: not each.endswith(LOG + SWAP)):
        disk.rename(os.path.join(path, name), os.path.join(path, name.removesuffix(SWAP)))
    if finished:
        disk.sync(path)
    return {entry.name: entry for entry in disk.list(path) if not entry.is_directory}


def _files_by_base(entries: dict[str, Entry]) -> dict[int, dict[str, Entry]]:
    """Return the files of segments, by base offset and suffix."""
    found: dict[int, dict[str, Entry]] = {}
    for name, entry in entries.items():
        digits, dot, kind = name.partition(".")
        suffix = dot + kind
        if suffix in SEGMENT_SUFFIXES and digits.isdecimal():
            found.setdefault(int(digits), {})[suffix] = entry
    return found


def _blank_indexes(files: dict[str, Entry]) -> list[str]:
    """Return the suffixes of the indexes that are as those of a new segment: without content, the transaction index without a file."""
    return [suffix for suffix in _INDEXES if _is_blank(suffix, files.get(suffix))]


def _is_blank(suffix: str, index: Entry | None) -> bool:
    return index is None if suffix == TRANSACTION_INDEX else index is not None and not index.size


def _base(name: str) -> int:
    digits = name.partition(".")[0]
    return int(digits) if digits.isdecimal() else -1


def _end_of_swap(files: OpenFiles, path: str, base: int) -> int:
    """Return the offset behind the last batch of a `.log.swap` file."""
    name = os.path.join(path, offset_name(base, LOG + SWAP))
    file = files.get(name)
    position, end = 0, base + 1
    while (header := header_at(file.read_at(position, HEADER_SIZE))) is not None:
        end = header.next_offset
        position += header.size
    files.forget(name)
    return end
