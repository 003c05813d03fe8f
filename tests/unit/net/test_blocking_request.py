"""One request over a blocking socket: what is answered, what is no Kafka, and that nothing stays open."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafkalite.net.blocking_request import NotKafkaError, exchange


@contextmanager
def answering(*parts: bytes) -> Iterator[tuple[str, int]]:
    """The address of a server that reads one request of four bytes, sends `parts` one by one and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4, socket.MSG_WAITALL)
                for part in parts:
                    connection.sendall(part)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[:2]
        thread.join(10)


class OtherSocket:
    """An SSL context as far as `exchange` uses it: the descriptor goes over to another socket, without a handshake."""

    made: socket.socket

    def wrap_socket(self, plain: socket.socket, server_hostname: str) -> socket.socket:
        self.made = socket.socket(fileno=plain.detach())
        self.made.settimeout(10)
        return self.made


def in_time() -> float:
    return 10.0


def test_a_response_in_parts_is_put_together() -> None:
    with answering(b"\0\0", b"\0\5he", b"llo") as (host, port):
        assert exchange(host, port, [b"re", b"qu"], in_time) == b"hello"


def test_what_does_not_speak_kafkas_protocol_is_told() -> None:
    for said in ((b"HTTP/1.1 400 Bad Request",), (struct.pack(">i", 5), b"he"), ()):
        with answering(*said) as (host, port), pytest.raises(NotKafkaError):
            exchange(host, port, [b"requ"], in_time)


def test_no_time_left_ends_it() -> None:
    def none_left() -> float:
        raise TimeoutError("no time is left")

    with pytest.raises(TimeoutError, match="no time is left"):
        exchange("127.0.0.1", 1, [b"requ"], none_left)


def test_a_secured_connection_is_closed_at_the_end() -> None:
    tls: Any = OtherSocket()
    with answering(struct.pack(">i", 2) + b"ok") as (host, port):
        assert exchange(host, port, [b"requ"], in_time, tls) == b"ok"
    assert tls.made.fileno() == -1
