"""One client's connection: cuts frames, hands requests to dispatch, and writes responses. What may begin, leave or be read when is decided
by `request_order`.

Bounds beside those of the order: a frame's size (socket.request.max.bytes, and less before the first response), the memory of requests
(`flow_control`) and the socket's write buffer. What is unread of all connections' responses is bounded by `unread_responses`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from kafkalite.broker.connections.acceptor import Acceptor, Gate
from kafkalite.broker.connections.fast_path_sender import FastPathSender
from kafkalite.broker.connections.flow_control import FlowControl
from kafkalite.broker.connections.request_order import MUTED, UNWRITABLE, RequestOrder, Slot
from kafkalite.broker.connections.response_writer import ResponseWriter, is_portioned
from kafkalite.broker.connections.stream_end import end_stream
from kafkalite.broker.connections.unauthenticated_reads import READ_BYTES
from kafkalite.broker.produce.fast_path import FastPath
from kafkalite.broker.produce.request_template import FRAME_BYTES, RequestTemplate, RequestTemplates
from kafkalite.broker.requests.request_handler import Answer, AuthenticationFailed, RequestHandler
from kafkalite.errors import BoundExceeded, KafkaError, ProtocolViolation
from kafkalite.lifecycle import report
from kafkalite.net.frames import FILLING, RECEIVE_BYTES
from kafkalite.protocol.bounds import SMALL_BYTES
from kafkalite.security.principal import ANONYMOUS, KafkaPrincipal

logger = logging.getLogger("kafkalite.broker.connections.connection")

_FETCH = b"\x00\x01"


def _with_length(frame: memoryview) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


class ServerConnection(asyncio.BufferedProtocol):
    """A connection that `server` has accepted on the listener of this name; it ends with its transport.

    Before the first response a request may have `unproven_bytes`. With a `gate` that bound holds until the connection is authenticated, and
    the gate takes its requests; without one `identify` may tell from the transport which principal it belongs to.
    """

    __slots__ = (
        "__weakref__",
        "_flow",
        "_frames",
        "_gate",
        "_identify",
        "_is_proven",
        "_loop",
        "_max_frame_bytes",
        "_muted",
        "_order",
        "_sender",
        "_session_end_s",
        "_transport",
        "_writer",
        "closed",
        "dispatcher",
        "get_buffer",
        "last_used_s",
        "listener",
        "peer_host",
        "principal",
        "server",
        "unread",
    )

    def __init__(
        self,
        server: Acceptor[ServerConnection],
        dispatcher: RequestHandler,
        listener: str,
        max_frame_bytes: int,
        unproven_bytes: int | None = None,
        gate: Gate[ServerConnection] | None = None,
        identify: Callable[[asyncio.BaseTransport], KafkaPrincipal] | None = None,
    ) -> None:
        self.server = server
        self.dispatcher: RequestHandler = gate or dispatcher
        self._gate, self._identify = gate, identify
        self.listener = listener
        self.peer_host = ""
        self.principal: KafkaPrincipal = ANONYMOUS
        self.last_used_s = 0.0
        self._loop = asyncio.get_running_loop()
        self.unread = server.unread
        self._order = RequestOrder(is_authenticated=gate is None)
        self._writer = ResponseWriter(server.unread)
        self._max_frame_bytes = max_frame_bytes
        first_bytes = max_frame_bytes if unproven_bytes is None else min(unproven_bytes, max_frame_bytes)
        self._flow = FlowControl(
            self._order, server.memory, self._loop, first_bytes, RECEIVE_BYTES if gate is None else READ_BYTES
        )
        self._frames = self._flow.frames
        self.get_buffer = self._frames.get_buffer  # type: ignore[method-assign]  # without a call more for each piece
        self._is_proven = False
        self._transport: asyncio.Transport | None = None
        self._muted: asyncio.TimerHandle | None = None
        self.closed = False
        self._sender: FastPathSender | None = None
        """Passes Produce requests to the fast path, once there is a template of them."""
        self._session_end_s = inf

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self.peer_host = peer[0] if peer else ""
        self.last_used_s = self._loop.time()
        made: asyncio.Transport = transport  # type: ignore[assignment]
        self._writer.open(made)
        admitted = self.server.admit(self)
        self._transport = made
        if admitted and self._identify is not None:
            try:
                self.principal = self._identify(transport)
            except ValueError as problem:
                logger.warning("closing the connection from %s on %s: %s", self.peer_host, self.listener, problem)
                admitted = False
        if not admitted:
            made.abort()
        self._flow.open(made, self._gate.attach(self, made) if admitted and self._gate is not None else made)
        if admitted and self._muted is not None:
            self._loop.call_soon(self._flow.update)  # not now: uvloop begins to read after this, paused or not

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._gate is not None:
            self._gate.detach(self)
        if self._muted is not None:
            self._muted.cancel()
        for slot in self._order.abandon():
            if slot.cancel is not None:
                slot.cancel()
        self.server.slow_senders.forget(self)
        self._flow.close()
        self._transport = None
        if self._sender is not None:
            self._sender.templates.close()
            self._sender = None
        self._writer.close()
        self.server.remove(self)

    def buffer_updated(self, nbytes: int) -> None:
        self.last_used_s = self._loop.time()
        sender, order = self._sender, self._order
        if sender is not None:
            alone = self._frames.alone(nbytes) if nbytes <= FRAME_BYTES and not order.held else None
            if alone is not None and sender.pass_request(alone, self.last_used_s):
                return
        frames = self._frames.receive(nbytes)
        if frames is FILLING:
            return
        if self._frames.is_cut:
            if frames or self._flow.arriving_since_s is None:
                self._flow.arriving_since_s = self.last_used_s
                self.server.slow_senders.watch(self)
        elif self._flow.arriving_since_s is not None:
            self._flow.arriving_since_s = None
            self.server.slow_senders.forget(self)
        self._writer.cork()
        for frame, owned in frames:
            if self.closed:
                return
            sender = self._sender
            if sender is not None:
                is_short = len(frames) > 1 and len(frame) <= FRAME_BYTES and not order.held
                if is_short and sender.pass_request(_with_length(frame), self.last_used_s):
                    continue
                if order.unserved:
                    sender.fast_path.serve_accepted()
            if (slot := order.receive(frame, owned)) is not None:
                self.serve(frame, slot)
        if self._frames.violation and not self.closed:
            self._end_violation(BoundExceeded("frame size", self._frames.violation))
        self._writer.uncork()
        self._flow.update()

    def pause_writing(self) -> None:
        self._writer.pause()
        self._order.stop(UNWRITABLE)
        self._flow.update()

    def resume_writing(self) -> None:
        self.last_used_s = self._loop.time()  # the client has read
        self._order.lift(UNWRITABLE)
        self._writer.resume()
        self.advance()

    # Requests and responses

    def serve(self, frame: memoryview, slot: Slot) -> None:
        """Pass the request to the handler, and send its response, now or later."""
        try:
            reply = self.dispatcher.handle(frame, self)
        except ProtocolViolation as problem:
            self._end_violation(problem)
            return
        except Exception as problem:  # not even the error could be answered; nothing behind it could be either
            report("answering a request failed", problem)
            self._end_violation(f"internal error: {problem!r}")
            return
        if isinstance(reply, asyncio.Future):
            if frame[:2] == _FETCH:
                slot.cancel = reply.cancel
            if len(frame) > SMALL_BYTES:
                self._order.count_bytes(slot, len(frame))
            reply.add_done_callback(partial(self._finish_later, slot))
        else:
            self._finish(slot, reply)

    def _finish_later(self, slot: Slot, future: asyncio.Future[Answer]) -> None:
        if future.cancelled():
            return
        problem = future.exception()
        if problem is not None and not isinstance(problem, ProtocolViolation):
            report("answering a request failed", problem)
        if self.closed:
            return
        if isinstance(problem, AuthenticationFailed):
            self._close_after(problem.answer)
        elif problem is None:
            self._finish(slot, future.result())
            self.advance()
        elif isinstance(problem, ProtocolViolation):
            self._end_violation(problem)
        else:
            self._end_violation(f"internal error: {problem!r}")

    def _finish(self, slot: Slot, response: Answer) -> None:
        if response and len(response) > 1 and is_portioned(response):
            # The slot keeps its place until all is sent, so nothing behind it begins.
            self._writer.write_portions(response, partial(self._finish_portioned, slot), self._end_unreadable)
            return
        if not self._is_proven and self._gate is None:
            self._is_proven = True
            self._frames.max_bytes = self._max_frame_bytes
        if ready := self._order.complete(slot, response):
            self._writer.write(ready)

    def _finish_portioned(self, slot: Slot) -> None:
        self._finish(slot, None)
        self.advance()

    def advance(self) -> None:
        """Serve the held requests that may begin now, and read on if there is room."""
        order, sender = self._order, self._sender
        while order.held and not self.closed:
            if sender is not None:
                frame = order.held[0]
                is_new = not order.returned and len(frame) <= FRAME_BYTES
                if is_new and sender.pass_request(_with_length(frame), self.last_used_s, is_held=True):
                    continue
                if order.unserved:
                    sender.fast_path.serve_accepted()
                    continue
            if (begun := order.begin_held()) is None:
                break
            self.serve(*begun)
        self._flow.update()

    # The fast path of Produce

    @property
    def wants_template(self) -> bool:
        """True if there is room for one more template of this connection's requests."""
        return self._gate is None and (self._sender is None or self._sender.templates.has_room)

    def add_template(self, template: RequestTemplate, fast_path: FastPath) -> None:
        """Pass requests that the template recognises to the fast path from now on."""
        if self.closed:
            return
        if self._sender is None:
            self._sender = FastPathSender(
                self,
                self._order,
                self._writer,
                self._flow,
                fast_path,
                RequestTemplates(self.server.template_budget),
                self._session_end_s,
            )
        self._sender.templates.add(template)

    # What others tell a connection

    def stop_pipelining(self) -> None:
        """Begin nothing behind the request in progress until it is answered, not even a Produce behind a Produce."""
        self._order.stop_pipelining()

    def mute(self, duration_s: float) -> None:
        """Begin no request for this long, because its client exceeded a quota (KIP-219); responses still leave."""
        end_s = self._loop.time() + duration_s
        if self._muted is not None:
            if self._muted.when() >= end_s:
                return
            self._muted.cancel()
        self._muted = self._loop.call_at(end_s, self._unmute)
        self._order.stop(MUTED)
        self._flow.update()

    def _unmute(self) -> None:
        self._muted = None
        self._order.lift(MUTED)
        self.last_used_s = self._loop.time()
        self.advance()

    def complete_authentication(
        self, principal: KafkaPrincipal, handler: RequestHandler, lifetime_ms: int | None
    ) -> None:
        """Belong to the principal from now on, for `lifetime_ms` or without end, and have the handler take the requests."""
        self.principal, self.dispatcher, self._gate = principal, handler, None
        self._order.is_authenticated = True
        self._frames.widen()
        self._session_end_s = inf if lifetime_ms is None else self._loop.time() + lifetime_ms / 1000
        if self._sender is not None:
            self._sender.session_end_s = self._session_end_s

    def expect(self, largest_bytes: int) -> None:
        """Allow requests of so many bytes from now on."""
        self._frames.max_bytes = min(largest_bytes, self._max_frame_bytes)

    # What others ask of a connection

    def is_late(self, now_s: float, timeout_s: float) -> bool:
        """True if all of the request that is arriving should be there."""
        return self._flow.is_late(now_s, timeout_s)

    @property
    def unread_bytes(self) -> int:
        return 0 if self.closed else self._writer.unread_bytes

    @property
    def written_bytes(self) -> int:
        return self._writer.written_bytes

    @property
    def in_progress(self) -> int:
        """Return the number of requests whose response has not left yet."""
        return len(self._order.slots)

    @property
    def is_idle(self) -> bool:
        order = self._order
        is_served = not order.slots or self._writer.is_in_portions
        return is_served and not order.held and not order.unserved and self._muted is None

    def statistics(self) -> dict[str, Any]:
        return {
            "peer": self.peer_host,
            "in_progress": len(self._order.slots),
            "waiting": len(self._order.held),
            "waiting_bytes": self._order.held_bytes,
        }

    # The end

    def _stop(self) -> None:
        """Begin, read and send nothing more."""
        self.closed = True
        self._order.close()

    def end_as_slow(self, now_s: float) -> None:
        """Close, because the request that has begun does not arrive."""
        there, size = self._frames.arriving
        age_s = now_s - (self._flow.arriving_since_s or now_s)
        text = f"{there} bytes of a request of {size or 'unknown'} after {age_s:.0f} s"
        self._end_violation(BoundExceeded("slow sender", text))

    def end_as_unread(self, unread_s: float, total_bytes: int) -> None:
        """Close, because the client has not read its responses for so long."""
        text = f"{self.unread_bytes} bytes of responses unread for {unread_s:.0f} s, {total_bytes} on all connections"
        self._end_violation(BoundExceeded("unread responses", text))

    def _end_unreadable(self, problem: KafkaError) -> None:
        """Close, because the records of a response cannot be read."""
        logger.warning("closing the connection from %s on %s: %s", self.peer_host, self.listener, problem)
        self.close()

    def _end_violation(self, problem: str | ProtocolViolation) -> None:
        """Close, because of a bad request; responses to those before it still leave, as far as the socket takes them."""
        if isinstance(problem, BoundExceeded):
            self.server.bound_exceeded(problem.bound)
        logger.warning("closing the connection from %s on %s: %s", self.peer_host, self.listener, problem)
        self._writer.uncork()
        self.close()

    def _close_after(self, response: Answer) -> None:
        """Close once the response, if there is one, has left."""
        self._stop()
        if self._transport is not None:
            self._flow.read_to_end()
            self._writer.uncork()
            if response:
                self._writer.write_now(response, sum(map(len, response)))
            self._transport.close()

    def close(self) -> None:
        self._stop()
        if self._transport is not None:
            end_stream(self._transport)
