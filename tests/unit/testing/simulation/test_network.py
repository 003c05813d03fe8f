"""The simulated network keeps asyncio's contract of transports, and TCP's of connections."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kafkalite.testing.simulation.processes import Process, ProcessKilled, Simulation
from kafkalite.testing.simulation.virtual_time import Deadlock

PORT = 5000


class Recorder(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received = b""
        self.told: list[str] = []
        self.lost: Exception | None = None
        self.keeps_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self.keeps_open

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc
        self.told.append("lost")


class Buffered(asyncio.BufferedProtocol):
    """Receives into a buffer of three bytes."""

    def __init__(self) -> None:
        self.buffer = bytearray(3)
        self.received = b""

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]


class World:
    """A server and a client that know each other."""

    def __init__(self, seed: int = 1) -> None:
        self.simulation = Simulation(seed)
        self.network = self.simulation.network
        self.server_process, self.client_process = self.simulation.process("server"), self.simulation.process("client")
        self.accepted: list[Any] = []
        self.client = Recorder()

    async def listen(self, factory: Any = Recorder) -> None:
        def accept() -> Any:
            self.accepted.append(factory())
            return self.accepted[-1]

        async def serve() -> None:
            await asyncio.get_running_loop().create_server(accept, "server", PORT)

        await self.server_process.run(serve())

    async def connect(self) -> None:
        async def open_connection() -> None:
            await asyncio.get_running_loop().create_connection(lambda: self.client, "server", PORT)

        await self.client_process.run(open_connection())

    async def at(self, process: Process, call: Any, *arguments: Any) -> None:
        async def do() -> None:
            call(*arguments)

        await process.run(do())

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        self.simulation.run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_keep_their_order_whatever_the_window(seed: int) -> None:
    world = World(seed)
    data = bytes(range(256)) * 40

    async def scenario() -> None:
        await world.listen(Buffered)
        await world.connect()
        for start in range(0, len(data), 1000):
            await world.at(world.client_process, world.client.transport.writelines, [data[start : start + 1000]])
        await asyncio.sleep(10)
        assert world.accepted[0].received == data
        assert 0 < world.client.transport.get_extra_info("peername").port == PORT

    world.run(scenario())


def test_a_reader_that_pauses_makes_its_writer_pause() -> None:
    world = World()

    async def scenario() -> None:
        await world.listen()
        await world.connect()
        await asyncio.sleep(1)
        peer = world.accepted[0]
        await world.at(world.server_process, peer.transport.pause_reading)
        await world.at(world.client_process, world.client.transport.write, bytes(3 << 20))
        await asyncio.sleep(1)
        assert (world.client.told, peer.received) == (["made", "pause"], b"")
        assert world.client.transport.get_write_buffer_size() > 1 << 20
        await world.at(world.server_process, peer.transport.resume_reading)
        await asyncio.sleep(60)
        assert (world.client.told, len(peer.received)) == (["made", "pause", "resume"], 3 << 20)

    world.run(scenario())


def test_close_sends_what_is_written_and_then_the_end() -> None:
    world = World()

    async def scenario() -> None:
        await world.listen()
        await world.connect()
        await world.at(world.client_process, world.client.transport.write, b"last words")
        await world.at(world.client_process, world.client.transport.close)
        await asyncio.sleep(1)
        peer = world.accepted[0]
        assert (peer.received, peer.told, peer.lost) == (b"last words", ["made", "eof", "lost"], None)
        assert (world.client.told, world.client.lost) == (["made", "lost"], None)

    world.run(scenario())


def test_a_half_closed_connection_still_carries_the_answer() -> None:
    world = World()

    def kept_open() -> Recorder:
        recorder = Recorder()
        recorder.keeps_open = True
        return recorder

    async def scenario() -> None:
        await world.listen(kept_open)
        await world.connect()
        await world.at(world.client_process, world.client.transport.write, b"question")
        await world.at(world.client_process, world.client.transport.write_eof)
        await asyncio.sleep(1)
        peer = world.accepted[0]
        assert (peer.received, peer.told) == (b"question", ["made", "eof"])
        await world.at(world.server_process, peer.transport.write, b"answer")
        await asyncio.sleep(1)
        assert (world.client.received, world.client.told) == (b"answer", ["made"])

    world.run(scenario())


def test_a_killed_process_resets_what_it_had_not_read() -> None:
    world = World()

    async def scenario() -> None:
        await world.listen()
        await world.connect()
        await asyncio.sleep(1)
        await world.at(world.server_process, world.accepted[0].transport.pause_reading)
        await world.at(world.client_process, world.client.transport.write, b"unread")
        await asyncio.sleep(1)
        world.server_process.kill()
        await asyncio.sleep(1)
        assert isinstance(world.client.lost, ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await world.connect()
        with pytest.raises(ProcessKilled):
            await world.client_process.run(_killed_while_running(world.client_process, world.simulation))

    world.run(scenario())


async def _killed_while_running(process: Process, simulation: Simulation) -> None:
    simulation.director.loop.call_soon(process.kill)
    await asyncio.sleep(1)
    raise AssertionError("a killed process goes on")


def test_a_cut_link_delays_and_loses_nothing() -> None:
    world = World()

    async def scenario() -> None:
        await world.listen()
        await world.connect()
        await asyncio.sleep(1)
        world.network.cut("client", "server")
        await world.at(world.client_process, world.client.transport.write, b"patience")
        await world.at(world.server_process, world.accepted[0].transport.write, b"one way is open")
        connecting = asyncio.ensure_future(world.connect())
        await asyncio.sleep(30)
        assert (world.accepted[0].received, len(world.accepted)) == (b"", 1)
        assert world.client.received == b"one way is open"
        world.network.heal("client", "server")
        await connecting
        await asyncio.sleep(1)
        assert (world.accepted[0].received, len(world.accepted)) == (b"patience", 2)

    world.run(scenario())


def test_when_power_is_lost_nobody_hears_of_it() -> None:
    world = World()

    async def scenario() -> None:
        await world.listen()
        await world.connect()
        await asyncio.sleep(1)
        world.server_process.kill(unheard=True)
        world.network.cut("client", "server")
        world.network.cut("server", "client")
        await world.at(world.client_process, world.client.transport.write, b"anybody there?")
        await asyncio.sleep(30)
        assert world.client.told == ["made"]
        world.network.heal("client", "server")
        world.network.heal("server", "client")
        await asyncio.sleep(1)
        assert isinstance(world.client.lost, ConnectionResetError)

    world.run(scenario())


def test_a_protocol_that_fails_fails_the_run_and_loses_its_connection() -> None:
    world = World()

    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("cannot read that")

    async def scenario() -> None:
        await world.listen(Broken)
        await world.connect()
        await world.at(world.client_process, world.client.transport.write, b"x")
        await asyncio.sleep(1)
        assert "lost" in world.client.told and isinstance(world.accepted[0].lost, ValueError)

    with pytest.raises(AssertionError, match="cannot read that"):
        world.run(scenario())


def test_everybody_waiting_for_nobody_is_an_error() -> None:
    simulation = Simulation(1)

    async def scenario() -> None:
        await simulation.process("other").run(asyncio.Event().wait())

    with pytest.raises(Deadlock, match="nobody has anything"):
        simulation.run(scenario())


def test_a_port_is_bound_once() -> None:
    world = World()

    async def scenario() -> None:
        await world.listen()
        with pytest.raises(OSError, match="in use"):
            await world.listen()

    world.run(scenario())
