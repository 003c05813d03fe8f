"""SCRAM credentials of users who authenticate: in memory, as in Kafka, and read from ZooKeeper while few ask.

All are read when the broker starts, and a user's again when /config/changes names him. That takes some milliseconds, in which a user who
was just made could not log in, and one who was just revoked could; so a few users a second are read again before they are
answered. Whoever tries thousands is answered from memory: ZooKeeper's client has threads, for which the event loop has to wait.
So are all while ZooKeeper is away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from kafkalite.broker.identity.user_credentials import credentials_in
from kafkalite.broker.settings.quota_znodes import Read, entity_path, settings_of
from kafkalite.broker.settings.quotas import QuotaEntity
from kafkalite.broker.settings.rates import TokenBucket
from kafkalite.clock import Clock
from kafkalite.security.scram import ScramCredential, ScramMechanism
from zk.store import SessionState, Store, StoreError

logger = logging.getLogger("kafkalite.broker.identity.user_lookup")

_READS_PER_S: Final = 5
_BURST_S: Final = 10
_READS_AT_ONCE: Final = 2


class UserCredentials:
    """SCRAM credentials of users, copied in memory.

    `read(path)` gives the settings in a znode of configuration, empty when there is none.
    """

    def __init__(self, store: Store, read: Read, clock: Clock) -> None:
        self._store, self._read, self._clock = store, read, clock
        self._known: dict[str, Mapping[ScramMechanism, ScramCredential]] = {}
        self._reads = TokenBucket(_READS_PER_S, _BURST_S, clock.monotonic_ms())
        self._reading = asyncio.Semaphore(_READS_AT_ONCE)

    def take(self, entity: QuotaEntity, settings: Mapping[str, str]) -> None:
        """Replace the credentials of an entity by those in `settings`. Unreadable ones are logged, and nobody logs in with them."""
        if not isinstance(entity.user, str) or entity.client_id is not None:
            return
        try:
            credentials = credentials_in(settings)
        except ValueError as problem:
            logger.error("the credentials in /config/%s cannot be read: %s", entity_path(entity), problem)
            credentials = {}
        if credentials:
            self._known[entity.user] = credentials
        else:
            self._known.pop(entity.user, None)

    async def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return the user's stored credential, None without one."""
        if self._store.state is SessionState.CONNECTED and self._reads.count_tokens(self._clock.monotonic_ms()) >= 1:
            self._reads.take(1)
            await self._read_again(QuotaEntity(user))
        return self._known.get(user, {}).get(mechanism)

    async def _read_again(self, entity: QuotaEntity) -> None:
        try:
            async with self._reading:
                self.take(entity, await settings_of(self._read, entity))
        except StoreError as problem:
            logger.warning("credentials could not be looked up, those of before count: %s", problem)
