"""One broker as a process of its own: started from a properties file, watched through its log, stopped by signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol

from kafkalite import NAME
from kafkalite.local.ports import ReservedPort
from zk.servers.ensemble import HOST, end_with_parent
from zk.servers.java_properties import escaped_value, properties_text

if TYPE_CHECKING:
    import ssl

    from kafkalite.local.death_watch import DeathWatch

BROKER_COMMAND: Final = (sys.executable, "-m", NAME, "broker", "--config")
"""Command of a broker, to which the path of its properties file is appended."""

POLL_S: Final = 0.02
_LONGEST_POLL_S: Final = 0.25
_PAUSE_PER_LOOK: Final = 3
STUCK_AFTER_S: Final = 40.0
"""Limit for a stop without progress: longer than a broker waits for followers that do not catch up."""

_FREEZE_TIMEOUT_S: Final = 20.0
_LOOK_S: Final = 0.2
_NOTHING_MORE: Final[Mapping[str, str]] = {}


class BrokerDied(Exception):
    """Raised when a broker process ended that should run. The message ends with its last log lines."""


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Return as soon as `condition()` holds. Raises TimeoutError that says what was waited for.

    What takes long to find out is asked for less often, so that waiting leaves the processor to what is waited for.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        asked_s = time.monotonic()
        if condition():
            return
        now_s = time.monotonic()
        if now_s > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(min(max(POLL_S, _PAUSE_PER_LOOK * (now_s - asked_s)), _LONGEST_POLL_S))


class Child(Protocol):
    """The part of `subprocess.Popen` that brokers need."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


