"""Mechanisms of SASL on the broker's side: what a token proves. No sockets; where users are kept is a port.

`SaslRefused` has a message for the client, as Kafka's SaslAuthenticationException; `SaslMalformed` has none that it may see, as Java's
SaslException, because it could tell which users there are.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from kafkalite.security.principal import USER, KafkaPrincipal
from kafkalite.security.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism
from kafkalite.security.scram_messages import (
    ClientFirst,
    auth_message,
    is_proven,
    parse_client_final,
    parse_client_first,
    server_signature,
    text_of,
)

_ANOTHER_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"
_TOKEN_EXTENSION: Final = "tokenauth"


class SaslRefused(Exception):
    """The client may see why."""


class SaslMalformed(Exception):
    """The client may not see why."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The authenticated principal, and the end of its proof's validity (ms since 1970; None: without end)."""

    principal: KafkaPrincipal
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TokenCredential:
    """A delegation token for one mechanism: its SCRAM keys, its owner, the time at which it ends."""

    credential: ScramCredential
    owner: KafkaPrincipal
    expires_ms: int


class SaslServer(Protocol):
    """One authentication by one mechanism."""

    @property
    def identity(self) -> Identity | None:
        """Return the client's identity, once it is proven."""

    async def evaluate(self, token: bytes) -> bytes:
        """Return the answer to a token of the client. Raises SaslRefused, SaslMalformed."""


UserLookup: TypeAlias = Callable[[ScramMechanism, str], Awaitable[ScramCredential | None]]
TokenLookup: TypeAlias = Callable[[ScramMechanism, str], TokenCredential | None]


class PlainServer:
    """PLAIN (RFC 4616): `authzid NUL username NUL password`, against passwords by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.identity: Identity | None = None

    async def evaluate(self, token: bytes) -> bytes:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslMalformed("a PLAIN response that is not UTF-8") from None
        if len(parts) != 3:
            raise SaslRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise SaslRefused("Authentication failed: username not specified")
        if not password:
            raise SaslRefused("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        is_right = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_right:
            raise SaslRefused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslRefused(_ANOTHER_ID)
        self.identity = Identity(KafkaPrincipal(USER, user))
        return b""


class ScramServer:
    """SCRAM (RFC 5802), with delegation tokens by the extension `tokenauth=true` (KIP-48).

    A user who does not exist is asked for a proof all the same, with a salt that is always the same for that name: Kafka refuses such
    a name at once, which tells who has an account. `secret` makes these salts, `nonce` is this server's part of the nonce.
    """

    def __init__(
        self, mechanism: ScramMechanism, users: UserLookup, tokens: TokenLookup, secret: bytes, nonce: str
    ) -> None:
        self._mechanism, self._users, self._tokens = mechanism, users, tokens
        self._secret, self._nonce = secret, nonce
        self._first: ClientFirst | None = None
        self._server_first = ""
        self._credential: ScramCredential | None = None
        self._identity: Identity | None = None
        self.identity: Identity | None = None

    async def evaluate(self, token: bytes) -> bytes:
        try:
            return (
                await self._start_exchange(token) if self._first is None else self._finish_exchange(self._first, token)
            )
        except ValueError as problem:
            raise SaslMalformed(str(problem)) from None

    async def _start_exchange(self, token: bytes) -> bytes:
        first = parse_client_first(token)
        self._first = first
        if first.extensions.get(_TOKEN_EXTENSION) == "true":
            held = self._tokens(self._mechanism, first.user)
            if held is not None:
                self._credential = held.credential
                owner = KafkaPrincipal(held.owner.type, held.owner.name, by_token=True)
                self._identity = Identity(owner, held.expires_ms)
        else:
            self._credential = await self._users(self._mechanism, first.user)
            self._identity = Identity(KafkaPrincipal(USER, first.user))
        if first.authorization_id and first.authorization_id != first.user:
            raise SaslRefused(_ANOTHER_ID)
        shown = self._credential or self._invent_credential(first.user)
        if shown.iterations < MIN_ITERATIONS:
            raise SaslMalformed(f"Iterations {shown.iterations} is less than the minimum {MIN_ITERATIONS}")
        self._server_first = f"r={first.nonce}{self._nonce},s={text_of(shown.salt)},i={shown.iterations}"
        return self._server_first.encode()

    def _invent_credential(self, user: str) -> ScramCredential:
        salt = hmac.digest(self._secret, user.encode(), self._mechanism.hash_name)[:20]
        return ScramCredential(salt, b"", b"", MIN_ITERATIONS)

    def _finish_exchange(self, first: ClientFirst, token: bytes) -> bytes:
        final = parse_client_final(token)
        if not hmac.compare_digest(final.nonce, first.nonce + self._nonce):
            raise SaslMalformed("Invalid client nonce in the final client message.")
        if final.channel_binding != first.header.encode():
            raise SaslMalformed("the final client message has another header than the first")
        about = auth_message(first.bare, self._server_first, final.without_proof)
        credential = self._credential
        if credential is None or not is_proven(self._mechanism, credential, about, final.proof):
            raise SaslMalformed("Invalid client credentials")
        self.identity = self._identity
        return f"v={text_of(server_signature(self._mechanism, credential.server_key, about))}".encode()


TokenValidator: TypeAlias = Callable[[str], Awaitable[Identity]]
"""Whose a bearer token is. SaslRefused when it is not valid; fails closed."""


class OAuthBearerServer:
    """OAUTHBEARER (RFC 7628): a bearer token in the first message. After a token that is not valid the client sends one more byte."""

    _REFUSAL: Final = b'{"status":"invalid_token"}'

    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._refused: str | None = None
        self.identity: Identity | None = None

    async def evaluate(self, token: bytes) -> bytes:
        if self._refused is not None:
            raise SaslRefused(self._refused)
        authorization_id, bearer = _bearer(token)
        try:
            identity = await self._validate(bearer)
        except SaslRefused as problem:
            self._refused = str(problem)
            return self._REFUSAL
        if authorization_id and authorization_id != identity.principal.name:
            raise SaslRefused(
                "Authentication failed: Client requested an authorization id that is different from the token's principal name"
            )
        self.identity = identity
        return b""


def _bearer(message: bytes) -> tuple[str, str]:
    """Return (authorization id, token) of a first message: `n,a=id,^Aauth=Bearer token^A^A`. SaslMalformed."""
    try:
        header, *pairs = message.decode().split("\x01")
    except UnicodeDecodeError:
        raise SaslMalformed("an OAUTHBEARER message that is not UTF-8") from None
    flag, _, rest = header.partition(",")
    named, comma, more = rest.partition(",")
    fields = dict(each.partition("=")[::2] for each in pairs if each)
    scheme, _, bearer = fields.get("auth", "").partition(" ")
    if flag != "n" or not comma or more or (named and not named.startswith("a=")) or message[-2:] != b"\x01\x01":
        raise SaslMalformed("Invalid OAUTHBEARER client first message")
    if scheme.lower() != "bearer" or not bearer.strip():
        raise SaslMalformed("Invalid OAUTHBEARER client first message: 'auth' has no bearer token")
    return named.removeprefix("a="), bearer.strip()
