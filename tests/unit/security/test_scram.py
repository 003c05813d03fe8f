"""SCRAM keys against the exchange of RFC 7677 and against what Apache Kafka stored; the text of a credential."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode

import pytest

from kafkalite.security.scram import ScramCredential, ScramMechanism, credential_of, salted_password

SALT, ITERATIONS = b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
EXCHANGE = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={NONCE}".encode()
PROOF = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SERVER_SIGNATURE = b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")

STORED_BY_APACHE_KAFKA = {
    ScramMechanism.SCRAM_SHA_256: (
        b"p" * 32,
        "salt=c2FsdA==,stored_key=5fFUxV0AD26xWkoJJg7bXVrfsC18oO/9teoJx9PJtT0=,"
        "server_key=HEtYAvOwTubW02jJL+5MEEljbbOmsXhQuGr9eFqJSO0=,iterations=4096",
    ),
    ScramMechanism.SCRAM_SHA_512: (
        b"q" * 64,
        "salt=c2FsdA==,stored_key=V1Ubw7+XgnJBffT/UCOo/Xfn14II8NFVj5tO5km2+dUHowl6ilwS7x+xMKJB0Vzt8ta9cPT0SlbgkEQZ8zddEQ==,"
        "server_key=YalWVFueqRtlccyLO9xzm+28Biu7KxMwyvsMpe189fyAw/eIb10bH43YoCWPb3jhPWTESsVi3MuQ5EsWVOcwxw==,iterations=4096",
    ),
}
"""Salted password and what version 3.9.1 wrote into ZooKeeper for it, with the salt `salt`."""


def test_the_exchange_of_rfc_7677_is_verified_with_the_stored_keys() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    kept = credential_of(mechanism, salted_password(mechanism, "pencil", SALT, ITERATIONS), SALT, ITERATIONS)
    signature = hmac.digest(kept.stored_key, EXCHANGE, "sha256")
    client_key = bytes(a ^ b for a, b in zip(PROOF, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == kept.stored_key
    assert hmac.digest(kept.server_key, EXCHANGE, "sha256") == SERVER_SIGNATURE


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_what_apache_kafka_stores_is_stored(mechanism: ScramMechanism) -> None:
    salted, text = STORED_BY_APACHE_KAFKA[mechanism]
    kept = credential_of(mechanism, salted, b"salt", 4096)
    assert kept.encode() == text
    assert ScramCredential.decode(text) == kept


def test_names_of_mechanisms() -> None:
    assert [each.config_key for each in ScramMechanism] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert [each.hash_name for each in ScramMechanism] == ["sha256", "sha512"]


def test_parts_may_be_in_any_order() -> None:
    found = ScramCredential.decode("iterations=7,server_key=Yg==,salt=,stored_key=YQ==")
    assert found == ScramCredential(b"", b"a", b"b", 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=many",
        "salt=Y,stored_key=YQ==,server_key=YQ==,iterations=1",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=1,more=1",
    ],
)
def test_what_is_no_credential(text: str) -> None:
    with pytest.raises(ValueError, match=r"SCRAM|invalid literal"):
        ScramCredential.decode(text)
