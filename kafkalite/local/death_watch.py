"""Notices within a millisecond that a broker process has ended, and has its ZooKeeper session ended.

One waiting thread for each process, because the owner of a cluster may be busy with anything else. The processes are not reaped here:
whoever asks for their status gets it.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

DETECTION: Final = "kafkalite.failover.detection"
DEFAULT_DETECTION: Final = "evidence"
"""That of the broker's settings, which are not loaded for each cluster."""

_POLL_S: Final = 0.02
_ENDING_S: Final = 10.0
"""More than it takes to end a session, or to give that up."""


class Process(Protocol):
    """The part of `subprocess.Popen` that is needed to notice the end of a process."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...


class DeathWatch:
    """Watches the processes of some brokers; `tell` hears, in another thread, what became of a dead one's session."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._threads: dict[int, threading.Thread] = {}
        self._closed = False

    def begin(self, broker_id: int, process: Process, properties: Mapping[str, str]) -> None:
        """Watch a process that was started with these properties, unless they leave its death to ZooKeeper."""
        if properties.get(DETECTION, DEFAULT_DETECTION) == "session":
            return
        # Imported now, and not when the time counts; not in the thread, whose parser may meet that of pytest's assertions (gh-106905).
        import kafkalite.config.broker
        import kafkalite.local.dead_broker  # noqa: F401

        arguments = (process, dict(properties))
        thread = threading.Thread(target=self._watch, args=arguments, name=f"watch broker {broker_id}", daemon=True)
        self._threads[broker_id] = thread
        thread.start()

    def finish(self, broker_id: int) -> None:
        """Wait until all is done about the process of a broker, which has ended."""
        thread = self._threads.pop(broker_id, None)
        if thread is not None:
            thread.join(_ENDING_S)

    def close(self) -> None:
        """End no session from now on: the brokers are stopped by their owner, and then ZooKeeper."""
        self._closed = True

    def finish_all(self) -> None:
        """Wait until all is done; every process has ended."""
        for broker_id in list(self._threads):
            self.finish(broker_id)

    def _watch(self, process: Process, properties: Mapping[str, str]) -> None:
        from kafkalite.config.broker import BrokerConfig, ConfigError
        from kafkalite.local.dead_broker import end_session_of_dead_broker

        wait_for_end(process)
        if self._closed:
            return
        try:
            told = end_session_of_dead_broker(BrokerConfig.from_properties(properties))
        except ConfigError:  # which the broker has told
            return
        if told is not None:
            self._tell(told)


def wait_for_end(process: Process) -> None:
    """Block until a child process has ended, without reaping it where the system allows it (Linux)."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        while process.poll() is None:
            time.sleep(_POLL_S)
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll()
    finally:
        os.close(descriptor)
