"""Delegation tokens (KIP-48): what a principal lends to its workers, kept in ZooKeeper where Apache Kafka's brokers find them too.

A token's secret is HMAC-SHA512 of its id by `delegation.token.secret.key`, which all brokers have; it is in no znode. All brokers follow
the notices of changes. By SCRAM a token is a user with its id as name and the secret in base64 as password. The controller's broker
removes those that have expired.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalite.broker.settings.change_notifications import ChangeNotifications
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.security.principal import KafkaPrincipal
from kafkalite.security.sasl_server import TokenCredential
from kafkalite.security.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, credential_of, salted_password
from zk import paths
from zk.store import NodeExistsError, NoNodeError, Store
from zk.subtree import ensure_path
from zk.znodes import DelegationToken, MalformedZnodeError

if TYPE_CHECKING:
    from kafkalite.clock import Clock
    from kafkalite.config.broker import LiveConfig
    from kafkalite.lifecycle import Jobs
    from zk.session import Session
    from zk.watches import ChildWatch

logger = logging.getLogger("kafkalite.broker.identity.delegation_tokens")

_SALT_BYTES: Final = 20


class DelegationTokens:
    """The tokens in ZooKeeper, copied in memory, and their changes.

    Without a secret key every call raises DELEGATION_TOKEN_AUTH_DISABLED. Calls may raise StoreError.
    """

    def __init__(self, store: Store, config: LiveConfig, clock: Clock) -> None:
        self._store, self._config, self._clock = store, config, clock
        self._tokens: dict[str, DelegationToken] = {}
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self._notifications = ChangeNotifications(store, clock, paths.DELEGATION_TOKEN_CHANGES, self._take_change)
        self._watch: ChildWatch | None = None

    @property
    def _key(self) -> str | None:
        config = self._config.current
        return config.delegation_token_secret_key or config.delegation_token_master_key

    @property
    def is_enabled(self) -> bool:
        return self._key is not None

    def secret_of(self, token_id: str) -> bytes:
        """Return the HMAC of a token. Raises KafkaError DELEGATION_TOKEN_AUTH_DISABLED."""
        if self._key is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return hmac.digest(self._key.encode(), token_id.encode(), "sha512")

    # Following ZooKeeper

    async def start(self, session: Session, jobs: Jobs) -> None:
        """Read all tokens and follow changes. Raises StoreError, after which it may be called again."""
        if not self.is_enabled:
            return
        await self.stop()
        for path in (paths.DELEGATION_TOKENS, paths.DELEGATION_TOKEN_CHANGES):
            await ensure_path(self._store, path)
        self._watch = self._notifications.watch(session, jobs)
        await self._watch.start()
        await self.load()
        session.on_renewed(self.load)

    async def stop(self) -> None:
        if self._watch is not None:
            await self._watch.stop()

    async def load(self) -> None:
        """Read all tokens."""
        there = await self._store.children(paths.DELEGATION_TOKENS)
        for token_id in dict.fromkeys((*there, *self._tokens)):
            await self._read(token_id)

    async def _take_change(self, data: bytes) -> None:
        await self._read(data.decode(errors="replace"))

    async def _read(self, token_id: str) -> None:
        try:
            data, _ = await self._store.read(_path(token_id))
            self._tokens[token_id] = DelegationToken.decode(data)
        except (NoNodeError, ValueError) as problem:
            if isinstance(problem, MalformedZnodeError):
                logger.error("the delegation token %s does not count: %s", token_id, problem)
            self._forget(token_id)

    def _forget(self, token_id: str) -> None:
        self._tokens.pop(token_id, None)
        for mechanism in ScramMechanism:
            self._credentials.pop((token_id, mechanism), None)

    # What they are for

    def credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """Return the credential that proves possession of a token, None if it does not exist or has expired."""
        token = self._tokens.get(token_id)
        if token is None or not self.is_enabled or token.expires_ms < self._clock.now_ms():
            return None
        found = self._credentials.get((token_id, mechanism))
        if found is None:
            salt, password = secrets.token_bytes(_SALT_BYTES), b64encode(self.secret_of(token_id)).decode()
            salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
            found = self._credentials[token_id, mechanism] = credential_of(mechanism, salted, salt, MIN_ITERATIONS)
        return TokenCredential(found, KafkaPrincipal.from_stored(token.owner), token.expires_ms)

    def find_visible(self, may_see: Callable[[DelegationToken], bool]) -> list[DelegationToken]:
        """Return the tokens for which `may_see` is true."""
        return [each for each in self._tokens.values() if may_see(each)]

    # Changes

    async def create(
        self, owner: KafkaPrincipal, requester: KafkaPrincipal, renewers: Iterable[KafkaPrincipal], lifetime_ms: int
    ) -> DelegationToken:
        """Return a new token; a lifetime of 0 or less is the longest. Raises KafkaError DELEGATION_TOKEN_AUTH_DISABLED."""
        config, now_ms = self._config.current, self._clock.now_ms()
        token_id = urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        self.secret_of(token_id)
        longest_ms = config.delegation_token_max_lifetime_ms
        max_ms = now_ms + (min(lifetime_ms, longest_ms) if lifetime_ms > 0 else longest_ms)
        expires_ms = min(max_ms, now_ms + config.delegation_token_expiry_time_ms)
        names = tuple(map(str, renewers))
        token = DelegationToken(str(owner), str(requester), names, now_ms, max_ms, expires_ms, token_id)
        await self._write(token)
        return token

    async def renew(self, principal: KafkaPrincipal, secret: bytes, period_ms: int) -> int:
        """Return the new expiry in ms since the epoch; a negative period means the default one. KafkaError if refused."""
        token = self._of(principal, secret)
        self._check_valid(token)
        usual_ms = self._config.current.delegation_token_expiry_time_ms
        end_ms = self._clock.now_ms() + (usual_ms if period_ms < 0 else period_ms)
        return await self._end(token, end_ms)

    async def expire(self, principal: KafkaPrincipal, secret: bytes, period_ms: int) -> int:
        """Return the new expiry in ms since the epoch. A negative period removes the token, even an expired one. KafkaError if refused."""
        token = self._of(principal, secret)
        now_ms = self._clock.now_ms()
        if period_ms < 0:
            await self._remove(token.token_id)
            return now_ms
        self._check_valid(token)
        return await self._end(token, now_ms + period_ms)

    async def remove_expired(self) -> None:
        """Remove expired tokens; called on the controller's broker."""
        now_ms = self._clock.now_ms()
        for token in [each for each in self._tokens.values() if min(each.max_ms, each.expires_ms) < now_ms]:
            await self._remove(token.token_id)

    def _of(self, principal: KafkaPrincipal, secret: bytes) -> DelegationToken:
        """Return the token with this secret, which the principal may renew. Raises KafkaError."""
        self.secret_of("")
        found = [each for each in self._tokens.values() if hmac.compare_digest(self.secret_of(each.token_id), secret)]
        if not found:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        token = found[0]
        if str(principal) not in (token.owner, *token.renewers):  # nor may who asked for it on behalf of the owner
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token

    def _check_valid(self, token: DelegationToken) -> None:
        if min(token.max_ms, token.expires_ms) < self._clock.now_ms():
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)

    async def _end(self, token: DelegationToken, end_ms: int) -> int:
        changed = replace(token, expires_ms=min(token.max_ms, end_ms))
        await self._write(changed)
        return changed.expires_ms

    async def _write(self, token: DelegationToken) -> None:
        path, data = _path(token.token_id), token.encode()
        try:
            await self._store.create(path, data, parents=True)
        except NodeExistsError:
            await self._store.write(path, data)
        self._tokens[token.token_id] = token
        await self._announce(token.token_id)

    async def _remove(self, token_id: str) -> None:
        with suppress(NoNodeError):
            await self._store.delete(_path(token_id))
        self._forget(token_id)
        await self._announce(token_id)

    async def _announce(self, token_id: str) -> None:
        await self._store.create(paths.DELEGATION_TOKEN_CHANGE_PREFIX, token_id.encode(), sequence=True, parents=True)


def belongs_to(token: DelegationToken, principal: KafkaPrincipal) -> bool:
    """True for the owner of a token, its requester and its renewers."""
    return str(principal) in (token.owner, token.requester, *token.renewers)


def _path(token_id: str) -> str:
    return paths.child(paths.DELEGATION_TOKENS, token_id)
