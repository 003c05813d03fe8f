"""One request and its response over a blocking socket, for short commands: no event loop, no retries, few imports (not even the codec)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite import NAME
from kafkalite.server_addresses import address_text
from kafkalite.types import Buffer

if TYPE_CHECKING:
    import ssl

    from kafkalite.protocol.messages import Request
    from kafkalite.security.sasl_client import SaslCredentials

_LENGTH: Final = struct.Struct(">i")
_LONGEST_RESPONSE_BYTES: Final = 64 * 1024 * 1024


class NotKafkaError(ConnectionError):
    """Raised when the server does not speak Kafka's protocol, or closed the connection instead of answering."""


def exchange(
    host: str,
    port: int,
    request: Sequence[Buffer],
    left_s: Callable[[], float],
    tls: ssl.SSLContext | None = None,
    credentials: SaslCredentials | None = None,
) -> bytes:
    """Send a framed request on a connection of its own, authenticated first with `credentials`; the response's frame, without its length.

    `left_s` says before each step how many seconds are left for it, and raises TimeoutError when none are. OSError; NotKafkaError.
    """
    plain = socket.create_connection((host, port), timeout=left_s())
    with plain if tls is None else _wrap_tls(plain, host, tls) as connection:

        def ask(framed: Sequence[Buffer]) -> bytes:
            connection.sendall(b"".join(framed))
            (size,) = _LENGTH.unpack(_receive(connection, _LENGTH.size, left_s))
            if not 0 <= size <= _LONGEST_RESPONSE_BYTES:
                raise NotKafkaError(f"{address_text(host, port)} does not speak Kafka's protocol")
            return _receive(connection, size, left_s)

        if credentials is not None:
            _log_in(ask, credentials, host)
        return ask(request)


def _log_in(ask: Callable[[Sequence[Buffer]], bytes], credentials: SaslCredentials, host: str) -> None:
    """Authenticate. Raises ConnectionError when the broker does not let the client in, or is not the one that it must be."""
    from kafkalite.net.frames import request_frame, response_body_position
    from kafkalite.protocol import codec, messages
    from kafkalite.protocol.apis import APIS
    from kafkalite.security.sasl_exchange import KerberosError, ServerNotProven

    def answer(request: Request[Any], version: int) -> Any:
        api = APIS[request.API.key]
        frame = memoryview(ask(request_frame(api, version, 1, NAME, codec.encode_request(request, version))))
        return codec.decode_response(api.key, version, frame, response_body_position(api, version, frame))

    handshake = messages.sasl_handshake_request.SaslHandshakeRequest(mechanism=credentials.mechanism)
    if code := answer(handshake, 1).error_code:
        raise ConnectionError(f"the broker refused to authenticate: error {code}")
    exchange = credentials.start_exchange(host)
    try:
        token = next(exchange)
        while True:
            reply = answer(messages.sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=token), 0)
            if reply.error_code:
                raise ConnectionError(reply.error_message or f"error {reply.error_code}")
            token = exchange.send(bytes(reply.auth_bytes))
    except StopIteration:
        return
    except (ServerNotProven, KerberosError) as problem:
        raise ConnectionError(str(problem)) from None


def _wrap_tls(plain: socket.socket, host: str, tls: ssl.SSLContext) -> ssl.SSLSocket:
    with plain:  # its descriptor goes over to the other socket, unless the handshake fails
        return tls.wrap_socket(plain, server_hostname=host)


def _receive(connection: socket.socket, size: int, left_s: Callable[[], float]) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        connection.settimeout(left_s())
        part = connection.recv(size - len(parts))
        if not part:
            raise NotKafkaError("the connection was closed")
        parts += part
    return bytes(parts)
