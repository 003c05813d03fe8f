"""The order of requests and responses on one connection: a state machine without I/O, clock or event loop.

As in Kafka, a connection has one request in progress at a time, so that requests take effect in order. The one exception is Produce:
several may wait for replication at once, because their appends have happened in order already. Responses always leave in the order of the
requests.

The rule is `TRANSITIONS`: a request begins if the row of the present phase has an entry for it. Otherwise it is held, and so is every
request behind it. `STOPS` says what each reason stops, whatever the phase. The bounds are the constants below; beyond them nothing more is
read.

Frames come in through `receive`, responses through `complete`, `reserve` and `release`. What comes out are effects, for the connection to
carry out: a `Slot` means "serve this request now" (None: it is held), a list of buffers means "send this now", `may_read` says whether to
read. What the fast path of Produce does with its requests comes in through `reserve` and `return_request`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final

from kafkalite.types import Buffer

HELD_BYTES_MAX: Final = 4 * 1024 * 1024
HELD_MAX: Final = 128
"""Requests that are held before nothing more is read."""
PIPELINED_MAX: Final = 128
"""Produce requests in progress before no other begins."""
RESPONSES_MAX: Final = 512
"""Responses that have not left before nothing more is read. There may be more of them than `PIPELINED_MAX` on the fast path, which keeps
little of a request: served one by one they would take so long that a client that is behind could never catch up."""
HELD_OVERHEAD_BYTES: Final = 256
"""Memory of a request that is held, beside its bytes."""


class Phase(IntEnum):
    """Which requests are in progress."""

    IDLE = 0
    PRODUCING = 1
    """Produce requests, behind which another Produce may begin."""
    EXCLUSIVE = 2
    """A request behind which nothing begins until all responses have left."""
    CLOSED = 3


class Event(IntEnum):
    """The events that change the phase."""

    PRODUCE = 0
    """A Produce request begins."""
    OTHER = 1
    """A request of another API begins."""
    PIPELINING_STOPPED = 2
    """The request in progress proves to be one that nothing may overtake, for example because it is decoded in portions."""
    DRAINED = 3
    """The last outstanding response leaves."""
    CLOSE = 4


TRANSITIONS: Final[dict[Phase, dict[Event, Phase]]] = {
    Phase.IDLE: {
        Event.PRODUCE: Phase.PRODUCING,
        Event.OTHER: Phase.EXCLUSIVE,
        Event.CLOSE: Phase.CLOSED,
    },
    Phase.PRODUCING: {
        Event.PRODUCE: Phase.PRODUCING,
        Event.PIPELINING_STOPPED: Phase.EXCLUSIVE,
        Event.DRAINED: Phase.IDLE,
        Event.CLOSE: Phase.CLOSED,
    },
    Phase.EXCLUSIVE: {
        Event.DRAINED: Phase.IDLE,
        Event.CLOSE: Phase.CLOSED,
    },
    Phase.CLOSED: {},
}
"""The next phase by phase and event. An event without an entry changes nothing: a request does not begin."""

UNWRITABLE: Final = 1
"""The client has not read what was written."""
MUTED: Final = 2
"""The client exceeded a quota (KIP-219)."""
PACED: Final = 4
"""The fast path waits for more requests, which are read in one go."""
STOPS: Final[dict[int, tuple[bool, bool]]] = {
    UNWRITABLE: (True, True),
    MUTED: (True, True),
    PACED: (False, True),
}
"""By reason, whether it stops (the beginning of requests, reading)."""
BEGINNING: Final = sum(reason for reason, (is_beginning_stopped, _) in STOPS.items() if is_beginning_stopped)
"""The reasons that stop the beginning of requests, as bits."""
_READING: Final = sum(reason for reason, (_, is_reading_stopped) in STOPS.items() if is_reading_stopped)
_EXCLUSIVE: Final = Phase.EXCLUSIVE
_IDLE: Final = Phase.IDLE
_CLOSED: Final = Phase.CLOSED
_PRODUCE: Final = Event.PRODUCE
_OTHER: Final = Event.OTHER
_DRAINED: Final = Event.DRAINED


class Slot:
    """The place of one request's response among those of its connection.

    It is `done` once its response may leave, behind those before it; `frame` is None where there is no response. `cancel` gives up a
    request whose response nobody is left to read, `request_bytes` is the memory it takes while it is in progress.
    """

    __slots__ = ("cancel", "done", "frame", "request_bytes")

    def __init__(self) -> None:
        self.done = False
        self.frame: list[Buffer] | None = None
        self.request_bytes = 0
        self.cancel: Callable[[], object] | None = None


class RequestOrder:
    """The state of one connection; nobody but the connection calls it.

    Where a call for each request would cost time the connection reads `slots`, `held`, `stops` and `phase` itself, and counts `unserved`.
    `is_authenticated` is False while little is to be kept for a client: then nothing is read while a request is held.
    """

    __slots__ = (
        "held",
        "held_bytes",
        "in_progress_bytes",
        "is_authenticated",
        "phase",
        "returned",
        "slots",
        "stops",
        "unserved",
    )

    def __init__(self, is_authenticated: bool = True) -> None:
        self.is_authenticated = is_authenticated
        self.phase = _IDLE
        self.stops = 0
        """The reasons of `STOPS` that hold now, as bits."""
        # Lists, because a deque takes 760 bytes while it is empty, as that of an idle connection is.
        self.slots: list[Slot] = []
        """Requests that have begun and whose response has not left, oldest first."""
        self.held: list[memoryview] = []
        """Requests that have not begun, oldest first."""
        self.held_bytes = 0
        self.returned = 0
        """Of `held`, from the first on, those that the fast path has returned: it is not offered them again."""
        self.unserved = 0
        """Requests that were passed to the fast path and neither answered nor returned. Nothing else begins before they are."""
        self.in_progress_bytes = 0

    # Requests

    def receive(self, frame: memoryview, is_owned: bool) -> Slot | None:
        """Return the slot of a request that is to be served now, or hold it: as a copy if its memory is not its own."""
        if not self.held and not self.unserved and (slot := self._begin(frame)) is not None:
            return slot
        if self.phase is not _CLOSED:
            self._hold(len(self.held), frame if is_owned else memoryview(bytearray(frame)))
        return None

    def begin_held(self) -> tuple[memoryview, Slot] | None:
        """Return the first held request with its slot, to be served now; None if it may not begin."""
        if not self.held or self.unserved or (slot := self._begin(self.held[0])) is None:
            return None
        return self.pop_held(), slot

    def stop_pipelining(self) -> None:
        """Begin nothing behind the request in progress until it is answered, not even a Produce behind a Produce."""
        self.phase = TRANSITIONS[self.phase].get(Event.PIPELINING_STOPPED, self.phase)

    def _begin(self, frame: memoryview) -> Slot | None:
        event = _PRODUCE if len(frame) > 1 and frame[0] == 0 == frame[1] else _OTHER  # ApiKey.PRODUCE is 0
        phase = TRANSITIONS[self.phase].get(event)
        if phase is None or self.stops & BEGINNING or len(self.slots) >= PIPELINED_MAX:
            return None
        self.phase = phase
        slot = Slot()
        self.slots.append(slot)
        return slot

    def _hold(self, position: int, frame: memoryview) -> None:
        self.held.insert(position, frame)
        self.held_bytes += len(frame) + HELD_OVERHEAD_BYTES

    def pop_held(self) -> memoryview:
        """Return the first held request, which begins now or goes to the fast path."""
        frame = self.held.pop(0)
        self.held_bytes -= len(frame) + HELD_OVERHEAD_BYTES
        if self.returned:
            self.returned -= 1
        return frame

    # Responses

    def complete(self, slot: Slot, response: list[Buffer] | None) -> list[Buffer]:
        """Return what is to be sent now that this response is there: it, those behind it that were waiting for it, or nothing."""
        slot.done, slot.frame = True, response
        self.in_progress_bytes -= slot.request_bytes
        # The usual case, without a copy.
        if len(self.slots) == 1 and self.slots[0] is slot and self.phase is not _CLOSED:
            self.slots.clear()
            self.phase = TRANSITIONS[self.phase][_DRAINED]
            return response or []
        return self.release()

    def release(self) -> list[Buffer]:
        """Return the responses before the first that is not there, to be sent now."""
        slots = self.slots
        ready: list[Buffer] = []
        if self.phase is _CLOSED:
            return ready
        count = 0
        for slot in slots:
            if not slot.done:
                break
            count += 1
            if slot.frame:
                ready += slot.frame
        del slots[:count]
        if not slots:
            self.phase = TRANSITIONS[self.phase].get(_DRAINED, self.phase)
        return ready

    def count_bytes(self, slot: Slot, request_bytes: int) -> None:
        """Count the memory of a request that does not end at once; a Produce that only waits for replication keeps no records."""
        if self.phase is _EXCLUSIVE:
            slot.request_bytes = request_bytes
            self.in_progress_bytes += request_bytes

    # The fast path of Produce

    def reserve(self) -> Slot:
        """Return the slot of the oldest request on the fast path, behind which another Produce may begin."""
        self.unserved -= 1
        slot = Slot()
        if self.phase is not _CLOSED:
            self.slots.append(slot)
            self.phase = TRANSITIONS[self.phase].get(_PRODUCE, self.phase)
        return slot

    def return_request(self, frame: memoryview) -> Slot | None:
        """Return the slot of the oldest request on the fast path if it may begin; if not, hold it before all that were not passed there."""
        self.unserved -= 1
        if self.phase is _CLOSED:
            return None
        if not self.returned and (slot := self._begin(frame)) is not None:
            return slot
        self._hold(self.returned, frame)
        self.returned += 1
        return None

    # Stops

    def stop(self, reason: int) -> None:
        """Begin or read nothing, as `STOPS` says, until this reason is lifted."""
        self.stops |= reason

    def lift(self, reason: int) -> None:
        self.stops &= ~reason

    def may_read(self) -> bool:
        """True while more may be read without going beyond a bound."""
        if self.stops & _READING or len(self.slots) >= RESPONSES_MAX:
            return False
        held = self.held
        return not held or (self.is_authenticated and self.held_bytes < HELD_BYTES_MAX and len(held) < HELD_MAX)

    def close(self) -> None:
        """Begin nothing more, and forget the requests that are held."""
        self.phase = _CLOSED
        self.held.clear()
        self.held_bytes = self.returned = 0

    def abandon(self) -> list[Slot]:
        """Return the requests whose response nobody is left to read: the connection is lost."""
        self.close()
        abandoned = self.slots.copy()
        self.slots.clear()
        return abandoned
