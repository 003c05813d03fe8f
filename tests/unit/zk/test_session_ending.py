"""Endings of sessions at a server whose answers are given, on a socket of this machine."""

from __future__ import annotations

import asyncio
import struct

import pytest
from kazoo.protocol.serialization import Close, Connect

from zk.security.digest_md5 import DigestCredentials
from zk.security.store_security import PLAINTEXT, StoreSecurity
from zk.session_ending import close_request, request_session_end, takeover_request
from zk.store import SessionEnding, StoreError

SESSION, PASSWORD = -0x7000_0000_0000_0001, b"sixteen bytes ok"
TAKEOVER = takeover_request(SESSION, PASSWORD)
REQUESTS = TAKEOVER + close_request(1)


def frame(layout: str, *values: int) -> bytes:
    message = struct.pack(layout, *values)
    return struct.pack(">i", len(message)) + message


ACCEPTED = frame(">iiq", 0, 4_000, SESSION)
REFUSED = frame(">iiq", 0, 0, 0)


def reply(error: int = 0) -> bytes:
    return frame(">iqi", 1, 5, error)


def end(*answers: bytes, timeout_s: float = 20.0) -> SessionEnding:
    """End a session; the server gives each connection its answer once it has both requests, and closes it; the last one repeatedly."""
    remaining = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = await reader.read(len(REQUESTS))
        while received and len(received) < len(REQUESTS):
            received += await reader.read(len(REQUESTS) - len(received))
        assert received in (b"", REQUESTS)  # nothing when its client has given up
        writer.write(remaining.pop(0) if len(remaining) > 1 else remaining[0])
        writer.close()

    async def run() -> SessionEnding:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            return await request_session_end(f"{host}:{port}", SESSION, PASSWORD, PLAINTEXT, timeout_s)

    return asyncio.run(run())


def test_frames_are_those_of_a_client_of_zookeeper() -> None:
    timeout_ms = struct.unpack_from(">i", TAKEOVER, 4 + 12)[0]
    takeover = bytes(Connect(0, 0, timeout_ms, SESSION, PASSWORD, False).serialize())
    assert struct.pack(">i", len(takeover)) + takeover == TAKEOVER
    assert takeover_request(SESSION & 0xFFFF_FFFF_FFFF_FFFF, PASSWORD) == TAKEOVER
    assert close_request(7) == frame(">ii", 7, Close.type)


def test_both_requests_leave_before_an_answer() -> None:
    """Between the answer to a takeover and a close its living owner would take the session back."""
    assert end(ACCEPTED + reply()) is SessionEnding.ENDED


def test_a_session_that_expires_meanwhile_has_ended() -> None:
    assert end(ACCEPTED + reply(-112)) is SessionEnding.ENDED


def test_unknown_session_or_wrong_password() -> None:
    assert end(REFUSED) is SessionEnding.REFUSED


@pytest.mark.parametrize("lost", [ACCEPTED, ACCEPTED + reply()[:-1]])
def test_a_refusal_after_a_lost_reply_means_that_the_session_has_ended(lost: bytes) -> None:
    assert end(lost, REFUSED) is SessionEnding.ENDED


@pytest.mark.parametrize("unclear", [b"", REFUSED[:-1], ACCEPTED + reply(-118)])
def test_an_unclear_answer_is_asked_for_again(unclear: bytes) -> None:
    assert end(unclear, unclear, ACCEPTED + reply()) is SessionEnding.ENDED


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed the connection"),
        (ACCEPTED, "closed the connection"),
        (frame(">i", 0), "too short"),
        (ACCEPTED + frame(">i", 1), "too short"),
        (struct.pack(">i", -1), "is not ZooKeeper's"),
        (struct.pack(">i", 1 << 30), "is not ZooKeeper's"),
        (ACCEPTED + reply(-118), "error -118"),
    ],
)
def test_without_an_answer_in_time_the_reason_is_told(answer: bytes, why: str) -> None:
    for timeout_s in (0.2, 2.0, 20.0):  # a busy machine may not come to the first answer sooner
        with pytest.raises(StoreError, match="within") as caught:
            end(answer, timeout_s=timeout_s)
        if why in str(caught.value):
            return
    pytest.fail(f"{caught.value} does not say {why!r}")


def test_one_attempt_at_a_time_authenticates() -> None:
    """Each takes the session over from the one before, so a second one would cut a first that is under way, for ever."""
    requires_sasl, slow_s = ACCEPTED + reply(-124), 0.5
    under_way, most = 0, 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        if await reader.read(len(REQUESTS)) == REQUESTS:
            writer.write(requires_sasl)
        else:
            under_way += 1
            most = max(most, under_way)
            writer.write(ACCEPTED)
            await asyncio.sleep(slow_s)
            under_way -= 1
        writer.close()

    async def run() -> None:
        security = StoreSecurity(credentials=DigestCredentials("kafka", "secret"))
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            with pytest.raises(StoreError):
                await request_session_end(f"{host}:{port}", SESSION, PASSWORD, security, 4 * slow_s)

    asyncio.run(run())
    assert most == 1
