"""The order in which the offsets of a log must be at any time, checked where it could break first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.errors import ensure

if TYPE_CHECKING:
    from kafkalite.storage.partition_log import PartitionLog


def ensure_order(log: PartitionLog) -> None:
    """log start <= recovery point, high watermark <= log end, and log start <= last stable offset <= high watermark.

    To be called after what moves a lower member up or down by itself; appends only move the end away. Raises InvariantBroken.
    """
    start, end = log.log_start_offset, log.log_end_offset
    if not (start <= log.recovery_point <= end and start <= log.last_stable_offset <= log.high_watermark <= end):
        offsets = f"recovery point {log.recovery_point}, last stable offset {log.last_stable_offset}"
        ensure(False, f"{log}: {offsets}, high watermark {log.high_watermark}")
