"""Time as a port: code that decides by time gets the time as an argument, or a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored or shown, monotonic time for what is measured."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970 UTC; may jump."""

    def monotonic_ms(self) -> float:
        """Return milliseconds since an arbitrary moment; never goes back."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0
