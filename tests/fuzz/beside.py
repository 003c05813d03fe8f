"""Another client beside a hostile one: it asks a live broker for ApiVersions each 10 ms, and notes how long each answer takes."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from tests.fuzz import beside_program
from tests.fuzz.beside_program import ANSWER_S, ASK_EACH_S, await_answer, timed_answer

_ASKED: Final = messages.api_versions_request.ApiVersionsRequest(client_software_name="a", client_software_version="1")
_FRAME: Final = b"".join(request_frame(APIS[ApiKey.API_VERSIONS], 3, 1, "beside", codec.encode_request(_ASKED, 3)))


class Wait(NamedTuple):
    """For one answer; `at_s` is when it came (perf_counter), `worked_s` the broker's processor time meanwhile."""

    waited_s: float
    worked_s: float
    at_s: float

    @property
    def held_s(self) -> float:
        """How long the broker itself can have been the cause: a busy machine lets everybody wait."""
        return min(self.waited_s, self.worked_s)


_NOTHING: Final = Wait(0.0, 0.0, 0.0)


class ClientBeside(threading.Thread):
    """Runs from `start` to `end`; what it waited longest for since `forget` is in `longest`."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._address = broker.host, broker.port
        self._pid = broker.pid
        self._ended = threading.Event()
        self.longest = _NOTHING
        self.longest_held = _NOTHING
        self.waits: list[Wait] = []
        self.answers = 0

    def run(self) -> None:
        try:
            with socket.create_connection(self._address, timeout=ANSWER_S) as connection:
                while not self._ended.wait(ASK_EACH_S):
                    self._note(Wait(*timed_answer(connection, _FRAME, self._pid)))
        except OSError:
            if not self._ended.is_set():
                raise

    def _note(self, wait: Wait) -> None:
        self.longest = max(self.longest, wait)
        self.longest_held = max(self.longest_held, wait, key=lambda each: each.held_s)
        self.waits.append(wait)
        self.answers += 1

    def forget(self) -> None:
        self.longest = self.longest_held = _NOTHING
        self.waits = []

    def wait_answers(self, count: int) -> None:
        until = self.answers + count
        wait_until(lambda: self.answers >= until or not self.is_alive(), "answers to the client beside", ANSWER_S)
        if not self.is_alive():
            raise ConnectionError("the client beside is answered no more")

    def end(self) -> None:
        self._ended.set()
        self.join(ANSWER_S)


class ProcessBeside(ClientBeside):
    """In a process of its own: where Python works hard in that of the test, a thread there waits for the interpreter after each answer."""

    def run(self) -> None:
        host, port = self._address
        command = [sys.executable, "-I", "-S", beside_program.__file__, host, str(port), str(self._pid), _FRAME.hex()]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            for line in process.stdout:
                self._note(Wait(*map(float, line.split())))
                if self._ended.is_set() and not process.stdin.closed:
                    process.stdin.close()
        if process.returncode:
            raise ConnectionError("the client beside was not answered")


def ask_api_versions(connection: socket.socket) -> None:
    connection.sendall(_FRAME)
    if not await_answer(connection):
        raise ConnectionError("closed")


def peak_bytes(broker: BrokerProcess) -> int:
    """The most memory that the process had since `forget_peak` (VmHWM)."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def forget_peak(broker: BrokerProcess) -> None:
    Path(f"/proc/{broker.pid}/clear_refs").write_text("5")
