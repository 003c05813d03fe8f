"""Who may look at a broker's pages, and that they are served over TLS."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from pathlib import Path

import pytest

from kafkalite.broker.connections.listener_security import ListenerSecurity
from kafkalite.broker.observation import http
from kafkalite.broker.observation.http import Answer, HttpServer, Response
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.config.keys import ConfigError
from kafkalite.net.login import Login, read_login
from kafkalite.security import secret_files
from kafkalite.testing.simulation import virtual_time
from tests.certificates import PASSWORD, Authority, write
from tests.unit.broker.observation.http_client import Client

SETTING = "kafkalite.http.users.file"
LOGIN = Login({"ann": "s3cret: with a colon", "böb": "ä"})


def basic(text: str) -> bytes:
    return b"Basic " + b64encode(text.encode())


@pytest.mark.parametrize(
    ("header", "is_admitted"),
    [
        (basic("ann:s3cret: with a colon"), True),
        (basic("ann:s3cret: with a colon").replace(b"Basic", b"bAsIc"), True),
        (basic("böb:ä"), True),
        (basic("ann:s3cret"), False),
        (basic("nobody:\0"), False),
        (basic("nobody:"), False),
        (basic("ann"), False),
        (b"Basic !!", False),
        (b"Basic " + b64encode(b"\xff:\xff"), False),
        (b"Bearer " + b64encode(b"ann:s3cret: with a colon"), False),
        (b"", False),
        (None, False),
    ],
)
def test_who_has_a_name_and_the_password_may_look(header: bytes | None, is_admitted: bool) -> None:
    assert LOGIN.admits(header) is is_admitted


def test_a_login_shows_no_password() -> None:
    assert "s3cret" not in repr(LOGIN)


async def page() -> Answer:
    return Response(b"names of topics", status=503)


def test_without_a_login_only_the_status_of_open_pages_is_told() -> None:
    async def scenario() -> None:
        server = HttpServer({"/": page, "/health": page}, 3, LOGIN, ("/health",))
        client, loop = Client(server), asyncio.get_running_loop()
        status, headers, body = await client.get("/")
        assert (status, headers["www-authenticate"]) == (401, 'Basic realm="kafkalite", charset="UTF-8"')
        assert b"topics" not in body
        assert (await client.get("/none"))[0] == 401, "nor which pages there are"
        status, _, body = await client.get("/health")
        assert (status, body) == (503, b"{}\n")
        status, _, body = await client.get("/", headers=f"Authorization: {basic('böb:ä').decode()}\r\n")
        assert (status, body) == (503, b"names of topics")
        before_s = loop.time()
        await client.send(b"GET / HTTP/1.1\r\nHost: any\r\nAuthorization: Basic YTpi\r\n\r\n")
        while b"401" not in bytes(client.transport.written).rsplit(b"HTTP/1.1", 1)[-1]:
            await asyncio.sleep(0.01)
        assert loop.time() - before_s >= http.REFUSAL_DELAY_S, "who guesses waits"
        await server.close()

    virtual_time.run(scenario())


def test_the_file_of_those_who_may_look(tmp_path: Path) -> None:
    path = write(tmp_path / "users", b"# who may look\n\nann:s3cret: with a colon\n")
    assert read_login(path, SETTING, may_be_exposed=False).admits(basic("ann:s3cret: with a colon"))
    for content, reason in ((b"ann\n", "line 1 of .* is not name:password"), (b"# nobody\n", "names nobody")):
        with pytest.raises(ConfigError, match=reason):
            read_login(write(tmp_path / "users", content), SETTING, may_be_exposed=False)
    with pytest.raises(ConfigError, match=r"users\.file"):
        read_login(str(tmp_path / "absent"), SETTING, may_be_exposed=False)


def test_a_file_that_everybody_can_read_is_refused_unless_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_files, "_folders", lambda path: ())  # as if everybody could enter them
    path = Path(write(tmp_path / "users", b"ann:x\n"))
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="everybody on this machine"):
        read_login(str(path), SETTING, may_be_exposed=False)
    read_login(str(path), SETTING, may_be_exposed=True)


def test_pages_over_tls(tmp_path: Path) -> None:
    """With the settings of a listener called http; a certificate of the client is asked for only where these say so."""
    authority = Authority()
    properties = {
        "zookeeper.connect": "any",
        "kafkalite.http.listener": "127.0.0.1:0",
        "kafkalite.http.ssl.enable": "true",
        "ssl.client.auth": "required",
        "listener.name.http.ssl.keystore.location": write(
            tmp_path / "key.p12", authority.pkcs12(authority.issue("broker"))
        ),
        "listener.name.http.ssl.keystore.password": PASSWORD,
    }

    async def nobody(mechanism: object, user: str) -> None:
        return None

    async def scenario() -> None:
        security = ListenerSecurity(LiveConfig(BrokerConfig.from_properties(properties)), nobody, lambda: 0)
        server = HttpServer({"/": page}, 3)
        await server.start("127.0.0.1", 0, await security.of_http())
        trust = ssl.create_default_context(cadata=authority.pem.decode())
        for requests in (1, 2):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trust)
            async with asyncio.timeout(http.TAKE_TIMEOUT_S / 4):  # as soon as the client has what was sent
                for left in reversed(range(requests)):
                    then = "keep-alive" if left else "close"
                    writer.write(f"GET / HTTP/1.1\r\nHost: any\r\nConnection: {then}\r\n\r\n".encode())
                    await reader.readuntil(b"names of topics")
                assert await reader.read() == b""
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: any\r\n\r\n")
        assert b"topics" not in await reader.read()
        writer.close()
        await server.close()

    asyncio.run(scenario())
