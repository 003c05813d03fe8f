"""Contents of the files of a log directory, read offline: for `kafkalite log dump` and `verify`.

A file is recognised by its name (`log_files`, `checkpoints`); `.deleted`, `.cleaned` and `.swap` behind it do not matter. `examine` gives a
`Row` for each thing in the file, in order, and a `Damage` where something is wrong; it ends at the first damage behind which nothing can
be found. `first_damage` also compares an index with the segment beside it, and the segment's markers with the
transaction index. Nothing is written, and a running broker may go on: then the
end of its active segment may look cut.

Index files that Kafka was writing when it died are full of zeros behind their last entry; that is no damage.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.compression import Codec
from kafkalite.protocol.record_batches.legacy_records import legacy_records, message_crcs, records_at
from kafkalite.protocol.record_batches.record_check import check_records
from kafkalite.protocol.record_batches.records import (
    ABORT_MARKER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_of,
    has_valid_crc,
    header_at,
    iter_batches,
    iter_records,
    read_marker,
    records_of,
)
from kafkalite.storage import checkpoints, log_files
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.log.partition_metadata import read_topic_id
from kafkalite.storage.open_files import OpenFiles
from kafkalite.storage.producers.producer_snapshot import UnusableSnapshot, decode_snapshot
from kafkalite.storage.segments import offset_index, time_index
from kafkalite.storage.segments.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from kafkalite.storage.segments.transaction_index import TransactionIndex
from kafkalite.storage.transaction_inspection import aborting_markers, missing_entries, wrong_entries
from kafkalite.types import Buffer, topic_id_to_text

BATCH, RECORD = "batch", "record"
OFFSET_ENTRY, TIME_ENTRY, TRANSACTION = "offset", "time", "aborted transaction"
EPOCH, PRODUCER, CHECKPOINT, TOPIC_ID = "leader epoch", "producer", "checkpoint", "topic id"

_OFFSET_CHECKPOINTS: Final = frozenset(
    (checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.HIGH_WATERMARK, checkpoints.CLEANER)
)
_UNFINISHED: Final = (log_files.DELETED, log_files.CLEANED, log_files.SWAP)
_MAGIC_POSITION: Final = 16
_SMALLEST_BATCH_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD


class Depth(IntEnum):
    """Depth of an inspection of batches: their headers and CRC, whether their records are well-formed, each record."""

    HEADERS = 0
    CHECKED = 1
    RECORDS = 2


class Row(NamedTuple):
    """One thing in a file: its kind (a constant above) and its fields by stable names."""

    kind: str
    fields: dict[str, Any]


class Damage(NamedTuple):
    """A fault, and the byte of the file where the broken thing begins."""

    path: Path
    position: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: at byte {self.position}: {self.reason}"


class UnknownFile(ValueError):
    """The name is none of a file in a log directory."""


def files_below(path: Path) -> list[Path]:
    """Return the path itself if it is a file, otherwise all files below it that can be examined, in order. Raises OSError."""
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.is_file() and _reader(each) is not None)


def examine(path: Path, depth: Depth = Depth.HEADERS) -> Iterator[Row | Damage]:
    """Return the contents of a file. Raises UnknownFile, OSError."""
    reader = _reader(path)
    if reader is None:
        raise UnknownFile(f"{path} is no segment, index, snapshot or checkpoint")
    with path.open("rb"):
        pass  # a missing checkpoint has no entries for a broker; here it is a mistake
    yield from reader(path, depth)


def first_damage(path: Path) -> Damage | None:
    """Return the first thing that is wrong with a file, by itself and beside its segment. Raises UnknownFile, OSError."""
    for found in examine(path, Depth.CHECKED):
        if isinstance(found, Damage):
            return found
    name = _plain_name(path)
    segment = _beside(path, log_files.LOG)
    if name.endswith((log_files.LOG, log_files.TRANSACTION_INDEX)) and segment.exists():
        return next(_wrong_transactions(path, segment), None)
    if not name.endswith((log_files.OFFSET_INDEX, log_files.TIME_INDEX)) or not segment.exists():
        return None
    headers = _sound_headers(segment)
    if name.endswith(log_files.OFFSET_INDEX):
        return next(_misplaced_offsets(path, headers), None)
    return next(_wrong_times(path, headers), None)


def _beside(path: Path, suffix: str) -> Path:
    """Return the path of the segment or index that belongs to this file."""
    return path.with_name(path.name.replace(Path(_plain_name(path)).suffix, suffix, 1))


def _plain_name(path: Path) -> str:
    name = path.name
    for suffix in _UNFINISHED:
        name = name.removesuffix(suffix)
    return name


_Reader = Callable[[Path, Depth], Iterator[Row | Damage]]


def _reader(path: Path) -> _Reader | None:
    name = _plain_name(path)
    if name in _OFFSET_CHECKPOINTS:
        return _read_offsets
    if name == log_files.LEADER_EPOCH_CHECKPOINT:
        return _read_epochs
    if name == log_files.PARTITION_METADATA:
        return _read_topic_id
    for suffix, reader in _BY_SUFFIX.items():
        if log_files.offset_of(name, suffix) is not None:
            return reader
    return None


def _base_offset(path: Path) -> int:
    return int(Path(_plain_name(path)).stem)


# segments


def _read_segment(path: Path, depth: Depth) -> Iterator[Row | Damage]:
    with path.open("rb") as file:
        if not path.stat().st_size:
            return
        # Not closed by hand: a caller that stops in the middle may still hold views of it.
        yield from _read_batches(path, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), depth)


def _read_batches(path: Path, content: Any, depth: Depth) -> Iterator[Row | Damage]:
    next_offset, epoch, end = _base_offset(path), -1, 0
    try:
        for header in iter_batches(content):
            end = header.end
            sound = has_valid_crc(content, header)
            yield Row(BATCH, _batch_fields(header, sound))
            yield from (Damage(path, header.position, reason) for reason in _wrong_in(header, next_offset, epoch))
            if not sound:
                actual = crc_of(content, header)
                reason = f"batch at offset {header.base_offset}: its CRC is {header.crc}, its bytes make {actual}"
                yield Damage(path, header.position, reason)
            elif depth > Depth.HEADERS:
                damages = list(_check_records(path, content, header))
                yield from damages
                if depth is Depth.RECORDS and not damages:
                    yield from _read_records(content, header)
            next_offset, epoch = max(next_offset, header.next_offset), max(epoch, header.partition_leader_epoch)
    except KafkaError:
        pass  # said below
    if end != len(content):
        yield Damage(path, end, _what_is_no_batch(content, end))


def _what_is_no_batch(content: Any, position: int) -> str:
    left = len(content) - position
    if left < HEADER_SIZE:
        return f"{left} bytes behind the last batch, fewer than a header has"
    header = BatchHeader.read(content, position)
    older = header_at(content, position)
    if older is not None and header.magic != MAGIC:
        return f"message at offset {older.base_offset} is cut: {left} of its {older.size} bytes are there"
    if not any(content[position : position + HEADER_SIZE]):
        return f"{left} bytes behind the last batch, beginning with zeros"
    if header.magic != MAGIC:
        return f"magic {header.magic} at byte {position + _MAGIC_POSITION}, not 0 to {MAGIC}"
    if header.batch_length < _SMALLEST_BATCH_LENGTH:
        return f"a batch of {header.batch_length} bytes, fewer than a header has"
    return f"batch at offset {header.base_offset} is cut: {left} of its {header.size} bytes are there"


def _wrong_in(header: BatchHeader, next_offset: int, epoch: int) -> Iterator[str]:
    if header.base_offset < next_offset:
        yield f"batch at offset {header.base_offset} where {next_offset} or more was due"
    if header.last_offset_delta < 0 or header.records_count > header.last_offset_delta + 1:
        yield (
            f"batch at offset {header.base_offset}: {header.records_count} records up to offset {header.last_offset}"
        )
    if header.partition_leader_epoch < epoch and header.magic == MAGIC:
        yield f"batch at offset {header.base_offset}: leader epoch {header.partition_leader_epoch} after {epoch}"


def _batch_fields(header: BatchHeader, sound: bool) -> dict[str, Any]:
    codec = header.codec
    return {
        "position": header.position,
        "size": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.records_count if header.records_count >= 0 else None,
        "magic": header.magic,
        "leader_epoch": header.partition_leader_epoch,
        "codec": Codec(codec).name.lower() if codec in tuple(Codec) else str(codec),
        "timestamp_type": header.timestamp_type if header.magic else "NoTimestampType",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "crc": header.crc,
        "crc_valid": sound,
    }


def _check_records(path: Path, content: Buffer, header: BatchHeader) -> Iterator[Damage]:
    """Check that the records are readable and their offsets grow within the batch's; only compaction leaves gaps."""
    try:
        if header.records_count == header.last_offset_delta + 1:
            check_records(records_of(content, header), header.records_count, keys_required=False)
            return
        last = header.base_offset - 1 if header.magic == MAGIC else -1
        for record in records_at(content, header):
            if not last < record.offset <= header.last_offset:
                raise ValueError(f"record at offset {record.offset} between {last} and {header.last_offset + 1}")
            last = record.offset
    except (KafkaError, ValueError) as problem:
        yield Damage(path, header.position, f"batch at offset {header.base_offset}: {problem}")


