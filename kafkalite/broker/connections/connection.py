"""One client's connection: cuts frames, hands requests to dispatch, writes answers in the order of the requests.

As in Kafka, a connection has one request in progress at a time, so that requests take effect in order; the one exception is Produce,
of which several may wait for replication at once, because their appends have happened in order already. Answers always leave in
order. Bounds: a frame's size (socket.request.max.bytes, and less before the first answer), the bytes of requests that wait their turn,
how many are in progress, and the socket's write buffer; beyond them nothing more is read. Nor is it while the connection is muted, because
its client exceeded a quota, nor while there is no memory for the request that is arriving (`request_memory`), nor while what it sent waits
for its turn to be appended. What is unread of all connections' responses is bounded by `unread_responses`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any

from kafkalite.broker.connections.acceptor import Acceptor, Gate
from kafkalite.broker.connections.response_writer import ResponseWriter, is_portioned
from kafkalite.broker.connections.slots import Slot
from kafkalite.broker.connections.slow_senders import LEAST_BYTES_PER_SECOND
from kafkalite.broker.connections.stranger_reads import READ_BYTES, Readable
from kafkalite.broker.connections.stream_end import end_stream
from kafkalite.broker.produce.plain_produce import FRAME_BYTES, PlainShape, PlainShapes, PlainTurn
from kafkalite.broker.requests.request_handler import Answer, AuthenticationFailed, RequestHandler
from kafkalite.errors import BoundExceeded, KafkaError, ProtocolViolation
from kafkalite.lifecycle import report
from kafkalite.net.connection import receive_buffers
from kafkalite.net.frames import FILLING, RECEIVE_BYTES, FrameReader
from kafkalite.protocol.bounds import SMALL_BYTES
from kafkalite.security.principal import ANONYMOUS, KafkaPrincipal
from kafkalite.types import Buffer

logger = logging.getLogger("kafkalite.broker.connections.connection")

_WAITING_BYTES_MAX = 4 * 1024 * 1024
_PIPELINED_MAX = 128
_PIPELINED_PLAIN_MAX = 512
"""While so many Produce requests that are served with others are in progress, which keep little, nothing more is read. There are more when
they were received in one go: served one by one they would take so long that a client who is behind could never catch up."""
WAITING_OVERHEAD_BYTES = 256
"""What a request that waits takes beside its bytes."""
_FETCH = b"\x00\x01"


def _is_produce(frame: memoryview) -> bool:
    return len(frame) > 1 and frame[0] == 0 == frame[1]  # ApiKey.PRODUCE


def _with_length(frame: memoryview) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


class ServerConnection(asyncio.BufferedProtocol):
    """See the module. `listener` is the name of the listener that accepted it, `unproven_bytes` the bound before the first answer.

    With a `gate` that bound holds until it is authenticated; without one `identify` may tell from the transport who it is.
    """

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
        self._memory, self.unread = server.memory, server.unread
        self._writer = ResponseWriter(server.unread)
        self._max_frame_bytes = max_frame_bytes
        self._frames = FrameReader(
            receive_buffers(self._loop),
            max_frame_bytes if unproven_bytes is None else min(unproven_bytes, max_frame_bytes),
            self._may_take,
            RECEIVE_BYTES if gate is None else READ_BYTES,
        )
        self.get_buffer = self._frames.get_buffer  # type: ignore[method-assign]  # without a call more for each piece
        self._is_proven = False
        self._held_bytes = 0
        """Counted in the memory of all connections: what arrives, what waits, what is in progress."""
        self._in_progress_bytes = 0
        self._cut_since_s: float | None = None
        """Since when the request that is arriving has been, without the time in which nothing was read."""
        self._paused_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._readable: Readable | None = None
        """What is paused and resumed: the transport, or what gives a stranger its turns."""
        self._slots: deque[Slot] = deque()
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._returned = 0
        """How many of them, from the first on, were given to a turn that did not serve them."""
        self._pipelining = False
        self._reading = True
        self._muted: asyncio.TimerHandle | None = None
        self.closed = False
        self._turn: PlainTurn | None = None
        """Who serves the requests that have one of the shapes, once there are some."""
        self._shapes: PlainShapes | None = None
        self._is_held = False
        """Is nothing to be read until what was given to the turn is served?"""
        self._session_end_s = inf
        self.plain_waits = False
        """Are requests of this connection to be served at the end of the turn? Then nothing else may begin before they are."""

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self.peer_host = peer[0] if peer else ""
        self.last_used_s = self._loop.time()
        made: asyncio.Transport = transport  # type: ignore[assignment]
        self._writer.open(made)
        admitted = self.server.admit(self)
        self._transport = self._readable = made
        if admitted and self._identify is not None:
            try:
                self.principal = self._identify(transport)
            except ValueError as problem:
                logger.warning("closing the connection from %s on %s: %s", self.peer_host, self.listener, problem)
                admitted = False
        if not admitted:
            made.abort()
        elif self._gate is not None:
            self._readable = self._gate.attach(self, made)
        if admitted and self._muted is not None:
            self._loop.call_soon(self._limit_reading)  # not now: uvloop begins to read after this, paused or not

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._gate is not None:
            self._gate.detach(self)
        if self._muted is not None:
            self._muted.cancel()
        self._waiting.clear()
        for slot in self._slots:
            if slot.delayed_fetch is not None:  # nobody is left to answer; other requests run to their end
                slot.delayed_fetch.cancel()
        self._slots.clear()
        self.server.slow_senders.ended(self)
        self._memory.leave(self)
        self._memory.change(-self._held_bytes)
        self._held_bytes = 0
        self._transport = None
        if self._shapes is not None:
            self._shapes.close()
        self._writer.close()
        self._frames.release()
        self.server.gone(self)

    def buffer_updated(self, nbytes: int) -> None:
        self.last_used_s = self._loop.time()
        turn = self._turn
        if turn is not None:
            alone = self._frames.alone(nbytes) if nbytes <= FRAME_BYTES and not self._waiting else None
            if alone is not None and self._give_to_turn(alone, turn):
                return
        frames = self._frames.received(nbytes)
        if frames is FILLING:
            return
        if self._frames.is_cut:
            if frames or self._cut_since_s is None:
                self._cut_since_s = self.last_used_s
                self.server.slow_senders.begun(self)
        elif self._cut_since_s is not None:
            self._cut_since_s = None
            self.server.slow_senders.ended(self)
        self._writer.cork()
        for frame, owned in frames:
            if self.closed:
                return
            turn = self._turn
            if turn is not None:
                is_short = len(frames) > 1 and len(frame) <= FRAME_BYTES and not self._waiting
                if is_short and self._give_to_turn(_with_length(frame), turn):
                    continue
                if self.plain_waits:
                    turn.end()
            self._take(frame, owned)
        if self._frames.violation and not self.closed:
            self._violation(BoundExceeded("frame size", self._frames.violation))
        self._writer.uncork()
        self._limit_reading()

    def pause_writing(self) -> None:
        self._writer.pause()
        self._limit_reading()

    def resume_writing(self) -> None:
        self.last_used_s = self._loop.time()  # the client has read
        self._writer.resume()
        self._serve_waiting()
        self._limit_reading()

    # Requests

    def _take(self, frame: memoryview, owned: bool) -> None:
        if self._waiting or not self._may_start(frame):
            kept = frame if owned else memoryview(bytearray(frame))
            self._waiting.append(kept)
            self._waiting_bytes += len(kept) + WAITING_OVERHEAD_BYTES
        else:
            self._start(frame)

    def _may_start(self, frame: memoryview) -> bool:
        if not self._writer.is_writable or self._muted is not None:
            return False
        # Produce behind Produce: see the module.
        return not self._slots or (self._pipelining and len(self._slots) < _PIPELINED_MAX and _is_produce(frame))

    def _start(self, frame: memoryview) -> None:
        slot = Slot()
        self._pipelining = _is_produce(frame)
        self._slots.append(slot)
        try:
            reply = self.dispatcher.handle(frame, self)
        except ProtocolViolation as problem:
            self._violation(problem)
            return
        except Exception as problem:  # not even the error could be answered; nothing behind it could be either
            report("answering a request failed", problem)
            self._violation(f"internal error: {problem!r}")
            return
        if isinstance(reply, asyncio.Future):
            if frame[:2] == _FETCH:
                slot.delayed_fetch = reply
            if len(frame) > SMALL_BYTES and not self._pipelining:  # a Produce that is replicated keeps no records
                slot.request_bytes = len(frame)
                self._in_progress_bytes += slot.request_bytes
            reply.add_done_callback(lambda future: self._finish_later(slot, future))
        else:
            self._finish(slot, reply)

    # Produce requests that are served with others: see `plain_produce`

    @property
    def wants_shape(self) -> bool:
        """Is it worth the time to say what the requests of this connection look like?"""
        return self._gate is None and (self._shapes is None or self._shapes.has_room)

    def repeats(self, shape: PlainShape, turn: PlainTurn) -> None:
        """Requests of this shape too are served by `turn` from now on."""
        if self.closed:
            return
        if self._shapes is None:
            self._shapes = PlainShapes(self.server.shape_room)
        self._shapes.add(shape)
        self._turn = turn

    def _give_to_turn(self, request: bytes, turn: PlainTurn) -> bool:
        """Have what begins with a length served with others, if it is a request of a known shape and may begin."""
        if (
            not self._writer.is_writable
            or self._muted is not None
            or (self._slots and not self._pipelining)
            or self.last_used_s > self._session_end_s
            or self._shapes is None
            or (found := self._shapes.find(request)) is None
        ):
            return False
        shape, begin = found
        turn.take(self, shape, request, begin)
        if self._slots and not self._is_held and turn.hold(self):
            self.hold_reading(True)
        return True

    def hold_reading(self, is_held: bool) -> None:
        """What comes meanwhile stays in the socket, to be read in one go."""
        self._is_held = is_held
        self._limit_reading()

    def answered(self, answer: bytes) -> None:
        """To the oldest request that is not answered yet, of those that were given to a turn."""
        if self.closed:
            return
        if self._slots or self._writer.is_corked:
            slot = Slot()
            self._slots.append(slot)
            self._finish(slot, [answer])
        else:
            self._writer.write_now([answer], len(answer))

    def answer_later(self) -> Slot:
        """As `answered`, with an answer that comes later: what is behind it waits, unless that is a Produce too."""
        slot = Slot()
        if not self.closed:
            self._slots.append(slot)
            self._pipelining = True
            if len(self._slots) == _PIPELINED_PLAIN_MAX:
                self._limit_reading()
        return slot

    def send_done(self) -> None:
        """Some that were to come later are there."""
        if not self.closed:
            if len(self._slots) > 1:  # what is committed together is answered together
                self._writer.cork_for_turn(self._loop)
            self._write_done()
            self._serve_waiting()
            self._limit_reading()

    def take_as_any(self, request: bytes) -> None:
        """Serve a request that was given to a turn as any other, before all that was not; it begins with its length."""
        if not self.closed:
            frame = memoryview(bytearray(request))[4:]
            if self._returned or not self._may_start(frame):
                self._waiting.insert(self._returned, frame)
                self._waiting_bytes += len(frame) + WAITING_OVERHEAD_BYTES
                self._returned += 1
            else:
                self._start(frame)
            self._limit_reading()

    def _finish_later(self, slot: Slot, future: asyncio.Future[Answer]) -> None:
        if future.cancelled():
            return
        problem = future.exception()
        if problem is not None and not isinstance(problem, ProtocolViolation):
            report("answering a request failed", problem)
        if self.closed:
            return
        if isinstance(problem, AuthenticationFailed):
            self._end_after(problem.answer)
            return
        if problem is None:
            self._finish(slot, future.result())
            self._serve_waiting()
            self._limit_reading()
        elif isinstance(problem, ProtocolViolation):
            self._violation(problem)
        else:
            self._violation(f"internal error: {problem!r}")

    def _finish(self, slot: Slot, frame: Answer) -> None:
        if (
            frame and len(frame) > 1 and is_portioned(frame)
        ):  # it keeps its place until it is sent, so nothing behind it begins
            self._writer.write_portions(frame, lambda: self._sent(slot), self._cannot_send)
            return
        slot.done, slot.frame = True, frame
        self._in_progress_bytes -= slot.request_bytes
        if not self._is_proven and self._gate is None:
            self._is_proven = True
            self._frames.max_bytes = self._max_frame_bytes
        self._write_done()

    def _write_done(self) -> None:
        """The answers before the first that is not there."""
        slots = self._slots
        ready: list[Buffer] = []
        while slots and slots[0].done:
            answer = slots.popleft().frame
            if answer:
                ready += answer
        if ready:
            size = 0
            for each in ready:  # cheaper than sum() for so few
                size += len(each)
            self._writer.write(ready, size)

    def _sent(self, slot: Slot) -> None:
        self._finish(slot, None)
        self._serve_waiting()
        self._limit_reading()

    def _cannot_send(self, problem: KafkaError) -> None:
        logger.warning("closing the connection from %s on %s: %s", self.peer_host, self.listener, problem)
        self.close()

    def _serve_waiting(self) -> None:
        turn = self._turn
        while self._waiting and not self.closed:
            frame, is_returned = self._waiting[0], self._returned > 0
            if turn is not None and len(frame) <= FRAME_BYTES and not is_returned:
                self._waiting.popleft()  # the turn may end, and return what was before it
                if self._give_to_turn(_with_length(frame), turn):
                    self._waiting_bytes -= len(frame) + WAITING_OVERHEAD_BYTES
                    continue
                self._waiting.appendleft(frame)
            if turn is not None and self.plain_waits:
                turn.end()
            elif self._may_start(frame):
                self._waiting.popleft()
                self._waiting_bytes -= len(frame) + WAITING_OVERHEAD_BYTES
                self._returned -= is_returned
                self._start(frame)
            else:
                return

    def _limit_reading(self) -> None:
        transport, readable = self._transport, self._readable
        if transport is None or readable is None or self.closed or transport.is_closing():
            return
        held_bytes = self._frames.buffered_bytes + self._waiting_bytes + self._in_progress_bytes
        if held_bytes != self._held_bytes:
            memory, difference = self._memory, held_bytes - self._held_bytes
            self._held_bytes = held_bytes
            if difference < 0 and memory.is_awaited:
                self._give_back(difference)
            else:
                memory.used_bytes += difference
        wanted = (
            self._writer.is_writable
            and self._muted is None
            and not self._frames.stalled
            and not self._is_held
            and len(self._slots) < _PIPELINED_PLAIN_MAX
        )
        if self._waiting and wanted:
            wanted = (
                self._gate is None
                and self._waiting_bytes < _WAITING_BYTES_MAX
                and len(self._waiting) < _PIPELINED_MAX
                and not self._memory.is_short
            )
        if wanted != self._reading:
            self._reading = wanted
            if wanted:
                if self._cut_since_s is not None:
                    self._cut_since_s += self._loop.time() - self._paused_s
                readable.resume_reading()
            else:
                self._paused_s = self._loop.time()
                readable.pause_reading()

    # Memory and time of the request that is arriving

    def _may_take(self, size: int) -> bool:
        return size <= SMALL_BYTES or self._memory.grants(self, size)

    def _give_back(self, difference: int) -> None:
        if not self._held_bytes:
            self._memory.leave(self)
        self._memory.change(difference)

    def memory_is_back(self) -> bool:
        """Read on, where memory was missing; False when it still is."""
        if self._frames.stalled and not self.closed:
            if not self._frames.go_on():
                return False
            self._limit_reading()
        return True

    def is_late(self, now_s: float, timeout_s: float) -> bool:
        """Should all of the request that is arriving be there? Not while it is not read."""
        if self._cut_since_s is None or not self._reading:
            return False
        return now_s - self._cut_since_s > timeout_s + self._frames.arriving[1] / LEAST_BYTES_PER_SECOND

    def end_as_slow(self, now_s: float) -> None:
        """Close, because the request does not arrive."""
        there, size = self._frames.arriving
        age_s = now_s - (self._cut_since_s or now_s)
        text = f"{there} bytes of a request of {size or 'unknown'} after {age_s:.0f} s"
        self._violation(BoundExceeded("slow sender", text))

    @property
    def unread_bytes(self) -> int:
        return 0 if self.closed else self._writer.unread_bytes

    @property
    def written_bytes(self) -> int:
        return self._writer.written_bytes

    def end_as_unread(self, unread_s: float, total_bytes: int) -> None:
        text = f"{self.unread_bytes} bytes of responses unread for {unread_s:.0f} s, {total_bytes} on all connections"
        self._violation(BoundExceeded("unread responses", text))

    def begin_alone(self) -> None:
        """Nothing behind the request that is being begun may overtake it, a Produce behind a Produce neither."""
        self._pipelining = False

    def mute(self, duration_s: float) -> None:
        """Begin no request for this long, because its client exceeded a quota (KIP-219); answers still leave."""
        end_s = self._loop.time() + duration_s
        if self._muted is not None:
            if self._muted.when() >= end_s:
                return
            self._muted.cancel()
        self._muted = self._loop.call_at(end_s, self._unmute)
        self._limit_reading()

    def _unmute(self) -> None:
        self._muted = None
        self.last_used_s = self._loop.time()
        self._serve_waiting()
        self._limit_reading()

    @property
    def in_progress(self) -> int:
        """Requests whose answer has not left yet."""
        return len(self._slots)

    @property
    def is_idle(self) -> bool:
        is_served = not self._slots or self._writer.is_in_portions
        return is_served and not self._waiting and not self.plain_waits and self._muted is None

    def _violation(self, problem: str | ProtocolViolation) -> None:
        """Answers to the requests before the bad one still leave, as far as the socket takes them."""
        if isinstance(problem, BoundExceeded):
            self.server.bound_exceeded(problem.bound)
        logger.warning("closing the connection from %s on %s: %s", self.peer_host, self.listener, problem)
        self._writer.uncork()
        self.close()

    def expect(self, largest_bytes: int) -> None:
        """A request may have so many bytes from now on."""
        self._frames.max_bytes = min(largest_bytes, self._max_frame_bytes)

    def authenticated(self, principal: KafkaPrincipal, handler: RequestHandler, lifetime_ms: int | None) -> None:
        """It belongs to the principal from now on, without end or for `lifetime_ms`, and the handler takes its requests."""
        self.principal, self.dispatcher, self._gate = principal, handler, None
        self._frames.widen()
        self._session_end_s = inf if lifetime_ms is None else self._loop.time() + lifetime_ms / 1000

    def _end_after(self, answer: Answer) -> None:
        """Close once the answer, if there is one, has left."""
        self.closed = True
        if self._transport is not None and self._readable is not None:
            self._readable.resume_reading()  # TLS waits for what its client says of the end
            self._writer.uncork()
            if answer:
                self._writer.write_now(answer, sum(map(len, answer)))
            self._transport.close()

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            end_stream(self._transport)

    def statistics(self) -> dict[str, Any]:
        return {
            "peer": self.peer_host,
            "in_progress": len(self._slots),
            "waiting": len(self._waiting),
            "waiting_bytes": self._waiting_bytes,
        }
