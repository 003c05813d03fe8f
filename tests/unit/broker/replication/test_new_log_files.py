"""The files of new logs that first records do not need: made one by one, at a pace, and none while roles change."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kafkalite.broker.replication.new_log_files import NewLogFiles
from kafkalite.storage.directories.upkeep_pause import UpkeepPause
from kafkalite.testing.simulation import virtual_time
from tests.unit.clocks import LoopClock


class Logs:
    """Logs without files, and when files were made for each."""

    def __init__(self, without_files: int) -> None:
        self.without_files = without_files
        self.upkeep_pause = UpkeepPause(LoopClock())
        self.changes_roles = False
        self.made_at_s: list[float] = []
        self.files = NewLogFiles(self, lambda: self.changes_roles)

    def make_files(self) -> bool:
        if not self.without_files:
            return False
        self.without_files -= 1
        self.made_at_s.append(asyncio.get_running_loop().time())
        return True


def play(scenario: Coroutine[Any, Any, None]) -> None:
    virtual_time.run(scenario)


def test_a_few_logs_are_complete_at_once_and_many_leave_time_to_clients() -> None:
    async def scenario() -> None:
        logs = Logs(1000)
        began_s = asyncio.get_running_loop().time()
        logs.files.start()
        assert len(logs.made_at_s) == 1, "one in each iteration of the event loop"
        await asyncio.sleep(10)
        after_s = [each - began_s for each in logs.made_at_s]
        assert len(after_s) == 1000
        assert after_s[48] < 0.01 < after_s[50]
        assert after_s[-1] == pytest.approx(0.57, abs=0.02), "19 pauses"

    play(scenario())


def test_no_files_are_made_while_roles_change_or_the_next_request_is_awaited() -> None:
    async def scenario() -> None:
        logs = Logs(3)
        logs.changes_roles = True
        logs.upkeep_pause.hold(0, new_logs=1000)
        logs.files.start()
        await asyncio.sleep(0.5)
        logs.changes_roles = False
        await asyncio.sleep(0.4)
        assert not logs.made_at_s
        await asyncio.sleep(0.2)
        assert len(logs.made_at_s) == 3

    play(scenario())


def test_it_begins_again_for_later_logs_and_runs_once_only() -> None:
    async def scenario() -> None:
        logs = Logs(1)
        logs.files.start()
        await asyncio.sleep(0.1)
        assert not logs.without_files
        logs.without_files = 2
        logs.files.start()
        logs.files.start()
        assert len(logs.made_at_s) == 2, "the second call finds it running"
        await asyncio.sleep(0.1)
        assert not logs.without_files

    play(scenario())
