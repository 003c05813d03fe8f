"""Ways between processes, cut pair by pair."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from kafkalite.local import switchboard
from kafkalite.local.contract import Node
from kafkalite.local.switchboard import Switchboard

TIMEOUT_S = 10.0


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(stream,), daemon=True).start()

    def answer(stream: socket.socket) -> None:
        with stream:
            while chunk := stream.recv(1000):
                stream.sendall(chunk)

    threading.Thread(target=serve, daemon=True).start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def comes_back(stream: socket.socket, text: bytes, timeout_s: float = TIMEOUT_S) -> bool:
    stream.settimeout(timeout_s)
    stream.sendall(text)
    try:
        return stream.recv(1000) == text
    except TimeoutError:
        return False


@pytest.fixture
def board() -> Iterator[Switchboard]:
    """This process is broker 1; nothing is known of the processes of brokers 2 and 3."""
    with Switchboard(lambda: {1: os.getpid()}) as made:
        made.add(1, "127.0.0.1:1")
        yield made


def test_what_is_sent_during_a_cut_comes_after_it(board: Switchboard, echo: str) -> None:
    with connected(board.add(2, echo)) as stream:
        assert comes_back(stream, b"before")
        board.cut([1], [2])
        assert not comes_back(stream, b"meanwhile", 0.2)
        board.repair()
        stream.settimeout(TIMEOUT_S)
        assert stream.recv(1000) == b"meanwhile"


def test_one_way_holds_back_what_one_side_sends(board: Switchboard, echo: str) -> None:
    with connected(board.add(2, echo)) as stream:
        assert comes_back(stream, b"before")
        board.cut([2], [1], one_way=True)  # 2 hears, and its answers are held back
        assert not comes_back(stream, b"heard", 0.2)
        board.repair()
        stream.settimeout(TIMEOUT_S)
        assert stream.recv(1000) == b"heard"


def test_a_connection_made_during_a_cut_waits(board: Switchboard, echo: str) -> None:
    address = board.add("zk1", echo)
    board.cut(["zk1"], [1])
    with connected(address) as stream:
        assert not comes_back(stream, b"x", 0.2)
        board.repair()
        stream.settimeout(TIMEOUT_S)
        assert stream.recv(1000) == b"x"


def test_only_the_pairs_that_were_named_are_cut(board: Switchboard, echo: str) -> None:
    address = board.add(2, echo)
    board.add(3, "127.0.0.1:3")
    board.cut([2], [3])
    with connected(address) as stream:
        assert comes_back(stream, b"x")


def test_who_is_nobody_is_turned_away(echo: str) -> None:
    with Switchboard(lambda: {}) as board, connected(board.add(2, echo)) as stream:
        stream.settimeout(TIMEOUT_S)
        assert stream.recv(1) == b""


@pytest.mark.parametrize(
    ("side", "other", "reason"),
    [([1], [7], "no server 7"), (["zk1"], ["zk1"], "both sides"), (["zk1"], ["zk2"], "KafkaliteCluster can")],
)
def test_pairs_that_cannot_be_cut(board: Switchboard, side: list[Node], other: list[Node], reason: str) -> None:
    for number in (2, 3):
        board.add(f"zk{number - 1}", f"127.0.0.1:{number}")
    with pytest.raises(ValueError, match=reason):
        board.cut(side, other)


def test_a_kernel_that_does_not_tell_leaves_its_tables(
    board: Switchboard, echo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(port: int, peer_port: int) -> int:
        raise OSError(93, "Protocol not supported")

    monkeypatch.setattr(switchboard, "_inode", refuse)
    with connected(board.add(2, echo)) as stream:
        assert comes_back(stream, b"x")
