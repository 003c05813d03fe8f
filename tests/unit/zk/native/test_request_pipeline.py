"""Requests on their way to ZooKeeper: bounded, in order, repeated after a loss, ended with the session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from zk.native.request_pipeline import RequestPipeline, store_error
from zk.protocol import requests
from zk.protocol.connection import Reply
from zk.protocol.requests import ErrorCode, Request
from zk.request_errors import ConnectionBrokenError, TooLargeError, UnknownRequestError
from zk.store import NoNodeError, RolledBackError, SessionExpiredError, StoreClosedError, StoreError


class Wire:
    """What was submitted, with the number of its connection."""

    def __init__(self, max_in_flight: int = 2) -> None:
        self.sent: list[tuple[int, Request]] = []
        self.pipeline = RequestPipeline(lambda *each: self.sent.append(each), max_in_flight, 2_000_000)
        self.wanted = [requests.sync(f"/{n}") for n in range(6)]

    def ask(self, *numbers: int, **limits: Any) -> list[asyncio.Future[Any]]:
        return [self.pipeline.request(f"/{n}", self.wanted[n], **limits) for n in numbers]

    def answer(self, number: int, value: object = None, error: int = 0) -> None:
        self.pipeline.complete(Reply(self.wanted[number], error, value))
        self.pipeline.send_more()

    def numbers(self, connection: int) -> list[int]:
        return [self.wanted.index(request) for number, request in self.sent if number == connection]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await scenario()

    asyncio.run(bounded())


def test_requests_in_flight_are_bounded_and_keep_their_order_after_a_loss() -> None:
    async def scenario() -> None:
        wire = Wire()
        answers = wire.ask(0, 1, 2, 3)
        assert wire.sent == []
        wire.pipeline.open(1)
        assert wire.numbers(1) == [0, 1]
        wire.answer(0, "first")
        assert wire.numbers(1) == [0, 1, 2]
        wire.pipeline.block()
        assert len(wire.sent) == 3
        wire.pipeline.open(2)
        assert wire.numbers(2) == [1, 2]
        for number in (1, 2, 3):
            wire.answer(number, number)
        assert wire.numbers(2) == [1, 2, 3]
        assert await asyncio.gather(*answers) == ["first", 1, 2, 3]

    run(scenario)


def test_watches_are_armed_before_any_other_request_and_anew_with_each_connection() -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.ask(0)
        armed: list[object] = []
        watches = [requests.set_watches(1, ["/a"], [], []) for _ in range(4)]
        wire.wanted += watches
        wire.pipeline.open(1, [(each, armed.append) for each in watches[:3]])
        assert wire.numbers(1) == [6, 7, 8], "more than may be in flight, but nothing overtakes them"
        wire.answer(6)
        wire.pipeline.block()
        wire.pipeline.open(2, [(watches[3], armed.append)])
        assert wire.numbers(2) == [9, 0]
        assert armed == [None]

    run(scenario)


def test_a_cancelled_request_is_not_sent_but_one_in_flight_is_completed() -> None:
    async def scenario() -> None:
        wire = Wire(max_in_flight=1)
        wire.pipeline.open(1)
        converted: list[object] = []
        sent, waiting, last = (
            *wire.ask(0, convert=converted.append),
            *wire.ask(1, 2),
        )
        sent.cancel()
        waiting.cancel()
        wire.answer(0, "value")
        assert converted == ["value"], "its watch is armed"
        assert wire.numbers(1) == [0, 2]
        wire.answer(2, "x")
        assert await last == "x"

    run(scenario)


@pytest.mark.parametrize(
    ("end", "error"),
    [(RequestPipeline.session_ended, SessionExpiredError), (RequestPipeline.close, StoreClosedError)],
)
def test_all_requests_end_with_the_session(end: Callable[[RequestPipeline], None], error: type[StoreError]) -> None:
    async def scenario() -> None:
        wire = Wire()
        wire.pipeline.open(1)
        answers = wire.ask(0, 1, 2)
        end(wire.pipeline)
        results = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(result) for result in results] == [error] * 3
        wire.ask(3)
        assert wire.numbers(1) == [0, 1]

    run(scenario)


def test_a_request_that_may_be_the_reason_of_losses_fails() -> None:
    async def scenario() -> None:
        wire = Wire()
        (large,) = wire.ask(0, size_bytes=1_000_001)
        (usual,) = wire.ask(1)
        for number in range(3):
            assert not large.done()
            wire.pipeline.open(number)
            wire.pipeline.block()
        with pytest.raises(ConnectionBrokenError, match="broke 3 times on a request of 1000001 bytes"):
            await large
        assert not usual.done()
        with pytest.raises(TooLargeError):
            wire.ask(2, size_bytes=2_000_001)

    run(scenario)


def test_what_a_conversion_raises_is_the_result() -> None:
    async def scenario() -> None:
        def convert(value: object) -> None:
            raise NoNodeError("/inside")

        wire = Wire()
        wire.pipeline.open(1)
        (answer,) = wire.ask(0, convert=convert)
        wire.answer(0)
        with pytest.raises(NoNodeError, match="/inside"):
            await answer

    run(scenario)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NO_NODE, NoNodeError),
        (0, RolledBackError),
        (ErrorCode.RUNTIME_INCONSISTENCY, RolledBackError),
        (ErrorCode.UNIMPLEMENTED, UnknownRequestError),
        (-9999, StoreError),
    ],
)
def test_errors_by_their_codes(code: int, expected: type[StoreError]) -> None:
    error = store_error("/a", code)
    assert type(error) is expected and error.path == "/a"
