"""A lock for runs that must not overlap: one ephemeral znode with who holds it.

The znode goes with its session, so a holder that died frees the lock after its session timeout at the latest. A holder whose session ended
has lost the lock for good, also when it is connected again: `held` tells. A lost connection alone is no lost lock.

kazoo's own lock is not used: it queues where a second run should be told who is at work, and does not say when it is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zk import paths
from zk.store import NodeExistsError, NoNodeError, SessionState, Store, StoreError, WatchEvent
from zk.znodes.fields import MalformedZnodeError
from zk.znodes.run_locks import RunLockHolder


class LockHeldError(Exception):
    """Somebody else holds the lock; `holder` is None when the znode does not say who."""

    def __init__(self, path: str, holder: RunLockHolder | None) -> None:
        super().__init__(f"{path} is held by {holder or 'somebody'}")
        self.path = path
        self.holder = holder


class RunLock:
    """The lock at `path`, to be held by `holder`. `is_dead` may say that another holder cannot be alive any more."""

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
        """Acquired, not released, and the session has not ended since."""
        return self._held

    async def acquire(self, wait_s: float, wait_for_dead_s: float) -> None:
        """Take the lock; wait for the holder `wait_s`, or if that is dead for its session to end, `wait_for_dead_s`. LockHeldError."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        while not await self._try_acquire():
            try:
                holder = await self._current_holder()
            except NoNodeError:
                continue  # it has just been freed
            dead = holder is not None and self._is_dead(holder)
            left_s = begun_s + max(wait_s, wait_for_dead_s if dead else 0.0) - loop.time()
            if left_s <= 0 or not await self._changed_within(left_s):
                raise LockHeldError(self._path, holder)

    async def release(self) -> None:
        """Give the lock back; nothing when it was lost."""
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
        """None when the znode does not say it. NoNodeError when nobody holds the lock."""
        data, _ = await self._store.read(self._path)
        try:
            return RunLockHolder.decode(data)
        except MalformedZnodeError:
            return None

    async def _changed_within(self, timeout_s: float) -> bool:
        """Wait for the next change of the znode; False when there is none in time."""
        changed = asyncio.Event()

        def on_event(_: WatchEvent) -> None:
            changed.set()

        if await self._store.exists(self._path, on_event) is None:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    def _on_state(self, state: SessionState) -> None:
        if state in (SessionState.EXPIRED, SessionState.CLOSED):
            self._held = False


def spark_job_lock(store: Store, name: str, holder: RunLockHolder, is_dead: Callable[[RunLockHolder], bool]) -> RunLock:
    """The lock of the Spark jobs that write to the output `name`."""
    return RunLock(store, paths.spark_job_lock(name), holder, is_dead)


async def read_holder(store: Store, name: str) -> RunLockHolder | None:
    """Who holds the lock of the output `name` now."""
    try:
        data, _ = await store.read(paths.spark_job_lock(name))
        return RunLockHolder.decode(data)
    except (NoNodeError, MalformedZnodeError):
        return None
