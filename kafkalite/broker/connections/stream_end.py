"""Closes connections as Apache Kafka does: the peer reads the end of the stream, at once and whatever it has sent.

A socket that is closed while bytes lie in it unread resets its connection: the peer's client reports a failure of the network, and answers
that it has not read yet are lost. So the sending side is shut down first, after `close_notify` where there is TLS. Nothing is waited
for, so that a client that goes on sending holds nothing.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

from kafkalite.broker.connections.response_writer import WRITE_BUFFER_BYTES
from kafkalite.broker.connections.tls_listener import InTurns


def end_stream(transport: asyncio.Transport) -> None:
    """Close a connection without waiting for its peer. What is written leaves as far as the socket takes it."""
    if transport.is_closing():
        transport.abort()
        return
    below, tls = transport, transport.get_extra_info("ssl_object")
    if isinstance(tls, InTurns) and tls.below is not None:
        below = tls.below
        if notice := tls.end_notice():
            below.write(notice)
    # uvloop writes at the end of the loop iteration, unless there is more: that it has tried to write at once.
    if 0 < below.get_write_buffer_size() <= WRITE_BUFFER_BYTES:
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, _abort, transport, below)
    else:
        _abort(transport, below)


def _abort(transport: asyncio.Transport, below: asyncio.Transport) -> None:
    held = None if below.is_closing() else below.get_extra_info("socket")
    if held is not None:
        with suppress(OSError):
            shut_down = socket.socket(fileno=held.fileno())  # uvloop's stand-in for the socket cannot
            try:
                shut_down.shutdown(socket.SHUT_WR)
            finally:
                shut_down.detach()
    transport.abort()
