"""The program `kafkalite` for scripts of the tests: each call is forked from a process that has imported what commands use.

    with WarmCommands(folder) as commands:
        commands.program    # the path of a program to be called as `kafkalite`

Four fifths of what a short command costs are imports. What a command imports when it starts alone is seen in tests/unit/cli/test_start.py,
and the installed program in test_wheel.py.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.forked_program import become, end_with
from zk.servers.ensemble import end_with_parent

_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = """#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({path!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [request], [0, 1, 2])
    status = server.recv(64)
sys.exit(int(status))
"""
_LARGEST: Final = 1 << 18
_LEFT_OUT: Final = ("kafkalite.cli.spark",)
"""What these import takes long, and no script calls them."""
_CLIENTS: Final = (
    "kafkalite.client.admin.sync",
    "kafkalite.client.consumer.sync",
    "kafkalite.client.producer.sync",
    "zk.kazoo_adapter.kazoo_store",
)


class WarmCommands:
    """Use in `with`."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "kafkalite"
        self._path = folder / "commands"

    def __enter__(self) -> WarmCommands:
        self.program.write_text(_PROGRAM.format(python=sys.executable, path=str(self._path)))
        self.program.chmod(0o755)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(self._path))
            listener.listen()  # calls wait until the server has imported
            self._server = subprocess.Popen(
                [sys.executable, "-m", __name__, str(listener.fileno())],
                cwd=_ROOT,
                pass_fds=[listener.fileno()],
                preexec_fn=end_with_parent(),
            )
        return self

    def __exit__(self, *problem: object) -> None:
        self._server.kill()
        self._server.wait()


def _serve(listener: socket.socket) -> None:
    import kafkalite.cli

    found = {each.name for each in pkgutil.walk_packages(kafkalite.cli.__path__, "kafkalite.cli.")}
    for module in (*sorted(each for each in found if not each.startswith(_LEFT_OUT)), *_CLIENTS):
        import_module(module)
    gc.freeze()  # the children leave the pages of these objects as they are
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        caller, _ = listener.accept()
        with caller:
            request, streams, _, _ = socket.recv_fds(caller, _LARGEST, 3)
            if request and os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _call(json.loads(request), streams, caller)
            for stream in streams:
                os.close(stream)


def _call(request: tuple[list[str], str, dict[str, str]], streams: list[int], caller: socket.socket) -> None:
    """In a child, which tells the caller how its own child ended."""
    arguments, folder, environment = request
    child = os.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(environment)
        become("kafkalite", arguments, folder, streams)
        for each in (*streams, caller.detach()):
            os.close(each)
        end_with(import_module("kafkalite.cli.main").main)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        caller.send(b"%d" % (status if status >= 0 else 128 - status))
    except OSError:  # it did not wait
        pass
    os._exit(0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        _serve(asked)
