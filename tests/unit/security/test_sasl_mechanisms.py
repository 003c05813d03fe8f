"""Mechanisms of SASL, both sides against each other, and against the example of RFC 7677."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kafkalite.errors import AuthenticationError
from kafkalite.security.principal import KafkaPrincipal
from kafkalite.security.sasl_client import SaslCredentials
from kafkalite.security.sasl_exchange import ServerNotProven
from kafkalite.security.sasl_server import (
    Identity,
    OAuthBearerServer,
    PlainServer,
    SaslMalformed,
    SaslRefused,
    SaslServer,
    ScramServer,
    TokenCredential,
)
from kafkalite.security.scram import ScramCredential, ScramMechanism, credential_of, salted_password
from kafkalite.security.scram_messages import auth_message, client_proof, server_signature, text_of

SALT = b"salt of a user"
ALICE = KafkaPrincipal("User", "alice")


def credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, 4096), SALT, 4096)


def scram_server(mechanism: ScramMechanism, user: str = "alice", password: str = "right") -> ScramServer:
    async def users(of: ScramMechanism, name: str) -> ScramCredential | None:
        return credential(of, password) if name == user else None

    def tokens(of: ScramMechanism, name: str) -> TokenCredential | None:
        return TokenCredential(credential(of, "hmac"), ALICE, 99) if name == "token-id" else None

    return ScramServer(mechanism, users, tokens, b"secret", "SERVER")


def converse(credentials: SaslCredentials, server: SaslServer) -> Identity | None:
    async def conversation() -> Identity | None:
        exchange = credentials.start_exchange("host")
        token = exchange.send(None)  # type: ignore[arg-type]
        while True:
            answer = await server.evaluate(token)
            try:
                token = exchange.send(answer)
            except StopIteration:
                return server.identity

    return asyncio.run(conversation())


def test_scram_is_that_of_the_standard() -> None:
    mechanism, nonce = ScramMechanism.SCRAM_SHA_256, r"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    salt = bytes.fromhex("5b6d99689d12358eeca04b141236fa81")
    salted = salted_password(mechanism, "pencil", salt, 4096)
    about = auth_message("n=user,r=rOprNGfwEbeRWgbNEkqO", f"r={nonce},s={text_of(salt)},i=4096", f"c=biws,r={nonce}")
    assert text_of(client_proof(mechanism, salted, about)) == "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    key = credential_of(mechanism, salted, salt, 4096).server_key
    assert text_of(server_signature(mechanism, key, about)) == "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_scram_proves_both_sides(mechanism: ScramMechanism) -> None:
    who = SaslCredentials(mechanism=mechanism.config_key, username="a=l,ice", password="right")
    assert converse(who, scram_server(mechanism, "a=l,ice")) == Identity(KafkaPrincipal("User", "a=l,ice"))
    assert "right" not in repr(who)


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", "right"), ("alice", "")])
def test_wrong_and_unknown_users_are_refused_at_the_same_point(user: str, password: str) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    with pytest.raises(SaslMalformed, match="Invalid client credentials"):
        converse(
            SaslCredentials(mechanism=mechanism.config_key, username=user, password=password), scram_server(mechanism)
        )


def test_a_delegation_token_makes_its_owner_of_who_has_it() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    token = SaslCredentials(mechanism=mechanism.config_key, username="token-id", password="hmac", is_token=True)
    identity = converse(token, scram_server(mechanism))
    assert identity == Identity(ALICE, 99) and identity is not None and identity.principal.by_token
    with pytest.raises(SaslMalformed):
        converse(
            SaslCredentials(mechanism=mechanism.config_key, username="token-id", password="hmac"),
            scram_server(mechanism),
        )


@pytest.mark.parametrize(
    ("first", "final", "error"),
    [
        (b"n,a=bob,n=alice,r=x", None, SaslRefused),  # CVE-2017-12610
        (b"y,,n=alice,r=x", None, SaslMalformed),
        (b"p=tls,,n=alice,r=x", None, SaslMalformed),
        (b"n,,n=,r=x", None, SaslMalformed),
        (b"\xff", None, SaslMalformed),
        (b"n,,n=alice,r=x", b"c=biws,r=xOTHER,p=AAAA", SaslMalformed),  # CVE-2024-56128
        (b"n,,n=alice,r=x", b"c=eSws,r=xSERVER,p=AAAA", SaslMalformed),
        (b"n,,n=alice,r=x", b"c=biws,r=xSERVER,p=AAAA", SaslMalformed),
        (b"n,,n=alice,r=x", b"c=biws,r=xSERVER,p=*", SaslMalformed),
    ],
)
def test_a_bad_message_of_scram_is_refused(first: bytes, final: bytes | None, error: type[Exception]) -> None:
    async def conversation() -> None:
        server = scram_server(ScramMechanism.SCRAM_SHA_256)
        await server.evaluate(first)
        if final is not None:
            await server.evaluate(final)

    with pytest.raises(error):
        asyncio.run(conversation())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda nonce: f"r={nonce},s=AAAA,i=4096", "nonce"),
        (lambda nonce: f"r=other{nonce},s=AAAA,i=4096", "nonce"),
        (lambda nonce: f"r={nonce}x,s=AAAA,i=2000000000", "iterations"),
        (lambda nonce: f"r={nonce}x,s=AAAA,i=1", "iterations"),
        (lambda nonce: "e=other-error", "read"),
    ],
)
def test_a_client_is_not_led_by_a_server_that_lies(answer: Callable[[str], str], reason: str) -> None:
    exchange = SaslCredentials(mechanism="SCRAM-SHA-256", username="alice", password="right").start_exchange("host")
    nonce = next(exchange).decode().rpartition("r=")[2]
    with pytest.raises(ServerNotProven, match=reason):
        exchange.send(answer(nonce).encode())


def test_a_client_notices_a_server_that_does_not_know_its_keys() -> None:
    exchange = SaslCredentials(mechanism="SCRAM-SHA-256", username="alice", password="right").start_exchange("host")
    nonce = next(exchange).decode().rpartition("r=")[2]
    exchange.send(f"r={nonce}x,s=AAAA,i=4096".encode())
    with pytest.raises(ServerNotProven, match="did not prove"):
        exchange.send(b"v=AAAA")


@pytest.mark.parametrize(
    ("token", "error", "message"),
    [
        (b"\0alice\0wrong", SaslRefused, "Authentication failed: Invalid username or password"),
        (b"\0bob\0right", SaslRefused, "Authentication failed: Invalid username or password"),
        (b"\0\0right", SaslRefused, "Authentication failed: username not specified"),
        (b"\0alice\0", SaslRefused, "Authentication failed: password not specified"),
        (
            b"bob\0alice\0right",
            SaslRefused,
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice", SaslRefused, "expected 3 tokens, got 1"),
        (b"\0a\0b\0c", SaslRefused, "expected 3 tokens, got 4"),
        (b"\0\xff\0", SaslMalformed, "UTF-8"),
    ],
)
def test_plain_says_what_apache_kafka_says(token: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        asyncio.run(PlainServer({"alice": "right"}).evaluate(token))


def test_plain_takes_the_password_of_a_user() -> None:
    who = SaslCredentials(mechanism="PLAIN", username="alice", password="rïght")
    assert converse(who, PlainServer({"alice": "rïght"})) == Identity(ALICE)


def test_a_function_that_fails_to_give_a_token_is_a_failed_authentication_once_the_exchange_begins() -> None:
    """Elsewhere than in the exchange it would hold up the event loop; any other error would have the client connect without pause."""

    def read_token() -> str:
        raise KeyError("access_token")

    exchange = SaslCredentials(mechanism="OAUTHBEARER", token=read_token).start_exchange("broker")
    with pytest.raises(AuthenticationError, match=r"sasl_token failed: KeyError\('access_token'\)"):
        next(exchange)


def test_a_bearer_token_is_judged_and_its_refusal_is_told_before_it_fails() -> None:
    async def validate(token: str) -> Identity:
        if token != "good":
            raise SaslRefused("it has expired")
        return Identity(ALICE, 5)

    assert converse(SaslCredentials(mechanism="OAUTHBEARER", token=lambda: "good"), OAuthBearerServer(validate)) == (
        Identity(ALICE, 5)
    )
    with pytest.raises(SaslRefused, match="expired"):
        converse(SaslCredentials(mechanism="OAUTHBEARER", password="bad"), OAuthBearerServer(validate))
    for broken in (
        b"",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer good",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"\xff",
    ):
        with pytest.raises(SaslMalformed):
            asyncio.run(OAuthBearerServer(validate).evaluate(broken))
    with pytest.raises(SaslRefused, match="authorization id"):
        asyncio.run(OAuthBearerServer(validate).evaluate(b"n,a=bob,\x01auth=Bearer good\x01\x01"))


def test_a_mechanism_that_is_not_known_is_named() -> None:
    with pytest.raises(ValueError, match="known are PLAIN"):
        SaslCredentials(mechanism="CRAM-MD5")
