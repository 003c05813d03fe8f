"""A running program of the museum: steps in, answers out; see `contract`."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
from collections import deque
from contextlib import suppress
from typing import Any, Final

from tests.museum.contract import Exhibit
from tests.museum.environments import command_of

STEP_TIMEOUT_S: Final = 40
HASTY_TIMEOUT_S: Final = 8
"""For a program that has let two steps in a row pass unanswered: it will again, and there are many steps."""


class StepFailed(Exception):
    """A step was answered with an error, or not in time, or the program has ended."""


class Program:
    """Started at the first step, and again when it has ended; killed when a step is not answered in time."""

    def __init__(self, exhibit: Exhibit, bootstrap: str, zookeeper: str) -> None:
        self.exhibit = exhibit
        self._where = (bootstrap, zookeeper)
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._unanswered = 0
        self._errors: deque[str] = deque(maxlen=3)

    def _start(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._reap()
        command, settings = command_of(self.exhibit, *self._where)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=settings,
            bufsize=1,
        )
        self._lines = queue.Queue()
        self._errors = deque(maxlen=3)
        for target, told in ((self._read, self._lines), (self._overhear, self._errors)):
            threading.Thread(target=target, args=(self._process, told), daemon=True).start()
        return self._process

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    @staticmethod
    def _overhear(process: subprocess.Popen[str], errors: deque[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            if line.strip():
                errors.append(line.strip())

    def send(self, *words: object) -> None:
        """Begin a step."""
        process = self._start()
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, as `receive` will say
            process.stdin.write(" ".join(map(str, words)) + "\n")

    @property
    def has_answer(self) -> bool:
        """Would `receive` return or raise at once?"""
        return not self._lines.empty()

    def receive(self) -> dict[str, Any]:
        """The next line. StepFailed when none comes, or it tells of an error."""
        try:
            line = self._lines.get(timeout=STEP_TIMEOUT_S if self._unanswered < 2 else HASTY_TIMEOUT_S)
            self._unanswered = 0
        except queue.Empty:
            self.kill()
            self._unanswered += 1
            raise StepFailed(f"no answer{self._last_errors()}") from None
        if line is None:
            raise StepFailed(f"the program ended{self._last_errors()}")
        answer: dict[str, Any] = json.loads(line)
        if not answer.get("ok", True):
            raise StepFailed(answer["error"])
        return answer

    def _last_errors(self) -> str:
        return ": " + " / ".join(self._errors)[-500:] if self._errors else ""

    def step(self, *words: object) -> list[str]:
        """Take a step to its end, and return its values."""
        self.send(*words)
        values: list[str] = self.receive().get("values", [])
        return values

    def kill(self) -> None:
        """As `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def close(self, timeout_s: float = 10) -> None:
        """Ask the program to end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reap()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process = None
