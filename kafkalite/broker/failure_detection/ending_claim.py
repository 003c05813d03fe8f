"""The claim of a broker to be the only one that ends a session now: an ephemeral znode, kept for a while after the end.

Each claim has a znode of its own (`paths.SESSION_ENDING_PREFIX` and a sequence number), so that a deletion that comes late hits no
other one; of several the first counts. Whoever has it for too long, as with a slow connection to ZooKeeper, ends nothing any more
(`is_valid`), and soon afterwards others take the claim away.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from zk import paths
from zk.store import NoAuthError, NoNodeError, Store, StoreClosedError, StoreError

logger = logging.getLogger("kafkalite.broker.failure_detection")

VALID_S: Final = 4.0
"""How long after it was asked for a claim allows to begin an ending."""
_STALE_S: Final = 8.0
"""How long a claim of another broker is respected since it was first seen: it is older than that, and an ending takes 2 s at most."""
_RETRY_S: Final = 0.2


class EndingClaim:
    """This broker's claim."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held_by = 0
        """The session in which it is held, or may be; 0 for none."""
        self._taken_s = 0.0
        self._path = paths.SESSION_ENDING_PREFIX
        self._seen = "", 0.0
        """The claim of another broker that was the first, and since when."""

    @property
    def is_held(self) -> bool:
        """True if this broker has the claim, or may have it."""
        return self._held_by != 0

    async def is_valid(self) -> bool:
        """True if this broker has the claim, and has had it for so short a time that nobody else has it. Raises StoreError."""
        try:
            await self._store.read(self._path)
        except NoNodeError:
            return False
        return self.is_held and self._now_s() - self._taken_s < VALID_S

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()

    async def take(self, victim_session: int) -> bool:
        """Take the claim; False while it is taken, by this broker or another. Raises StoreError, when `give_back` is needed too.

        One of the broker itself whose session is to end, `victim_session`, does not count.
        """
        if self.is_held:
            return False
        self._held_by, self._taken_s = self._store.session_id, self._now_s()
        self._path = path = await self._store.create(paths.SESSION_ENDING_PREFIX, ephemeral=True, sequence=True)
        for first in await self._find_claims():
            if first == path:
                return True
            if not await self._take_away(first, victim_session):
                await self._delete(path)
                self._held_by = 0
                return False
        return False  # somebody has taken this one away

    async def _find_claims(self) -> list[str]:
        """Return the paths of all claims, the first one first. Raises StoreError."""
        prefix = paths.name(paths.SESSION_ENDING_PREFIX)
        names = [each for each in await self._store.children("/") if each.startswith(prefix)]
        return [paths.child("/", each) for each in sorted(names)]

    async def _take_away(self, path: str, victim_session: int) -> bool:
        """Remove the claim of another broker that is taken for dead, or has had it for too long; False if it counts. StoreError."""
        try:
            owner = (await self._store.read(path))[1].ephemeral_owner
        except NoNodeError:
            return True
        if self._seen[0] != path:
            self._seen = path, self._now_s()
        if owner != victim_session and self._now_s() - self._seen[1] < _STALE_S:
            return False
        await self._delete(path)
        return True

    async def _delete(self, path: str) -> None:
        with suppress(NoNodeError):
            await self._store.delete(path)

    async def give_back(self, held_s: float = 0.0) -> None:
        """Give the claim back once it was held for so long; with the session in which it was taken it is gone."""
        if self.is_held and held_s:
            await asyncio.sleep(self._taken_s + held_s - self._now_s())
        while self._held_by == self._store.session_id:
            try:
                await self._delete_own()
            except (StoreClosedError, NoAuthError):
                break
            except StoreError as problem:
                logger.debug("the claim to end sessions is not given back yet: %s", problem)
                await asyncio.sleep(_RETRY_S)
            else:
                break
        self._held_by = 0

    async def _delete_own(self) -> None:
        """Delete the claims of this session: the answer to a creation may have been lost, and its number with it. Raises StoreError."""
        for path in await self._find_claims():
            with suppress(NoNodeError):
                if (await self._store.read(path))[1].ephemeral_owner == self._held_by:
                    await self._store.delete(path)
