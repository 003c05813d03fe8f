"""Whether a peer's system acknowledges what is sent, by real sockets."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from kafkalite.broker.failure_detection.acknowledgements import is_acknowledged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO of Linux")


def test_a_process_that_reads_nothing_is_acknowledged_for_by_its_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        sender.send(b"heartbeat")  # nobody accepts the connection
        deadline = time.monotonic() + 20
        while not is_acknowledged(sender.fileno(), -1):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert sender.fileno() >= 0 and sender.send(b"another") == 7, "it is still open"


def test_what_is_no_connection_is_not_acknowledged() -> None:
    with socket.socket(socket.AF_UNIX) as local, socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_acknowledged(local.fileno(), 1000)
        gone = server.fileno()
    assert not is_acknowledged(gone, 1000)
    assert not is_acknowledged(-1, 1000)
