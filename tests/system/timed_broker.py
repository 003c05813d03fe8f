"""`python timed_broker.py FILE ARGUMENT...`: a broker that knows how long its event loop works at a time.

That is the processor time of the loop's thread between two rounds of a timer of a millisecond: a turn of the loop at least. What
others on the machine do is not in it. SIGUSR2 writes the most that was seen into FILE, in milliseconds, and begins again.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

from kafkalite.broker import process
from kafkalite.cli.main import main

_ROUND_S = 0.001


class _Turns:
    def __init__(self, path: Path) -> None:
        self._path, self._loop = path, asyncio.get_running_loop()
        self._longest_s, self._last_s = 0.0, time.thread_time()
        self._loop.add_signal_handler(signal.SIGUSR2, self._write)
        self._round()

    def _round(self) -> None:
        now_s = time.thread_time()
        self._longest_s, self._last_s = max(self._longest_s, now_s - self._last_s), now_s
        self._loop.call_later(_ROUND_S, self._round)

    def _write(self) -> None:
        written = self._path.with_suffix(".new")
        written.write_text(f"{self._longest_s * 1000:.3f}")
        written.rename(self._path)
        self._longest_s, self._last_s = 0.0, time.thread_time()


def _measured(path: Path) -> None:
    serve = process._serve

    async def measured(*arguments: Any) -> int:
        _Turns(path)
        return await serve(*arguments)

    process._serve = measured


if __name__ == "__main__":
    _measured(Path(sys.argv.pop(1)))
    sys.argv.insert(1, "broker")
    main()
