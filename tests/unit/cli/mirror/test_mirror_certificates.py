"""A mirror whose target's brokers know each other by certificates: who is served, and who is not."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import Encoding

from kafkalite.cli.main import main
from kafkalite.cli.mirror import running
from kafkalite.cli.mirror.follower_rights import FollowerRights
from kafkalite.cli.mirror.listener import Listener
from kafkalite.cli.mirror.listener_security import load_security
from kafkalite.cli.mirror.passing import Passing
from kafkalite.cli.mirror.positions import Positions
from kafkalite.cli.mirror.relay import Relay
from kafkalite.client import AclBinding, AclEntry, Operation, PatternType, PermissionType, ResourcePattern, ResourceType
from kafkalite.errors import ErrorCode
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.security.tls import StoreSettings, TlsSettings, client_context
from tests.certificates import Authority, write
from tests.unit.cli.mirror.listened import TIMEOUT_S, Client, Source, ask_as_follower, fetch, metadata, produce

BROKER, OTHER = "User:CN=broker,O=kafkalite", "User:CN=other,O=kafkalite"
SHORT = "RULE:^CN=(.*?),O=.*$/$1/L"


def allow(principal: str, permission: PermissionType = PermissionType.ALLOW, host: str = "*") -> AclBinding:
    cluster = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
    return AclBinding(cluster, AclEntry(principal, host, Operation.CLUSTER_ACTION, permission))


class Room:
    """A listener with SSL alone, and certificates of one authority."""

    def __init__(self, path: Path, rules: str = "", super_users: str = BROKER, everybody: str = "") -> None:
        self._path, self._authority = path, Authority()
        keystore = self._store("mirror")
        self._truststore = write(path / "trust.pem", self._authority.pem)
        own = {"ssl_keystore_location": keystore, "ssl_truststore_location": self._truststore}
        target = {"bootstrap_servers": "h:1", "security_protocol": "SSL", **own}
        settings = {"ssl.principal.mapping.rules": rules, "super.users": super_users}
        settings["allow.everyone.if.no.acl.found"] = everybody
        self.security = load_security("SSL", own, target, settings)
        assert self.security.rights is not None
        self.rights: FollowerRights = self.security.rights
        self.clients: list[Client] = []

    def _store(self, name: str, authority: Authority | None = None) -> str:
        return write(self._path / f"{name}.pem", (authority or self._authority).issue(name).pem)

    async def connect(self, name: str = "", authority: Authority | None = None) -> Client:
        """Connect with the certificate of `name`, with none by default."""
        keystore = StoreSettings(location=self._store(name, authority)) if name else StoreSettings()
        trusted = StoreSettings(location=self._truststore)
        context = client_context(TlsSettings(keystore=keystore, truststore=trusted))
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port, ssl=context)))
        return self.clients[-1]

    async def listen(self) -> None:
        source: Any = Source()
        relay = Relay(source, Positions(), lambda _: True)
        relay.strays = {b"s" * 16: "stray"}
        self.listener = Listener(relay, source, Passing(list, self.security), self.security)
        await self.listener.listen("127.0.0.1", 0)
        assert self.listener._server is not None
        self.port = self.listener._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        for each in self.clients:
            each.writer.close()
        await self.listener.close()


def play(room: Room, test: Any) -> None:
    async def attempt() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await room.listen()
            try:
                await test()
            finally:
                await room.close()

    asyncio.run(attempt())


def test_brokers_of_the_target_follow_and_nobody_else(tmp_path: Path) -> None:
    room = Room(tmp_path)

    async def test() -> None:
        assert (await ask_as_follower(await room.connect("broker"))).responses
        room.rights.replace_acls([allow("User:ANONYMOUS")])
        for name in ("other", ""):
            client = await room.connect(name)
            with pytest.raises(asyncio.IncompleteReadError):
                await ask_as_follower(client)
            (problem,) = room.listener.describe_problems()
            who = (
                f"{OTHER} of 127.0.0.1 is no broker of the target: super.users"
                if name
                else "127.0.0.1 shows no certificate"
            )
            assert f"fetch: {who}" in problem

    play(room, test)


def test_what_lets_everybody_follow_is_read_and_unread_acls_are_shown(tmp_path: Path) -> None:
    room = Room(tmp_path, super_users="", everybody="true")

    async def test() -> None:
        assert (await ask_as_follower(await room.connect("broker"))).responses
        room.rights.note_unread("lost")
        (problem,) = room.listener.describe_problems()
        assert "could not be read again" in problem and "lost" in problem

    play(room, test)


def test_acls_of_the_target_count_as_soon_as_they_are_read(tmp_path: Path) -> None:
    room = Room(tmp_path, super_users="")

    async def test() -> None:
        follower = await room.connect("broker")
        room.rights.replace_acls([allow(BROKER)])
        assert (await ask_as_follower(follower)).responses
        room.rights.replace_acls([allow(BROKER), allow("User:*", PermissionType.DENY)])
        with pytest.raises(asyncio.IncompleteReadError):
            await ask_as_follower(follower)

    play(room, test)


def test_clients_are_refused_before_anything_is_passed_on(tmp_path: Path) -> None:
    room = Room(tmp_path)

    async def test() -> None:
        for name in ("broker", "other", ""):
            for request, version in ((metadata(), 12), (produce(1), 9), (produce(0), 9)):
                client = await room.connect(name)
                await client.send(request, version)
                assert await client.is_closed()
        versions = messages.ApiVersionsRequest(client_software_name="x", client_software_version="y")
        client = await room.connect("other")
        await client.send(versions, 3)
        assert await client.is_closed()
        assert "certificates cannot be passed on" in room.listener.describe_problems()[0]

    play(room, test)


def test_refused_clients_do_not_hide_a_refused_follower(tmp_path: Path) -> None:
    room = Room(tmp_path)

    async def test() -> None:
        client = await room.connect("other")
        await client.send(metadata(), 12)
        assert await client.is_closed() and "cannot be passed on" in room.listener.describe_problems()[0]
        follower = await room.connect("other")
        await follower.send(fetch(b"s" * 16, 1), 17)
        assert await follower.is_closed()
        client = await room.connect("other")
        await client.send(metadata(), 12)
        assert await client.is_closed() and "is no broker of the target" in room.listener.describe_problems()[0]

    play(room, test)


def test_a_consumer_is_told_that_the_mirror_does_not_lead(tmp_path: Path) -> None:
    """Its Fetch needs no right of a broker, and gets nothing."""
    room = Room(tmp_path)

    async def test() -> None:
        client = await room.connect("other")
        await client.send(fetch(b"s" * 16, -1), 17)
        (answer,) = codec.decode_response(ApiKey.FETCH, 17, await client.receive(), 5).responses[0].partitions
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(room, test)


def test_certificates_of_other_authorities_do_not_get_in(tmp_path: Path) -> None:
    room = Room(tmp_path)

    async def test() -> None:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await ask_as_follower(await room.connect("broker", Authority("another")))

    play(room, test)


def test_large_requests_are_of_followers_alone(tmp_path: Path) -> None:
    room = Room(tmp_path)

    async def test() -> None:
        client = await room.connect("other")
        client.writer.write((300_000).to_bytes(4, "big"))
        assert await client.is_closed()
        assert "is no broker of the target" in room.listener.describe_problems()[0]

    play(room, test)


def test_rights_are_those_that_a_broker_would_grant() -> None:
    def refusal(rights: FollowerRights, name: str, host: str = "10.0.0.1") -> str:
        certificate = Authority().issue(name).certificate.public_bytes(Encoding.DER)
        return rights.recognize(certificate, host)()

    short = FollowerRights(SHORT, "User:broker")
    assert refusal(short, "Broker") == "" and "User:other of 10.0.0.1" in refusal(short, "other")
    assert "has no principal" in refusal(FollowerRights("RULE:^CN=x$/x/", "User:broker"), "broker")
    by_acl = FollowerRights("", "")
    assert refusal(by_acl, "broker"), "nothing is read yet"
    by_acl.replace_acls([allow(BROKER, host="10.0.0.1")])
    assert refusal(by_acl, "broker") == "" and refusal(by_acl, "broker", "10.0.0.2")
    everybody = FollowerRights("", "", "TRUE")
    assert refusal(everybody, "broker") == "", "no ACL is about the cluster"
    everybody.replace_acls([allow("User:CN=somebody")])
    assert refusal(everybody, "broker"), "one is"
    with pytest.raises(ValueError, match=r"allow\.everyone\.if\.no\.acl\.found has to be true or false, not 'yes'"):
        FollowerRights("", "", "yes")
    by_acl.replace_acls(None)
    assert refusal(by_acl, "other") == "", "a target without an authorizer lets everybody"
    assert by_acl.recognize(None, "h")() == "h shows no certificate"
    with pytest.raises(ValueError, match="must be DEFAULT or RULE"):
        FollowerRights("nonsense", "")
    with pytest.raises(ValueError, match="must be a principal"):
        FollowerRights("", "nobody")


def test_what_is_wrong_with_the_settings_is_said(tmp_path: Path) -> None:
    target = {"bootstrap_servers": "h:1", "security_protocol": "SSL"}
    key = {"ssl_keystore_location": write(tmp_path / "key.pem", Authority().issue("mirror").pem)}
    with pytest.raises(ValueError, match="have to be of the SSL listener"):
        load_security("SSL", key, {**target, "security_protocol": "PLAINTEXT"})
    with pytest.raises(
        ValueError, match=r"--listen-config: ssl\.client\.auth=requested needs ssl\.truststore\.location"
    ):
        load_security("SSL", key, target)


class Target:
    """A cluster that answers DescribeAcls in turn by what it was given, and then by nothing new."""

    def __init__(self, *answers: int | Exception) -> None:
        self._answers = list(answers)

    async def request_any(self, request: messages.DescribeAclsRequest) -> Any:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return messages.DescribeAclsResponse(error_code=answer, resources=[])


def test_acls_that_cannot_be_read_count_as_before_and_are_read_again() -> None:
    """Without an authorizer everybody with a certificate may follow, which tells whether an answer was taken."""
    certificate = Authority().issue("broker").certificate.public_bytes(Encoding.DER)

    async def wait_for(rights: FollowerRights, is_refused: bool) -> None:
        while bool(rights.recognize(certificate, "h")()) != is_refused:
            await asyncio.sleep(0.01)

    async def test() -> None:
        rights = FollowerRights("", "")
        target: Any = Target(ErrorCode.SECURITY_DISABLED, ConnectionError("lost"), ErrorCode.NONE)
        async with asyncio.timeout(TIMEOUT_S), running._keeping(rights, target, 0.05):
            await wait_for(rights, is_refused=False)
            while not rights.describe_problems():
                await asyncio.sleep(0.01)
            assert rights.describe_problems() == [
                "the target's ACLs could not be read again, and count as before: lost"
            ]
            await wait_for(rights, is_refused=True)
            assert rights.describe_problems() == []
        unreachable: Any = Target(ConnectionError("lost"))
        with pytest.raises(ConnectionError):
            async with running._keeping(rights, unreachable, 0.05):
                pass

    asyncio.run(test())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("super.users=nobody", "'nobody' must be a principal"),
        ("ssl.principal.mapping.rules=nonsense", "must be DEFAULT or RULE"),
        ("ssl.client.auth=required", "ssl.client.auth"),
        ("allow.everyone.if.no.acl.found=yes", "has to be true or false, not 'yes'"),
        ("", "ssl.truststore.location"),
    ],
)
def test_a_file_for_the_listener_that_cannot_be_used_ends_the_command(tmp_path: Path, line: str, told: str) -> None:
    keystore = f"ssl.keystore.location={write(tmp_path / 'key.pem', Authority().issue('mirror').pem)}\n"
    to_config = write(tmp_path / "to", f"security.protocol=SSL\n{keystore}".encode())
    listener = write(tmp_path / "listener", f"{keystore}{line}\n".encode())
    words = ["--to", "h:1", "--controllers", "h:2", "--broker-id", "9", "--listen", "h:3", "--to-config", to_config]
    words += ["--listen-protocol", "SSL", "--listen-config", listener, "-b", "h:4"]
    done = CliRunner().invoke(main, ["mirror", "run", str(tmp_path / "mirror"), *words])
    assert done.exit_code == 2 and told in done.output
