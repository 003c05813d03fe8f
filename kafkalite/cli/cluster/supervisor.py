"""Watches the processes of `kafkalite cluster up`: reports those that ended, and restarts brokers where the user wants it.

ZooKeeper servers are only reported: who kills one wants to see the others go on without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.local.cluster import LocalCluster

_LOG_TAIL_LINES = 15


class Supervisor:
    """Checks the processes at each `check_processes`. A broker that ended is started again `restart_after_s` later; never, if that is
    None.
    """

    def __init__(self, cluster: LocalCluster, restart_after_s: float | None) -> None:
        self._cluster = cluster
        self._restart_after_s = restart_after_s
        self._died_s: dict[int, float] = {}
        self._servers_told: set[int] = set()

    def check_processes(self, now_s: float) -> Iterator[str]:
        """Report ended processes, restart brokers that are due, and yield a line for each event."""
        for broker in self._cluster.brokers.values():
            if broker.running:
                self._died_s.pop(broker.id, None)
            elif broker.id not in self._died_s:
                self._died_s[broker.id] = now_s
                yield f"broker {broker.id} ended with status {broker.exit_status}; its last lines:"
                yield from (f"    {line}" for line in broker.log_tail(_LOG_TAIL_LINES).splitlines())
            elif self._restart_after_s is not None and now_s >= self._died_s[broker.id] + self._restart_after_s:
                broker.start()
                yield f"broker {broker.id} is started again"
        for server in self._cluster.ensemble.members if self._cluster.ensemble is not None else ():
            if server.running:
                self._servers_told.discard(server.number)
            elif server.number not in self._servers_told:
                self._servers_told.add(server.number)
                status = None if server.process is None else server.process.returncode
                yield f"ZooKeeper server {server.number} ended with status {status}"
