"""Putting a compacted segment in the place of old ones, so that a stop at any moment leaves the old ones or the new one.

1. `.cleaned` files become `.swap`, the `.log` last: while one is `.cleaned`, the next start removes all of them.
2. The old segments become `.deleted`, the last one first; a start that finds a `.log.swap` removes what it replaces.
3. `.swap` files get their final names, the `.log` first: behind that, the start only has the indexes left to rename.

The files were brought to the medium before; file systems write renames within a directory in their order.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkalite.failpoints import reach
from kafkalite.storage.cleaning.cleaning import CleanedSegment
from kafkalite.storage.log_files import CLEANED, LOG, SEGMENT_SUFFIXES, SWAP, TRANSACTION_INDEX, offset_name
from kafkalite.storage.open_files import OpenFiles
from kafkalite.storage.segments.segment import Segment


def swap_in(
    files: OpenFiles, directory: str, old: Sequence[Segment], cleaned: CleanedSegment, now_ms: int
) -> tuple[Segment, list[str]]:
    """Return (the new segment, the files of the old ones, which are to be removed later). Raises OSError."""
    reach("cleaner.swapping")
    base = os.path.join(directory, offset_name(cleaned.base_offset, ""))
    kinds = [kind for kind in SEGMENT_SUFFIXES if kind != TRANSACTION_INDEX or cleaned.sizes.transaction_index]
    for kind in sorted(kinds, key=lambda each: each == LOG):
        files.disk.rename(base + kind + CLEANED, base + kind + SWAP)
    to_delete = [path for segment in reversed(old) for path in segment.mark_deleted()]
    reach("cleaner.half_swapped")
    for kind in sorted(kinds, key=lambda each: each != LOG):
        files.disk.rename(base + kind + SWAP, base + kind)
    segment = Segment(
        files,
        directory,
        cleaned.base_offset,
        cleaned.sizes,
        created_ms=now_ms,
        modified_ms=cleaned.modified_ms,
    )
    return segment, to_delete
