"""What the directory of a log holds, as `recovery` would find it: by its summary a log is opened without reading its files.

A summary is a cache. It counts only where the directory and all files of the segments have the sizes, numbers and times that they had.
The time of last change of anything (ctime) cannot be set, so copies and restored files differ, whatever their time of
modification says. Whoever adds, removes or replaces a file changes its directory. Apache Kafka, which knows nothing of summaries, changes
the offset index of the active segment whenever it opens a log. Offsets that lie outside the directory of the log (log start, recovery
point, high watermark) are not part of a summary.

In the file of summaries (`directories/log_summaries`) each is one JSON list of the fields of `LogSummary`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Annotated, Final, NamedTuple

import msgspec

from kafkalite.config.topic import TopicConfig
from kafkalite.storage.disk import Disk, FileVersion
from kafkalite.storage.log.leader_epochs import LeaderEpochs
from kafkalite.storage.log.partition_log import PartitionLog
from kafkalite.storage.log.recovery import LoadOptions
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.log_files import (
    DIGESTS,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    offset_name,
)
from kafkalite.storage.producers.producer_files import ProducerSnapshots
from kafkalite.storage.producers.producer_state import BATCHES_KEPT, ProducedRange, Producer, ProducerState
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.segment_files import FileSizes
from kafkalite.storage.segments.time_index import TimeEntry
from kafkalite.types import TopicPartition

_QUIET_MS: Final = 100
"""Age of the last change from which on a later one shows in a time; file systems tell some milliseconds apart."""

_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000

_SEGMENTS_MAX: Final = 200
_PRODUCERS_MAX: Final = 500
"""A log that has more is read at each start: to summarize it would hold the event loop for more than some milliseconds."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_TopicId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]


class SegmentSummary(NamedTuple):
    """A segment; sizes in bytes and versions of its files, in the order of `SEGMENT_SUFFIXES`. The transaction index may be missing."""

    base_offset: _Count
    sizes: FileSizes
    versions: list[FileVersion]


class ProducerSummary(NamedTuple):
    """A producer without an open transaction; fields as those of `Producer`."""

    producer_id: _Number
    epoch: _Number
    last_timestamp: _Number
    coordinator_epoch: _Number
    batches: list[ProducedRange]


class LogSummary(NamedTuple):
    """The facts of one log."""

    directory: FileVersion
    topic_id: _TopicId
    log_end_offset: _Count
    largest: tuple[_Number, _Number]
    """The largest timestamp in the active segment, and the offset that has it."""
    time_entry: tuple[_Number, _Number]
    """The last entry of its time index."""
    epochs: list[tuple[_Count, _Count]]
    epochs_on_disk: list[tuple[_Count, _Count]]
    """What `leader-epoch-checkpoint` says, which is written later than an epoch begins."""
    snapshots: list[_Count]
    producers: list[ProducerSummary]
    segments: list[SegmentSummary]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(LogSummary)


def encode_summary(summary: LogSummary) -> str:
    return _ENCODER.encode(summary).decode()


def decode_summary(text: str) -> LogSummary | None:
    """Return a summary that `encode_summary` wrote; None for a text that is none, or contradicts itself."""
    try:
        summary = _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    return summary if _is_consistent(summary) else None


def _is_consistent(summary: LogSummary) -> bool:
    segments, end = summary.segments, summary.log_end_offset
    if not segments or not all(len(each.versions) == 3 + bool(each.sizes.transaction_index) for each in segments):
        return False
    active = segments[-1]
    return (
        (end > active.base_offset if active.sizes.log else end == active.base_offset)
        and (len(segments) == 1 or all(first.base_offset < second.base_offset for first, second in pairwise(segments)))
        and all(first < second for first, second in pairwise(summary.snapshots))
        and _grow(summary.epochs)
        and (summary.epochs_on_disk == summary.epochs or _grow(summary.epochs_on_disk))
    )


def _grow(epochs: list[tuple[int, int]]) -> bool:
    return len(epochs) < 2 or all(first[0] < second[0] and first[1] < second[1] for first, second in pairwise(epochs))


