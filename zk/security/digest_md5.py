"""SASL DIGEST-MD5 (RFC 2831) as ZooKeeper's clients speak it: quality of protection `auth`, algorithm `md5-sess`. No sockets.

ZooKeeper's servers have one fixed realm and host name, `zk-sasl-md5`. The password itself is never sent, and the server proves that it
knows it too. MD5 is what the mechanism is defined with; on an untrusted network it belongs into TLS.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from hashlib import md5
from typing import Final, TypeAlias

SERVICE: Final = "zookeeper/zk-sasl-md5"
_NONCE_COUNT: Final = "00000001"
_DIRECTIVE: Final = re.compile(r'([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^,\s]*))')

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""What it yields goes to the server, whose answer comes back."""


class ServerNotProven(Exception):
    """The server does not speak this mechanism, or does not know the password."""


@dataclass(frozen=True, slots=True)
class DigestCredentials:
    """Name and password as the section `Client` of a JAAS file has them; the password is not in its `repr`."""

    username: str
    password: str = field(repr=False)

    def start_exchange(self, nonce: str) -> Exchange:
        """Yield what a new authentication sends, with a nonce of this client that was never used before. ServerNotProven."""
        challenge = yield b""  # the server speaks first
        said = {name: quoted or plain for name, quoted, plain in _DIRECTIVE.findall(challenge.decode(errors="replace"))}
        if "nonce" not in said or said.get("algorithm") != "md5-sess":
            raise ServerNotProven("the server does not authenticate clients by SASL DIGEST-MD5")
        realm, server_nonce = said.get("realm", ""), said["nonce"]
        session = md5(_join(self.username, realm, self.password), usedforsecurity=False).digest()
        first = md5(session + b":" + _join(server_nonce, nonce), usedforsecurity=False).hexdigest()

        def answer(method: str) -> str:
            second = md5(_join(method, SERVICE), usedforsecurity=False).hexdigest()
            return md5(
                _join(first, server_nonce, _NONCE_COUNT, nonce, "auth", second), usedforsecurity=False
            ).hexdigest()

        text = (
            f'charset=utf-8,username="{_escape(self.username)}",realm="{_escape(realm)}",nonce="{server_nonce}",'
            f'nc={_NONCE_COUNT},cnonce="{nonce}",digest-uri="{SERVICE}",maxbuf=65536,response={answer("AUTHENTICATE")},qop=auth'
        )
        proof = yield text.encode()
        if not hmac.compare_digest(proof, f"rspauth={answer('')}".encode()):
            raise ServerNotProven("the server did not prove that it knows the password")


def _join(*parts: str) -> bytes:
    return ":".join(parts).encode()


def _escape(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text)
