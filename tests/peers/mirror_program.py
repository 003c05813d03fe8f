"""`kafkalite mirror` as a process, from one cluster to another of Apache Kafka 4."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafkalite.local.cluster import LocalCluster
from tests.peers.kraft import KraftCluster

TIMEOUT_S = 90
MIRROR = 900


class Program:
    """`kafkalite mirror run`, killed and started again as a test likes."""

    def __init__(self, directory: Path, source: str, target: KraftCluster, port: int, *more: str) -> None:
        self.directory = directory
        where = ["--to", target.bootstrap_servers, "--controllers", target.controllers, "--broker-id", str(MIRROR)]
        self._options = [*where, "--listen", f"127.0.0.1:{port}", "-b", source, "--interval", "0.5", *more]
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
        status = self.read_status()
        copied = {(each["topic"], each["partition"]): each["copied_to"] for each in status.get("partitions", ())}
        return copied == ends and not status["obstacles"]

    def read_status(self) -> dict[str, Any]:
        """Return what the mirror told last, nothing before it has."""
        path = self.directory / "status.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found


def switch_with_evidence(program: Program, evidence: Path, source: str, target: str) -> None:
    """Switch to the target, and have `migrate verify` prove by evidence of both sides that nothing was lost or changed."""
    run_kafkalite("migrate", "evidence", "before", str(evidence), "-b", source)
    switched = program.call("switch", str(program.directory), "--yes", "--wait", str(TIMEOUT_S - 10))
    assert switched.returncode == 0, switched.stderr + program.directory.with_suffix(".log").read_text()
    assert program.wait_ended() == 0
    run_kafkalite("migrate", "evidence", "after", str(evidence), "-b", target)
    told = run_kafkalite("migrate", "verify", "--copy", "--without-probe", str(evidence))
    assert "problem" not in told and "warning" not in told


def run_kafkalite(*words: str) -> str:
    """Return what a command says that has to succeed."""
    command = [sys.executable, "-m", "kafkalite", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read_segments(directory: Path, partition: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((directory / partition).glob("*.log")))


def check_segments(source: LocalCluster, target: KraftCluster, partitions: Iterable[str], brokers: int = 2) -> None:
    """Each byte, but for log starts: where a partition began when it was copied, the target has nothing before."""
    for name in partitions:
        original = read_segments(source.directory / "broker-1", name)
        copies = [read_segments(target.log_dir(node), name) for node in range(1, brokers + 1)]
        found = [each for each in copies if each]
        assert len(found) == 1, f"{name} has as many replicas as in the source"
        assert original.endswith(found[0]), name
