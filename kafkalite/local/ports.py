"""TCP ports for servers that tests start, reserved across processes.

A reserved port lies outside the range from which the system takes the local ports of connections, so that a server that
is down for a moment finds it free again. The reservation is a lock on a file: it ends with the process at the latest.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_FIRST: Final = 20_000
_COUNT: Final = 12_000


def span(ports: Sequence[int]) -> str:
    """Return consecutive ports for people: "9092", "9092 to 9094"."""
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"


class ReservedPort:
    """A port of 127.0.0.1 that no other reservation holds and nobody listened on when it was made.

    Raises OSError when all are taken.
    """

    def __init__(self) -> None:
        folder = Path(tempfile.gettempdir(), f"kafkalite-ports-{os.getuid()}")
        folder.mkdir(exist_ok=True)
        # Processes begin at different places: fewer tries, and a port is not soon given to another cluster.
        begin = os.getpid() * 37 % _COUNT + _taken_here()
        for step in range(_COUNT):
            number = _FIRST + (begin + step) % _COUNT
            lock = _lock(folder / str(number))
            if lock is None:
                continue
            if is_free(number):
                self.number = number
                self._lock = lock
                return
            os.close(lock)
        raise OSError(f"no free port between {_FIRST} and {_FIRST + _COUNT}")

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> ReservedPort:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_given = 0


def _taken_here() -> int:
    global _given
    _given += 1
    return _given


def _lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_free(number: int) -> bool:
    """True if a server of this machine could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
    return True
