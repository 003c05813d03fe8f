"""The order in which the offsets of a log must be at any time, checked where it could break first."""

from __future__ import annotations

from typing import Protocol

from kafkalite.errors import ensure


class Offsets(Protocol):
    """The offsets of a log, as `PartitionLog` has them."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int

    @property
    def recovery_point(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...


def ensure_order(log: Offsets) -> None:
    """Ensure log start <= recovery point, high watermark <= log end, and log start <= last stable offset <= high watermark.

    To be called after what moves a lower member up or down by itself; appends only move the end away. Raises InvariantBroken.
    """
    start, end = log.log_start_offset, log.log_end_offset
    if not (start <= log.recovery_point <= end and start <= log.last_stable_offset <= log.high_watermark <= end):
        offsets = f"recovery point {log.recovery_point}, last stable offset {log.last_stable_offset}"
        ensure(False, f"{log}: {offsets}, high watermark {log.high_watermark}")
