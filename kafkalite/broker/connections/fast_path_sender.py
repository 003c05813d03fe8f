"""A connection as the fast path of Produce sees it: which of its requests go there, and how their responses leave in order."""

from __future__ import annotations

from typing import Protocol

from kafkalite.broker.connections.flow_control import FlowControl
from kafkalite.broker.connections.request_order import BEGINNING, PACED, RESPONSES_MAX, Phase, RequestOrder, Slot
from kafkalite.broker.connections.response_writer import ResponseWriter
from kafkalite.broker.produce.fast_path import FastPath
from kafkalite.broker.produce.request_template import RequestTemplates
from kafkalite.security.principal import KafkaPrincipal

_EXCLUSIVE = Phase.EXCLUSIVE
_CLOSED = Phase.CLOSED


class Connection(Protocol):
    """The connection, as the sender uses it."""

    @property
    def peer_host(self) -> str: ...

    @property
    def principal(self) -> KafkaPrincipal: ...

    def serve(self, frame: memoryview, slot: Slot) -> None:
        """Pass a request to the handler, as any request that no template recognises."""

    def advance(self) -> None:
        """Serve the held requests that may begin now, and read on if there is room."""


class FastPathSender:
    """Passes requests that one of `templates` recognises to `fast_path`, until the connection's session ends at `session_end_s`.

    It is made with the first template, when the connection is authenticated: the principal never changes from then on.
    """

    __slots__ = (
        "_connection",
        "_flow",
        "_order",
        "_writer",
        "fast_path",
        "peer_host",
        "principal",
        "session_end_s",
        "templates",
    )

    def __init__(
        self,
        connection: Connection,
        order: RequestOrder,
        writer: ResponseWriter,
        flow: FlowControl,
        fast_path: FastPath,
        templates: RequestTemplates,
        session_end_s: float,
    ) -> None:
        self._connection, self._order, self._writer, self._flow = connection, order, writer, flow
        self.peer_host, self.principal = connection.peer_host, connection.principal
        self.fast_path, self.templates, self.session_end_s = fast_path, templates, session_end_s

    def pass_request(self, request: bytes, now_s: float, is_held: bool = False) -> bool:
        """Pass a request, which begins with its length, to the fast path; False if no template recognises it or it may not begin."""
        order = self._order
        if (
            order.phase is _EXCLUSIVE
            or order.stops & BEGINNING
            or now_s > self.session_end_s
            or (found := self.templates.find(request)) is None
        ):
            return False
        order.unserved += 1
        if is_held:
            order.pop_held()  # before the fast path accepts it, which may return it and those before it
        template, begin = found
        self.fast_path.accept_request(self, template, request, begin)
        if order.slots and not order.stops & PACED and self.fast_path.hold_sender(self):
            self.hold_reading(True)
        return True

    def hold_reading(self, is_held: bool) -> None:
        """Read nothing until this is called with False: what comes meanwhile is then read in one go."""
        if is_held:
            self._order.stop(PACED)
        else:
            self._order.lift(PACED)
        self._flow.update()

    def send_response(self, response: bytes) -> None:
        """Send the response to the oldest request on the fast path, behind those before it."""
        order = self._order
        if order.slots or self._writer.is_corked:
            if ready := order.complete(order.reserve(), [response]):
                self._writer.write(ready)
            return
        order.unserved -= 1
        if order.phase is not _CLOSED:
            self._writer.write_now([response], len(response))

    def reserve_response(self) -> Slot:
        """Return the place of the response to the oldest request on the fast path; behind it only Produce requests begin."""
        slot = self._order.reserve()
        if len(self._order.slots) == RESPONSES_MAX:
            self._flow.update()
        return slot

    def send_completed(self) -> None:
        """Send the responses in reserved places that are there."""
        order = self._order
        if order.phase is not _CLOSED:
            if len(order.slots) > 1:  # what is committed together is answered together
                self._writer.cork_for_turn()
            if ready := order.release():
                self._writer.write(ready)
            self._connection.advance()

    def return_request(self, request: bytes) -> None:
        """Serve the oldest request on the fast path, which begins with its length, as any other, before all that were not passed to it."""
        frame = memoryview(bytearray(request))[4:]
        if (slot := self._order.return_request(frame)) is not None:
            self._connection.serve(frame, slot)
        self._flow.update()
