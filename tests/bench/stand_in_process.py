"""Stand-ins for many brokers in one process: `python -m tests.bench.stand_in_process ZOOKEEPER FIRST_ID COUNT ours|apache`.

Those of `apache` speak nothing that only brokers of ours do. Each has a port, a ZooKeeper session and a registration of its own. The
process prints the ports by broker id once all are registered, and then answers each line of JSON on standard input with one on standard
output:

| Line | Does | Answer |
|---|---|---|
| `{"do": "tallies"}` | nothing | what each got, by id |
| `{"do": "reset", "witness": ID}` | sets what all got to zero; requests of the witness are decoded from now on | `{}` |
| `{"do": "die", "id": ID}` | closes port and connections as a kill does; the session is left to whoever ends it | `{}` |
| `{"do": "revive", "id": ID}` | registers it again, under a new session | `{}` |
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import time
from dataclasses import asdict
from typing import Any, Final

import uvloop
from kazoo.protocol.serialization import Connect, Create, ReplyHeader, int_int_struct
from kazoo.security import OPEN_ACL_UNSAFE

from kafkalite.protocol.apis import ApiKey
from tests.bench.stand_in_frames import SharedMetadata, Skimmed, Skimmer, Tally, answer_to, partitions_in, request_in
from zk import paths
from zk.znodes.brokers import BrokerRegistration, RegisteredEndpoint

HOST: Final = "127.0.0.1"
SESSION_TIMEOUT_MS: Final = 18_000
_LENGTH: Final = struct.Struct(">i")
_PING: Final = int_int_struct.pack(-2, 11)
_EPHEMERAL: Final = 1
_EVENTS_AND_PINGS: Final = (-1, -2)


class StandIn:
    """One of them, dead until it is revived."""

    def __init__(self, broker_id: int, zookeeper: str, metadata: SharedMetadata | None = None) -> None:
        """Without `metadata` it stands in for a broker of Apache Kafka."""
        self._id, self._zookeeper, self._metadata = broker_id, zookeeper, metadata
        self.port = 0
        self.is_witness = False
        self.tally = Tally()
        self._told: set[tuple[str, int]] = set()
        self._roles: set[tuple[str, int]] = set()
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._session: asyncio.StreamWriter | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def revive(self) -> None:
        """Listen and register. Raises OSError, RuntimeError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        host, _, port = self._zookeeper.split(",")[0].rpartition(":")
        reader, self._session = await asyncio.open_connection(host, int(port))
        self._write(bytes(Connect(0, 0, SESSION_TIMEOUT_MS, 0, bytes(16), False).serialize()))
        await _read(reader)
        endpoint = RegisteredEndpoint("PLAINTEXT", HOST, self.port)
        registration = BrokerRegistration((endpoint,), timestamp_ms=int(time.time() * 1000)).encode()
        create = Create(paths.broker(self._id), registration, OPEN_ACL_UNSAFE, _EPHEMERAL)
        self._write(int_int_struct.pack(1, Create.type) + bytes(create.serialize()))
        reply, _ = ReplyHeader.deserialize(await _read_reply(reader), 0)
        if reply.err:
            raise RuntimeError(f"broker {self._id} cannot register: error {reply.err}")
        for work in (self._ping(), self._drop_answers(reader)):
            task = loop.create_task(work)
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    def die(self) -> None:
        if self._server is not None:
            self._server.close()
        for each in list(self._connections):
            each.abort()
        for task in self._background:
            task.cancel()
        if self._session is not None:
            self._session.transport.abort()

    def reset(self, *, is_witness: bool) -> None:
        self.tally, self.is_witness = Tally(), is_witness
        self._told.clear()
        self._roles.clear()
        for each in self._connections:
            each.skimmer.keeps = is_witness

    def receive(self, connection: _Connection, data: bytes) -> None:
        for skimmed in connection.skimmer.feed(data):
            connection.write(self._answer(skimmed))
            self.record(skimmed, time.monotonic_ns())

    def _answer(self, skimmed: Skimmed) -> bytes:
        if self._metadata is not None and skimmed.head.api_key == ApiKey.METADATA_DIGESTS:
            return self._metadata.answer_digests(skimmed)
        return answer_to(skimmed.head, is_ours=self._metadata is not None)

    def record(self, skimmed: Skimmed, at_ns: int) -> None:
        """Count a request."""
        if self.is_witness:
            self._witness(skimmed)
        self.tally.add(skimmed, at_ns)

    def _witness(self, skimmed: Skimmed) -> None:
        request = request_in(skimmed)
        if skimmed.head.api_key == ApiKey.LEADER_AND_ISR:
            self._roles |= partitions_in(request)
        elif skimmed.head.api_key == ApiKey.UPDATE_METADATA:
            self._told |= partitions_in(request)
            if self._metadata is not None and request is not None:
                self._metadata.apply(request)
        elif skimmed.head.api_key == ApiKey.METADATA_DIGESTS and self._metadata is not None:
            self._told |= self._metadata.partitions
        self.tally.partitions, self.tally.roles = len(self._told), len(self._roles)

    def connected(self, connection: _Connection) -> None:
        connection.skimmer.keeps = self.is_witness
        self._connections.add(connection)

    def disconnected(self, connection: _Connection) -> None:
        self._connections.discard(connection)

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(SESSION_TIMEOUT_MS / 3000)
            self._write(_PING)

    async def _drop_answers(self, reader: asyncio.StreamReader) -> None:
        try:
            while await reader.read(1 << 16):
                pass
        except OSError:
            pass

    def _write(self, message: bytes) -> None:
        if self._session is not None:
            self._session.write(_LENGTH.pack(len(message)) + message)


class _Connection(asyncio.Protocol):
    def __init__(self, owner: StandIn) -> None:
        self._owner = owner
        self.skimmer = Skimmer()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._owner.receive(self, data)
        except (ValueError, KeyError) as problem:
            print(f"a connection is closed: {problem!r}", file=sys.stderr)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.disconnected(self)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()


async def _read(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(_LENGTH.unpack(await reader.readexactly(4))[0])


async def _read_reply(reader: asyncio.StreamReader) -> bytes:
    """Return the next message that is the reply to a request."""
    while True:
        message = await _read(reader)
        if ReplyHeader.deserialize(message, 0)[0].xid not in _EVENTS_AND_PINGS:
            return message


async def serve(zookeeper: str, first_id: int, count: int, *, are_ours: bool) -> None:
    """Serve commands until standard input ends."""
    metadata = SharedMetadata() if are_ours else None
    stand_ins = {each: StandIn(each, zookeeper, metadata) for each in range(first_id, first_id + count)}
    for each in stand_ins.values():
        await each.revive()
    _tell({str(broker): each.port for broker, each in stand_ins.items()})
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        _tell(await _obey(stand_ins, json.loads(line)))


async def _obey(stand_ins: dict[int, StandIn], command: dict[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "tallies":
            return {str(broker): asdict(each.tally) for broker, each in stand_ins.items()}
        case "reset":
            for broker, each in stand_ins.items():
                each.reset(is_witness=broker == command["witness"])
        case "die":
            stand_ins[command["id"]].die()
        case "revive":
            await stand_ins[command["id"]].revive()
    return {}


def _tell(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), are_ours=sys.argv[4] == "ours"))
