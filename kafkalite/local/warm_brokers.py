"""Brokers that are forked from a process with all imports done: four fifths of the processor time of a start are imports.

The importing process starts with the first broker and serves until its owner ends. A broker is a child of the owner as otherwise: it is
killed, paused, waited for and measured by its id, and ends with the owner. Only Linux can hand a child over; elsewhere, and for another
command than ours, brokers are started alone.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import BinaryIO, Final, NoReturn

from kafkalite import NAME
from kafkalite.local.broker_process import BROKER_COMMAND, Child, start_process
from kafkalite.standard_streams import open_missing_descriptors

logger = logging.getLogger("kafkalite.local.warm_brokers")

_IMPORTED: Final = ("kafkalite.cli.main", "kafkalite.cli.broker", "kafkalite.broker.process")
_PRACTICE: Final = "kafkalite.testing.practice"
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36
_POLL_S: Final = 0.01
_NOTHING_MORE: Final[Mapping[str, str]] = {}
_NAME: Final = NAME.encode()
"""The name in `ps` and `top`; the command line is that of the importing process."""
_LARGEST: Final = 1 << 20
"""Limit of a request: command line, folder and environment."""


class WarmProcess:
    """The interface of `subprocess.Popen` for a process that another has forked for us."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # somebody else has waited for it; subprocess says 0, too
                    pid, status = self.pid, 0
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("broker", timeout or 0)
            time.sleep(_POLL_S)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class _NurseryEnded(Exception):
    """Raised when the process that starts brokers has ended before it was asked; holds its exit status."""


class _Nursery:
    """The importing process, used by one owner."""

    def __init__(self, practice: str) -> None:
        open_missing_descriptors()  # a broker's log takes the place of 1 and 2, where a socket may be otherwise
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), practice],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours
        self._lock = threading.Lock()

    def start(self, arguments: Sequence[str], output: BinaryIO, environment: Mapping[str, str]) -> WarmProcess:
        request = json.dumps([list(arguments), os.getcwd(), os.environ | environment]).encode()
        with self._lock:
            # The child loses its parent, and is ours then; nobody else's.
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
            try:
                try:
                    socket.send_fds(self._socket, [request], [output.fileno()])
                except (BrokenPipeError, ConnectionResetError):
                    raise _NurseryEnded(self._process.wait(5)) from None
                answer = self._socket.recv(64)
            finally:
                _prctl(_PR_SET_CHILD_SUBREAPER, 0)
        if not answer:
            raise RuntimeError(f"the process that starts brokers has ended with status {self._process.wait(5)}")
        return WarmProcess(int(answer))


@cache
def _nursery(owner: int, practice: str) -> _Nursery:
    """Return the importing process of this process; its forks have their own."""
    return _Nursery(practice)


def start_warm(command: Sequence[str], output: BinaryIO, environment: Mapping[str, str] = _NOTHING_MORE) -> Child:
    """Start as `start_process`, sooner where possible."""
    return _start(command, output, environment, "")


def start_practised(command: Sequence[str], output: BinaryIO, environment: Mapping[str, str] = _NOTHING_MORE) -> Child:
    """Start as `start_warm`, from a process that has also run a broker once: everything that is made at first use exists."""
    return _start(command, output, environment, _PRACTICE)


def prepare_practised() -> None:
    """Let the process of `start_practised` begin its life now, beside whatever comes before its first broker."""
    if sys.platform == "linux":
        _nursery(os.getpid(), _PRACTICE)


def _start(command: Sequence[str], output: BinaryIO, environment: Mapping[str, str], practice: str) -> Child:
    if sys.platform != "linux" or tuple(command[:-1]) != BROKER_COMMAND:
        return start_process(command, output, environment)
    try:
        return _nursery(os.getpid(), practice).start(command[3:], output, environment)
    except _NurseryEnded as problem:  # somebody has killed it; no broker was started
        logger.warning("the process that starts brokers has ended with status %s; another one is started", problem)
        _nursery.cache_clear()
        return _nursery(os.getpid(), practice).start(command[3:], output, environment)


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _serve(requests: socket.socket, practice: str) -> None:
    for module in _IMPORTED:
        import_module(module)
    if practice:
        import_module(practice).run()
    gc.collect()
    gc.freeze()  # the children leave these objects, and the pages that they lie in, as they are
    owner = os.getppid()
    while True:
        request, outputs, _, _ = socket.recv_fds(requests, _LARGEST, 1)
        if not request:
            return
        middle = os.fork()
        if middle == 0:
            middle = os.getpid()
            if os.fork() != 0:
                os._exit(0)
            arguments, folder, environment = json.loads(request)
            _leave(middle, owner, outputs[0])
            requests.send(str(os.getpid()).encode())
            requests.close()
            _become(arguments, folder, environment)
        os.close(outputs[0])
        os.waitpid(middle, 0)


def _leave(middle: int, owner: int, output: int) -> None:
    """Become a child of the owner, as a leader of its session, that ends with it."""
    while os.getppid() == middle:
        time.sleep(0.001)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_NAME, _NAME)
    if os.getppid() != owner:
        os._exit(1)
    os.setsid()
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)


def _become(arguments: list[str], folder: str, environment: dict[str, str]) -> NoReturn:
    """Run the broker; the process ends as an interpreter ends."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    random.seed()
    sys.argv = [NAME, *arguments]
    runpy.run_module(NAME, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        _serve(asked, sys.argv[2])
