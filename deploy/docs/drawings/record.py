"""`python -m deploy.docs.drawings.record` records a first minute with a cluster, from the real thing: it starts three brokers at the ports
from 9092 on, types the commands of `_story` at a terminal, and writes what that shows as `pictures/first-minute.cast`.

`python -m deploy.docs.drawings` draws the moving picture of it. Nothing that programs wrote is changed.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from deploy.docs.drawings.recording import CAST, ROWS
from deploy.docs.drawings.terminal import PROMPT, TYPED_S

WIDTH: Final = 72
TITLE: Final = "a leader dies, and no record is lost"
TOPIC: Final = "orders"
IDLE_S: Final = 1.5
"""Players shorten what takes longer, as on a busy machine."""

_PAUSE_S: Final = 0.9
"""For the reader, before the next command."""
_PATIENCE_S: Final = 600.0


class Recorder:
    """Events in their order; time goes on while commands are typed and run."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.events: list[tuple[float, str, str]] = []
        self._began_s = time.monotonic()
        self._typing_s = 0.0

    def _now_s(self) -> float:
        return round(time.monotonic() - self._began_s + self._typing_s, 3)

    def type(self, command: str) -> None:
        """Note a command as typed. Raises ValueError for one that is longer than the terminal is wide."""
        if len(PROMPT + command) > WIDTH:
            raise ValueError(f"{command!r} is longer than the terminal of {WIDTH} columns")
        self._typing_s += _PAUSE_S
        self.events.append((self._now_s(), "i", command))
        self._typing_s += len(command) * TYPED_S

    def run(self, command: str) -> str:
        """Type a command, run it to its end, and return what it wrote. Raises CalledProcessError."""
        self.type(command)
        with self._terminal(command) as (process, screen):
            written = self._take(screen, lambda _: False)
            status = process.wait(_PATIENCE_S)
        if status:
            raise subprocess.CalledProcessError(status, command, written)
        return written

    @contextmanager
    def keep_running(self, command: str, until: str) -> Iterator[str]:
        """Type a command that stays, and yield what it wrote until that text was there; what it writes later is not recorded."""
        self.type(command)
        with self._terminal(command) as (process, screen):
            try:
                yield self._take(screen, lambda written: re.search(until, written) is not None)
            finally:
                os.killpg(process.pid, signal.SIGINT)
                while process.poll() is None:
                    _read(screen, 0.2)

    @contextmanager
    def _terminal(self, command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        screen, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, WIDTH, 0, 0))
        process = subprocess.Popen(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=inner,
            stderr=inner,
            env=self.environment,
            start_new_session=True,
        )
        os.close(inner)
        try:
            yield process, screen
        finally:
            os.close(screen)

    def _take(self, screen: int, is_enough: Callable[[str], bool]) -> str:
        """Record output until it is enough or has ended. Raises TimeoutError."""
        written = ""
        until_s = time.monotonic() + _PATIENCE_S
        while not is_enough(written):
            if time.monotonic() > until_s:
                raise TimeoutError(f"the program wrote only {written!r}")
            data = _read(screen, 1.0)
            if data is None:
                break
            if data:
                self.events.append((self._now_s(), "o", data))
                written += data
        return written

    def dump(self) -> str:
        header = {"version": 2, "width": WIDTH, "height": ROWS, "title": TITLE, "idle_time_limit": IDLE_S}
        return "".join(f"{json.dumps(each)}\n" for each in (header, *self.events))


def _read(screen: int, timeout_s: float) -> str | None:
    """Return what is there within the time; None at the end."""
    if not select.select([screen], [], [], timeout_s)[0]:
        return ""
    try:
        return os.read(screen, 65536).decode() or None
    except OSError:  # EIO: nobody has the other side
        return None


def _story(recorder: Recorder) -> None:
    """Start a cluster, write, kill a leader, and read."""
    with recorder.keep_running(
        "kafkalite cluster up --brokers 3 --base-port 9092", r"KAFKALITE_ZOOKEEPER=\S+\r\n"
    ) as told:
        servers = re.findall(r"KAFKALITE_(\w+)=(\S+)", told)
        recorder.environment |= {f"KAFKALITE_{name}": value for name, value in servers}
        pids = {int(broker): int(pid) for broker, pid in re.findall(r"broker (\d+) .*?pid (\d+)", told)}
        recorder.type("# in a second terminal, with these two lines:")
        recorder.run(f"kafkalite topic create {TOPIC} -p 3 -r 3 --wait")
        recorder.run(f"seq 100000 | kafkalite produce {TOPIC}")
        recorder.run(f"kafkalite topic describe {TOPIC}")
        leader = _leader(recorder)
        recorder.run(f"kill -9 {pids[leader]}   # broker {leader} leads {TOPIC}-0")
        _wait_for_election(recorder, leader)
        recorder.run(f"kafkalite topic describe {TOPIC}")
        recorder.run(f"kafkalite consume {TOPIC} --exit-at-end | wc -l")


def _leader(recorder: Recorder) -> int:
    command = ["kafkalite", "topic", "describe", TOPIC, "-o", "json"]
    done = subprocess.run(command, env=recorder.environment, check=True, capture_output=True, text=True)
    topics: list[dict[str, Any]] = json.loads(done.stdout)
    return int(next(each["leader"] for each in topics[0]["partitions"] if each["partition"] == 0))


def _wait_for_election(recorder: Recorder, former: int) -> None:
    """The reader takes longer than the election; the recorder does not. Raises TimeoutError."""
    until_s = time.monotonic() + _PATIENCE_S
    while _leader(recorder) in (former, -1):
        if time.monotonic() > until_s:
            raise TimeoutError(f"{TOPIC}-0 has no other leader")


def main() -> int:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    known = {name: value for name, value in os.environ.items() if name in ("HOME", "JAVA_HOME", "ZOOKEEPER_HOME")}
    recorder = Recorder({**known, "PATH": path, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    _story(recorder)
    CAST.write_text(recorder.dump())
    print(f"written: {CAST}; python -m deploy.docs.drawings draws it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
