"""Passwords in the dynamic configuration of brokers, encrypted with password.encoder.secret as Kafka's `EncryptingPasswordEncoder` does it.

The text has fields in any order, as in `cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,...`: what the password was encrypted
with, and the result. AES with CBC or GCM and PBKDF2 with SHA-1, 256 or 512 are read; CBC and SHA-512, Kafka's defaults, are written.
"""

from __future__ import annotations

import secrets
from base64 import b64decode, b64encode
from hashlib import pbkdf2_hmac
from typing import Final

_HASHES: Final = {f"PBKDF2WithHmacSHA{bits}": f"sha{bits}" for bits in (1, 256, 512)}
_KEY_FACTORY, _CBC, _GCM = "PBKDF2WithHmacSHA512", "AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"
_KEY_BITS: Final = 128
_ITERATIONS: Final = 4096
_ITERATIONS_MAX: Final = 10_000_000
_SALT_BYTES: Final = 256
_BLOCK_BYTES: Final = 16


def encode_password(password: str, secret: str) -> str:
    """Return the text that is stored."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    salt, vector, plain = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_BLOCK_BYTES), password.encode()
    key = pbkdf2_hmac("sha512", secret.encode(), salt, _ITERATIONS, _KEY_BITS // 8)
    padding = _BLOCK_BYTES - len(plain) % _BLOCK_BYTES
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    encrypted = encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize()
    fields = {
        "keyFactoryAlgorithm": _KEY_FACTORY,
        "cipherAlgorithm": _CBC,
        "keyLength": _KEY_BITS,
        "salt": b64encode(salt).decode(),
        "iterations": _ITERATIONS,
        "encryptedPassword": b64encode(encrypted).decode(),
        "passwordLength": _java_length(password),
        "initializationVector": b64encode(vector).decode(),
    }
    return ",".join(f"{name}:{value}" for name, value in fields.items())


def decode_password(text: str, secret: str) -> str:
    """Return the password. Raises ValueError, without the password, for a wrong secret or malformed text."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    fields = dict(each.partition(":")[::2] for each in text.split(","))
    try:
        iterations = int(fields["iterations"])
        if not 0 < iterations <= _ITERATIONS_MAX:
            raise ValueError
        salt, vector = b64decode(fields["salt"]), b64decode(fields["initializationVector"])
        encrypted = b64decode(fields["encryptedPassword"])
        hash_name = _HASHES[fields["keyFactoryAlgorithm"]]
        key = pbkdf2_hmac(hash_name, secret.encode(), salt, iterations, int(fields["keyLength"]) // 8)
        mode: modes.Mode
        if fields["cipherAlgorithm"] == _GCM:
            tag_bytes = int(fields["authenticationTagSize"]) // 8
            encrypted, tag = encrypted[:-tag_bytes], encrypted[-tag_bytes:]
            mode = modes.GCM(vector, tag, tag_bytes)
        elif fields["cipherAlgorithm"] == _CBC:
            mode = modes.CBC(vector)
        else:
            raise ValueError
        decryptor = Cipher(algorithms.AES(key), mode).decryptor()
        plain = decryptor.update(encrypted) + decryptor.finalize()
        if fields["cipherAlgorithm"] == _CBC:
            if not 0 < plain[-1] <= _BLOCK_BYTES:
                raise ValueError
            plain = plain[: -plain[-1]]
        password = plain.decode()
        if _java_length(password) != int(fields["passwordLength"]):
            raise ValueError
    except (KeyError, ValueError, IndexError, InvalidTag):
        raise ValueError("Password could not be decoded") from None
    return password


def _java_length(text: str) -> int:
    """Return the length in UTF-16 code units, as Java counts."""
    return len(text.encode("utf-16-le")) // 2
