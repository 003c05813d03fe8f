"""`kafkalite mirror` as a process, from one cluster to another of Apache Kafka 4."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.peers.kraft import KraftCluster

TIMEOUT_S = 90
MIRROR = 900


class Program:
    """`kafkalite mirror run`, killed and started again as a test likes."""

    def __init__(self, directory: Path, source: str, target: KraftCluster, port: int) -> None:
        self.directory = directory
        where = ["--to", target.bootstrap_servers, "--controllers", target.controllers, "--broker-id", str(MIRROR)]
        self._options = [*where, "--listen", f"127.0.0.1:{port}", "-b", source, "--interval", "0.5"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "kafkalite", "mirror", "run", str(self.directory), *self._options]
        with self.directory.with_suffix(".log").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait_ended(self) -> int:
        assert self._process is not None
        return self._process.wait(TIMEOUT_S)

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kafkalite", "mirror", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)

    def is_level(self, ends: dict[tuple[str, int], int]) -> bool:
        """True if the mirror says that every follower has all up to these ends, and nothing is in the way of a switch."""
        status = json.loads((self.directory / "status.json").read_text()) if self._has_status() else {}
        copied = {(each["topic"], each["partition"]): each["copied_to"] for each in status.get("partitions", ())}
        return copied == ends and not status["obstacles"]

    def _has_status(self) -> bool:
        return (self.directory / "status.json").exists()