def _read_records(content: Buffer, header: BatchHeader) -> Iterator[Row]:
    if header.magic != MAGIC:
        for record, crc in zip(legacy_records(content, header), message_crcs(content, header), strict=True):
            yield Row(
                RECORD, {"position": header.position, **record._asdict(), "crc": crc.crc, "crc_valid": crc.is_valid}
            )
        return
    marker = _marker_fields(content, header)
    for record in iter_records(content, header):
        yield Row(RECORD, {"position": header.position, **record._asdict(), **marker})


def _marker_fields(content: Buffer, header: BatchHeader) -> dict[str, Any]:
    marker = read_marker(content, header) if header.is_control else None
    if marker is None:
        return {}
    return {
        "marker": "abort" if marker.type == ABORT_MARKER else "commit",
        "coordinator_epoch": marker.coordinator_epoch,
    }


def _sound_headers(segment: Path) -> list[BatchHeader]:
    """Return the headers of a segment's batches up to its first damage."""
    content = segment.read_bytes()
    headers: list[BatchHeader] = []
    try:
        headers.extend(iter_batches(content))
    except KafkaError:
        pass  # the segment's own check says it
    return headers


# indexes


def _read_offset_index(path: Path, _: Depth) -> Iterator[Row | Damage]:
    size = path.stat().st_size
    with _open_files() as files:
        entries = offset_index.OffsetIndex(files, str(path), _base_offset(path), size).entries()
    last = offset_index.OffsetEntry(_base_offset(path) - 1, -1)
    for number, entry in enumerate(entries):
        at = number * offset_index.ENTRY_SIZE
        if entry == (_base_offset(path), 0):
            return  # allotted in advance by Kafka; a segment's first batch is never indexed
        yield Row(OFFSET_ENTRY, {"position": at, "offset": entry.offset, "log_position": entry.position})
        if entry.offset <= last.offset or entry.position <= last.position:
            yield Damage(path, at, f"entry {tuple(entry)} after {tuple(last)}: entries must grow")
        last = entry
    yield from _half_entry(path, size, offset_index.ENTRY_SIZE)


