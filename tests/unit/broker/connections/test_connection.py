"""One client's connection: answers in order, Produce behind Produce, everything else waits, bounds (a fake transport)."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.connections.request_memory import RequestMemory
from kafkalite.broker.connections.slow_senders import SlowSenders
from kafkalite.broker.connections.unread_responses import UnreadResponses
from kafkalite.broker.produce.request_template import TemplateBudget
from kafkalite.config.broker import LiveConfig
from kafkalite.errors import ProtocolViolation
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.broker_settings import broker_config

PRODUCE, OTHER = 0, 3
LIVE = LiveConfig(broker_config())


def frame(api_key: int, name: bytes, size: int = 0) -> bytes:
    """A request that is known by its name."""
    body = struct.pack(">hh", api_key, 0) + name.ljust(size, b".")
    return struct.pack(">i", len(body)) + body


class FakeTransport:
    """Notes what is done to it."""

    def __init__(self) -> None:
        self.written = b""
        self.writes = 0
        self.aborted = False
        self.reading = True
        self.read_bytes: int | None = None
        """What the peer has read; None: all."""

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.7", 5000) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def write(self, data: bytes) -> None:
        self.writes += 1
        self.written += bytes(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return 0 if self.read_bytes is None or self.aborted else len(self.written) - self.read_bytes

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.abort()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


class FakeDispatcher:
    """Answers a request with its name in brackets: at once, or when the test says so."""

    def __init__(self) -> None:
        self.started: list[bytes] = []
        self.pending: dict[bytes, asyncio.Future[Any]] = {}
        self.at_once: set[bytes] = set()
        self.large: list[bytes] = []

    def handle(self, request: memoryview, connection: Any) -> Any:
        name = bytes(request[4:]).rstrip(b".")
        self.started.append(name)
        if name == b"bad":
            raise ProtocolViolation("no request")
        if name == b"bug":
            raise ZeroDivisionError(name)
        if name == b"silent":
            return None
        if name == b"large":
            return self.large
        if name in self.at_once:
            return [b"[" + name + b"]"]
        self.pending[name] = asyncio.get_running_loop().create_future()
        return self.pending[name]

    def answer(self, name: bytes) -> None:
        self.pending.pop(name).set_result([b"[", name, b"]"])


class FakeServer:
    """Admits everybody, or nobody."""

    def __init__(self) -> None:
        self.is_open = True
        self.left = 0
        self.hold_s = 0.0
        self.bounds: list[str] = []
        self.memory = RequestMemory(LIVE)
        self.slow_senders = SlowSenders(LIVE)
        self.template_budget = TemplateBudget()
        self.connections: dict[Any, None] = {}
        self.unread = UnreadResponses(LIVE, self.connections)

    def admit(self, connection: Any) -> bool:
        self.connections[connection] = None
        if self.hold_s:
            connection.mute(self.hold_s)
        return self.is_open

    def remove(self, connection: Any) -> None:
        self.left += 1
        self.connections.pop(connection, None)

    def bound_exceeded(self, bound: str) -> None:
        self.bounds.append(bound)


class Peer:
    """A connection and everything around it."""

    def __init__(self, max_frame_bytes: int = 1 << 20, is_open: bool = True, hold_s: float = 0.0) -> None:
        self.server, self.dispatcher, self.transport = FakeServer(), FakeDispatcher(), FakeTransport()
        self.server.is_open, self.server.hold_s = is_open, hold_s
        self.connection = ServerConnection(self.server, self.dispatcher, "PLAINTEXT", max_frame_bytes)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def send(self, *frames: bytes) -> None:
        """All in one read, as far as the receive buffer allows."""
        data = b"".join(frames)
        while data and not self.connection.closed:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self.connection.buffer_updated(count)

    async def answer(self, *names: bytes) -> None:
        for name in names:
            self.dispatcher.answer(name)
        await virtual_time.settle()


def scenario(act: Callable[[Peer], Any], **options: Any) -> Peer:
    async def run() -> Peer:
        peer = Peer(**options)
        await act(peer)
        return peer

    return virtual_time.run(run())


def test_one_request_at_a_time() -> None:
    async def act(peer: Peer) -> None:
        peer.send(frame(OTHER, b"a"), frame(OTHER, b"b"), frame(PRODUCE, b"c"))
        assert peer.dispatcher.started == [b"a"]
        await peer.answer(b"a")
        assert peer.dispatcher.started == [b"a", b"b"]
        assert peer.transport.written == b"[a]"
        await peer.answer(b"b")
        assert peer.dispatcher.started == [b"a", b"b", b"c"]
        assert not peer.connection.is_idle
        await peer.answer(b"c")
        assert peer.transport.written == b"[a][b][c]"
        assert peer.connection.is_idle

    scenario(act)


def test_produce_goes_behind_produce_and_answers_stay_in_order() -> None:
    async def act(peer: Peer) -> None:
        peer.send(frame(PRODUCE, b"a"), frame(PRODUCE, b"b"), frame(PRODUCE, b"c"), frame(OTHER, b"d"))
        assert peer.dispatcher.started == [b"a", b"b", b"c"]
        await peer.answer(b"c", b"b")
        assert peer.transport.written == b""
        await peer.answer(b"a")
        assert peer.transport.written == b"[a][b][c]"
        assert peer.dispatcher.started[-1] == b"d"

    scenario(act)


def test_a_produce_does_not_overtake_what_waits() -> None:
    async def act(peer: Peer) -> None:
        peer.send(frame(PRODUCE, b"a"), frame(OTHER, b"b"), frame(PRODUCE, b"c"))
        assert peer.dispatcher.started == [b"a"]
        await peer.answer(b"a")
        assert peer.dispatcher.started == [b"a", b"b"]

    scenario(act)


def test_answers_that_are_there_at_once_leave_in_one_write() -> None:
    async def act(peer: Peer) -> None:
        peer.dispatcher.at_once = {b"a", b"b", b"c"}
        peer.send(frame(OTHER, b"a"), frame(PRODUCE, b"b"), frame(OTHER, b"c"))
        assert (peer.transport.written, peer.transport.writes) == (b"[a][b][c]", 1)

    scenario(act)


def test_a_request_without_answer_does_not_hold_up_the_next() -> None:
    async def act(peer: Peer) -> None:
        peer.dispatcher.at_once = {b"b"}
        peer.send(frame(PRODUCE, b"silent"), frame(OTHER, b"b"))
        assert peer.transport.written == b"[b]"

    scenario(act)


def test_a_waiting_request_outlives_the_shared_receive_buffer() -> None:
    async def act(peer: Peer) -> None:
        peer.send(frame(OTHER, b"a"), frame(OTHER, b"kept"))
        other = Peer()
        other.send(frame(OTHER, b"x" * 200))
        await peer.answer(b"a")
        assert peer.dispatcher.started == [b"a", b"kept"]

    scenario(act)


def test_a_bad_request_closes_the_connection_after_the_answers_before_it() -> None:
    async def act(peer: Peer) -> None:
        peer.dispatcher.at_once = {b"a", b"c"}
        peer.send(frame(OTHER, b"a"), frame(OTHER, b"bad"), frame(OTHER, b"c"))
        assert peer.transport.written == b"[a]"
        assert peer.transport.aborted
        assert peer.dispatcher.started == [b"a", b"bad"]

    scenario(act)


@pytest.mark.parametrize("length", [-1, 0, 101, 0x7FFFFFFF])
def test_a_bad_length_closes_the_connection(length: int) -> None:
    async def act(peer: Peer) -> None:
        peer.dispatcher.at_once = {b"a"}
        peer.send(frame(OTHER, b"a") + struct.pack(">i", length))
        assert peer.transport.written == b"[a]"
        assert peer.transport.aborted
        assert peer.server.bounds == ["frame size"]

    scenario(act, max_frame_bytes=100)


@pytest.mark.parametrize("problem", [ProtocolViolation("late"), RuntimeError("a bug")])
def test_a_failure_that_comes_later_closes_the_connection(problem: Exception) -> None:
    async def act(peer: Peer) -> None:
        peer.send(frame(PRODUCE, b"a"))
        with virtual_time.expected_errors() as seen:
            peer.dispatcher.pending[b"a"].set_exception(problem)
            await virtual_time.settle()
        assert peer.transport.aborted
        assert seen.count == isinstance(problem, RuntimeError)

    scenario(act)


def test_a_request_that_waited_its_turn_and_failed_left_its_connection_stuck() -> None:
    """Nobody is above it then but the loop: the request before it was just answered."""

    async def act(peer: Peer) -> None:
        peer.send(frame(OTHER, b"a"), frame(OTHER, b"bug"), frame(OTHER, b"c"))
        with virtual_time.expected_errors() as seen:
            await peer.answer(b"a")
        assert peer.transport.written == b"[a]" and peer.transport.aborted
        assert seen.count == 1

    scenario(act)


def test_an_answer_to_somebody_who_left_is_dropped() -> None:
    async def act(peer: Peer) -> None:
        peer.send(frame(OTHER, b"a"), frame(OTHER, b"b"))
        peer.connection.connection_lost(None)
        await peer.answer(b"a")
        assert peer.transport.written == b""
        assert peer.dispatcher.started == [b"a"]
        assert peer.server.left == 1

    scenario(act)


def test_a_failure_was_told_nobody_when_the_client_had_left() -> None:
    async def act(peer: Peer) -> None:
        peer.send(frame(OTHER, b"a"))
        peer.connection.connection_lost(None)
        with virtual_time.expected_errors() as seen:
            peer.dispatcher.pending.pop(b"a").set_exception(ZeroDivisionError("a bug"))
            await virtual_time.settle()
            assert seen.count == 1

    scenario(act)


def test_too_many_waiting_requests_stop_the_reading() -> None:
    async def act(peer: Peer) -> None:
        names = [b"%d" % number for number in range(130)]
        peer.send(*(frame(OTHER, name) for name in names))
        assert not peer.transport.reading
        assert peer.connection.statistics()["waiting"] == 129
        for name in names[:2]:
            await peer.answer(name)
        assert peer.transport.reading

    scenario(act)


def test_too_many_waiting_bytes_stop_the_reading() -> None:
    async def act(peer: Peer) -> None:
        peer.send(*(frame(OTHER, b"%d" % number, size=900_000) for number in range(6)))
        assert not peer.transport.reading
        await peer.answer(b"0")
        assert peer.transport.reading

    scenario(act)


def test_produce_requests_in_flight_are_bounded() -> None:
    async def act(peer: Peer) -> None:
        names = [b"%d" % number for number in range(140)]
        peer.send(*(frame(PRODUCE, name) for name in names))
        assert len(peer.dispatcher.started) == 128
        await peer.answer(b"0")
        assert len(peer.dispatcher.started) == 129

    scenario(act)


def test_a_reader_that_is_slow_is_read_no_more() -> None:
    async def act(peer: Peer) -> None:
        peer.connection.pause_writing()
        assert not peer.transport.reading
        peer.send(frame(OTHER, b"a"))
        assert peer.dispatcher.started == []
        peer.connection.resume_writing()
        assert peer.transport.reading
        assert peer.dispatcher.started == [b"a"]

    scenario(act)


def test_large_answers_to_requests_that_came_in_one_read_wait_for_their_reader() -> None:
    """Five fetches of 55 MB that came together were all answered into memory, for a client that read nothing."""

    async def act(peer: Peer) -> None:
        large = [b"x" * 1_000_000] * 9
        peer.dispatcher.large = large
        write = peer.transport.write

        def write_and_pause(data: bytes) -> None:
            write(data)
            peer.connection.pause_writing()

        peer.transport.write = write_and_pause  # type: ignore[method-assign]
        peer.send(frame(OTHER, b"large"), frame(OTHER, b"large"), frame(OTHER, b"large"))
        assert peer.dispatcher.started == [b"large"]
        peer.connection.resume_writing()
        assert peer.dispatcher.started == [b"large"] * 2

    scenario(act)


def test_one_connection_too_many_is_closed() -> None:
    async def act(peer: Peer) -> None:
        assert peer.transport.aborted

    scenario(act, is_open=False)


def test_a_muted_connection_begins_nothing_and_reads_nothing() -> None:
    async def act(peer: Peer) -> None:
        peer.send(frame(PRODUCE, b"a"))
        peer.connection.mute(2.0)
        assert not peer.transport.reading
        peer.send(frame(PRODUCE, b"b"))
        assert not peer.connection.is_idle
        await peer.answer(b"a")
        assert peer.transport.written == b"[a]", "the answer that tells of the throttling leaves at once"
        await asyncio.sleep(1.9)
        assert peer.dispatcher.started == [b"a"]
        await asyncio.sleep(0.2)
        assert peer.dispatcher.started == [b"a", b"b"]
        assert peer.transport.reading

    scenario(act)


def test_who_was_held_back_when_it_connected_was_read_all_the_same() -> None:
    """uvloop's transports begin to read after `connection_made`, whatever that asked of them."""

    async def scenario() -> None:
        peer = Peer(hold_s=1.0)
        assert peer.transport.reading  # a pause would be lost now
        await virtual_time.settle()
        assert not peer.transport.reading
        await asyncio.sleep(1.1)
        assert peer.transport.reading

    virtual_time.run(scenario())


def test_the_longest_of_several_silences_counts() -> None:
    async def act(peer: Peer) -> None:
        peer.connection.mute(2.0)
        peer.connection.mute(1.0)
        await asyncio.sleep(1.5)
        assert not peer.transport.reading
        peer.connection.mute(1.0)
        await asyncio.sleep(0.9)
        assert not peer.transport.reading
        await asyncio.sleep(0.2)
        assert peer.transport.reading

    scenario(act)


def test_a_muted_connection_may_be_lost() -> None:
    async def act(peer: Peer) -> None:
        peer.connection.mute(2.0)
        peer.connection.connection_lost(None)
        await asyncio.sleep(3)

    assert not scenario(act).transport.reading


def test_a_connection_that_is_lost_is_released_with_what_had_arrived() -> None:
    """Half a request of 100 MiB would stay until the garbage collector finds the circle."""

    async def run() -> None:
        peer = Peer()
        peer.send(frame(OTHER, b"large", 1 << 19)[: 1 << 18])
        peer.connection.connection_lost(None)
        peer.transport = FakeTransport()
        released = weakref.ref(peer.connection)
        del peer.connection
        assert released() is None

    gc.disable()
    try:
        virtual_time.run(run())
    finally:
        gc.enable()
