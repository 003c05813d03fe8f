"""A broker without the bounds on what a stranger may cost, to measure what they cost others:

    python -m tests.bench --only produce-1kB ... --rounds 9 --against "python -m tests.bench.unbounded --config"

Taken out is what requests pass on their way: counts, strings and tagged fields in the decoder, budgets and portions, the turn that a
request waits for, memory that is taken as its bytes arrive and counted over all connections, slow senders, unread responses.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.connections.flow_control import FlowControl
from kafkalite.broker.connections.response_writer import ResponseWriter
from kafkalite.broker.produce.request_template import FRAME_BYTES
from kafkalite.broker.requests import dispatch
from kafkalite.cli.main import main
from kafkalite.net.frames import FILLING, FrameReader
from kafkalite.protocol.schemas import reader_source
from kafkalite.protocol.schemas.generated_source import Source
from kafkalite.types import Buffer

_CHECKS: Final = re.compile(
    r"^ *if n(?: \* \d+)? > size - p:\n *raise BoundExceeded\('array'.*\n|^ *if n > \d+: raise too_many_tags.*\n",
    re.MULTILINE,
)


def _grow(self: FrameReader, so_far: memoryview) -> None:
    self._frame = self._buffers.borrow(self._size, self._size)
    self._frame[: len(so_far)] = so_far
    self.buffered_bytes = len(self._frame)


def _buffer_updated(self: ServerConnection, nbytes: int) -> None:
    self.last_used_s = self._loop.time()
    sender, order = self._sender, self._order
    if sender is not None:
        alone = self._frames.alone(nbytes) if nbytes <= FRAME_BYTES else None
        if alone is not None and sender.pass_request(alone, self.last_used_s):
            return
    frames = self._frames.receive(nbytes)
    if frames is FILLING:
        return
    self._writer.cork()
    for frame, owned in frames:
        if self.closed:
            return
        sender = self._sender
        if sender is not None:
            is_short = len(frames) > 1 and len(frame) <= FRAME_BYTES
            if is_short and sender.pass_request(len(frame).to_bytes(4, "big") + frame, self.last_used_s):
                continue
            if order.unserved:
                sender.fast_path.serve_accepted()
        if (slot := order.receive(frame, owned)) is not None:
            self.serve(frame, slot)
    self._writer.uncork()
    self._flow.update()


def _update(self: FlowControl) -> None:
    readable = self._readable
    if readable is None or self._transport is None or self._transport.is_closing():
        return
    wanted = not self._order.stops
    if wanted != self._is_reading:
        self._is_reading = wanted
        (readable.resume_reading if wanted else readable.pause_reading)()


def _write_now(self: ResponseWriter, buffers: list[Buffer], size: int) -> None:
    transport = self.transport
    if transport is None or transport.is_closing():
        return
    if len(buffers) == 1:
        transport.write(buffers[0])
    else:
        transport.writelines(buffers)


def _without_checks(compile_source: Any) -> Any:
    def compiled(self: Source) -> dict[str, Any]:
        for name, text in self.functions.items():
            self.functions[name] = _CHECKS.sub("", text + "\n")
        names: dict[str, Any] = compile_source(self)
        return names

    return compiled


def unbound() -> None:
    """Take the bounds out of this process."""
    dispatch.TINY_BYTES = dispatch.PLAIN_BYTES = dispatch._SELDOM_PLAIN_BYTES = sys.maxsize  # type: ignore[misc, attr-defined]
    reader_source.READER_NAMES["read_string_length"] = reader_source.read_uvarint
    for kind, name, replacement in (
        (Source, "compile", _without_checks(Source.compile)),
        (FrameReader, "_grow", _grow),
        (ServerConnection, "buffer_updated", _buffer_updated),
        (FlowControl, "update", _update),
        (ResponseWriter, "write_now", _write_now),
    ):
        setattr(kind, name, replacement)


if __name__ == "__main__":
    unbound()
    sys.argv.insert(1, "broker")
    main()