def _read_time_index(path: Path, _: Depth) -> Iterator[Row | Damage]:
    size = path.stat().st_size
    with _open_files() as files:
        entries = time_index.TimeIndex(files, str(path), _base_offset(path), size).entries()
    last = time_index.TimeEntry(-1, _base_offset(path))
    for number, entry in enumerate(entries):
        at = number * time_index.ENTRY_SIZE
        if entry == (0, _base_offset(path)) and (number or entries[1:2] == [entry]):
            return  # allotted in advance by Kafka
        yield Row(TIME_ENTRY, {"position": at, "timestamp": entry.timestamp, "offset": entry.offset})
        if entry.timestamp <= last.timestamp or entry.offset < last.offset:
            yield Damage(path, at, f"entry {tuple(entry)} after {tuple(last)}: entries must grow")
        last = entry
    yield from _half_entry(path, size, time_index.ENTRY_SIZE)


def _read_transaction_index(path: Path, _: Depth) -> Iterator[Row | Damage]:
    size = path.stat().st_size
    with _open_files() as files:
        try:
            entries = TransactionIndex(files, str(path), size).entries()
        except OSError as problem:
            yield Damage(path, 0, str(problem))
            return
    last_offset = _base_offset(path) - 1
    for number, entry in enumerate(entries):
        at = number * TRANSACTION_ENTRY_SIZE
        yield Row(TRANSACTION, {"position": at, **entry._asdict()})
        if not entry.first_offset <= entry.last_offset or entry.last_offset <= last_offset:
            yield Damage(path, at, f"transaction from {entry.first_offset} to {entry.last_offset} after {last_offset}")
        last_offset = entry.last_offset
    yield from _half_entry(path, size, TRANSACTION_ENTRY_SIZE)


def _half_entry(path: Path, size: int, entry_size: int) -> Iterator[Damage]:
    rest = size % entry_size
    if rest:
        yield Damage(path, size - rest, f"{rest} bytes behind the last entry of {entry_size}")


def _open_files() -> closing[OpenFiles]:
    return closing(OpenFiles(OsDisk(), limit=1))


def _misplaced_offsets(path: Path, headers: list[BatchHeader]) -> Iterator[Damage]:
    """Yield the entries that do not name the beginning of a batch, or whose offset a batch before it reaches."""
    starts = {header.position: number for number, header in enumerate(headers)}
    for found in _read_offset_index(path, Depth.HEADERS):
        if isinstance(found, Damage):
            continue
        at, offset, position = found.fields["position"], found.fields["offset"], found.fields["log_position"]
        number = starts.get(position)
        if number is None:
            yield Damage(path, at, f"entry for offset {offset}: no batch begins at byte {position} of the segment")
            continue
        here = headers[number]
        is_before = (
            here.magic == MAGIC and here.base_offset > offset
        )  # where a wrapper begins, its header does not tell
        if is_before or (number and headers[number - 1].last_offset >= offset):
            reason = f"the batch at byte {position} has offsets {here.base_offset} to {here.last_offset}"
            yield Damage(path, at, f"entry for offset {offset}: {reason}")


