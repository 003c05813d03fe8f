"""The history under construction: in memory, and as it happens in a file if one is given."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafkalite.testing.history.events import Event
from kafkalite.testing.history.files import HistoryFile


class Recorder:
    """Every thread and every simulated process appends to it. `now_ns` is one monotonic clock for all of them."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns, file: HistoryFile | None = None) -> None:
        self.events: list[Event] = []
        self.now_ns = now_ns
        self._file = file

    def add(self, event: Event) -> None:
        self.events.append(event)
        if self._file is not None:
            self._file.add(event)
