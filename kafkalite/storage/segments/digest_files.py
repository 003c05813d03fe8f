"""Reads and writes the file of the digests kept of a segment, whose format is that of `segment_digests`."""

from __future__ import annotations

import logging

from kafkalite.storage.log_files import DIGESTS
from kafkalite.storage.segments.segment_digests import SegmentDigests, decode_blocks, encode_blocks
from kafkalite.storage.segments.segment_files import SegmentFiles

logger = logging.getLogger(__name__)


def load_digests(segment: SegmentFiles, *, is_sealed: bool) -> SegmentDigests:
    """Return what is kept of a segment; nothing for the active one, which has no file yet, and where the file does not count."""
    if not is_sealed:
        return SegmentDigests({})
    try:
        if (content := segment.read_digests_file()) is None:
            return SegmentDigests({})
        status = segment.disk.status(segment.path)
    except OSError as problem:
        logger.warning("%s is not read: %s", segment.path_of(DIGESTS), problem)
        return SegmentDigests({})
    is_current = status.size == segment.size
    return SegmentDigests(decode_blocks(content, segment.size, status.version) if is_current else {})


def save_digests(segment: SegmentFiles, digests: SegmentDigests) -> None:
    """Write what is known of a sealed segment beside it; an error is logged, since nothing depends on the file."""
    path = segment.path_of(DIGESTS)
    try:
        status = segment.disk.status(segment.path)
        if status.size == segment.size:
            segment.disk.replace(path, encode_blocks(digests.blocks, status.size, status.version), durable=False)
        digests.is_saved = True
    except OSError as problem:
        logger.warning("%s is not written: %s", path, problem)
