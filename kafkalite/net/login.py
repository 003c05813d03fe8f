"""Access to the pages of a broker or of the console: names and passwords, by HTTP's Basic authentication (RFC 7617)."""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode
from collections.abc import Mapping

from kafkalite.config.keys import ConfigError
from kafkalite.security.secret_files import read_secret

_NOBODY = "\0"


class Login:
    """Passwords by name. There is no `repr`: it would show them."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def __repr__(self) -> str:
        return f"Login of {len(self._passwords)} users"

    def admits(self, authorization: bytes | None) -> bool:
        """True if the header of a request names one of the users, with the password, which is compared in constant time."""
        scheme, _, encoded = (authorization or b"").partition(b" ")
        if scheme.lower() != b"basic":
            return False
        try:
            name, colon, password = b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        expected = self._passwords.get(name)
        is_right = hmac.compare_digest(password.encode(), (expected or _NOBODY).encode())
        return bool(colon) and expected is not None and is_right


def read_login(path: str, setting: str, *, may_be_exposed: bool) -> Login:
    """Read lines `name:password`; empty ones and those that begin with # are left out. ConfigError names the setting, and shows no line."""
    try:
        lines = read_secret(path, "passwords", is_allowed=may_be_exposed).splitlines()
    except (OSError, ValueError) as problem:
        raise ConfigError(f"{setting}: {problem}") from None
    passwords: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, password = line.partition(":")
        if not name or not password:
            raise ConfigError(f"{setting}: line {number} of {path} is not name:password")
        passwords[name] = password
    if not passwords:
        raise ConfigError(f"{setting}: {path} names nobody")
    return Login(passwords)
