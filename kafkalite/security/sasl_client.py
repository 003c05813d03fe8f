"""Mechanisms of SASL on the client's side, as generators: what they yield goes to the server, its answer comes back. No sockets."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kafkalite.errors import AuthenticationError
from kafkalite.security.sasl_exchange import Exchange, ServerNotProven
from kafkalite.security.scram import ScramMechanism, credential_of, salted_password
from kafkalite.security.scram_messages import (
    auth_message,
    client_proof,
    encoded_name,
    parse_server_first,
    server_signature,
    text_of,
    without_proof,
)

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_SCRAM: Final = {each.config_key: each for each in ScramMechanism}
_ITERATIONS_MIN: Final = 4096
_ITERATIONS_MAX: Final = 1_000_000
"""A server must not have its clients compute for minutes; Kafka's tools write up to 16,384, a second's work are a few million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslCredentials:
    """Credentials of a client for one mechanism. `token` gives the bearer token of the moment, and is called when
    the exchange begins. Secrets are not in its `repr`."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False
    """True if name and password are the id and the HMAC of a delegation token."""
    token: Callable[[], str] | None = field(default=None, repr=False)
    service: str = ""
    """Service name of Kerberos: brokers are `service/host`."""
    keytab: str = ""
    """File with the keys of the principal that `username` names; without one the ticket in the cache is shown."""

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"the SASL mechanism {self.mechanism} is not known; known are {', '.join(MECHANISMS)}")

    def start_exchange(self, host: str) -> Exchange:
        """Start the authentication at a server of this name. Raises KerberosError; so does the exchange, and AuthenticationError."""
        if self.mechanism == "GSSAPI":
            from kafkalite.security.kerberos import initiate

            return initiate(self.service, host, self.username, self.keytab)
        if self.mechanism == "PLAIN":
            return _plain(self.username, self.password)
        if self.mechanism == "OAUTHBEARER":
            return _bearer(self.token or (lambda: self.password))
        return _scram(_SCRAM[self.mechanism], self)


def _plain(username: str, password: str) -> Exchange:
    yield f"\0{username}\0{password}".encode()


def _bearer(read_token: Callable[[], str]) -> Exchange:
    try:
        token = read_token()
    except Exception as problem:  # the program's function; anything but an OSError would be a bug to the client
        raise AuthenticationError(f"sasl_token failed: {problem!r}") from problem
    refusal = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if refusal:
        yield b"\x01"


def _scram(mechanism: ScramMechanism, credentials: SaslCredentials) -> Exchange:
    nonce = secrets.token_urlsafe(24)
    extension = ",tokenauth=true" if credentials.is_token else ""
    bare = f"n={encoded_name(credentials.username)},r={nonce}{extension}"
    try:
        first = parse_server_first((yield f"n,,{bare}".encode()))
    except ValueError as problem:
        raise ServerNotProven(str(problem)) from None
    if not first.nonce.startswith(nonce) or first.nonce == nonce:
        raise ServerNotProven("the server's nonce does not continue the client's")
    if not _ITERATIONS_MIN <= first.iterations <= _ITERATIONS_MAX:
        raise ServerNotProven(
            f"the server asks for {first.iterations} iterations of SCRAM; {_ITERATIONS_MIN} to {_ITERATIONS_MAX} are allowed"
        )
    salted = salted_password(mechanism, credentials.password, first.salt, first.iterations)
    final = without_proof(first.nonce)
    about = auth_message(bare, first.text, final)
    last = yield f"{final},p={text_of(client_proof(mechanism, salted, about))}".encode()
    server_key = credential_of(mechanism, salted, first.salt, first.iterations).server_key
    expected = f"v={text_of(server_signature(mechanism, server_key, about))}".encode()
    if not hmac.compare_digest(last, expected):
        raise ServerNotProven("the server did not prove that it knows the user's credentials")
