"""What broker processes hold, for rule C16: it is counted before a workload, and after it, when it has come back or the time is over.

Counted are connections, and all other files but those of logs: these are opened by reading and writing, and their number has a bound of
its own. A file of a log that was deleted counts. Tasks are counted where a broker has metrics.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from kafkalite.local.broker_process import BrokerDied, BrokerProcess, wait_until
from kafkalite.testing.history.events import ResourceSeen
from kafkalite.testing.history.recorder import Recorder

SLACK: Final = {"connections": 100, "files": 30, "tasks": 300}
"""More than before is no leak: other clients may be there, and a connection whose client vanished behind a cut link stays until it is idle
for too long (`connections.max.idle.ms`). A connection has up to three tasks."""
_METRICS_S: Final = 5.0
_TASKS: Final = "kafkalite_tasks "
_SOCKET: Final = "socket:"
_DELETED: Final = " (deleted)"


class ResourceWatch:
    """Records the resources of the brokers that are processes here; those in containers are left out."""

    def __init__(self, recorder: Recorder, brokers: Iterable[Any]) -> None:
        self._recorder = recorder
        self._brokers = [broker for broker in brokers if isinstance(broker, BrokerProcess)]
        self._baseline: dict[int, dict[str, int]] = {}

    def record_baseline(self) -> None:
        """Record the present counts as the baseline."""
        for broker in self._brokers:
            self._baseline[broker.id] = resources_of(broker)
            self._note(broker, self._baseline[broker.id], is_baseline=True)

    def record_leftovers(self, timeout_s: float) -> None:
        """Record what is left, as soon as it is no more than the baseline and the slack."""
        with suppress(TimeoutError):
            wait_until(lambda: all(map(self._is_back, self._brokers)), "resources that were given back", timeout_s)
        for broker in self._brokers:
            self._note(broker, resources_of(broker), is_baseline=False)

    def _is_back(self, broker: BrokerProcess) -> bool:
        before = self._baseline.get(broker.id, {})
        return all(
            count <= before[what] + SLACK[what] for what, count in resources_of(broker).items() if what in before
        )

    def _note(self, broker: BrokerProcess, resources: dict[str, int], *, is_baseline: bool) -> None:
        for what, count in resources.items():
            now_ns = self._recorder.now_ns()
            self._recorder.add(ResourceSeen(now_ns, f"broker {broker.id}", what, is_baseline, count, SLACK[what]))


def resources_of(broker: BrokerProcess) -> dict[str, int]:
    """Return counts by the resource's name; none for a broker that does not run."""
    try:
        folder = f"/proc/{broker.pid}/fd"
        names = os.listdir(folder)
    except (BrokerDied, FileNotFoundError):
        return {}
    logs = tuple(f"{path.rstrip('/')}/" for path in broker.properties["log.dirs"].split(","))
    found = {"connections": 0, "files": 0}
    for name in names:
        with suppress(FileNotFoundError):  # closed since
            target = os.readlink(f"{folder}/{name}")
            if target.startswith(_SOCKET):
                found["connections"] += 1
            elif not target.startswith(logs) or target.endswith(_DELETED):
                found["files"] += 1
    tasks = _count_tasks(broker)
    return found if tasks is None else found | {"tasks": tasks}


def _count_tasks(broker: BrokerProcess) -> int | None:
    """Return the number of tasks; None without metrics, or from a broker that does not answer now."""
    if broker.http_url is None:
        return None
    try:
        with urllib.request.urlopen(f"{broker.http_url}metrics", timeout=_METRICS_S) as answer:
            lines = answer.read().decode().splitlines()
    except (OSError, urllib.error.URLError):
        return None
    return next((int(float(line.split()[-1])) for line in lines if line.startswith(_TASKS)), None)
