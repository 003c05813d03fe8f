"""The snapshot files of one log, and the way from a snapshot and the batches behind it to the state of the producers."""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.records import BatchHeader, read_marker
from kafkalite.storage.disk import Disk
from kafkalite.storage.log_files import SNAPSHOT, offset_name, offset_of
from kafkalite.storage.producers.producer_snapshot import UnusableSnapshot, decode_snapshot, encode_snapshot
from kafkalite.storage.producers.producer_state import Producer, ProducerState
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)


class ProducerSnapshots:
    """The snapshots in a partition's directory, by offset."""

    __slots__ = ("_directory", "_disk", "offsets")

    def __init__(self, disk: Disk, directory: str, names: Iterable[str] = ()) -> None:
        self._disk = disk
        self._directory = directory
        found = sorted(offset for name in names if (offset := offset_of(name, SNAPSHOT)) is not None)
        self.offsets = tuple(found)

    @property
    def latest(self) -> int:
        """Return the offset of the last snapshot, -1 without any."""
        return self.offsets[-1] if self.offsets else -1

    def take_snapshot(self, state: ProducerState) -> None:
        """Write a snapshot at the state's end unless there is one; the next flush makes it durable. Raises OSError.

        None at offset 0, before which there can be no producers; nor does Kafka write one.
        """
        if state.end_offset > max(self.latest, 0):
            content = encode_snapshot(list(state.producers.values()))
            self._disk.replace(self._path(state.end_offset), content, durable=False)
            self.offsets = (*self.offsets, state.end_offset)

    @property
    def latest_name(self) -> str | None:
        """Return the file name of the last snapshot."""
        return offset_name(self.offsets[-1], SNAPSHOT) if self.offsets else None

    def newest(self, end_offset: int) -> tuple[int, list[Producer]] | None:
        """Return the newest usable snapshot up to `end_offset`; unusable ones on the way are removed."""
        while number := bisect_right(self.offsets, end_offset):
            offset = self.offsets[number - 1]
            try:
                return offset, decode_snapshot(self._disk.read(self._path(offset)))
            except (UnusableSnapshot, FileNotFoundError) as problem:
                logger.warning("Removing %s, which cannot be used: %s", self._path(offset), problem)
                self._remove(offset)
        return None

    def remove_above(self, end_offset: int) -> None:
        for offset in [each for each in self.offsets if each > end_offset]:
            self._remove(offset)

    def remove_below(self, start_offset: int) -> None:
        """Remove what lies below the log's start, but never the newest one: it may hold producers without recent batches."""
        for offset in [each for each in self.offsets[:-1] if each < start_offset]:
            self._remove(offset)

    def remove_strays(self, segment_bases: Iterable[int]) -> None:
        """Remove the snapshots that belong to no segment, except the newest one."""
        wanted = set(segment_bases)
        for offset in [each for each in self.offsets[:-1] if each not in wanted]:
            self._remove(offset)

    def clear(self) -> None:
        self.remove_above(-1)

    def add_empty(self, offsets: Iterable[int]) -> None:
        """Write snapshots without producers, so that a log that never had any is not read in full at each start."""
        for offset in offsets:
            if offset not in self.offsets:
                self._disk.replace(self._path(offset), encode_snapshot([]), durable=False)
                self.offsets = tuple(sorted((*self.offsets, offset)))

    def _remove(self, offset: int) -> None:
        self._disk.remove(self._path(offset))
        self.offsets = tuple(each for each in self.offsets if each != offset)

    def _path(self, offset: int) -> str:
        return os.path.join(self._directory, offset_name(offset, SNAPSHOT))


def restore_producers(
    snapshots: ProducerSnapshots,
    segments: Sequence[Segment],
    end_offset: int,
    *,
    replay_from: int | None = None,
    on_aborted: Callable[[Segment, AbortedTransaction], None] | None = None,
) -> ProducerState:
    """Return the state of the producers at `end_offset`: the newest snapshot and the batches behind it.

    With `replay_from` only snapshots up to that offset count, so that every later transaction is met; `on_aborted` is then
    told of each aborted one and the segment its marker lies in. Raises OSError; KafkaError for an unreadable marker.
    """
    found = snapshots.newest(end_offset if replay_from is None else min(replay_from, end_offset))
    start, producers = found if found is not None else (segments[0].base_offset, [])
    state = ProducerState(producers, start)
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= start:
            continue
        if segment.base_offset >= end_offset:
            break
        position = segment.offset_index.lookup(start).position if start > segment.base_offset else 0
        for header in segment.headers(position):
            if header.last_offset < start:
                continue
            if header.base_offset >= end_offset:
                break
            if header.has_producer_id:
                aborted = _apply(state, segment, header)
                if aborted is not None and on_aborted is not None:
                    on_aborted(segment, aborted)
    state.end_offset = end_offset
    return state


def _apply(state: ProducerState, segment: Segment, header: BatchHeader) -> AbortedTransaction | None:
    marker = None
    if header.is_control:
        try:
            marker = read_marker(segment.read(header.position, header.size), header._replace(position=0))
        except KafkaError as problem:  # whoever reads it hears of it; the log opens all the same
            logger.warning("%s: the marker at offset %d ends nothing: %s", segment.path, header.base_offset, problem)
    return state.apply(header, marker)
