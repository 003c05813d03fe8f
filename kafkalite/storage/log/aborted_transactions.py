"""The aborted transactions that a reader of committed records leaves out (KIP-98), from the transaction indexes of a log's segments."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.config.topic import LONG_MAX
from kafkalite.storage.log.log_read import LogRead
from kafkalite.storage.segments.segment import Segment
from kafkalite.storage.segments.segment_list import SegmentList
from kafkalite.storage.segments.transaction_index import AbortedTransaction


def list_aborted(
    segments: SegmentList, from_offset: int, upper_bound: int, read: LogRead | None = None
) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap [`from_offset`, `upper_bound`), or what was `read` of that, and maybe some behind it.

    Entries come in the order of their markers; once one has a last stable offset at the upper bound, every later one is of a
    transaction that began behind it.
    """
    following = segments.from_offset(from_offset)
    if not any(segment.has_aborted_transactions for segment in following):
        return []
    if read is not None:
        upper_bound = min(upper_bound, _find_bound(read, following))
    aborted = []
    for segment in following:
        for entry in segment.transaction_index.entries_from(from_offset):
            if entry.first_offset < upper_bound:
                aborted.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return aborted
    return aborted


def _find_bound(read: LogRead, following: Sequence[Segment]) -> int:
    """Return an offset behind what was read, as Kafka does: the next one in the offset index, else the base offset of the next segment.

    Without it a consumer far behind would get all that was aborted up to the log's end, with each fetch.
    """
    if read.end is None:
        return 0
    segment, position = read.end
    entry = segment.offset_index.first_at(position)
    if entry is not None:
        return entry.offset
    return next((each.base_offset for each in following if each.base_offset > segment.base_offset), LONG_MAX)
