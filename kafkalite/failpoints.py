"""Named points in the code that fail on purpose, for tests; see `FAILPOINTS`. A point that is not armed costs one look at an empty dict.

    KAFKALITE_FAILPOINTS="controller.written=exit@3" kafkalite broker --config broker.properties

Points are armed by that variable at start, or while the broker runs (`broker.faults`). Either needs the setting
kafkalite.fault.injection.enable: without it a broker that finds the variable does not start. The simulation arms points with functions of
its own. No point lies on the path of each record or fetch.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

VARIABLE: Final = "KAFKALITE_FAILPOINTS"

FAILPOINTS: Final[Mapping[str, str]] = {
    "checkpoint.replacing": "before a checkpoint file is replaced; in periodic checkpoints `stall` blocks only the thread that writes",
    "cleaner.swapping": "before compacted segments take the place of the old ones",
    "cleaner.half_swapped": "when the old ones are marked as deleted, and the new ones have no names of segments yet",
    "controller.writing": "before the controller sends writes to ZooKeeper",
    "controller.written": "when ZooKeeper has carried them out, before any broker is notified",
    "coordinator.appending": "before a coordinator appends what it decided",
    "coordinator.appended": "when that is in its log, before it is committed",
    "coordinator.committed": "when that is committed, before the state changes and anybody is answered",
    "isr.changing": "before a leader asks for another ISR",
    "log.rolling": "before the file of a new segment is made",
    "log.truncating": "before a replica's log is cut",
    "loop.turn": "now, on the event loop: reached when it is armed while the broker runs",
}
"""The failpoints with their descriptions. The same table is in deploy/docs/pages/decisions/simulation.md."""

KILLED_STATUS: Final = 137
"""Exit status of a broker that a failpoint ended: a shell's for SIGKILL."""

Action: TypeAlias = Callable[[], None]

_armed: dict[str, Action] = {}
_ACTION: Final = re.compile(r"(exit|fail|stall\((\d+(?:\.\d+)?)\))(?:@(\d+))?")


def reach(name: str) -> None:
    """Act on the failpoint `name` when it is armed: end the process, raise OSError or block."""
    if _armed and (action := _armed.get(name)) is not None:
        action()


def arm(name: str, action: Action | str) -> None:
    """Let something happen at a point: a function, or in words one of

        exit          the process ends at once, as if killed
        fail          an OSError with EIO, once
        stall(2.5)    the thread that reaches the point does nothing for so many seconds, once

    `exit@3` is for the third time that the point is reached. Raises ValueError for an unknown point or action.
    """
    if name not in FAILPOINTS:
        raise ValueError(f"there is no failpoint {name!r}; there are {', '.join(FAILPOINTS)}")
    _armed[name] = _parse_action(name, action) if isinstance(action, str) else action


def disarm(name: str | None = None) -> None:
    """Disarm this failpoint, or all."""
    if name is None:
        _armed.clear()
    else:
        _armed.pop(name, None)


def arm_all(text: str) -> None:
    """Arm the failpoints of `KAFKALITE_FAILPOINTS`: `name=action`, separated by semicolons. Raises ValueError."""
    for each in filter(None, (part.strip() for part in text.split(";"))):
        name, _, action = each.partition("=")
        arm(name.strip(), action.strip())


def _parse_action(name: str, text: str) -> Action:
    match = _ACTION.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no action of a failpoint; say exit, fail or stall(SECONDS), and @N for the N-th time"
        )
    left = int(match[3] or 1)

    def act() -> None:
        nonlocal left
        left -= 1
        if left > 0:
            return
        disarm(name)
        if match[1] == "exit":
            os._exit(KILLED_STATUS)
        if match[1] == "fail":
            raise OSError(errno.EIO, f"failpoint {name}")
        time.sleep(float(match[2]))

    return act
