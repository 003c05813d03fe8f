"""How much the event loop does between two of its turns, counted in calls of functions and not in seconds: the same on a busy machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Turns:
    """What was measured; `longest` are the calls of the longest turn. A call and its return count one each."""

    count: int = 0
    calls: int = 0
    longest: int = 0


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """Within a scenario: measure the turns of the running loop."""
    loop: Any = asyncio.get_running_loop()
    turns = Turns()
    run_once = loop._run_once
    since = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        turns.calls += 1

    def end_turn() -> None:
        nonlocal since
        turns.longest = max(turns.longest, turns.calls - since)
        since = turns.calls

    def measured() -> None:
        turns.count += 1
        end_turn()
        run_once()
        end_turn()

    loop._run_once = measured
    sys.setprofile(count)
    try:
        yield turns
    finally:
        sys.setprofile(None)
        end_turn()
        del loop._run_once


@contextmanager
def not_measured() -> Iterator[None]:
    """Leave out of `measured_turns` what another process would do."""
    profile = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(profile)
