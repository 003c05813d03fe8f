"""Connections that are not authenticated: several at once, to brokers that serve nobody whom they do not know.

Some ask for what they must not get, some fall silent in the middle, some give a wrong password, and some log in with all their requests
in one go, which is allowed, and must be answered in order and then served. Nothing is answered to the others but the end of the connection,
or what belongs to a login.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkalite.errors import AuthenticationError
from kafkalite.net.connection import Connection
from kafkalite.net.frames import request_frame, response_body_position
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS
from kafkalite.protocol.record_batches.records import NewRecord, build_batch
from kafkalite.security.sasl_client import SaslCredentials
from kafkalite.testing.history.events import Value
from kafkalite.testing.simulation.cluster import PORT
from kafkalite.testing.simulation.logins import PASSWORD, PROTOCOL, USER

if TYPE_CHECKING:
    from tests.simulation.simulation_run import SimulationRun

NAME: Final = "unauthenticated"
_AT_ONCE: Final = 4
_PATIENCE_S: Final = 4.0
_AGAIN_S: Final = 1.5
_KINDS: Final = ("metadata", "produce", "half", "wrong password", "login", "login")
_VERSIONS: Final = {"api_versions": 3, "sasl_handshake": 1, "sasl_authenticate": 2, "metadata": 9, "produce": 8}


class _Wire(asyncio.Protocol):
    """One connection by hand: what came, and whether it is over."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.changed = asyncio.Event()
        self.is_over = False

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self.changed.set()

    def frames(self) -> list[bytes]:
        """Whole answers, without their lengths."""
        found, position = [], 0
        while position + 4 <= len(self.received):
            end = position + 4 + int.from_bytes(self.received[position : position + 4], "big")
            if end > len(self.received):
                break
            found.append(bytes(self.received[position + 4 : end]))
            position = end
        return found

    async def wait(self, count: int) -> bool:
        """Wait for so many answers; False when the connection ended first, or they did not come in time."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while len(self.frames()) < count and not self.is_over:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        return len(self.frames()) >= count


def _framed(number: int, message: Any) -> bytes:
    api = APIS[message.API.key]
    version = _VERSIONS[message.API.name]
    return b"".join(request_frame(api, version, number, NAME, codec.encode_request(message, version)))


def _login() -> list[Any]:
    token = f"\0{USER}\0{PASSWORD}".encode()
    return [
        messages.api_versions_request.ApiVersionsRequest(client_software_name=NAME, client_software_version="1"),
        messages.sasl_handshake_request.SaslHandshakeRequest(mechanism="PLAIN"),
        messages.sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=token),
    ]


class Unauthenticated:
    """See the module."""

    def __init__(self, run: SimulationRun) -> None:
        self._run = run
        self._chance = run.simulation.chance(NAME)

    async def run(self) -> None:
        """Come in crowds until faults are over."""
        process, _ = self._run.client(NAME)

        async def crowds() -> None:
            while not self._run.faults_are_over:
                names = list(self._run.cluster.brokers.values())
                kinds = [self._chance.choice(_KINDS) for _ in range(self._chance.choice([1, _AT_ONCE]))]
                broker = self._chance.choice(names).name
                await asyncio.gather(*(self._come(broker, kind) for kind in kinds))
                await asyncio.sleep(self._chance.uniform(0.0, _AGAIN_S))

        await self._run.within_process(process, crowds())

    async def check_logins(self) -> None:
        """Log in to each broker, several times at once, in the way that depends on turns most. AssertionError when one is not served."""
        process, _ = self._run.client(f"{NAME}-last")

        async def logins() -> None:
            for broker in self._run.cluster.brokers.values():
                served = await asyncio.gather(*(self._log_in(broker.name) for _ in range(_AT_ONCE)))
                assert all(served), f"{broker.name} serves {served.count(True)} of {_AT_ONCE} who log in at once"

        await self._run.within_process(process, logins())

    async def _come(self, broker: str, kind: str) -> None:
        try:
            if kind == "login":
                await self._log_in(broker)
            elif kind == "wrong password":
                await self._be_refused(broker)
            else:
                await self._intrude(broker, kind)
        except (OSError, TimeoutError) as problem:
            self._run.simulation.trace.add(NAME, f"{kind} at {broker}: {problem!r}")

    async def _connect(self, broker: str) -> tuple[Any, _Wire]:
        async with asyncio.timeout(_PATIENCE_S):
            return await asyncio.get_running_loop().create_connection(_Wire, broker, PORT)

    async def _log_in(self, broker: str) -> bool:
        """Send all of a login at once, then two requests more. Is it answered, in this order? Not when the connection ends before."""
        transport, wire = await self._connect(broker)
        asked = [*_login(), *[messages.metadata_request.MetadataRequest(topics=[])] * 2]
        try:
            transport.write(b"".join(_framed(number, each) for number, each in enumerate(asked[:3])))
            if not await wire.wait(3):
                return False
            transport.write(b"".join(_framed(number, each) for number, each in list(enumerate(asked))[3:]))
            is_served = await wire.wait(5)
        finally:
            transport.abort()
            self._check_order(asked, wire.frames())
        return is_served

    def _check_order(self, asked: Sequence[Any], answers: list[bytes]) -> None:
        for number, (request, answer) in enumerate(zip(asked, answers, strict=False)):
            got = int.from_bytes(answer[:4], "big")
            assert got == number, f"answer {number} to {request.API.name} is of request {got}"
            key, version = request.API.key, _VERSIONS[request.API.name]
            told: Any = codec.decode_response(
                key, version, memoryview(answer), response_body_position(APIS[key], version, answer)
            )
            if request.API.name.startswith("sasl"):
                assert not told.error_code, f"{request.API.name} is refused: {told.error_code}"

    async def _be_refused(self, broker: str) -> None:
        credentials = SaslCredentials(mechanism="PLAIN", username=USER, password=f"not {PASSWORD}")
        try:
            connection = await Connection.open(
                broker, PORT, timeout_s=_PATIENCE_S, security_protocol=PROTOCOL, credentials=credentials
            )
        except AuthenticationError:
            return
        connection.close()
        raise AssertionError(f"{broker} takes a wrong password")

    async def _intrude(self, broker: str, kind: str) -> None:
        """Ask without a login, or stop in the middle of one."""
        transport, wire = await self._connect(broker)
        try:
            if kind == "half":
                data = b"".join(_framed(number, each) for number, each in enumerate(_login()))
                transport.write(data[: self._chance.randrange(1, len(data))])
                await asyncio.sleep(self._chance.choice([0.1, 2.0]))
                return
            transport.write(_framed(0, _unwelcome(kind, self._run)))
            await wire.wait(1)
        finally:
            transport.abort()
        assert not wire.received, (
            f"{broker} answers {kind} of a connection that is not authenticated: {bytes(wire.received)!r}"
        )


def _unwelcome(kind: str, run: SimulationRun) -> Any:
    if kind == "metadata":
        return messages.metadata_request.MetadataRequest(topics=[])
    m = messages.produce_request
    batch = build_batch([NewRecord(None, Value(NAME, 0).to_bytes(40), run.cluster.clock.now_ms())])
    data = m.TopicProduceData(name="flights", partition_data=[m.PartitionProduceData(index=0, records=bytes(batch))])
    return m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])
