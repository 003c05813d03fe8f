"""Trials of listeners: what accepts, refuses, or shows nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from kafkalite.broker.failure_detection.listeners import Trial, all_refused, try_listeners
from kafkalite.types import Endpoint

TIMEOUT_S = 5.0


def endpoint(port: int) -> Endpoint:
    return Endpoint("PLAINTEXT", "127.0.0.1", port)


@pytest.fixture
def accepting() -> Iterator[Endpoint]:
    """The listener of a process that is stopped: its system accepts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield endpoint(server.getsockname()[1])


@pytest.fixture
def refusing() -> Iterator[Endpoint]:
    """A port that is taken and does not listen."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield endpoint(bound.getsockname()[1])


NO_ADDRESS = endpoint(70_000)


def test_a_broker_refuses_if_each_listener_does(accepting: Endpoint, refusing: Endpoint) -> None:
    async def refuses(*endpoints: Endpoint) -> bool:
        return all_refused(await try_listeners(endpoints, TIMEOUT_S))

    assert asyncio.run(refuses(refusing, refusing))
    for others in ([], [refusing, accepting], [refusing, NO_ADDRESS]):
        assert not asyncio.run(refuses(*others)), others


def test_a_host_lives_if_one_listener_accepts(accepting: Endpoint, refusing: Endpoint) -> None:
    async def accepts(*endpoints: Endpoint) -> bool:
        return Trial.ACCEPTED in await try_listeners(endpoints, TIMEOUT_S)

    assert asyncio.run(accepts(refusing, NO_ADDRESS, accepting))
    for others in ([], [refusing], [NO_ADDRESS]):
        assert not asyncio.run(accepts(*others)), others
