"""A segment's transactions compared with its transaction index: what aborts tells each of them, for `kafkalite log verify`.

Every entry needs the marker that it names. Every aborting marker behind data of its producer in the same segment needs an entry, or readers
of committed records would be shown what was aborted. Where all data of a transaction lies in earlier segments nothing can be said, because
compaction may have removed it, and the entry with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.records import ABORT_MARKER, iter_batches, read_marker
from kafkalite.storage.segments.transaction_index import ENTRY_SIZE, AbortedTransaction
from kafkalite.types import Buffer


class AbortingMarker(NamedTuple):
    """At `position` of the segment; `first_data_offset` is that of the producer's first data behind its marker before, None without any."""

    producer_id: int
    position: int
    first_data_offset: int | None
    is_last: bool


def aborting_markers(content: Buffer) -> dict[int, AbortingMarker]:
    """Return the markers of a segment that abort, by offset, up to its first damage."""
    markers: dict[int, AbortingMarker] = {}
    data: dict[int, int] = {}
    try:
        for header in iter_batches(content):
            if not header.is_transactional:
                continue
            if not header.is_control:
                data.setdefault(header.producer_id, header.base_offset)
                continue
            marker = read_marker(content, header)
            first = data.pop(header.producer_id, None)
            if marker is not None and marker.type == ABORT_MARKER:
                is_last = header.end == len(content)
                markers[header.last_offset] = AbortingMarker(header.producer_id, header.position, first, is_last)
    except KafkaError:
        pass  # the segment's own check says it
    return markers


def wrong_entries(
    entries: Iterable[AbortedTransaction], markers: Mapping[int, AbortingMarker]
) -> Iterator[tuple[int, str]]:
    """Yield (position in the index, what is wrong) of entries that no marker bears out."""
    for number, entry in enumerate(entries):
        marker = markers.get(entry.last_offset)
        if marker is None or marker.producer_id != entry.producer_id:
            reason = (
                f"offset {entry.last_offset} has no marker that aborts a transaction of producer {entry.producer_id}"
            )
            yield number * ENTRY_SIZE, reason
        elif marker.first_data_offset is not None and marker.first_data_offset < entry.first_offset:
            reason = (
                f"the transaction that ends at offset {entry.last_offset} began at {marker.first_data_offset} or before"
            )
            yield number * ENTRY_SIZE, f"{reason}, not at {entry.first_offset}"


def missing_entries(
    entries: Iterable[AbortedTransaction], markers: Mapping[int, AbortingMarker]
) -> Iterator[tuple[int, str]]:
    """Yield (position in the segment, what is wrong) of markers whose transaction the index does not have.

    A running broker writes the index behind the segment, so the last batch may be ahead.
    """
    known = {entry.last_offset for entry in entries}
    for offset, marker in markers.items():
        if marker.first_data_offset is not None and offset not in known and not marker.is_last:
            yield (
                marker.position,
                f"the transaction of producer {marker.producer_id} from offset {marker.first_data_offset} that the marker at {offset} "
                "aborts is not in the transaction index",
            )
