"""Java's own format of key stores, JKS: read only, and only what is needed of it. Pure.

    magic FEEDFEED, version 1 or 2, count; then entries, and SHA-1 over password, "Mighty Aphrodite" and all before it
    entry 1: alias, date, private key (protected), certificates       entry 2: alias, date, certificate

A private key is in an EncryptedPrivateKeyInfo: a salt of 20 bytes, the key XORed with SHA-1 of password and salt, chained, and SHA-1 of
password and key. Keytool makes PKCS12 since Java 9. What else reads JKS in Python is not maintained any more.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import Final

MAGIC: Final = b"\xfe\xed\xfe\xed"
_DIGEST_BYTES: Final = 20
_ENTRIES_MAX: Final = 100_000


@dataclass(slots=True, repr=False)
class JavaKeyStore:
    """Contents of a store, in DER: private keys (still protected) with their certificates, and certificates that are trusted."""

    keys: list[tuple[bytes, list[bytes]]] = field(default_factory=list)
    trusted: list[bytes] = field(default_factory=list)


def read_java_keystore(data: bytes, password: str | None) -> JavaKeyStore:
    """Return the content of a store; without a password its integrity is not checked, as in Java. Raises ValueError if unreadable."""
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + b"Mighty Aphrodite" + content, usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, digest):
            raise ValueError("the key store was changed, or its password is another one")
    try:
        return _Reader(content).store()
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise ValueError(f"the key store cannot be read: {problem}") from None


def unprotected_key(protected: bytes, password: str) -> bytes:
    """Return a private key (PKCS 8, DER) of the store. Raises ValueError for a wrong password."""
    encrypted = _last_octets(protected)
    salt, body, check = encrypted[:_DIGEST_BYTES], encrypted[_DIGEST_BYTES:-_DIGEST_BYTES], encrypted[-_DIGEST_BYTES:]
    secret, digest, stream = _utf16(password), salt, b""
    while len(stream) < len(body):
        digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
        stream += digest
    key = bytes(a ^ b for a, b in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise ValueError("the password of the private key is another one")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _last_octets(der: bytes) -> bytes:
    """Return the OCTET STRING at the end of an EncryptedPrivateKeyInfo."""
    position = _content(der, 0)[0]
    _, algorithm_end = _content(der, position)
    begin, end = _content(der, algorithm_end)
    return der[begin:end]


def _content(der: bytes, position: int) -> tuple[int, int]:
    """Return the positions where the content of the element at a position begins and ends."""
    if position + 2 > len(der):
        raise ValueError("the private key is cut")
    size, position = der[position + 1], position + 2
    if size & 0x80:
        width = size & 0x7F
        size = int.from_bytes(der[position : position + width], "big")
        position += width
    return position, position + size


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def store(self) -> JavaKeyStore:
        magic, version, count = self._take(4), self._int(), self._int()
        if magic != MAGIC or version not in (1, 2) or not 0 <= count <= _ENTRIES_MAX:
            raise ValueError("it is no JKS key store")
        store = JavaKeyStore()
        for _ in range(count):
            tag = self._int()
            self._take(struct.unpack(">H", self._take(2))[0])  # alias
            self._take(8)  # date
            if tag == 1:
                key = self._take(self._int())
                store.keys.append((key, [self._certificate(version) for _ in range(self._int())]))
            elif tag == 2:
                store.trusted.append(self._certificate(version))
            else:
                raise ValueError(f"the key store has an entry of kind {tag}; known are keys and certificates")
        return store

    def _certificate(self, version: int) -> bytes:
        if version == 2:
            self._take(struct.unpack(">H", self._take(2))[0])  # X.509
        return self._take(self._int())

    def _int(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def _take(self, size: int) -> bytes:
        if size < 0 or self._position + size > len(self._data):
            raise ValueError("the key store is cut")
        taken = self._data[self._position : self._position + size]
        self._position += size
        return taken
