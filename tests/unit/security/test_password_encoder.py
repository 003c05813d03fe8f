"""Passwords as Kafka's EncryptingPasswordEncoder keeps them; that it reads ours, and we its, is tested with a live one."""

from __future__ import annotations

import pytest

from kafkalite.security.password_encoder import decode_password, encode_password

GCM = (
    "cipherAlgorithm:AES/GCM/NoPadding,keyFactoryAlgorithm:PBKDF2WithHmacSHA256,keyLength:128,iterations:1024,authenticationTagSize:128,"
    "passwordLength:{length},salt:{salt},initializationVector:{vector},encryptedPassword:{encrypted}"
)


@pytest.mark.parametrize("password", ["", "s3cret", "a password of sixteen bytes and more", "ä🔑,:="])
def test_what_is_encoded_is_decoded_with_the_same_secret_only(password: str) -> None:
    text = encode_password(password, "the secret")
    assert password not in text or not password
    assert decode_password(text, "the secret") == password
    with pytest.raises(ValueError, match="could not be decoded"):
        decode_password(text, "another secret")
    assert encode_password(password, "the secret") != text, "with a salt of its own"


def test_the_other_mode_of_java_is_read() -> None:
    from base64 import b64encode
    from hashlib import pbkdf2_hmac

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    salt, vector = b"salt", b"twelve bytes"
    key = pbkdf2_hmac("sha256", b"the secret", salt, 1024, 16)
    encrypted = AESGCM(key).encrypt(vector, b"s3cret", None)
    fields = {"salt": salt, "vector": vector, "encrypted": encrypted}
    text = GCM.format(length=6, **{name: b64encode(each).decode() for name, each in fields.items()})
    assert decode_password(text, "the secret") == "s3cret"
    with pytest.raises(ValueError, match="could not be decoded"):
        decode_password(text, "another secret")


@pytest.mark.parametrize(
    ("changed", "to"),
    [
        ("iterations:4096", "iterations:1000000000"),
        ("iterations:4096", "iterations:x"),
        ("AES/CBC/PKCS5Padding", "DES"),
        ("keyLength:128", "keyLength:99"),
        ("passwordLength:6", "passwordLength:7"),
        ("salt:", "sugar:"),
        ("SHA512", "MD5"),
        ("encryptedPassword:", "encryptedPassword:A"),
    ],
)
def test_what_is_damaged_is_refused(changed: str, to: str) -> None:
    text = encode_password("s3cret", "the secret")
    assert changed in text
    with pytest.raises(ValueError, match="could not be decoded"):
        decode_password(text.replace(changed, to), "the secret")


def test_a_password_in_the_clear_is_none() -> None:
    with pytest.raises(ValueError, match="could not be decoded"):
        decode_password("s3cret", "the secret")
