"""Finds what ZooKeeper servers reveal to unauthenticated clients: four-letter words that list sessions, and the admin server, which has
no login.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kafkalite.cli.doctor.findings import Finding, warning

ADMIN_SERVER_PORT: Final = 8080
"""ZooKeeper's default of admin.serverPort; other ports are not searched."""
_ASK_S: Final = 2.0
_ANSWER_BYTES: Final = 4096

AskWord = Callable[[str], Awaitable[str]]


class Exposure(NamedTuple):
    """The answers of one server to an unauthenticated client."""

    address: str
    names_sessions: bool = False
    has_admin_server: bool = False


async def check_server(address: str, ask_word: AskWord, admin_port: int = ADMIN_SERVER_PORT) -> Exposure:
    """Check one server. `ask_word` sends it a four-letter word; what cannot be asked counts as closed."""
    told = ""
    with suppress(OSError, ValueError):
        told = await ask_word("dump")
    return Exposure(address, "dump:" in told, await _has_admin_server(_host(address), admin_port))


def judge(exposures: Sequence[Exposure]) -> Iterator[Finding]:
    """Return a finding for each kind of exposure."""
    check = "zookeeper exposure"
    if told := [each.address for each in exposures if each.names_sessions]:
        remedy = "4lw.commands.whitelist=srvr,mntr,ruok in zoo.cfg"
        yield warning(check, f"{', '.join(told)}: strangers are told sessions and paths (dump)", remedy)
    if open_to_all := [each.address for each in exposures if each.has_admin_server]:
        remedy = "admin.enableServer=false in zoo.cfg, or admin.serverAddress=127.0.0.1"
        yield warning(
            check,
            f"{', '.join(open_to_all)}: the admin server answers at port {ADMIN_SERVER_PORT}, without a login",
            remedy,
        )


def _host(address: str) -> str:
    host, colon, _ = address.rpartition(":")
    return (host if colon else address).strip("[]")


async def _has_admin_server(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_ASK_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"GET /commands/ruok HTTP/1.0\r\nHost: zookeeper\r\n\r\n")
                answer = b""
                while len(answer) < _ANSWER_BYTES and (part := await reader.read(_ANSWER_BYTES)):
                    answer += part
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return False
    return b'"command"' in answer and b'"ruok"' in answer