def summarize_log(log: PartitionLog, now_ms: int | None) -> LogSummary | None:
    """Return the summary of a log that is open at `now_ms`, or closed (None); None if opening would find more than its parts say.

    Those are: files of a deletion or compaction that is not over, transactions that are not settled, batches without epochs, a write that
    failed or is just done. Raises OSError.
    """
    if not log.has_files or log.is_topic_id_behind or log.producers.first_unstable_offset is not None:
        return None
    if len(log.segments) > _SEGMENTS_MAX or len(log.producers.producers) > _PRODUCERS_MAX:
        return None
    if log.size_bytes and not log.epochs.table:
        return None  # messages of older formats, or none of whose epochs were told yet
    on_disk = log.epoch_file.on_disk
    if on_disk is None:
        return None
    disk = log.log_directory.disk
    directory = disk.status(
        log.directory
    ).version  # before the list: what is added meanwhile, by the cleaner's process, shows in it
    files = {entry.name: entry for entry in disk.list(log.directory)}
    segments = []
    for segment in log.segments:
        sizes = segment.sizes()
        names = [offset_name(segment.base_offset, suffix) for suffix in SEGMENT_SUFFIXES]
        found = [entry for name in names if (entry := files.pop(name, None)) is not None]
        files.pop(offset_name(segment.base_offset, DIGESTS), None)  # which opening a log does not read
        if [entry.name for entry in found] != names[: 3 + bool(sizes.transaction_index)]:
            return None
        if any(entry.size != size for entry, size in zip(found, sizes, strict=False)):
            return None
        segments.append(SegmentSummary(segment.base_offset, sizes, [entry.version for entry in found]))
    known = {offset_name(each, SNAPSHOT) for each in log.snapshots.offsets}
    if files.keys() - {LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA} != known:
        return None
    summary = LogSummary(
        directory,
        log.topic_id.hex(),
        log.log_end_offset,
        log.segments.active.largest_known,
        log.segments.active.last_time_entry,
        log.epochs.entries(),
        list(on_disk),
        list(log.snapshots.offsets),
        [_summarize_producer(each) for each in log.producers.producers.values()],
        segments,
    )
    return summary if now_ms is None or tells_later_changes(summary, now_ms) else None


def tells_later_changes(summary: LogSummary, now_ms: int) -> bool:
    """True if a change from `now_ms` on gets another time than those before.

    Times in whole seconds come from a file system that knows no others.
    """
    _, *times = summary.directory
    for each in summary.segments:
        for _, modified_ns, changed_ns in each.versions:
            times += modified_ns, changed_ns
    return max(times) // _NS_PER_MS <= now_ms - _QUIET_MS and any(each % _NS_PER_S for each in times)


def open_summarized(
    topic_partition: TopicPartition,
    log_directory: LogDirectory,
    path: str,
    summary: LogSummary,
    *,
    directory: FileVersion,
    config: TopicConfig,
    rng: Random,
    options: LoadOptions,
) -> PartitionLog | None:
    """Return the log in the directory `path`, which has the version `directory`; None if it is not as the summary says. Raises OSError."""
    end, disk = summary.log_end_offset, log_directory.disk
    log_start_offset = max(options.log_start_offset, summary.segments[0].base_offset)
    if directory != summary.directory or end < log_start_offset:
        return None
    segments = [
        Segment(
            log_directory.files,
            path,
            each.base_offset,
            each.sizes,
            created_ms=options.now_ms,
            modified_ms=each.versions[0][1] // _NS_PER_MS,
        )
        for each in summary.segments
    ]
    if not all(map(_is_unchanged, segments, summary.segments)):
        return None
    if segments[-1].size:
        segments[-1].set_largest(*summary.largest, TimeEntry(*summary.time_entry))
    snapshots = ProducerSnapshots(disk, path)
    snapshots.offsets = tuple(summary.snapshots)
    producers = ProducerState(map(_producer_of, summary.producers), end)
    producers.expire(options.now_ms, options.producer_expiration_ms)
    epochs = LeaderEpochs(summary.epochs)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(log_start_offset)
    return PartitionLog(
        topic_partition,
        log_directory,
        path,
        config=config,
        rng=rng,
        topic_id=_topic_id_of(summary.topic_id),
        segments=segments,
        now_ms=options.now_ms,
        epochs=epochs,
        producers=producers,
        snapshots=snapshots,
        log_start_offset=log_start_offset,
        log_end_offset=end,
        recovery_point=end if options.clean else max(log_start_offset, min(options.recovery_point, end)),
        epochs_on_disk=summary.epochs_on_disk,
    )


@lru_cache(maxsize=1024)
def _topic_id_of(text: str) -> bytes:
    """Return a topic id, the same object for all partitions of the topic."""
    return bytes.fromhex(text)


def _is_unchanged(segment: Segment, summary: SegmentSummary) -> bool:
    disk: Disk = segment.disk
    for kind, size, version in zip(SEGMENT_SUFFIXES, summary.sizes, summary.versions, strict=False):
        try:
            status = disk.status(segment.path_of(kind))
        except FileNotFoundError:
            return False
        if status.size != size or status.version != version:
            return False
    return True


def _summarize_producer(producer: Producer) -> ProducerSummary:
    return ProducerSummary(
        producer.producer_id,
        producer.epoch,
        producer.last_timestamp,
        producer.coordinator_epoch,
        list(producer.batches),
    )


def _producer_of(summary: ProducerSummary) -> Producer:
    producer_id, epoch, last_timestamp, coordinator_epoch, batches = summary
    return Producer(producer_id, epoch, last_timestamp, coordinator_epoch, None, tuple(batches)[-BATCHES_KEPT:])
