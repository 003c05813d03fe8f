"""Tells whether the system of a peer acknowledges what is sent to it, which it does for a process that is stopped or gets no processor.

What is sent to a host that has vanished stays in the send queue. By TIOCOUTQ and TCP_INFO of Linux; elsewhere nothing is known, and
everything taken for not acknowledged.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from typing import Final

_QUEUED: Final = struct.Struct("=i")
"""Bytes that were not sent or not acknowledged."""
_INFO: Final = struct.Struct("=56xI")
"""tcpi_last_ack_recv of `struct tcp_info` (linux/tcp.h), in ms."""
_OPTION: Final[int | None] = getattr(socket, "TCP_INFO", None)


def is_acknowledged(descriptor: int, within_ms: float) -> bool:
    """True if a TCP connection's peer has acknowledged all that was sent, or something within that time."""
    if _OPTION is None or descriptor < 0:
        return False
    try:
        asked = socket.socket(fileno=descriptor)
    except OSError:
        return False
    try:
        (last_ms,) = _INFO.unpack(asked.getsockopt(socket.IPPROTO_TCP, _OPTION, _INFO.size))
        (queued,) = _QUEUED.unpack(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(_QUEUED.size)))
    except (OSError, struct.error):
        return False
    finally:
        asked.detach()
    return bool(queued == 0 or last_ms <= within_ms)
