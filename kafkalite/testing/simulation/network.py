"""A network in memory: machines with names for addresses, links with delays drawn from the seed, connections as TCP has them.

Bytes of one connection keep their order, connections overtake each other. A cut link loses nothing: as with TCP, what was not taken is
sent again when it is whole, and new connections wait. A process that ends closes its connections, by a reset where it had not read all;
when its machine loses power its connections fall silent, and whoever sends to it learns it once the machine is back.

Within a connection: `write` hands to the kernel of the machine up to `send_buffer_bytes`, the rest waits in the transport, where the
limits of the write buffer count it; the receiver's kernel takes up to a window, which the seed decides, ahead of its process.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kafkalite.testing.simulation.readiness import SimulatedSocket
from kafkalite.testing.simulation.sockets import Address, SimulatedServer, SocketOwner
from kafkalite.testing.simulation.trace import Trace
from kafkalite.testing.simulation.virtual_time import VirtualTime

_SEND_BUFFER_BYTES: Final = 64 * 1024
_WINDOWS_BYTES: Final = (2_048, 64 * 1024, 1024 * 1024)
_BASE_DELAY_S: Final = (0.00005, 0.002)
"""Between these lies the usual delay of a link, one way; within a machine it is the lower one."""
_SPLIT_CHANCE: Final = 0.05
"""How often a piece of a stream arrives in two."""
_ORDER_S: Final = 1e-7
"""What arrives later on a connection arrives at least so much later."""
_CONNECT_AGAIN_S: Final = 1.0
_FIRST_EPHEMERAL_PORT: Final = 32_768


class SimulatedTransport(asyncio.Transport):
    """One end of a connection, and the bytes that are on their way from there to the other end."""

    def __init__(self, network: Network, process: SocketOwner, address: Address, peer_address: Address) -> None:
        self._descriptor = process.descriptors.open(self)
        socket = SimulatedSocket(self._descriptor)
        super().__init__({"sockname": address, "peername": peer_address, "socket": socket})
        self.process = process
        self.peer: SimulatedTransport
        self._network = network
        self._loop = process.loop
        self._protocol: Any = None
        self._closing = False
        self._high, self._low = 64 * 1024, 16 * 1024
        self._protocol_paused = False
        self._reading = True
        # towards the peer
        self._unsent = bytearray()
        self._outstanding_bytes = 0
        self._last_arrival_s = 0.0
        self._end_wanted = False
        self._reset_wanted = False
        self._end_sent = False
        # from the peer
        self._unread: deque[bytes] = deque()
        self._ended = False
        self._ended_told = False

    # asyncio.Transport

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.call_soon(self._deliver)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low
        self._limit_writing()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return max(0, len(self._unsent) - self._network.send_buffer_bytes)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._end_wanted:
            return
        self._unsent += data
        self.send_waiting()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._end_wanted = True
        self._pump()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._end_wanted = True
            self._pump()
            self._finish_closing()

    def abort(self) -> None:
        self._close_now(None)

    # what happens to it

    def establish(self, protocol: Any) -> None:
        """Tell the protocol that the connection is made."""
        self._protocol = protocol
        self._call_guarded(protocol.connection_made, self)
        if self._closing:
            self._call_connection_lost(_reset_error())
        else:
            self._loop.call_soon(self._deliver)

    def send_waiting(self) -> None:
        """Send what waited for the link to be healed, or for the peer, which has read something, to have room in its window."""
        self._pump()
        self._limit_writing()

    def process_ended(self, *, unheard: bool) -> None:
        """End with the process; its machine closes the connection, unless that went too."""
        self._closing = True
        if unheard:
            self._unsent.clear()
        else:
            self._close_stream()

    def _close_now(self, problem: Exception | None) -> None:
        if self._closing and self._protocol is None:
            return
        self._closing = True
        self._call_connection_lost(problem)
        self._close_stream()

    def _close_stream(self) -> None:
        """Tell the peer that this end is closed: by a reset when there are bytes that nobody has read."""
        del self._unsent[self._network.send_buffer_bytes :]
        self._end_wanted = True
        if self._unread:
            self._refuse()
        else:
            self._pump()

    def _refuse(self) -> None:
        self._unread.clear()
        self._unsent.clear()
        self._reset_wanted = True
        self._pump()

    def _finish_closing(self) -> None:
        if self._closing and self._protocol is not None and not self.get_write_buffer_size():
            self._call_connection_lost(None)

    def _call_connection_lost(self, problem: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            self._loop.call_soon(self._lose_connection, protocol, problem)
        self._network.forget(self)

    def _lose_connection(self, protocol: Any, problem: Exception | None) -> None:
        try:
            protocol.connection_lost(problem)
        finally:
            self.process.descriptors.close(self._descriptor)

    def _call_guarded(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a protocol. One that fails loses its connection, and the loop's exception handler is called, as asyncio does."""
        try:
            return method(*arguments)
        except Exception as problem:
            context = {"message": f"Fatal error: {method.__qualname__}() failed", "exception": problem}
            self._loop.call_exception_handler(context)
            self._close_now(problem)
            return None

    def vanish(self) -> None:
        """Forget the connection at this end; the other learns it when it sends something."""
        if not self._closing:
            self._drop_stream()

    def _drop_stream(self) -> None:
        self._end_sent = True
        self._unsent.clear()
        self._unread.clear()
        self._closing = True
        self._call_connection_lost(_reset_error())

    # sending

    def _pump(self) -> None:
        """Send what the link and the receiver's window allow."""
        network = self._network
        if self._end_sent or network.is_cut(self.process.machine, self.peer.process.machine):
            return
        if self._reset_wanted:
            self._end_sent = True
            self._send(self.peer._reset)
        while self._unsent and (room := network.window_bytes - self._outstanding_bytes) > 0:
            size = network.piece_bytes(min(room, len(self._unsent)), self)
            piece = bytes(self._unsent[:size])
            del self._unsent[:size]
            self._outstanding_bytes += size
            network.note(self, piece)
            self._last_arrival_s += network.transmission_s(self, size)
            self._send(self.peer._arrive, piece)
        if self._end_wanted and not self._unsent and not self._end_sent:
            self._end_sent = True
            self._send(self.peer._arrive_end)
        if self._closing:
            self._finish_closing()
            if self._end_sent and self._protocol is None:
                network.forget(self)

    def _send(self, arrive: Callable[..., None], *arguments: Any) -> None:
        self._last_arrival_s = self._network.arrival_s(self.process, self.peer.process, self._last_arrival_s)
        self.peer._machine_loop().call_at(self._last_arrival_s, arrive, *arguments)

    def _machine_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop that runs this end: the process's, or the machine's own once the process has ended."""
        return self._loop if self.process.alive else self._network.kernel

    def _limit_writing(self) -> None:
        waiting = self.get_write_buffer_size()
        if self._protocol is None or self._closing:
            return
        if waiting > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._call_guarded(self._protocol.pause_writing)
        elif waiting <= self._low and self._protocol_paused:
            self._protocol_paused = False
            self._call_guarded(self._protocol.resume_writing)

    # receiving

    def _arrive(self, piece: bytes) -> None:
        if self._closing:
            self._end_sent = False
            self._refuse()
            return
        self._unread.append(piece)
        self._deliver()
        if self._unread:
            self.process.descriptors.notify()

    def _arrive_end(self) -> None:
        self._ended = True
        self._deliver()
        if not self._ended_told:
            self.process.descriptors.notify()

    def has_news(self) -> bool:
        """True if a read of its socket would not have to wait."""
        return bool(self._unread) or (self._ended and not self._ended_told)

    def _reset(self) -> None:
        if self._protocol is not None or not self._closing:
            self._drop_stream()

    def _deliver(self) -> None:
        read_bytes = 0
        while self._unread and self._reading and not self._closing and self._protocol is not None:
            piece = self._unread.popleft()
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                buffer = self._call_guarded(self._protocol.get_buffer, -1)
                if buffer is None:
                    return
                size = min(len(buffer), len(piece))
                buffer[:size] = piece[:size]
                if size < len(piece):
                    self._unread.appendleft(piece[size:])
                buffer = None
                read_bytes += size
                self._call_guarded(self._protocol.buffer_updated, size)
            else:
                read_bytes += len(piece)
                self._call_guarded(self._protocol.data_received, piece)
        if read_bytes:
            self.peer._outstanding_bytes -= read_bytes
            if self.peer._unsent and not self._network.is_cut(self.process.machine, self.peer.process.machine):
                self._send(self.peer.send_waiting)
        if self._ended and not self._ended_told and not self._unread and self._reading and self._protocol is not None:
            self._ended_told = True
            if not self._closing and not self._call_guarded(self._protocol.eof_received):
                self.close()


class Network:
    """The network of a simulated cluster. Machines are known by the names of their processes."""

    def __init__(self, time: VirtualTime, chance: random.Random, trace: Trace) -> None:
        self.window_bytes = chance.choice(_WINDOWS_BYTES)
        self.send_buffer_bytes = _SEND_BUFFER_BYTES
        self.kernel: asyncio.AbstractEventLoop
        """Runs what happens on a machine without a process."""
        self._time = time
        self._chance = chance
        self._trace = trace
        self._servers: dict[Address, SimulatedServer] = {}
        self._transports: dict[SimulatedTransport, None] = {}
        self._by_link: dict[tuple[str, str], dict[SimulatedTransport, None]] = {}
        """The same by the two machines, in the order of their names: with a hundred brokers one fault may concern a thousand links."""
        self._base_delays_s: dict[tuple[str, str], float] = {}
        self._cut: dict[tuple[str, str], int] = {}
        self._extra_delays_s: dict[tuple[str, str], float] = {}
        self._rates_bytes_per_s: dict[tuple[str, str], float] = {}
        self._rejected: dict[tuple[str, str], float] = {}
        self._next_port = _FIRST_EPHEMERAL_PORT
        self.connects: Counter[str] = Counter()
        """How often a machine was to be connected to another one."""

    # faults

    def cut(self, source: str, target: str) -> None:
        """Let nothing go from `source` to `target` any more; what is under way arrives. As often as cut it must be healed."""
        self._cut[source, target] = self._cut.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        """Undo one `cut`; after the last one what was held up is sent."""
        cuts = self._cut.pop((source, target), 0)
        if cuts > 1:
            self._cut[source, target] = cuts - 1
            return
        for transport in self._of_link(source, target):
            transport.send_waiting()

    def delay(self, source: str, target: str, extra_s: float) -> None:
        """Let everything take `extra_s` longer from now on, 0 for the usual time; connections overtake each other."""
        self._extra_delays_s[source, target] = extra_s

    def limit(self, source: str, target: str, bytes_per_s: float) -> None:
        """Limit the rate of each connection from now on; 0 for no limit."""
        self._rates_bytes_per_s[source, target] = bytes_per_s

    def reject(self, source: str, target: str, odds: float) -> None:
        """Refuse connections of `source` to `target` with these odds from now on, as a firewall's REJECT does; 0 for none."""
        self._rejected[source, target] = odds

    def reset(self, one: str, other: str) -> None:
        """End every connection between two machines with a reset on both sides."""
        for transport in self._between(one, other):
            transport._reset()

    def half_close(self, one: str, other: str) -> None:
        """Let machine `one` forget its connections to the other, which does not hear of it."""
        for transport in self._between(one, other):
            if transport.process.machine == one:
                transport.vanish()

    def _between(self, one: str, other: str) -> Iterator[SimulatedTransport]:
        for transport in self._of_link(one, other):
            if transport.process.alive:
                yield transport

    def _of_link(self, one: str, other: str) -> list[SimulatedTransport]:
        """Return the ends of all connections between two machines, the oldest first."""
        return list(self._by_link.get((min(one, other), max(one, other)), ()))

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def process_ended(self, process: SocketOwner, *, unheard: bool) -> None:
        """Close what the process had open."""
        for server in [each for each in self._servers.values() if each.process is process]:
            server.close()
        for transport in [each for each in self._transports if each.process is process]:
            transport.process_ended(unheard=unheard)

    # connections

    def bind(
        self, process: SocketOwner, factory: Callable[[], asyncio.BaseProtocol], port: int, serve: bool
    ) -> SimulatedServer:
        address = Address(process.machine, port or self._new_port())
        if address in self._servers:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        server = self._servers[address] = SimulatedServer(self.unbind, process, factory, address, serve)
        return server

    def unbind(self, server: SimulatedServer) -> None:
        if self._servers.get(server.address) is server:
            del self._servers[server.address]

    async def connect(
        self, process: SocketOwner, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Return the client's end of a new connection. ConnectionRefusedError; waits as long as a link is cut."""
        here = process.machine
        self.connects[here] += 1
        while self.is_cut(here, host) or self.is_cut(host, here):
            await asyncio.sleep(_CONNECT_AGAIN_S)
        await asyncio.sleep(self._delay_s(here, host))
        server = self._servers.get(Address(host, port))
        if server is None or not server.is_serving() or self._is_rejected(here, host):
            await asyncio.sleep(self._delay_s(host, here))
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        near, far = Address(here, self._new_port()), Address(host, port)
        client = SimulatedTransport(self, process, near, far)
        accepted = SimulatedTransport(self, server.process, far, near)
        client.peer, accepted.peer = accepted, client
        self._transports[client] = self._transports[accepted] = None
        of_link = self._by_link.setdefault((min(here, host), max(here, host)), {})
        of_link[client] = of_link[accepted] = None
        server.process.loop.call_soon(_accept, server, accepted)
        try:
            await asyncio.sleep(self._delay_s(host, here))
        except asyncio.CancelledError:
            client.abort()
            raise
        protocol = factory()
        client.establish(protocol)
        return client, protocol

    def _is_rejected(self, source: str, target: str) -> bool:
        odds = self._rejected.get((source, target), 0.0)
        return bool(odds) and self._chance.random() < odds

    def forget(self, transport: SimulatedTransport) -> None:
        """Forget a closed transport; what it has sent still arrives."""
        if not transport._unsent and transport in self._transports:
            del self._transports[transport]
            machines = transport.process.machine, transport.peer.process.machine
            del self._by_link[min(machines), max(machines)][transport]

    def _new_port(self) -> int:
        self._next_port += 1
        return self._next_port

    # what the seed decides

    def arrival_s(self, source: SocketOwner, target: SocketOwner, after_s: float) -> float:
        """Return the moment at which something sent now arrives, behind what arrives at `after_s`."""
        return max(self._time.now_s + self._delay_s(source.machine, target.machine), after_s + _ORDER_S)

    def _delay_s(self, source: str, target: str) -> float:
        base_s = self._base_delays_s.get((source, target))
        if base_s is None:
            base_s = _BASE_DELAY_S[0] if source == target else self._chance.uniform(*_BASE_DELAY_S)
            self._base_delays_s[source, target] = base_s
        extra_s = self._extra_delays_s.get((source, target), 0.0)
        return (base_s + extra_s) * (1.0 + self._chance.expovariate(2.0))

    def transmission_s(self, transport: SimulatedTransport, size: int) -> float:
        """Return for how long the link is busy with so many bytes."""
        rate = self._rates_bytes_per_s.get((transport.process.machine, transport.peer.process.machine), 0.0)
        return size / rate if rate else 0.0

    def piece_bytes(self, size: int, transport: SimulatedTransport) -> int:
        """Return how many of `size` bytes arrive in one piece."""
        rate = self._rates_bytes_per_s.get((transport.process.machine, transport.peer.process.machine), 0.0)
        if rate:
            return min(size, max(1, int(rate / 10)))
        if size > 1 and self._chance.random() < _SPLIT_CHANCE:
            return self._chance.randrange(1, size)
        return size

    def note(self, transport: SimulatedTransport, piece: bytes) -> None:
        """Count a piece for the identity of a run, to which every byte belongs."""
        self._trace.count(f"{transport.process.name}>{transport.peer.process.name} {zlib.crc32(piece)} {len(piece)}")


def _reset_error() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))


def _accept(server: SimulatedServer, transport: SimulatedTransport) -> None:
    if transport.is_closing():
        return
    transport.establish(server.factory())