def _wrong_times(path: Path, headers: list[BatchHeader]) -> Iterator[Damage]:
    """Yield the entries before whose offset a record is later than the entry's timestamp."""
    last_offsets = [header.last_offset for header in headers]
    largest: list[int] = []
    for header in headers:
        largest.append(max(header.max_timestamp, largest[-1] if largest else -1))
    for found in _read_time_index(path, Depth.HEADERS):
        if isinstance(found, Damage):
            continue
        at, timestamp, offset = found.fields["position"], found.fields["timestamp"], found.fields["offset"]
        below = bisect_right(last_offsets, offset)
        if offset > (last_offsets[-1] if last_offsets else -1):
            yield Damage(path, at, f"entry for offset {offset}, which the segment does not have")
        elif below and largest[below - 1] > timestamp:
            reason = f"a record up to offset {offset} has timestamp {largest[below - 1]}"
            yield Damage(path, at, f"entry for timestamp {timestamp}: {reason}")


def _wrong_transactions(path: Path, segment: Path) -> Iterator[Damage]:
    """Yield what the segment and its transaction index, one of which `path` is, do not agree upon."""
    index = _beside(segment, log_files.TRANSACTION_INDEX)
    size = index.stat().st_size if index.exists() else 0
    with _open_files() as files:
        try:
            entries = TransactionIndex(files, str(index), size).entries()
        except OSError:  # the index's own check says it
            return
    markers = aborting_markers(segment.read_bytes())
    compare = missing_entries if path == segment else wrong_entries
    for position, reason in compare(entries, markers):
        yield Damage(path, position, reason)


# snapshots and checkpoints


def _read_snapshot(path: Path, _: Depth) -> Iterator[Row | Damage]:
    try:
        producers = decode_snapshot(path.read_bytes())
    except UnusableSnapshot as problem:
        yield Damage(path, 0, f"the snapshot cannot be used: {problem}")
        return
    for each in producers:
        last = each.batches[-1] if each.batches else None
        yield Row(
            PRODUCER,
            {
                "producer_id": each.producer_id,
                "epoch": each.epoch,
                "first_sequence": last.first_sequence if last else None,
                "last_sequence": last.last_sequence if last else None,
                "first_offset": last.first_offset if last else None,
                "last_offset": last.last_offset if last else None,
                "last_timestamp": each.last_timestamp,
                "coordinator_epoch": each.coordinator_epoch,
                "transaction_first_offset": each.transaction_first_offset,
            },
        )


def _read_epochs(path: Path, _: Depth) -> Iterator[Row | Damage]:
    try:
        entries = checkpoints.read_epochs(OsDisk(), str(path))
    except checkpoints.MalformedCheckpoint as problem:
        yield Damage(path, problem.position, str(problem))
        return
    last = (-1, -1)
    position = sum(len(line) + 1 for line in path.read_bytes().split(b"\n")[:2])
    for epoch, start in entries:
        yield Row(EPOCH, {"epoch": epoch, "start_offset": start})
        if epoch <= last[0] or start <= last[1]:
            yield Damage(path, position, f"epoch {epoch} from offset {start} after epoch {last[0]} from {last[1]}")
        last = (epoch, start)
        position += len(f"{epoch} {start}\n")


def _read_offsets(path: Path, _: Depth) -> Iterator[Row | Damage]:
    try:
        offsets = checkpoints.read_offsets(OsDisk(), str(path))
    except checkpoints.MalformedCheckpoint as problem:
        yield Damage(path, problem.position, str(problem))
        return
    for topic_partition, offset in offsets.items():
        yield Row(CHECKPOINT, {**topic_partition._asdict(), "offset": offset})


def _read_topic_id(path: Path, _: Depth) -> Iterator[Row | Damage]:
    try:
        yield Row(TOPIC_ID, {"topic_id": topic_id_to_text(read_topic_id(OsDisk(), str(path)))})
    except OSError as problem:
        yield Damage(path, 0, str(problem))


_BY_SUFFIX: Final[dict[str, _Reader]] = {
    log_files.LOG: _read_segment,
    log_files.OFFSET_INDEX: _read_offset_index,
    log_files.TIME_INDEX: _read_time_index,
    log_files.TRANSACTION_INDEX: _read_transaction_index,
    log_files.SNAPSHOT: _read_snapshot,
}
