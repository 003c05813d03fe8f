"""A change that comes again with its id is answered as the first time, and made once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kafkalite.console.actions.outcomes import Outcomes
from kafkalite.testing.simulation import virtual_time
from tests.unit.console.asgi_client import ask

if TYPE_CHECKING:
    from starlette.requests import Request


class Counter:
    """Counts the changes that are made; each takes a second."""

    def __init__(self, most: int) -> None:
        self.made = 0
        self.outcomes = Outcomes(most)
        self.app = Starlette(routes=[Route("/change", self.outcomes.once(self._change), methods=["POST"])])

    async def _change(self, _: Request) -> Response:
        self.made += 1
        number = self.made
        await asyncio.sleep(1)
        return JSONResponse({"number": number}, 409 if number == 3 else 200)

    async def change(self, body: int, change_id: str) -> tuple[int, int]:
        """The status of the answer and the number of the change that it is about."""
        answer = await ask(self.app, "/change", {"body": body}, x_kafkalite_change=change_id)
        return answer.status, answer.json["number"]


def test_a_change_is_made_once_for_its_id_and_body() -> None:
    async def scenario() -> None:
        counter = Counter(10)
        assert await asyncio.gather(*(counter.change(0, "a") for _ in range(3))) == [(200, 1)] * 3
        assert await counter.change(0, "a") == (200, 1)
        assert await counter.change(1, "a") == (200, 2), "another body is another change"
        assert [await counter.change(0, "b") for _ in range(2)] == [(409, 3)] * 2, "a refusal is an outcome, too"

    virtual_time.run(scenario())


def test_without_an_id_every_request_is_a_change() -> None:
    async def scenario() -> None:
        counter = Counter(10)
        for change_id in ("", "x" * 65):
            await counter.change(0, change_id)
            await counter.change(0, change_id)
        assert counter.made == 4

    virtual_time.run(scenario())


def test_a_change_goes_on_when_its_request_is_broken_off() -> None:
    async def scenario() -> None:
        counter = Counter(10)
        request = asyncio.create_task(counter.change(0, "a"))
        await asyncio.sleep(0.5)
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled()
        assert await counter.change(0, "a") == (200, 1)

    virtual_time.run(scenario())


def test_the_oldest_outcomes_are_forgotten_and_changes_under_way_are_not() -> None:
    async def scenario() -> None:
        counter = Counter(2)
        for change_id in ("a", "b", "c"):
            await counter.change(0, change_id)
        assert await counter.change(0, "c") == (409, 3)
        assert await counter.change(0, "a") == (200, 4), "it was forgotten"
        under_way = []
        for number in (1, 2, 3):
            under_way.append(asyncio.create_task(counter.change(number, "d")))
            await asyncio.sleep(0.1)
        again = [asyncio.create_task(counter.change(number, "d")) for number in (1, 2)]
        assert await asyncio.gather(*under_way, *again) == [(200, each) for each in (5, 6, 7, 5, 6)]

    virtual_time.run(scenario())


def test_changes_end_with_the_console() -> None:
    async def scenario() -> None:
        counter = Counter(2)
        request = asyncio.create_task(counter.change(0, "a"))
        await asyncio.sleep(0.5)
        await counter.outcomes.close()
        await asyncio.wait([request])
        assert request.cancelled()

    virtual_time.run(scenario())
