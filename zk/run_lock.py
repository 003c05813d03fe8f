"""A lock for runs that must not overlap: one ephemeral znode that names its holder.

A holder that died releases the lock with its session, after the session timeout at the latest. After the end of its session a holder has
lost the lock for good, which `held` shows; after a lost connection it has not.

kazoo's own lock is not used, because it queues instead of naming the holder, and does not report its loss.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zk import paths
from zk.store import NodeExistsError, NoNodeError, SessionState, Store, StoreError
from zk.watches import wait_for_change
from zk.znodes.fields import MalformedZnodeError
from zk.znodes.run_locks import RunLockHolder


class LockHeldError(Exception):
    """Raised when another process holds the lock; `holder` is None when the znode does not name it."""

    def __init__(self, path: str, holder: RunLockHolder | None) -> None:
        super().__init__(f"{path} is held by {holder or 'somebody'}")
        self.path = path
        self.holder = holder


class RunLock:
    """The lock at `path`, to be held by `holder`. `is_dead` returns True for a holder whose process is gone."""

    def __init__(
        self,
        store: Store,
        path: str,
        holder: RunLockHolder,
        is_dead: Callable[[RunLockHolder], bool] = lambda _: False,
    ) -> None:
        self._store = store
        self._path = path
        self._holder = holder
        self._is_dead = is_dead
        self._held = False
        store.add_session_listener(self._on_state)

    @property
    def held(self) -> bool:
        """True if acquired, not released, and the session has not ended since."""
        return self._held

    async def acquire(self, wait_s: float, wait_for_dead_s: float) -> None:
        """Acquire the lock, waiting `wait_s`, or `wait_for_dead_s` for the session of a dead holder. Raises LockHeldError."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while not await self._try_acquire():
            try:
                holder = await self._current_holder()
            except NoNodeError:
                continue  # it has just been freed
            dead = holder is not None and self._is_dead(holder)
            left_s = begun_s + max(wait_s, wait_for_dead_s if dead else 0.0) - loop.time()
            if left_s <= 0 or not await wait_for_change(self._store, self._path, left_s):
                raise LockHeldError(self._path, holder)

    async def release(self) -> None:
        """Release the lock, unless it was lost."""
        if self._held:
            self._held = False
            try:
                await self._store.delete(self._path)
            except StoreError:
                pass  # it went with the session, or goes with it

    async def _try_acquire(self) -> bool:
        try:
            await self._store.create(self._path, self._holder.encode(), ephemeral=True, parents=True)
        except NodeExistsError:
            # Ours if the answer to an earlier attempt was lost with the connection.
            stat = await self._store.exists(self._path)
            if stat is None or stat.ephemeral_owner != self._store.session_id:
                return False
        self._held = True
        return True

    async def _current_holder(self) -> RunLockHolder | None:
        """Return the holder, None if the znode is unreadable. Raises NoNodeError when the lock is free."""
        data, _ = await self._store.read(self._path)
        try:
            return RunLockHolder.decode(data)
        except MalformedZnodeError:
            return None

    def _on_state(self, state: SessionState) -> None:
        if state in (SessionState.EXPIRED, SessionState.CLOSED):
            self._held = False


def spark_job_lock(store: Store, name: str, holder: RunLockHolder, is_dead: Callable[[RunLockHolder], bool]) -> RunLock:
    """Return the lock of the Spark jobs that write to the output `name`."""
    return RunLock(store, paths.spark_job_lock(name), holder, is_dead)


async def read_holder(store: Store, name: str) -> RunLockHolder | None:
    """Return the present holder of the lock of the output `name`."""
    try:
        data, _ = await store.read(paths.spark_job_lock(name))
        return RunLockHolder.decode(data)
    except (NoNodeError, MalformedZnodeError):
        return None
