"""Passwords that `kafka-configs --zookeeper` writes for a broker that is down."""

from __future__ import annotations

import pytest

from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.legacy.configs.zookeeper import encrypt_secrets
from kafkalite.security.password_encoder import decode_password

PASSWORD = "listener.name.x.ssl.keystore.password"


def test_they_are_encrypted_and_the_secret_is_not_kept() -> None:
    found = encrypt_secrets({PASSWORD: "s3cret", "log.cleaner.threads": "2", "password.encoder.secret": "the secret"})
    assert decode_password(found.pop(PASSWORD), "the secret") == "s3cret"
    assert found == {"log.cleaner.threads": "2"}


def test_without_a_secret_they_are_refused_in_kafkas_words() -> None:
    assert encrypt_secrets({"log.cleaner.threads": "2"}) == {"log.cleaner.threads": "2"}
    with pytest.raises(
        ToolError, match=r"requirement failed: password\.encoder\.secret must be specified to update Set"
    ):
        encrypt_secrets({PASSWORD: "s3cret"})
