"""Our faces of Kafka's tools, each call in a process of its own that begins with most modules imported.

A call forks from a process that has imported the clients, so hundreds of calls pay for one import. Whatever a tool does when it starts
alone (what it imports, what it costs) is tested in tests/unit/legacy/test_start.py and measured in tests/bench.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

import msgpack

import kafkalite.legacy
from kafkalite.tool_names import TOOLS
from tests.forked_program import become, end_with
from tests.peers.tool_server import Outcome

_ROOT: Final = Path(__file__).parents[2]
_CLIENTS: Final = (
    *("kafkalite.client.admin.admin", "kafkalite.client.consumer.sync", "kafkalite.client.producer.sync"),
    "zk.kazoo_adapter.kazoo_store",
)
_ALONE: Final = "kafkalite.legacy.perf_test.consumer"
"""Imported by each call: it draws its group's name there."""


def our_command(name: str, *arguments: str) -> list[str]:
    """A command line that runs our tool of that name alone."""
    return [sys.executable, "-c", f"import sys; from {TOOLS[name]} import main; sys.exit(main())", *arguments]


class FaceServer:
    """Runs our tools one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.peers.face_server"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # an answer is read as far as it has come
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, msgpack.Unpacker(self._process.stdout)

    def run(self, name: str, *arguments: str, stdin: str = "", timeout_s: float = 60) -> Outcome:
        """As `ToolServer.run` does for Apache Kafka's tool; TimeoutError when it did not end in time."""
        request = [name, list(arguments), stdin.encode("latin-1"), os.getcwd(), timeout_s]
        self._requests.write(msgpack.packb(request))
        status, stdout, stderr = self._answers.unpack()
        if status is None:
            raise TimeoutError(f"{name} {' '.join(arguments)} has not ended after {timeout_s} s\n{stdout}\n{stderr}")
        return Outcome(status, stdout, stderr)

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


@functools.cache
def shared_faces() -> FaceServer:
    """The one of this process; it ends with it."""
    server = FaceServer()
    atexit.register(server.close)
    return server


def run_ours(name: str, *arguments: str, stdin: str = "", timeout_s: float = 60) -> Outcome:
    """Our tool of that name, in a process of its own; `stdin` is read as bytes, one for each character up to 255."""
    return shared_faces().run(name, *arguments, stdin=stdin, timeout_s=timeout_s)


def _serve() -> None:
    tools = {each.name for each in pkgutil.walk_packages(kafkalite.legacy.__path__, "kafkalite.legacy.")}
    for module in sorted(tools - {_ALONE}) + list(_CLIENTS):
        import_module(module)
    gc.freeze()  # the children leave the pages of these objects as they are
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    for name, arguments, stdin, folder, timeout_s in msgpack.Unpacker(sys.stdin.buffer.raw):
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            child = os.fork()
            if child == 0:
                _become(name, arguments, folder, given.fileno(), out.fileno(), err.fileno())
            status = _wait(child, timeout_s)
            answer = [status]
            for file in (out, err):
                file.seek(0)
                answer.append(file.read().decode())
        answers.write(msgpack.packb(answer))


def _become(name: str, arguments: list[str], folder: str, *streams: int) -> NoReturn:
    """The child: a tool with streams of its own."""
    become(name, arguments, folder, streams)
    end_with(import_module(TOOLS[name]).main)


def _wait(child: int, timeout_s: float) -> int | None:
    """The exit status, negative for a signal as subprocess has it; None when it had to be killed."""

    def late(*_: object) -> None:
        os.kill(child, signal.SIGKILL)
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        status = os.waitpid(child, 0)[1]
    except TimeoutError:
        os.waitpid(child, 0)
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    _serve()
