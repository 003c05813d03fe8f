"""Another client beside a hostile one: it asks a live broker for ApiVersions each 10 ms, and notes how long each answer takes."""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey

ASK_EACH_S: Final = 0.01
ANSWER_S: Final = 120.0
_ASKED: Final = messages.api_versions_request.ApiVersionsRequest(client_software_name="a", client_software_version="1")


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
        self.held_s: list[float] = []
        self.answers = 0

    def run(self) -> None:
        try:
            with socket.create_connection(self._address, timeout=ANSWER_S) as connection:
                while not self._ended.wait(ASK_EACH_S):
                    self._ask(connection)
        except OSError:
            if not self._ended.is_set():
                raise

    def _ask(self, connection: socket.socket) -> None:
        worked_s, began_s = worked_seconds(self._pid), time.perf_counter()
        ask_api_versions(connection)
        now_s = time.perf_counter()
        wait = Wait(now_s - began_s, worked_seconds(self._pid) - worked_s, now_s)
        self.longest = max(self.longest, wait)
        self.longest_held = max(self.longest_held, wait, key=lambda each: each.held_s)
        self.held_s.append(wait.held_s)
        self.answers += 1

    def forget(self) -> None:
        self.longest = self.longest_held = _NOTHING
        self.held_s = []

    def wait_answers(self, count: int) -> None:
        until = self.answers + count
        wait_until(lambda: self.answers >= until or not self.is_alive(), "answers to the client beside", ANSWER_S)
        if not self.is_alive():
            raise ConnectionError("the client beside is answered no more")

    def end(self) -> None:
        self._ended.set()
        self.join(ANSWER_S)


def ask_api_versions(connection: socket.socket) -> None:
    connection.sendall(
        b"".join(request_frame(APIS[ApiKey.API_VERSIONS], 3, 1, "beside", codec.encode_request(_ASKED, 3)))
    )
    if not await_answer(connection):
        raise ConnectionError("closed")


def await_answer(connection: socket.socket) -> bool:
    """Wait for an answer or the end of the connection; was it an answer?"""
    try:
        length = connection.recv(4, socket.MSG_WAITALL)
        left = struct.unpack(">i", length)[0] if len(length) == 4 else 0
        answered = left > 0
        while left > 0 and (data := connection.recv(min(left, 1 << 20))):
            left -= len(data)
    except ConnectionError:
        return False
    return answered and not left


def worked_seconds(pid: int) -> float:
    """Processor time of all threads of a process, to the nanosecond: that of `/proc/PID/stat` comes in ticks of 10 ms."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total_ns += int((task / "schedstat").read_text().split()[0])
        except OSError:  # it has ended meanwhile
            continue
    return total_ns / 1e9


def peak_bytes(broker: BrokerProcess) -> int:
    """The most memory that the process had since `forget_peak` (VmHWM)."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) * 1024


def forget_peak(broker: BrokerProcess) -> None:
    Path(f"/proc/{broker.pid}/clear_refs").write_text("5")
