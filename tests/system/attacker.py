"""A program without credentials against a broker whose listeners all want some: `python -m tests.system.attacker [--elsewhere]`.

It tries to read what clients read, and to take from others what a broker has: memory, files, the time of its event loop. Each attack
goes on for some seconds, from an address of its own, while a client that was let in long ago asks each 10 ms. Printed of each is how long
that client waited, in the broker's processor time and by the clock, without the attack and during it; and what the broker had of memory
and files. The attacker takes processors of the same machine, which the clock shows too: with `--elsewhere` it attacks another broker than
the one that the client asks.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import tempfile
import threading
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import click

from kafkalite.local.broker_process import BrokerProcess
from kafkalite.net.frames import request_frame
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import APIS, ApiKey
from kafkalite.protocol.messages import Message
from tests.fuzz.beside import ProcessBeside, Wait, forget_peak, peak_bytes
from tests.wire.secured import SecuredCluster

ATTACKER: Final = "127.0.0.66"
CONNECTIONS: Final = 1000
ATTACK_S: Final = 5.0
ANSWERS: Final = 100
"""At least so many that the other client waits for, before and during an attack."""
PROGRAM_ANSWERS: Final = 400
"""Of fewer, 99 in 100 are all but three."""
_ANSWER_S: Final = 30.0
_TOKEN_BYTES: Final = 524_000


class Target(NamedTuple):
    """The ports of a broker's listeners, by the names of `SecuredCluster`; `connections` an attack may have."""

    ports: Mapping[str, int]
    connections: int = CONNECTIONS


Attack: TypeAlias = Callable[[Target], Awaitable[None]]
"""Goes on until it is cancelled."""
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(port: int, context: ssl.SSLContext | None = None) -> Streams:
    """From the attacker's address."""
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(ATTACKER, 0), ssl=context)


def frame(message: Message, version: int) -> bytes:
    """A request, as it is sent."""
    body = codec.encode_request(message, version)
    return b"".join(bytes(each) for each in request_frame(APIS[message.API.key], version, 1, "attacker", body))


async def answer(reader: asyncio.StreamReader) -> bytes:
    """ConnectionError, IncompleteReadError when there is none."""
    return await reader.readexactly(*struct.unpack(">i", await reader.readexactly(4)))


def trusting() -> ssl.SSLContext:
    """Somebody who looks at no certificate, and makes each handshake a whole one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.options |= ssl.OP_NO_TICKET
    return context


async def together(target: Target, one: Callable[[], Awaitable[None]]) -> None:
    """As many at once as the attacker may have, each begun again when it is over."""

    async def again() -> None:
        while True:
            with suppress(OSError, EOFError):
                await one()

    await asyncio.gather(*(again() for _ in range(target.connections)))


def _client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


async def half_open_handshakes(target: Target) -> None:
    """The half of a ClientHello, and silence."""
    hello = _client_hello()

    async def one() -> None:
        reader, writer = await connected(target.ports["TLS"])
        try:
            writer.write(hello[: len(hello) // 2])
            await reader.read()
        finally:
            writer.close()

    await together(target, one)


async def handshake_flood(target: Target) -> None:
    """Whole handshakes, one after the other, some at once."""
    context = trusting()

    async def one() -> None:
        _, writer = await connected(target.ports["TLS"], context)
        writer.transport.abort()

    await together(target._replace(connections=min(target.connections, 50)), one)


async def silent_authentication(target: Target) -> None:
    """A mechanism is chosen, and then nothing."""
    chosen = frame(messages.sasl_handshake_request.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)

    async def one() -> None:
        reader, writer = await connected(target.ports["SASL"])
        try:
            writer.write(chosen)
            await reader.read()
        finally:
            writer.close()

    await together(target, one)


async def scram_flood(target: Target) -> None:
    """Logins of users who may be there, with proofs that are wrong."""
    chosen = frame(messages.sasl_handshake_request.SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)

    async def one() -> None:
        reader, writer = await connected(target.ports["SASL"])
        try:
            writer.write(chosen + _token(f"n,,n=user-{os.urandom(4).hex()},r=x".encode()))
            await answer(reader)
            first = codec.decode_response(ApiKey.SASL_AUTHENTICATE, 2, await answer(reader), 5)
            nonce = bytes(first.auth_bytes).split(b",")[0]
            writer.write(_token(b"c=biws," + nonce + b",p=" + b64encode(bytes(64))))
            await answer(reader)
        finally:
            writer.transport.abort()

    await together(target, one)


def _token(content: bytes) -> bytes:
    return frame(messages.sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=content), 2)


async def large_tokens(target: Target) -> None:
    """Tokens as large as they may be, of which the end never comes, and some that are whole."""
    chosen = frame(messages.sasl_handshake_request.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    token = _token(b"n,,n=" + b"u" * _TOKEN_BYTES + b",r=x")

    async def one() -> None:
        reader, writer = await connected(target.ports["SASL"])
        try:
            writer.write(chosen + token[: len(token) - os.urandom(1)[0] % 2])
            await reader.read()
        finally:
            writer.transport.abort()

    await together(target._replace(connections=min(target.connections, 200)), one)


async def versions_flood(target: Target) -> None:
    """ApiVersions, which is answered to anybody, on ever new connections."""
    asked = frame(messages.api_versions_request.ApiVersionsRequest(client_software_name="a"), 0)

    async def one() -> None:
        reader, writer = await connected(target.ports["SASL"])
        try:
            writer.write(asked * 20)
            await reader.read()
        finally:
            writer.transport.abort()

    await together(target._replace(connections=min(target.connections, 50)), one)


ATTACKS: Final[tuple[Attack, ...]] = (
    half_open_handshakes,
    handshake_flood,
    silent_authentication,
    scram_flood,
    large_tokens,
    versions_flood,
)


class Harm(NamedTuple):
    """What an attack did: how long the other client waited, in the broker's processor time and by the clock, memory and files."""

    before_p99_s: float
    p99_s: float
    longest_s: float
    clock_before_p99_s: float
    clock_p99_s: float
    grown_bytes: int
    files: int
    answers: int

    def __str__(self) -> str:
        return (
            f"p99 {self.before_p99_s * 1000:.2f} -> {self.p99_s * 1000:.2f} ms ({self.p99_s / self.before_p99_s:.2f}), "
            f"longest {self.longest_s * 1000:.1f} ms, by the clock {self.clock_before_p99_s * 1000:.2f} -> "
            f"{self.clock_p99_s * 1000:.2f} ms ({self.clock_p99_s / self.clock_before_p99_s:.2f}), "
            f"memory {self.grown_bytes / 1e6:+.0f} MB, {self.files} files more, {self.answers} answers"
        )


