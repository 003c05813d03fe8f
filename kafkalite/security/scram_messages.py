"""The messages of SCRAM (RFC 5802) as both sides read and write them, without channel binding. Pure.

client  n,<a=authzid>,n=user,r=nonce[,extensions]       server  r=nonce+,s=salt,i=iterations
client  c=biws,r=nonce+,p=proof                         server  v=signature
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkalite.security.scram import ScramCredential, ScramMechanism

_FIRST: Final = (
    r"n,(?:a=((?:[^=,]|=2C|=3D)*))?,n=((?:[^=,]|=2C|=3D)+),r=([\x21-\x2b\x2d-\x7e]+)((?:,[A-Za-z]+=[^,\x00]+)*)"
)
_SERVER_FIRST: Final = r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,9})(?:,.*)?"
_FINAL: Final = r"c=([A-Za-z0-9+/=]*),r=([\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^,]+)*,p=([A-Za-z0-9+/=]+)"
_NO_BINDING: Final = "biws"
"""n,, in base64."""


class ClientFirst(NamedTuple):
    """The first message of a client. `bare` is what the proof is about, `header` what the final message repeats."""

    user: str
    authorization_id: str
    nonce: str
    extensions: Mapping[str, str]
    bare: str
    header: str


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int
    text: str


class ClientFinal(NamedTuple):
    channel_binding: bytes
    nonce: str
    proof: bytes
    without_proof: str


def encoded_name(name: str) -> str:
    """Return a name in its form in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _decoded_name(text: str) -> str:
    return text.replace("=2C", ",").replace("=3D", "=")


def parse_client_first(message: bytes) -> ClientFirst:
    """Parse the client's first message. Raises ValueError for malformed text."""
    found = re.fullmatch(_FIRST, text := message.decode())
    if found is None:
        raise ValueError("Invalid SCRAM client first message format")
    header = text[: text.index(",", 2) + 1]
    pairs = (each.partition("=") for each in found[4].split(",")[1:])
    extensions = {key: value for key, _, value in pairs}
    user, authorization_id = _decoded_name(found[2]), _decoded_name(found[1] or "")
    return ClientFirst(user, authorization_id, found[3], extensions, text[len(header) :], header)


def parse_server_first(message: bytes) -> ServerFirst:
    """Parse the server's first message. Raises ValueError for malformed text."""
    found = re.fullmatch(_SERVER_FIRST, text := message.decode())
    if found is None:
        raise ValueError("the server's first message of SCRAM cannot be read")
    return ServerFirst(found[1], _bytes(found[2]), int(found[3]), text)


def parse_client_final(message: bytes) -> ClientFinal:
    """Parse the client's final message. Raises ValueError for malformed text."""
    found = re.fullmatch(_FINAL, text := message.decode())
    if found is None:
        raise ValueError("Invalid SCRAM client final message format")
    return ClientFinal(_bytes(found[1]), found[2], _bytes(found[3]), text[: text.rindex(",p=")])


def without_proof(nonce: str, channel_binding: str = _NO_BINDING) -> str:
    """Return the client's final message up to the proof."""
    return f"c={channel_binding},r={nonce}"


def text_of(content: bytes) -> str:
    """Return bytes as text of a message."""
    return b64encode(content).decode()


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error as problem:
        raise ValueError(f"no base64: {problem}") from None


def auth_message(first_bare: str, server_first: str, final_without_proof: str) -> bytes:
    """Return the text that both proofs authenticate."""
    return f"{first_bare},{server_first},{final_without_proof}".encode()


def client_proof(mechanism: ScramMechanism, salted: bytes, about: bytes) -> bytes:
    """Return the proof that the client knows the salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return _xor(client_key, hmac.digest(stored_key, about, mechanism.hash_name))


def is_proven(mechanism: ScramMechanism, credential: ScramCredential, about: bytes, proof: bytes) -> bool:
    """True if the proof shows that the client knows the password. Compared in constant time."""
    signature = hmac.digest(credential.stored_key, about, mechanism.hash_name)
    if len(proof) != len(signature):
        return False
    shown = hashlib.new(mechanism.hash_name, _xor(proof, signature)).digest()
    return hmac.compare_digest(shown, credential.stored_key)


def server_signature(mechanism: ScramMechanism, server_key: bytes, about: bytes) -> bytes:
    """Return the signature by which a server proves that it knows the user's keys (RFC 5802)."""
    return hmac.digest(server_key, about, mechanism.hash_name)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
