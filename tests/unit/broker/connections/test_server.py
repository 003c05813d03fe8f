"""Listeners of a broker on real sockets: bound, moved, added and removed while it runs."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kafkalite.broker.connections.listener_security import ListenerSecurity
from kafkalite.broker.connections.server import Server
from kafkalite.config.broker import LiveConfig
from tests.unit.broker.broker_settings import broker_config

NAMES = {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT", "inter_broker_listener_name": "A"}


class Scene:
    """A server with the listener A on a free port of this machine."""

    def __init__(self) -> None:
        self.live = LiveConfig(broker_config(listeners="A://127.0.0.1:0", **NAMES))
        security = ListenerSecurity(self.live, None, lambda: 0)  # type: ignore[arg-type]  # nobody authenticates
        self.server = Server(self.live, None, security)  # type: ignore[arg-type]  # nobody sends a request

    async def alter(self, **settings: object) -> None:
        self.live.replace(broker_config(**(NAMES | {"listeners": "A://127.0.0.1:0"} | settings)))
        await self.server.rebind()

    async def connect(self, listener: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.bound_ports[listener])
        self._writers = [*getattr(self, "_writers", []), writer]
        return reader

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not met():
                await asyncio.sleep(0.001)


def run(act: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def scenario() -> None:
        scene = Scene()
        await scene.server.bind()
        await scene.server.serve()
        try:
            await act(scene)
        finally:
            await scene.server.close()
            await scene.until(lambda: not scene.server.connections)

    asyncio.run(scenario())


def test_a_listener_is_added_and_removed_with_its_connections_and_the_other_goes_on() -> None:
    async def act(scene: Scene) -> None:
        port = scene.server.bound_ports["A"]
        kept = await scene.connect("A")
        await scene.alter(listeners="A://127.0.0.1:0,B://127.0.0.1:0")
        lost = await scene.connect("B")
        await scene.until(lambda: len(scene.server.connections) == 2)
        await scene.alter()
        assert await lost.read() == b""
        assert scene.server.bound_ports == {"A": port}
        assert not kept.at_eof()
        await scene.connect("A")

    run(act)


def test_new_listeners_are_bound_in_the_order_of_the_setting() -> None:
    """A set gave the order, another one in each process."""

    async def act(scene: Scene) -> None:
        names = list("ABCDEFGH")
        await scene.alter(
            listeners=",".join(f"{name}://127.0.0.1:0" for name in names),
            listener_security_protocol_map=",".join(f"{name}:PLAINTEXT" for name in names),
        )
        assert list(scene.server.bound_ports) == names

    run(act)


def test_a_listener_moves_to_another_port() -> None:
    async def act(scene: Scene) -> None:
        before = scene.server.bound_ports["A"]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        await scene.alter(listeners=f"A://127.0.0.1:{port}")
        assert scene.server.bound_ports == {"A": port}
        await scene.connect("A")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", before)

    run(act)


def test_a_listener_that_cannot_be_bound_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def act(scene: Scene) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with caplog.at_level(logging.ERROR):
                await scene.alter(listeners=f"A://127.0.0.1:0,B://127.0.0.1:{port}")
        assert scene.server.bound_ports.keys() == {"A"}
        assert f"listener B cannot bind 127.0.0.1:{port}" in caplog.text

    run(act)


def test_bounds_of_connections_are_obeyed_as_soon_as_they_change() -> None:
    async def act(scene: Scene) -> None:
        await scene.connect("A")
        await scene.alter(max_connections_per_ip_overrides="localhost:1")
        await scene.server.resolve_names()
        assert await (await scene.connect("A")).read() == b""
        await scene.alter(max_connections=1)
        assert await (await scene.connect("A")).read() == b""
        assert (scene.server.accepted, scene.server.refused) == (1, 2)

    run(act)


def test_a_broker_displaces_the_client_that_was_silent_longest() -> None:
    async def act(scene: Scene) -> None:
        await scene.alter(listeners="A://127.0.0.1:0,B://127.0.0.1:0", max_connections=2)
        first = await scene.connect("B")
        await scene.until(lambda: len(scene.server.connections) == 1)
        second = await scene.connect("B")
        await scene.until(lambda: len(scene.server.connections) == 2)
        await scene.connect("A")
        assert await first.read() == b""
        assert not second.at_eof() and scene.server.refused == 0

    run(act)
