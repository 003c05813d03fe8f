"""`python watched_broker.py --config FILE`: a broker whose packets, standstills, and neighbours' silences can be told.

It runs with the group `network.group_of(its id)`. Beside FILE it writes, when they are longer than `NOTED_MS`,

- `.silences`: each silence of a neighbour that then was heard of, as its failure detector counts it: the time, the neighbour, its broker
  epoch, and milliseconds;
- `.standstills`: each time in which its event loop stood still: the time, milliseconds, and how many of them its thread worked and how
  many it waited for a processor; in the rest it was stopped, or waited for the system.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Final

from kafkalite.broker import process
from kafkalite.broker.failure_detection.detector import FailureDetector
from kafkalite.cli.main import main
from tests.system.network import group_of
from zk.servers.ensemble import end_with_parent

NOTED_MS: Final = 400.0
_ROUND_S: Final = 0.05


def _note_silences(path: Path) -> None:
    heard = FailureDetector.note_sign_of_life

    def note(self: Any, broker: int, broker_epoch: int, incarnation: bytes, now_ms: float, *, answered: bool) -> Any:
        known = self._neighbours.get(broker)
        if known is not None and known.broker_epoch == broker_epoch and now_ms - known.last_sign_ms > NOTED_MS:
            with path.open("a") as file:
                file.write(f"{time.time():.3f} {broker} {broker_epoch} {now_ms - known.last_sign_ms:.0f}\n")
        return heard(self, broker, broker_epoch, incarnation, now_ms, answered=answered)

    FailureDetector.note_sign_of_life = note  # type: ignore[method-assign]


class _Standstills:
    def __init__(self, path: Path) -> None:
        self._path, self._loop = path, asyncio.get_running_loop()
        self._last = self._read()
        self._round()

    def _read(self) -> tuple[float, float, float]:
        ran_ns, waited_ns, _ = Path("/proc/thread-self/schedstat").read_text().split()
        return time.monotonic() * 1000, int(ran_ns) / 1e6, int(waited_ns) / 1e6

    def _round(self) -> None:
        now = self._read()
        took_ms, ran_ms, waited_ms = (after - before for after, before in zip(now, self._last, strict=True))
        if took_ms > NOTED_MS:
            with self._path.open("a") as file:
                file.write(f"{time.time():.3f} {took_ms:.0f} {ran_ms:.0f} {waited_ms:.0f}\n")
        self._last = now
        self._loop.call_later(_ROUND_S, self._round)


def _note_standstills(path: Path) -> None:
    serve = process._serve

    async def watched(*arguments: Any) -> int:
        _Standstills(path)
        return await serve(*arguments)

    process._serve = watched


if __name__ == "__main__":
    config = Path(sys.argv[sys.argv.index("--config") + 1])
    named = re.fullmatch(r"broker-(\d+)\.properties", config.name)
    assert named is not None, config
    os.setgid(group_of(int(named[1])))
    if (set_signal := end_with_parent()) is not None:
        set_signal()  # the change of the group has undone it
    _note_silences(config.with_suffix(".silences"))
    _note_standstills(config.with_suffix(".standstills"))
    sys.argv.insert(1, "broker")
    main()
