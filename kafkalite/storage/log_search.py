"""Searches over the segments of a log: by timestamp, and for aborted transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkalite.protocol.records import NO_TIMESTAMP, BatchHeader, iter_records
from kafkalite.storage.leader_epochs import LeaderEpochs
from kafkalite.storage.segment import Segment
from kafkalite.storage.transaction_index import AbortedTransaction


def first_record_from(segments: Iterable[Segment], timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record at or behind `start_offset` with at least `timestamp` ms; None without any."""
    for segment in segments:
        if segment.largest_timestamp < timestamp:
            continue
        entry = segment.time_index.lookup(timestamp)
        position = segment.offset_index.lookup(entry.offset).position
        for header in segment.headers(position):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                found = _first_in_batch(segment, header, timestamp, start_offset)
                if found is not None:
                    return found
    return None


def record_of_largest_timestamp(segments: Iterable[Segment], start_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record that has the largest timestamp of the log; None without timestamps."""
    largest = max(segment.largest_timestamp for segment in segments)
    return first_record_from(segments, largest, start_offset) if largest != NO_TIMESTAMP else None


def located(found: tuple[int, int] | None, epochs: LeaderEpochs, upper_bound: int) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch or -1) of a record that was found below `upper_bound`."""
    if found is None or found[1] >= upper_bound:
        return None
    epoch = epochs.epoch_for_offset(found[1])
    return found[0], found[1], -1 if epoch is None else epoch


def _first_in_batch(segment: Segment, header: BatchHeader, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    if header.uses_log_append_time:
        return header.max_timestamp, max(header.base_offset, start_offset)
    data = segment.read(header.position, header.size)
    for record in iter_records(data, header._replace(position=0)):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None


def aborted_between(segments: Sequence[Segment], from_offset: int, upper_bound: int) -> list[AbortedTransaction]:
    """Aborted transactions that overlap [`from_offset`, `upper_bound`), from the segments that may tell of them.

    Entries come in the order of their markers; once one has a last stable offset at the upper bound, every later one is of a
    transaction that began behind it.
    """
    found = []
    for segment in segments:
        for entry in segment.transaction_index.entries():
            if entry.last_offset >= from_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found
    return found