def harm_of(
    attack: Attack,
    broker: BrokerProcess,
    target: Target,
    duration_s: float = ATTACK_S,
    answers: int = ANSWERS,
    meanwhile: Callable[[], None] = lambda: None,
) -> Harm:
    """Attack for a while, and until another client has had so many answers; `meanwhile` is called in the middle of it."""
    other = ProcessBeside(broker)
    other.start()
    other.wait_answers(answers)
    before = other.waits
    files, memory_bytes = open_files(broker), broker.resident_bytes()
    forget_peak(broker)
    other.forget()
    most_files, is_over = files, threading.Event()

    async def life() -> None:
        nonlocal most_files
        attacking = asyncio.ensure_future(attack(target))
        loop = asyncio.get_running_loop()
        end_s = loop.time() + duration_s
        while loop.time() < end_s or len(other.waits) < answers or not is_over.is_set():
            await asyncio.sleep(0.1)
            most_files = max(most_files, open_files(broker))
            if not other.is_alive():
                break
        attacking.cancel()
        with suppress(asyncio.CancelledError):
            await attacking

    thread = threading.Thread(target=asyncio.run, args=(life(),))
    thread.start()
    try:
        other.wait_answers(answers // 2)
        meanwhile()
    finally:
        is_over.set()
        thread.join()
    harm = Harm(
        _p99(before, _held_s),
        _p99(other.waits, _held_s),
        other.longest_held.held_s,
        _p99(before, _waited_s),
        _p99(other.waits, _waited_s),
        peak_bytes(broker) - memory_bytes,
        most_files - files,
        len(other.waits),
    )
    other.end()
    return harm


_held_s: Final = attrgetter("held_s")
_waited_s: Final = attrgetter("waited_s")


def _p99(waits: list[Wait], seconds: Callable[[Wait], float]) -> float:
    return sorted(map(seconds, waits))[len(waits) * 99 // 100]


def open_files(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def ports_of(cluster: SecuredCluster, broker: int = 1) -> dict[str, int]:
    """Of the broker's listeners that want credentials."""
    return {
        name: int(cluster.servers(name).split(",")[broker - 1].rpartition(":")[2]) for name in ("TLS", "SASL", "BOTH")
    }


def learns_nothing(port: int, context: ssl.SSLContext | None, message: Message, version: int) -> bool:
    """Is a request without credentials answered with the end of the connection?"""
    with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_S) as plain:
        try:
            connection = plain if context is None else context.wrap_socket(plain)
            connection.sendall(frame(message, version))
            return not connection.recv(1)
        except OSError:
            return True


@click.command()
@click.option("--elsewhere", is_flag=True, help="Attack another broker than the one whose client is watched.")
def main(elsewhere: bool) -> None:
    """What a program without credentials can take from others: a line for each attack."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SecuredCluster(Path(folder) / "files", 2, {"listener.name.tls.ssl.client.auth": "required"}) as cluster,
    ):
        target = Target(ports_of(cluster, 2 if elsewhere else 1))
        for attack in ATTACKS:
            harm = harm_of(attack, cluster.broker(1), target, answers=PROGRAM_ANSWERS)
            click.echo(f"{attack.__name__}: {harm}")


if __name__ == "__main__":
    main()
