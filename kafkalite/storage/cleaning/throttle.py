"""A bound on bytes per second, as pauses between pieces of work; time comes in as seconds of any one clock."""

from __future__ import annotations

from typing import Final

_BURST_S: Final = 1.0
"""Work that lay still may catch up by this much."""


class Throttle:
    """Pauses so that on average no more than `bytes_per_second`, which may be changed, go through."""

    def __init__(self, bytes_per_second: float, now_s: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._due_s = now_s

    def pause_s(self, size: int, now_s: float) -> float:
        """Note that `size` bytes went through until `now_s`, and return the seconds to wait before more."""
        self._due_s = max(self._due_s, now_s - _BURST_S) + size / self.bytes_per_second
        return max(0.0, self._due_s - now_s)
