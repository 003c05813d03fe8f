"""Signatures of the ledger's entries, by an operator's key (Ed25519): who can only verify cannot sign.

openssl genpkey -algorithm ed25519 -out ledger.key      # stays with those who run the nights
openssl pkey -in ledger.key -pubout -out ledger.pub     # for those who verify
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from spark_jobs.batch.failures import BadRequestError

Sign: TypeAlias = Callable[[bytes], str]
"""Returns the signature of bytes, in hexadecimal digits."""
Check: TypeAlias = Callable[[bytes, str], bool]
"""True if a signature is that of these bytes."""

_MAKE_ONE = "make one with `openssl genpkey -algorithm ed25519`"


def load_signer(path: Path) -> Sign:
    """Return what signs with the private key in a PEM file. BadRequestError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_read(path), None)
    except (ValueError, TypeError) as problem:
        raise BadRequestError(f"{path} has no private key without a passphrase ({problem}); {_MAKE_ONE}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadRequestError(f"{path} has a key of another kind than Ed25519; {_MAKE_ONE}")
    return lambda content: key.sign(content).hex()


def load_checker(path: Path) -> Check:
    """Return what checks signatures with the public key, or that of the private key, in a PEM file. BadRequestError."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    content = _read(path)
    try:
        found = load_pem_private_key(content, None) if b"PRIVATE" in content else load_pem_public_key(content)
    except (ValueError, TypeError) as problem:
        raise BadRequestError(f"{path} has no key ({problem}); {_MAKE_ONE}") from None
    key = found.public_key() if isinstance(found, Ed25519PrivateKey) else found
    if not isinstance(key, Ed25519PublicKey):
        raise BadRequestError(f"{path} has a key of another kind than Ed25519; {_MAKE_ONE}")

    def is_valid(content: bytes, signature: str) -> bool:
        try:
            key.verify(bytes.fromhex(signature), content)
        except (InvalidSignature, ValueError):
            return False
        return True

    return is_valid


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise BadRequestError(f"cannot read the key {path}: {problem.strerror}") from None
