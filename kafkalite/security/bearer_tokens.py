"""Validation of bearer tokens: JSON web tokens signed with a key of the issuer (JWKS). Every doubt is a refusal.

Only asymmetric signatures are taken, so a token cannot be signed with a public key as if that were a secret, nor not at all. Issuer and
audience are checked where settings name them; who a token is for, and until when, must be in it. Keys are fetched again when they are
old, and when a token names one that is not known, but not more often than every ten seconds, whatever tokens clients send.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkalite.security.principal import USER, KafkaPrincipal
from kafkalite.security.sasl_server import Identity, SaslRefused

if TYPE_CHECKING:
    import jwt

logger = logging.getLogger("kafkalite.security.bearer_tokens")

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LONGEST_TOKEN: Final = 16 * 1024
_FETCH_AGAIN_S: Final = 10.0
_KEYS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """Required claims of a token; names are those of Kafka's settings sasl.oauthbearer.*."""

    audience: tuple[str, ...] = ()
    issuer: str | None = None
    sub_claim: str = "sub"
    clock_skew_s: int = 30
    refresh_s: float = 3600.0


class BearerTokens:
    """Verifier of JSON web tokens. `fetch()` returns the key set as JSON, or raises OSError or ValueError; `now_s` is any clock."""

    def __init__(self, rules: TokenRules, fetch: Callable[[], Awaitable[bytes]], now_s: Callable[[], float]) -> None:
        self._rules, self._fetch, self._now_s = rules, fetch, now_s
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_s: float | None = None
        self._fetching = asyncio.Lock()

    async def validate(self, token: str) -> Identity:
        """Return the token's principal. Raises SaslRefused, whose message tells nothing of the token."""
        import jwt

        if len(token) > _LONGEST_TOKEN:
            raise SaslRefused("the token is too long")
        try:
            header = jwt.get_unverified_header(token)
            key = await self._key(header.get("kid"))
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm_name],
                audience=list(self._rules.audience) or None,
                issuer=self._rules.issuer,
                leeway=self._rules.clock_skew_s,
                options={"require": ["exp", self._rules.sub_claim], "verify_aud": bool(self._rules.audience)},
            )
        except jwt.PyJWTError as problem:
            logger.info("a bearer token is refused: %s", type(problem).__name__)
            raise SaslRefused("the token is not valid") from None
        name, expires_s = claims[self._rules.sub_claim], claims["exp"]
        if not isinstance(name, str) or not name or not isinstance(expires_s, int | float):
            raise SaslRefused("the token is not valid")
        return Identity(KafkaPrincipal(USER, name), int(expires_s * 1000))

    async def _key(self, key_id: Any) -> jwt.PyJWK:
        if not isinstance(key_id, str):
            raise SaslRefused("the token names no key")
        async with self._fetching:
            age_s = None if self._fetched_s is None else self._now_s() - self._fetched_s
            is_missing = key_id not in self._keys and (age_s is None or age_s >= _FETCH_AGAIN_S)
            if is_missing or (age_s is not None and age_s >= self._rules.refresh_s):
                await self._take_keys()
        found = self._keys.get(key_id)
        if found is None:
            raise SaslRefused("the token is signed with an unknown key")
        return found

    async def _take_keys(self) -> None:
        """Return the keys of the issuer; the earlier ones when they cannot be fetched."""
        self._fetched_s = self._now_s()
        try:
            self._keys = keys_in(await self._fetch())
        except (OSError, ValueError) as problem:
            logger.error("the keys of bearer tokens cannot be had: %s", problem)


def keys_in(text: bytes) -> dict[str, jwt.PyJWK]:
    """Return the keys of a set by which tokens may be signed, by their ids. Raises ValueError for anything but a set."""
    import jwt

    held = json.loads(text)
    if not isinstance(held, dict) or not isinstance(held.get("keys"), list):
        raise ValueError("it is no set of keys (JWKS)")
    found = {}
    for each in held["keys"][:_KEYS_MAX]:
        if not isinstance(each, dict) or not isinstance(each.get("kid"), str) or each.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK.from_dict(each)
        except jwt.PyJWTError:
            continue  # of a kind that there is no use for here
        if key.algorithm_name in ALGORITHMS:
            found[each["kid"]] = key
    return found
