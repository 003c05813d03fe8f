"""SCRAM credentials (RFC 5802, RFC 7677): which keys follow from a password, and the text in which Kafka keeps them. Pure.

    SaltedPassword = PBKDF2-HMAC(password, salt, iterations)
    StoredKey      = H(HMAC(SaltedPassword, "Client Key"))
    ServerKey      = HMAC(SaltedPassword, "Server Key")

The text is `salt=…,stored_key=…,server_key=…,iterations=…`, bytes in base64, in the configuration znode of the user under the name of the
mechanism. Passwords are taken as UTF-8 as they are: Kafka does not normalise them (SASLprep) either.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Bounds that Kafka sets for what is asked to be stored."""


class ScramMechanism(IntEnum):
    """The mechanisms, by their numbers in the protocol (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def config_key(self) -> str:
        """Return the name in SASL, under which credentials are stored: `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Return the name of the hash function in hashlib."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The part of a password that a server keeps."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def encode(self) -> str:
        """Return the text that is stored."""
        salt, stored, server = (b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key))
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    @classmethod
    def decode(cls, text: str) -> ScramCredential:
        """Parse a stored credential, its parts in any order. Raises ValueError for malformed text."""
        parts = dict(pair.partition("=")[::2] for pair in text.split(","))
        if parts.keys() != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError("a SCRAM credential has salt, stored_key, server_key and iterations")
        try:
            salt, stored, server = (
                b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
        except Base64Error as problem:
            raise ValueError(f"a SCRAM credential with what is no base64: {problem}") from None
        return cls(salt, stored, server, int(parts["iterations"]))


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password, from which the client computes its proof; as many bytes as the hash has."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the keys that a server keeps of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", mechanism.hash_name), iterations)
