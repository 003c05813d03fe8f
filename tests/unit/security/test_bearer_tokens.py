"""Tokens of OAUTHBEARER: whose they are, and that every doubt is a refusal (CVE-2026-33557, CVE-2026-110985)."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kafkalite.broker.connections.key_sets import fetcher
from kafkalite.security.bearer_tokens import BearerTokens, TokenRules, keys_in
from kafkalite.security.sasl_server import Identity, SaslRefused

KEY, FOREIGN = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
RULES = TokenRules(audience=("kafka", "other"), issuer="https://issuer")
EXPIRES_S = int(time.time()) + 24 * 3600
"""A whole run of tests may lie between here and the test."""
CLAIMS = {"sub": "alice", "aud": "kafka", "iss": "https://issuer", "exp": EXPIRES_S}


def key_set(*ids: str, **more: str) -> bytes:
    own = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key()))
    return json.dumps({"keys": [own | {"kid": each} | more for each in ids]}).encode()


def signed(
    claims: Mapping[str, Any] = CLAIMS, key: Any = KEY, kid: str | None = "one", algorithm: str = "ES256"
) -> str:
    return jwt.encode(dict(claims), key, algorithm, {"kid": kid} if kid is not None else {})


class Issuer:
    """Keys that may change, and how often they were asked for."""

    def __init__(self, keys: bytes = key_set("one")) -> None:
        self.keys, self.asked, self.clock_s = keys, 0, 0.0
        self.tokens = BearerTokens(RULES, self.fetch, lambda: self.clock_s)

    async def fetch(self) -> bytes:
        self.asked += 1
        if self.keys == b"":
            raise OSError("no issuer")
        return self.keys


def validated(token: str, issuer: Issuer | None = None) -> Identity:
    return asyncio.run((issuer or Issuer()).tokens.validate(token))


def test_a_token_of_the_issuer_names_a_principal_and_an_end() -> None:
    identity = validated(signed())
    assert (str(identity.principal), identity.expires_ms) == ("User:alice", EXPIRES_S * 1000)


def unsigned(algorithm: str = "none") -> str:
    parts = ({"alg": algorithm, "kid": "one"}, CLAIMS)
    return ".".join(encoded(json.dumps(each).encode()) for each in parts) + "."


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def signed_with_the_public_key() -> str:
    """As if the public key were a secret."""
    public = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    token = unsigned("HS256")
    return token + encoded(hmac.digest(public, token.rstrip(".").encode(), "sha256"))


@pytest.mark.parametrize(
    "token",
    [
        signed(CLAIMS | {"exp": int(time.time()) - 600}),
        signed(CLAIMS | {"nbf": EXPIRES_S - 3600}),
        signed(CLAIMS | {"aud": "elsewhere"}),
        signed({name: each for name, each in CLAIMS.items() if name != "aud"}),
        signed(CLAIMS | {"iss": "https://other"}),
        signed({name: each for name, each in CLAIMS.items() if name != "iss"}),
        signed({name: each for name, each in CLAIMS.items() if name != "exp"}),
        signed({name: each for name, each in CLAIMS.items() if name != "sub"}),
        signed(CLAIMS | {"sub": ""}),
        signed(key=FOREIGN),
        signed(kid="other"),
        signed(kid=None),
        signed()[:-4] + "AAAA",
        unsigned(),
        signed_with_the_public_key(),
        "",
        "a.b.c",
        "x" * 20_000,
    ],
)
def test_every_doubt_is_a_refusal(token: str) -> None:
    with pytest.raises(SaslRefused):
        validated(token)


def test_keys_are_fetched_again_when_they_change_and_not_for_every_stranger() -> None:
    async def scenario() -> None:
        issuer = Issuer()
        validate = issuer.tokens.validate
        for _ in range(20):
            with pytest.raises(SaslRefused):
                await validate(signed(kid="two"))
        assert issuer.asked == 1
        issuer.keys, issuer.clock_s = key_set("one", "two"), 10.0
        await validate(signed(kid="two"))
        issuer.keys, issuer.clock_s = b"", 20.0 + RULES.refresh_s
        await validate(signed(kid="two"))  # the issuer is away: what was known holds
        issuer.keys, issuer.clock_s = key_set("one"), issuer.clock_s + RULES.refresh_s
        with pytest.raises(SaslRefused):
            await validate(signed(kid="two"))

    asyncio.run(scenario())


def test_only_keys_for_signatures_are_taken() -> None:
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"}
    assert keys_in(json.dumps({"keys": [secret, {"kty": "?"}, 1]}).encode()) == {}
    assert keys_in(key_set("one", use="enc")) == {}
    for broken in (b"", b"[]", b'{"keys": 1}'):
        with pytest.raises(ValueError):
            keys_in(broken)


def test_keys_come_from_where_the_operator_said_and_nobody_else_could_answer(tmp_path: Path) -> None:
    path = tmp_path / "a set.json"
    path.write_bytes(key_set("one"))
    assert asyncio.run(fetcher(path.as_uri())()) == key_set("one")
    for url in ("http://issuer/keys", "ftp://x", "file://host/keys", "https://", "/etc/passwd", ""):
        with pytest.raises(ValueError, match="must begin with https"):
            fetcher(url)
