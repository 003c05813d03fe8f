"""Lone ZooKeeper servers of the tests' clusters, as threads of one Java machine: most of what one costs is its start.

    use_warm_zookeepers()    from now on the lone servers that this process starts run so, on Linux.

Each is a whole server with a folder, a port, settings and a log of its own, started and stopped as otherwise. What cannot be done to a
thread is refused: it is not paused, and has no id that a signal finds. Ensembles of several servers, secured ones and those that skip
fsync on request (tests/contract) are processes, and so are the servers of whoever runs the command, the plugin or the image.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final

from tests.java_classes import compiled
from zk.servers import ensemble
from zk.servers.server_classes import find_server_classes
from zk.servers.server_command import MAIN_CLASS, java_environment, server_command

SOURCE: Final = Path(__file__).with_name("ZooKeeperHost.java")
_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
FORCED_SYNC: Final = "-Dzookeeper.forceSync=yes"
_ENDED: Final = re.compile(r"(\d+) (\d+)\n")
_ENDS: Final = (signal.SIGTERM, signal.SIGKILL)


class WarmServer:
    """What `subprocess.Popen` is for a process; a signal that would end one stops the server."""

    def __init__(self, host: _Host, number: int) -> None:
        self.returncode: int | None = None
        self._host = host
        self._number = number
        self._ended = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("ZooKeeper", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        assert number in _ENDS, f"a server that is a thread cannot be sent {signal.Signals(number).name}"
        if self.returncode is None:
            self._host.say(f"stop\t{self._number}")

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def ended(self, status: int) -> None:
        self.returncode = status
        self._ended.set()


class _Host:
    """The Java machine, which ends with this process, and the only one that asks it."""

    def __init__(self, jars: Sequence[Path], classes: Path) -> None:
        folder = Path(tempfile.mkdtemp(prefix="kafkalite-zookeepers-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        command = server_command(folder / "none", folder, _JVM_OPTIONS, classpath=jars)[:-2]
        command[-1] += f"{os.pathsep}{classes}"
        self._process = subprocess.Popen(
            [*command, SOURCE.stem],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=java_environment(),
            start_new_session=True,
        )
        self._servers: dict[int, WarmServer] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def start(self, settings: Path, log: Path) -> WarmServer:
        with self._lock:
            number = len(self._servers) + 1
            server = self._servers[number] = WarmServer(self, number)
        self.say(f"start\t{number}\t{settings}\t{log}")
        return server

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        with self._lock:
            try:
                self._process.stdin.write(f"{line}\n")
                self._process.stdin.flush()
            except BrokenPipeError:  # it has ended, and with it all servers
                pass

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (ended := _ENDED.fullmatch(line)) is not None:  # else Java's own word, such as on the archive of classes
                self._servers[int(ended[1])].ended(int(ended[2]))
        status = self._process.wait()
        for server in self._servers.values():
            if server.poll() is None:
                server.ended(status or 1)


def _host() -> _Host | None:
    """None where there is no Java compiler; another one when one has ended, which takes its servers along and nobody else's."""
    host = _only_host()
    if host is not None and host.has_ended:
        _only_host.cache_clear()
        host = _only_host()
    return host


@cache
def _only_host() -> _Host | None:
    jars = find_server_classes()
    classes = compiled(SOURCE, jars)
    return None if classes is None else _Host(jars, classes)


def use_warm_zookeepers() -> None:
    """The machine starts with the first server, and ends with this process."""
    if sys.platform != "linux":
        return
    cold = ensemble.start_process

    def start(command: Sequence[str], folder: Path, output: BinaryIO, *, outlive_parent: bool) -> Any:
        if outlive_parent or not _is_plain(command) or (host := _host()) is None:
            return cold(command, folder, output, outlive_parent=outlive_parent)
        return host.start(Path(command[-1]), Path(output.name))

    ensemble.start_process = start


def _is_plain(command: Sequence[str]) -> bool:
    """Does it run a lone server with the classes and the settings that the machine has?"""
    options, text = command[: command.index(MAIN_CLASS)], Path(command[-1]).read_text()
    alike = {*ensemble.JVM_OPTIONS, FORCED_SYNC} <= set(options) and not any(
        "java.security" in each for each in options
    )
    usual = os.pathsep.join(map(str, find_server_classes()))
    return alike and options[-1] == usual and "\nserver." not in text and "secure" not in text