def start_process(
    command: Sequence[str], output: BinaryIO, environment: Mapping[str, str] = _NOTHING_MORE
) -> subprocess.Popen[bytes]:
    """Start a child process, with these additional variables, that ends with the thread that starts it.

    Interrupts of the parent do not reach it: the parent then stops its brokers.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=os.environ | environment,
        start_new_session=True,
        preexec_fn=end_with_parent(),
    )


class Inside(NamedTuple):
    """The listener and the certificate with which a secured broker is asked for its state."""

    host: str
    port: int
    tls: ssl.SSLContext


def check_directory(path: Path) -> None:
    """Raise ValueError for a directory that log.dirs cannot name."""
    if "," in str(path):
        raise ValueError(
            f"a broker cannot keep its data in {path}: log.dirs separates directories by commas; choose a path without one"
        )
    escaped_value(str(path), "log.dirs")


class BrokerProcess:
    """A broker that keeps its id, port and log directory over restarts.

    `directory` receives `broker-<id>.properties`, `broker-<id>.log` (all output) and the log directory `broker-<id>`.
    Without `port` one is reserved; metrics and the status page are at `http_port`, without one there are none. The broker is killed when
    the thread that started it ends, so that no orphan keeps a port. ValueError for a directory that log.dirs cannot name.
    """

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        properties: Mapping[str, str],
        command: Sequence[str] = BROKER_COMMAND,
        port: int | None = None,
        http_port: int | None = None,
    ) -> None:
        self.id = broker_id
        self._reserved = ReservedPort() if port is None else None
        self.host: Final = HOST
        self.port: Final = port or (self._reserved.number if self._reserved else 0)
        self.command = command
        """Runs it from its next start on."""
        self.start_process: Callable[[Sequence[str], BinaryIO, Mapping[str, str]], Child] = start_process
        """Makes the process."""
        self.environment: dict[str, str] = {}
        """Variables that the process has besides ours, from its next start on."""
        directory = directory.absolute()
        self.log_path = directory / f"broker-{broker_id}.log"
        self.properties_path = directory / f"broker-{broker_id}.properties"
        self.properties = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "log.dirs": str(directory / f"broker-{broker_id}"),
        } | dict(properties)
        if "log.dirs" not in properties:
            check_directory(directory)
        self.inside: Inside | None = None
        """Where it is asked how it is, when it lets nobody in at its own port without credentials."""
        self.http_port: Final = http_port
        if http_port is not None:
            self.properties["kafkalite.http.listener"] = f"{self.host}:{http_port}"
        self.death_watch: DeathWatch | None = None
        """Watches each of its processes, from its next start on."""
        self._process: Child | None = None
        self._log_start = 0

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def http_url(self) -> str | None:
        """Return the address of the status page; None without one."""
        if self.http_port is None:
            return None
        scheme = "https" if self.properties.get("kafkalite.http.ssl.enable") == "true" else "http"
        return f"{scheme}://{self.host}:{self.http_port}/"

    @property
    def log_dir(self) -> Path:
        return Path(self.properties["log.dirs"].split(",")[0])

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the process id of a running broker. Raises BrokerDied when there is none."""
        if self._process is None or self._process.poll() is not None:
            raise BrokerDied(f"broker {self.id} does not run")
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Return the status of a broker that has ended, negative for the signal that killed it; None otherwise."""
        return None if self._process is None else self._process.poll()

    def check_running(self) -> None:
        """Raise BrokerDied, with its last log lines, unless the broker runs."""
        if not self.running:
            raise BrokerDied(f"broker {self.id} ended with status {self.exit_status}:\n{self.log_tail()}")

    def start(self) -> None:
        """Start the process; `wait_started` tells when it serves. Does nothing while it runs."""
        if self.running:
            return
        if self.death_watch is not None:
            self.death_watch.finish(self.id)
        self.properties_path.touch(0o600)  # passwords are among them, sometimes
        self.properties_path.write_text(properties_text(self.properties))
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = self.start_process([*self.command, str(self.properties_path)], log, self.environment)
        if self.death_watch is not None:
            self.death_watch.begin(self.id, self._process, self.properties)

    def has_started(self) -> bool:
        """True if the broker has logged that it serves. Raises BrokerDied, with its last log lines, when it has ended."""
        ended = not self.running  # before the log is read, so that its last words are seen
        if f"[KafkaServer id={self.id}] started".encode() in self._output():
            return True
        if ended:
            raise BrokerDied(
                f"broker {self.id} ended with status {self.exit_status} before it had started:\n{self.log_tail()}"
            )
        return False

    def wait_started(self, timeout_s: float = 60) -> None:
        """Wait until the broker serves. Raises BrokerDied or TimeoutError, with its last log lines."""
        try:
            wait_until(self.has_started, f"start of broker {self.id}", timeout_s)
        except TimeoutError as problem:
            raise TimeoutError(f"{problem}\n{self.log_tail()}") from None

    def stop(self, stuck_after_s: float = STUCK_AFTER_S, tell: Callable[[str], None] = lambda line: None) -> int:
        """Stop the broker cleanly (SIGTERM), so that it first hands over its leaderships, and return its exit status.

        A stopping broker logs its remaining work, which is passed to `tell`, and it is waited for as long as that changes. Raises
        TimeoutError when it has not changed for `stuck_after_s`.
        """
        process = self._process
        if process is None:
            return 0
        printed = self.log_path.stat().st_size
        self.ask_to_stop()
        left, changed_s = "", time.monotonic()
        while True:
            try:
                return process.wait(_LOOK_S)
            except subprocess.TimeoutExpired:
                pass
            now_left = self._left_to_stop(printed)
            if now_left != left:
                left, changed_s = now_left, time.monotonic()
                tell(f"broker {self.id}: {left}")
            elif time.monotonic() - changed_s > stuck_after_s:
                what = f"its stop made no progress for {stuck_after_s:g} s" + (f" ({left})" if left else "")
                raise TimeoutError(f"broker {self.id}: {what}\n{self.log_tail()}")

    def ask_to_stop(self) -> None:
        """Send SIGTERM without waiting; a paused broker is resumed so that it can obey."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the broker (SIGKILL); returns when the process has ended."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(30)

    def pause(self) -> None:
        """Freeze the process (SIGSTOP), as a long garbage collection or a suspended machine would; returns when it is frozen.

        A thread in a system call, such as one that waits for a disk, works until that ends. Raises TimeoutError.
        """
        self._signal(signal.SIGSTOP)
        wait_until(self._is_frozen, f"every thread of broker {self.id} is stopped", _FREEZE_TIMEOUT_S)

    def _is_frozen(self) -> bool:
        """True if no thread runs, by what Linux shows of them; elsewhere the signal is trusted."""
        if self._process is None or self._process.poll() is not None:
            return True
        try:
            threads = [each.read_text() for each in Path(f"/proc/{self._process.pid}/task").glob("*/stat")]
        except OSError:  # one has just ended
            return False
        return all(each.rpartition(")")[2].split()[0] in "tT" for each in threads)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def resident_bytes(self) -> int:
        """Return the memory of the process that is in RAM (VmRSS). Raises BrokerDied."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def log_tail(self, lines: int = 60) -> str:
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Kill what still runs and give up the port."""
        self.kill()
        if self._reserved is not None:
            self._reserved.release()

    def _left_to_stop(self, printed: int) -> str:
        """Return the last remaining work that the broker logged behind that many bytes of its log; empty without any."""
        found = re.findall(rb"^\[KafkaServer id=%d\] stopping: (.*)\n" % self.id, self._output(printed), re.MULTILINE)
        return found[-1].decode() if found else ""

    def _output(self, begin: int | None = None) -> bytes:
        """Return the output of the broker since its latest start, or behind that many bytes of its log."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start if begin is None else begin)
            return log.read()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
