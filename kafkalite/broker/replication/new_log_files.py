"""The making of those files of new logs that first records do not need, after a creation.

A file costs a file system some 20 to 100 µs, and a log has four such files. A controller that creates many topics sends one request after
the other, so the files wait until none is on its way; then they are made at a pace that leaves most of the event loop to clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from kafkalite.storage.directories.upkeep_pause import UpkeepPause

_ROLES_FIRST_S: Final = 0.01
"""Delay while roles change: producers wait for the roles."""
_LOGS_AT_ONCE: Final = 50
"""As many as a topic of usual size has partitions (offsets.topic.num.partitions)."""
_PAUSE_S: Final = 0.03
"""After so many logs, which take some 5 ms."""


class NewLogs(Protocol):
    """The part of `LogStore` that is needed here."""

    @property
    def upkeep_pause(self) -> UpkeepPause: ...

    def make_files(self) -> bool:
        """Make the files of one log; False if there was none without them."""
        ...


class NewLogFiles:
    """Makes the files of one log in each iteration of the event loop, and none while `changes_roles` or while upkeep is held back."""

    def __init__(self, logs: NewLogs, changes_roles: Callable[[], bool]) -> None:
        self._logs = logs
        self._changes_roles = changes_roles
        self._runs = False
        self._made = 0

    def start(self) -> None:
        """Begin, unless it runs already. It ends by itself."""
        if not self._runs:
            self._runs = True
            self._step()

    def _step(self) -> None:
        delay_s = _ROLES_FIRST_S if self._changes_roles() else self._logs.upkeep_pause.left_s()
        if delay_s == 0:
            self._runs = self._logs.make_files()
            self._made += 1
            delay_s = 0 if self._made % _LOGS_AT_ONCE else _PAUSE_S
        if self._runs:
            asyncio.get_running_loop().call_later(delay_s, self._step)
