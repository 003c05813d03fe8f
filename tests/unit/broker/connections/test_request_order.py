"""Order on a connection: the table of transitions, and generated histories of requests, responses, stops and ends at every point."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalite.broker.connections.connection import ServerConnection
from kafkalite.broker.connections.request_order import (
    BEGINNING,
    HELD_BYTES_MAX,
    HELD_MAX,
    HELD_OVERHEAD_BYTES,
    MUTED,
    PACED,
    PIPELINED_MAX,
    RESPONSES_MAX,
    STOPS,
    TRANSITIONS,
    UNWRITABLE,
    Event,
    Phase,
    RequestOrder,
    Slot,
)
from kafkalite.errors import ProtocolViolation
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.connections.test_connection import OTHER, PRODUCE, FakeServer, FakeTransport, frame

PRODUCE_FRAME: Final = memoryview(frame(PRODUCE, b"p"))[4:]
OTHER_FRAME: Final = memoryview(frame(OTHER, b"o"))[4:]
MUTE_S: Final = 1.0


# The table


def test_every_phase_has_its_row_and_the_last_one_no_way_out() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert TRANSITIONS[Phase.CLOSED] == {}
    for phase, row in TRANSITIONS.items():
        assert phase is Phase.CLOSED or row[Event.CLOSE] is Phase.CLOSED
        assert Event.DRAINED not in row or row[Event.DRAINED] is Phase.IDLE


def test_nothing_begins_behind_a_request_but_produce_behind_produce() -> None:
    begins = {(phase, event) for phase, row in TRANSITIONS.items() for event in row if event <= Event.OTHER}
    assert begins == {
        (Phase.IDLE, Event.PRODUCE),
        (Phase.IDLE, Event.OTHER),
        (Phase.PRODUCING, Event.PRODUCE),
    }


@pytest.mark.parametrize("reason", STOPS)
def test_a_reason_stops_what_the_table_says(reason: int) -> None:
    order = RequestOrder()
    order.stop(reason)
    stops_beginning, stops_reading = STOPS[reason]
    assert order.may_read() is not stops_reading and bool(reason & BEGINNING) is stops_beginning
    assert (order.receive(OTHER_FRAME, True) is None) is stops_beginning
    order.lift(reason)
    assert order.may_read() and (order.begin_held() is not None) is stops_beginning


def test_each_bound_stops_the_reading_and_ends_with_its_cause() -> None:
    order = RequestOrder()
    first = order.receive(OTHER_FRAME, True)
    assert first is not None
    for _ in range(HELD_MAX):
        assert order.may_read()
        assert order.receive(OTHER_FRAME, True) is None
    assert not order.may_read()
    order.complete(first, None)
    assert order.begin_held() is not None and order.may_read()
    wide = RequestOrder()
    assert wide.receive(OTHER_FRAME, True) is not None
    assert wide.receive(memoryview(bytes(HELD_BYTES_MAX)), True) is None and not wide.may_read()
    fast = RequestOrder()
    fast.unserved = RESPONSES_MAX
    slots = [fast.reserve() for _ in range(RESPONSES_MAX)]
    assert not fast.may_read() and not fast.unserved
    assert fast.complete(slots[0], [b"a"]) == [b"a"] and fast.may_read()
    unknown = RequestOrder(is_authenticated=False)
    assert unknown.receive(OTHER_FRAME, True) is not None and unknown.may_read()
    assert unknown.receive(OTHER_FRAME, True) is None and not unknown.may_read()


def test_so_many_produce_requests_begin_and_no_more() -> None:
    order = RequestOrder()
    assert all(order.receive(PRODUCE_FRAME, True) is not None for _ in range(PIPELINED_MAX))
    assert order.receive(PRODUCE_FRAME, True) is None


def test_nothing_begins_behind_a_request_on_the_fast_path() -> None:
    order = RequestOrder()
    order.unserved = 2
    assert order.receive(OTHER_FRAME, True) is None and order.begin_held() is None
    first = order.return_request(PRODUCE_FRAME)
    assert first is not None
    order.stop_pipelining()
    assert order.return_request(PRODUCE_FRAME) is None, "the first one proved to be one that nothing overtakes"
    assert order.held[0] == PRODUCE_FRAME and order.returned == 1, "before what was not passed to the fast path"
    order.unserved += 1
    order.complete(first, None)
    assert order.return_request(memoryview(b"later")) is None, "it overtakes none that was returned before it"
    assert list(order.held)[:2] == [PRODUCE_FRAME, b"later"]
    begun = order.begin_held()
    assert begun is not None and begun[0] == PRODUCE_FRAME and order.returned == 1


def test_nothing_begins_or_leaves_once_the_connection_is_closed() -> None:
    order = RequestOrder()
    slot = order.receive(PRODUCE_FRAME, True)
    assert slot is not None
    order.unserved = 2
    order.close()
    assert order.receive(PRODUCE_FRAME, True) is None and order.return_request(PRODUCE_FRAME) is None
    assert not order.held and order.complete(slot, [b"a"]) == []
    assert order.complete(order.reserve(), [b"b"]) == []
    assert order.abandon() == [slot] and not order.slots


# Generated histories, on a whole connection


Step: TypeAlias = tuple[Any, ...]
_KINDS: Final = {
    "now": PRODUCE,  # answered at once
    "silent": PRODUCE,  # without a response
    "late": PRODUCE,  # answered when the history says so
    "xclusive": PRODUCE,  # as `late`, and nothing may overtake it
    "fast": PRODUCE,  # recognised by the fast path
    "other": OTHER,
    "quick": OTHER,  # answered at once
    "bad": OTHER,
    "unexpected": OTHER,
}
_OUTCOMES: Final = ("answer", "answer", "later", "return")
STEPS: Final[st.SearchStrategy[Step]] = st.one_of(
    st.tuples(
        st.just("send"),
        st.lists(st.sampled_from(("now", "silent", "late", "xclusive", "other", "quick")), min_size=1, max_size=5),
    ),
    st.tuples(st.just("send"), st.lists(st.sampled_from(("fast", "fast", "late", "other")), min_size=1, max_size=5)),
    st.tuples(st.just("send"), st.just(["fast"])),
    st.tuples(st.just("answer"), st.integers(0, 9)),
    st.tuples(st.just("serve fast path"), st.lists(st.sampled_from(_OUTCOMES), max_size=4)),
    st.tuples(st.just("commit"), st.integers(0, 9)),
    st.tuples(st.sampled_from(("pause writing", "resume writing", "mute", "wait", "pace"))),
)
ENDS: Final[st.SearchStrategy[Step]] = st.one_of(
    st.tuples(st.just("send"), st.sampled_from((["bad"], ["unexpected"], ["late", "bad", "now"], ["fast", "bad"]))),
    st.tuples(st.just("fail"), st.integers(0, 9)),
    st.tuples(st.sampled_from(("close", "lose"))),
)


class FakeTemplate:
    """Recognises nothing itself."""

    fields, fields_end = b"", 0


class FakeTemplates:
    """Recognises requests that are named so."""

    has_room = True

    def find(self, request: bytes) -> tuple[str, int] | None:
        is_whole = len(request) == 4 + int.from_bytes(request[:4], "big")
        return ("fast", 0) if is_whole and request[8:].startswith(b"fast") else None

    def add(self, template: object) -> None: ...

    def close(self) -> None: ...


@dataclass
class FakeFastPath:
    """Keeps requests until it is told to serve them; `outcomes` are those of the next ones."""

    line: Line
    passed: list[tuple[Any, bytes]] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    reserved: dict[bytes, tuple[Any, Slot]] = field(default_factory=dict)
    is_pacing = False
    paced: list[Any] = field(default_factory=list)

    def accept_request(self, sender: Any, template: object, request: bytes, begin: int) -> None:
        assert not self.line.order.stops & BEGINNING
        self.passed.append((sender, request))

    def hold_sender(self, sender: Any) -> bool:
        if self.is_pacing:
            self.paced.append(sender)
        return self.is_pacing

    def serve_accepted(self) -> None:
        passed, self.passed, self.is_pacing = self.passed, [], False
        paced, self.paced = self.paced, []
        for sender in paced:
            sender.hold_reading(False)
        is_returned = False
        for sender, request in passed:
            outcome = self.outcomes.pop(0) if self.outcomes else "answer"
            is_returned = is_returned or outcome == "return"
            name = request[8:]
            if is_returned:
                sender.return_request(request)
                continue
            self.line.note_effect(name)
            if outcome == "answer":
                sender.send_response(b"[" + name + b"]")
            else:
                self.reserved[name] = sender, sender.reserve_response()

    def commit(self, index: int) -> None:
        """Complete one of the responses that are in reserved places."""
        if self.reserved:
            name = list(self.reserved)[index % len(self.reserved)]
            sender, slot = self.reserved.pop(name)
            slot.done, slot.frame = True, [b"[" + name + b"]"]
            sender.send_completed()


class Line:
    """A connection, its dispatcher and its fast path, and what must hold of them after every step."""

    def __init__(self) -> None:
        self.server, self.transport = FakeServer(), FakeTransport()
        self.connection = ServerConnection(self.server, self, "PLAINTEXT", 1 << 20)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.fast_path = FakeFastPath(self)
        self.connection.add_template(FakeTemplate(), self.fast_path)  # type: ignore[arg-type]
        sender = self.connection._sender
        assert sender is not None
        sender.templates = FakeTemplates()  # type: ignore[assignment]
        self.order = self.connection._order
        self.sent: list[bytes] = []
        """The names of all requests, in their order."""
        self.effects: list[bytes] = []
        """Those that have taken effect, in the order in which they did."""
        self.pending: dict[bytes, asyncio.Future[Any]] = {}
        self.unread = b""

    def handle(self, request: memoryview, connection: ServerConnection) -> Any:
        """See `RequestHandler`."""
        name = bytes(request[4:])
        assert not connection.closed and not self.order.stops & BEGINNING
        assert len(self.order.slots) == 1 or _is_produce(name)
        self.note_effect(name)
        if name.startswith(b"bad"):
            raise ProtocolViolation("no request")
        if name.startswith(b"unexpected"):
            raise ZeroDivisionError(name)
        if name.startswith(b"silent"):
            return None
        if name.startswith((b"now", b"quick")):
            return [b"[" + name + b"]"]
        if name.startswith(b"x"):
            connection.stop_pipelining()
        self.pending[name] = asyncio.get_running_loop().create_future()
        return self.pending[name]

    def note_effect(self, name: bytes) -> None:
        assert all(_is_produce(each) and not each.startswith(b"x") for each in self.pending), "it overtakes nothing"
        self.effects.append(name)

    def send(self, kinds: list[str]) -> None:
        """Requests that arrive in one read, once the connection reads."""
        for kind in kinds:
            name = b"%s %d" % (kind.encode(), len(self.sent))
            self.sent.append(name)
            self.unread += frame(_KINDS[kind], name)
        self.arrive()

    def arrive(self) -> None:
        if self.unread and self.transport.reading and not self.connection.closed:
            data, self.unread = self.unread, b""
            self.connection.get_buffer(-1)[: len(data)] = data
            self.connection.buffer_updated(len(data))

    async def apply(self, step: Step) -> None:
        match step:
            case ("send", kinds):
                self.send(kinds)
            case ("answer", index) if self.pending:
                name = list(self.pending)[index % len(self.pending)]
                self.pending.pop(name).set_result([b"[", name, b"]"])
            case ("fail", index) if self.pending:
                name = list(self.pending)[index % len(self.pending)]
                self.pending.pop(name).set_exception(ProtocolViolation("late"))
            case ("serve fast path", outcomes):
                self.fast_path.outcomes = list(outcomes)
                self.fast_path.serve_accepted()
            case ("commit", index):
                self.fast_path.commit(index)
            case ("pause writing",):
                self.connection.pause_writing()
            case ("resume writing",):
                self.connection.resume_writing()
            case ("mute",):
                self.connection.mute(MUTE_S)
            case ("pace",):
                self.fast_path.is_pacing = True
            case ("close",):
                self.connection.close()
            case ("lose",):
                self.connection.connection_lost(None)
        await (asyncio.sleep(MUTE_S + 0.1) if step == ("wait",) else virtual_time.settle())
        self.arrive()
        await virtual_time.settle()
        self.check()

    def responses(self) -> list[bytes]:
        return re.findall(rb"\[([^]]*)\]", self.transport.written)

    def check(self) -> None:
        order = self.order
        assert self.effects == self.sent[: len(self.effects)], "requests take effect in their order, each of them once"
        with_response = [name for name in self.effects if not name.startswith((b"silent", b"bad", b"unexpected"))]
        responses = self.responses()
        assert responses == with_response[: len(responses)], "responses leave in their order, each of them once"
        assert order.held_bytes == sum(len(each) + HELD_OVERHEAD_BYTES for each in order.held)
        assert 0 <= order.returned <= len(order.held) and order.unserved >= 0
        if self.connection.closed:
            assert order.phase is Phase.CLOSED and not order.held
            return
        assert (order.phase is Phase.IDLE) == (not order.slots)
        assert not order.slots or not order.slots[0].done
        assert order.unserved == len(self.fast_path.passed)
        assert self.transport.reading == order.may_read()
        assert bool(order.stops & MUTED) == (self.connection._muted is not None)
        assert bool(order.stops & PACED) == bool(self.fast_path.paced)
        assert order.stops & UNWRITABLE or order.stops & MUTED or order.begin_held() is None, (
            "nothing waits without a cause"
        )

    async def finish(self) -> None:
        """Have all that was sent answered."""
        self.connection.resume_writing()
        await self.apply(("wait",))
        for _ in range(3 * len(self.sent) + 3):
            for step in (("serve fast path", []), ("answer", 0), ("commit", 0)):
                await self.apply(step)
        assert self.effects == self.sent
        assert self.responses() == [name for name in self.sent if not name.startswith(b"silent")]
        assert self.connection.is_idle and self.transport.reading and not self.server.memory.used_bytes


def _is_produce(name: bytes) -> bool:
    return not name.startswith((b"other", b"quick", b"bad", b"unexpected"))


def live(steps: list[Step], end: Callable[[Line], Any]) -> None:
    async def scenario() -> None:
        line = Line()
        for step in steps:
            await line.apply(step)
        await end(line)

    virtual_time.run(scenario())


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=25))
def test_all_requests_are_answered_once_and_in_order(steps: list[Step]) -> None:
    live(steps, Line.finish)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=15), ENDS, st.lists(STEPS, max_size=8))
def test_an_end_at_any_point_loses_no_order(before: list[Step], end: Step, behind: list[Step]) -> None:
    async def go_on(line: Line) -> None:
        with virtual_time.expected_errors():
            for step in (end, *behind, ("wait",)):
                await line.apply(step)
        if not line.connection.closed or line.server.left == 0:
            line.connection.connection_lost(None)
        await virtual_time.settle()
        line.check()
        assert line.server.memory.used_bytes == 0 and not line.order.slots

    live(before, go_on)
