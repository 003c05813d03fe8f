"""The claim of a broker to be the only one that ends a session now: an ephemeral znode, kept for a while after the end.

Whoever has it for too long, as with a slow connection to ZooKeeper, ends nothing any more (`is_valid`), and soon afterwards others take the
claim away.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from zk import paths
from zk.store import NodeExistsError, NoNodeError, Store, StoreError

logger = logging.getLogger("kafkalite.broker.failure_detection")

VALID_S: Final = 1.5
"""How long after it was asked for a claim allows to begin an ending."""
_STALE_S: Final = 4.0
"""How long a claim of another broker is respected since it was first seen: it is older than that, and an ending takes 2 s at most."""
_RETRY_S: Final = 0.2


class EndingClaim:
    """This broker's side of `paths.SESSION_ENDING`; `min_held_s` is the shortest time between two endings in the cluster."""

    def __init__(self, store: Store, min_held_s: float) -> None:
        self._store, self._min_held_s = store, min_held_s
        self._held_by = 0
        """The session in which it is held, or may be; 0 for none."""
        self._taken_s = 0.0
        self._seen: tuple[int, float] = 0, 0.0
        """The creation (zxid) of the claim of another broker, and when it was first seen."""

    @property
    def is_held(self) -> bool:
        """True if this broker has the claim, or may have it."""
        return self._held_by != 0

    @property
    def is_valid(self) -> bool:
        """True if this broker has had the claim for so short a time that nobody else has it."""
        return self.is_held and self._now_s() - self._taken_s < VALID_S

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()

    async def take(self) -> bool:
        """Take the claim; False while it is taken, by this broker or another. Raises StoreError, when `give_back` is needed too."""
        if self.is_held:
            return False
        self._held_by, self._taken_s = self._store.session_id, self._now_s()
        try:
            await self._store.create(paths.SESSION_ENDING, ephemeral=True)
        except NodeExistsError:
            self._held_by = 0
            await self._take_away_stale()
            return False
        return True

    async def _take_away_stale(self) -> None:
        """Remove the claim of another broker that has had it for too long. Raises StoreError."""
        try:
            created = (await self._store.read(paths.SESSION_ENDING))[1].czxid
            if self._seen[0] != created:
                self._seen = created, self._now_s()
            elif self._now_s() - self._seen[1] > _STALE_S:
                await self._store.delete(paths.SESSION_ENDING)
        except NoNodeError:
            pass

    async def give_back(self, has_ended: bool) -> None:
        """Give the claim back, after an ending once it was held for long enough; with the session in which it was taken it is gone."""
        if self.is_held and has_ended:
            await asyncio.sleep(self._taken_s + self._min_held_s - self._now_s())
        while self._held_by == self._store.session_id:
            try:
                await self._store.delete(paths.SESSION_ENDING)
            except NoNodeError:
                break
            except StoreError as problem:
                logger.debug("the claim to end sessions is not given back yet: %s", problem)
                await asyncio.sleep(_RETRY_S)
            else:
                break
        self._held_by = 0
