"""The demo's cluster: `kafkalite cluster up` as a process of its own, so that `--keep` can leave it running."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafkalite.cli.output import Exit, fail
from zk.servers.ensemble import end_with_parent

_START_TIMEOUT_S = 90.0
_SESSION_TIMEOUT_MS = 3000
_RESTART_AFTER_S = 4.0
"""Longer than a session, so that a new leader is elected before the killed broker is back."""


class ClusterProcess:
    """A cluster of three ZooKeeper servers and three brokers, which starts a killed broker again."""

    def __init__(self, folder: Path, may_be_left: bool) -> None:
        self._folder = folder
        self._may_be_left = may_be_left
        self._log_path = folder / "cluster.log"
        self._process: subprocess.Popen[str] | None = None
        self.is_left = False

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def launch(self) -> None:
        """Start the process; `wait_ready` waits for the cluster."""
        command = [sys.executable, "-m", "kafkalite", "cluster", "up", "--brokers", "3", "--zookeepers", "3"]
        command += ["--first-broker-id", "101", "--data-dir", str(self._folder), "-o", "json"]
        command += ["--restart-after", str(_RESTART_AFTER_S)]
        command += ["-X", f"zookeeper.session.timeout.ms={_SESSION_TIMEOUT_MS}"]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # an interrupt is for the demo, which then stops the cluster
                preexec_fn=None if self._may_be_left else end_with_parent(signal.SIGTERM),
            )

    def wait_ready(self) -> dict[str, Any]:
        """Return the line that `cluster up -o json` prints when it is ready. End the demo when the cluster does not start."""
        process = self._process
        if process is None or process.stdout is None:
            fail("the cluster was not launched")
        with _time_limit(_START_TIMEOUT_S):
            line = process.stdout.readline()
        if not line:
            process.wait()
            fail(f"the cluster did not start:\n{self._log_path.read_text(errors='replace')}")
        facts: dict[str, Any] = json.loads(line)
        return facts

    def leave(self) -> None:
        """Let the cluster run on after the demo."""
        self.is_left = True

    def stop(self) -> int:
        """Stop the cluster unless it is left, and return its exit status. The process itself kills servers that do not stop."""
        process = self._process
        if process is None or self.is_left:
            return 0
        process.terminate()
        return process.wait()


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """End the demo when the block takes longer."""

    def end_demo(*_: object) -> None:
        fail(f"the cluster is not ready after {seconds:g} s", Exit.UNREACHABLE)

    before = signal.signal(signal.SIGALRM, end_demo)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
