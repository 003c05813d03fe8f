"""One request and its response over a blocking socket, for short commands: no event loop, no retries, few imports (not even the codec)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.types import Buffer

if TYPE_CHECKING:
    import ssl

_LENGTH: Final = struct.Struct(">i")
_LONGEST_RESPONSE_BYTES: Final = 64 * 1024 * 1024


class NotKafkaError(ConnectionError):
    """What was reached does not speak Kafka's protocol, or closed the connection instead of answering."""


def exchange(
    host: str,
    port: int,
    request: Sequence[Buffer],
    left_s: Callable[[], float],
    tls: ssl.SSLContext | None = None,
) -> bytes:
    """Send a framed request on a connection of its own; the response's frame, without its length.

    `left_s` says before each step how many seconds are left for it, and raises TimeoutError when none are. OSError; NotKafkaError.
    """
    plain = socket.create_connection((host, port), timeout=left_s())
    with plain if tls is None else _secured(plain, host, tls) as connection:
        connection.sendall(b"".join(request))
        (size,) = _LENGTH.unpack(_received(connection, _LENGTH.size, left_s))
        if not 0 <= size <= _LONGEST_RESPONSE_BYTES:
            raise NotKafkaError(f"{host}:{port} does not speak Kafka's protocol")
        return _received(connection, size, left_s)


def _secured(plain: socket.socket, host: str, tls: ssl.SSLContext) -> ssl.SSLSocket:
    with plain:  # its descriptor goes over to the other socket, unless the handshake fails
        return tls.wrap_socket(plain, server_hostname=host)


def _received(connection: socket.socket, size: int, left_s: Callable[[], float]) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        connection.settimeout(left_s())
        part = connection.recv(size - len(parts))
        if not part:
            raise NotKafkaError("the connection was closed")
        parts += part
    return bytes(parts)
