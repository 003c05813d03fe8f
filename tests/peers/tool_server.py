"""Apache Kafka's command-line tools, many of them in one Java machine; see ToolServer.java."""

from __future__ import annotations

import atexit
import functools
import struct
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.apache_kafka import TOOLS, java_command

_SOURCE: Final = Path(__file__).with_name("ToolServer.java")
_LENGTH: Final = struct.Struct(">i")


class Outcome(NamedTuple):
    """How a tool ended and what it wrote; the status is -1 when it did not end in time."""

    status: int
    stdout: str
    stderr: str


class ToolServer:
    """Runs tools one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(_SOURCE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    def run(self, name: str, *arguments: str, stdin: str = "", timeout_s: float = 60) -> Outcome:
        """`stdin` is read as bytes, one for each character up to 255. Who does not wait for the end of a tool ends the machine,
        or what it prints would be taken for what the next one does."""
        return self._run(TOOLS[name], *arguments, stdin=stdin, timeout_s=timeout_s)

    def set_property(self, name: str, value: str) -> None:
        """A property of the Java machine's system, for the tools that come after it."""
        assert self._run("ToolServer$Property", name, value).status == 0

    def _run(self, main_class: str, *arguments: str, stdin: str = "", timeout_s: float = 60) -> Outcome:
        parts = [main_class, str(int(timeout_s * 1000)), stdin, *arguments]
        encoded = [each.encode() for each in parts]
        request = _LENGTH.pack(len(encoded)) + b"".join(_LENGTH.pack(len(each)) + each for each in encoded)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
            (status,) = _LENGTH.unpack(self._read(_LENGTH.size))
            stdout, stderr = (self._read(_LENGTH.unpack(self._read(_LENGTH.size))[0]).decode() for _ in range(2))
        except BaseException:
            self.close()
            shared_tools.cache_clear()
            raise
        return Outcome(status, stdout, stderr)

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(size)
        assert len(data) == size, "the Java machine that runs Apache Kafka's tools has ended"
        return data

    def close(self) -> None:
        """End the Java machine, and whatever still runs in it."""
        self._process.kill()
        self._process.wait()
        atexit.unregister(self.close)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@functools.cache
def shared_tools() -> ToolServer:
    """The one of this process; it ends with it."""
    server = ToolServer()
    atexit.register(server.close)
    return server


def run_tool(name: str, *arguments: str, stdin: str = "", timeout_s: float = 120) -> str:
    """What one of Apache Kafka's tools prints to stdout. Raises AssertionError, with all it printed, when it fails."""
    done = shared_tools().run(name, *arguments, stdin=stdin.encode().decode("latin-1"), timeout_s=timeout_s)
    assert done.status == 0, f"{name} {' '.join(arguments)} failed ({done.status}):\n{done.stdout}\n{done.stderr}"
    return done.stdout
