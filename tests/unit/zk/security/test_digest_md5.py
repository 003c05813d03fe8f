"""DIGEST-MD5 without a server; that real servers take it is in `contract/test_zookeeper_security`."""

from __future__ import annotations

import pytest

from zk.security.digest_md5 import DigestCredentials, ServerNotProven

CHALLENGE = b'realm="zk-sasl-md5",nonce="abc+/=",charset=utf-8,algorithm=md5-sess'


def answered(challenge: bytes) -> bytes:
    exchange = DigestCredentials("bob", "bobsecret").start_exchange("cnonce")
    assert next(exchange) == b""
    return exchange.send(challenge)


def test_the_password_is_not_sent() -> None:
    answer = answered(CHALLENGE)
    assert b'username="bob"' in answer and b'digest-uri="zookeeper/zk-sasl-md5"' in answer
    assert b"bobsecret" not in answer
    assert "bobsecret" not in repr(DigestCredentials("bob", "bobsecret"))


@pytest.mark.parametrize("challenge", [b"", b'nonce="a",algorithm=md5', b"\xff", b"algorithm=md5-sess"])
def test_a_server_without_the_mechanism_is_noticed(challenge: bytes) -> None:
    with pytest.raises(ServerNotProven, match="does not authenticate"):
        answered(challenge)


@pytest.mark.parametrize("proof", [b"", b"rspauth=00000000000000000000000000000000"])
def test_a_server_that_does_not_know_the_password_is_noticed(proof: bytes) -> None:
    exchange = DigestCredentials("bob", "bobsecret").start_exchange("cnonce")
    next(exchange)
    exchange.send(CHALLENGE)
    with pytest.raises(ServerNotProven, match="did not prove"):
        exchange.send(proof)
