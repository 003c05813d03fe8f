"""A link passes bytes both ways, nothing while it is cut, and everything after it is mended."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kafkalite.local.link import Link


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of a server that sends back what it gets."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):  # the link may break it with bytes on their way
            while data := connection.recv(1000):
                connection.sendall(data)

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def connected(link: Link) -> socket.socket:
    host, _, port = link.connect.rpartition(":")
    return socket.create_connection((host, int(port)), 5)


def test_a_cut_link_is_silent_until_it_is_mended(echo: str) -> None:
    with Link([echo]) as link, connected(link) as client:
        client.sendall(b"before")
        assert client.recv(100) == b"before"
        link.cut()
        client.sendall(b"while cut")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        with connected(link) as other:
            other.sendall(b"new")
            other.settimeout(0.2)
            with pytest.raises(TimeoutError):
                other.recv(100)
            link.repair()
            for each, expected in ((client, b"while cut"), (other, b"new")):
                each.settimeout(5)
                assert each.recv(100) == expected


def test_the_end_of_either_side_reaches_the_other(echo: str) -> None:
    with Link([echo]) as link, connected(link) as client:
        client.sendall(b"x")
        assert client.recv(100) == b"x"
        client.shutdown(socket.SHUT_WR)
        client.settimeout(5)
        assert client.recv(100) == b""


def test_a_target_that_is_down_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with Link([address]) as link, connected(link) as client:
        client.settimeout(5)
        assert client.recv(100) == b""


def test_every_target_has_a_port_of_its_own(echo: str) -> None:
    with Link([echo, echo]) as link:
        assert len(set(link.connect.split(","))) == 2


def test_one_direction_is_cut_and_the_other_passes(echo: str) -> None:
    with Link([echo]) as link, connected(link) as client:
        client.sendall(b"x")
        assert client.recv(100) == b"x"
        link.cut("back")
        client.sendall(b"heard")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        link.repair()
        client.settimeout(5)
        assert client.recv(100) == b"heard"


def test_answers_are_lost_for_good(echo: str) -> None:
    with Link([echo]) as link, connected(link) as client:
        link.back.swallows = True
        client.sendall(b"lost")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
        link.repair()
        client.settimeout(5)
        client.sendall(b"kept")
        assert client.recv(100) == b"kept"


def test_bytes_trickle_and_come_late(echo: str) -> None:
    with Link([echo]) as link, connected(link) as client:
        link.towards.bytes_per_s, link.back.delay_s = 40, 0.05
        client.sendall(b"abcdef")
        assert len(client.recv(100)) < 6
