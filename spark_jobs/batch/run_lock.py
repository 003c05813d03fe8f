"""The lock in ZooKeeper that keeps two runs on the same output apart, for programs without asyncio.

The only place of `spark_jobs` that knows of ZooKeeper (an import contract says so). A run that was killed on this host is recognised by its
process id, so that the next one waits for the end of its session; a run that is alive is told of at once.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalite.client.blocking.loop_thread import LoopThread
from kafkalite.zookeeper_connection import security_of_environment
from spark_jobs.batch.failures import LockLostError, RunActiveError, ZooKeeperUnreachableError
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.run_lock import LockHeldError, RunLock, read_holder, spark_job_lock
from zk.store import StoreError
from zk.znodes.run_locks import RunLockHolder

_SESSION_TIMEOUT_S = 10.0
_CONNECT_TIMEOUT_S = 10.0
_DEAD_SESSION_S = 2 * _SESSION_TIMEOUT_S
"""Longer than a session; an ensemble may have longer sessions than were asked for."""


class HeldLock:
    """A lock in hand."""

    def __init__(self, lock: RunLock | None) -> None:
        self._lock = lock

    def check(self) -> None:
        """Raise LockLostError when the lock is gone. Always right for a run without a lock."""
        if self._lock is not None and not self._lock.held:
            raise LockLostError(
                "the ZooKeeper session ended, and with it the lock of the output; nothing more is published: run it again"
            )


@contextmanager
def run_lock(zookeeper: str | None, output: str, purpose: str, now_ms: int, wait_s: float = 0.0) -> Iterator[HeldLock]:
    """Hold the lock of `output` (a URI); wait up to `wait_s` for another run. No `zookeeper`, no lock.

    RunActiveError says who runs; ZooKeeperUnreachableError.
    """
    if zookeeper is None:
        yield HeldLock(None)
        return
    loop = LoopThread.acquire()  # so that the session lives while Spark works
    try:
        store, lock = loop.call(
            _acquire_lock(zookeeper, output, RunLockHolder(socket.gethostname(), os.getpid(), now_ms, purpose), wait_s)
        )
        try:
            yield HeldLock(lock)
        finally:
            loop.call(_close_lock(store, lock))
    finally:
        loop.release()


def lock_holder(zookeeper: str, output: str) -> str | None:
    """Return the present holder of the lock of `output`, as text. ZooKeeperUnreachableError."""

    async def ask() -> RunLockHolder | None:
        store = await _open_store(zookeeper)
        try:
            return await read_holder(store, output)
        finally:
            await store.close()

    holder = asyncio.run(ask())
    return None if holder is None else str(holder)


async def _open_store(zookeeper: str) -> KazooStore:
    try:
        store = KazooStore(zookeeper, _SESSION_TIMEOUT_S, security=security_of_environment())
        await store.start(_CONNECT_TIMEOUT_S)
    except (OSError, TimeoutError, StoreError, ValueError) as problem:
        raise ZooKeeperUnreachableError(
            f"{problem}; it keeps runs apart: give --zookeeper, or --no-lock where nothing else can run"
        ) from problem
    return store


async def _acquire_lock(
    zookeeper: str, output: str, holder: RunLockHolder, wait_s: float
) -> tuple[KazooStore, RunLock]:
    store = await _open_store(zookeeper)
    lock = spark_job_lock(store, output, holder, _is_dead)
    try:
        await lock.acquire(wait_s, _DEAD_SESSION_S)
    except BaseException as problem:
        await store.close()
        if isinstance(problem, LockHeldError):
            raise RunActiveError(
                f"another run is active on {output}: {problem.holder or 'the lock does not say which'}; "
                "wait for its end, or give --wait seconds"
            ) from None
        if isinstance(problem, StoreError):
            raise ZooKeeperUnreachableError(f"ZooKeeper at {zookeeper}: {problem}") from problem
        raise
    return store, lock


async def _close_lock(store: KazooStore, lock: RunLock) -> None:
    await lock.release()
    await store.close()


def _is_dead(holder: RunLockHolder) -> bool:
    """True if the holder was a process of this host, and is gone."""
    if holder.host != socket.gethostname():
        return False
    try:
        os.kill(holder.pid, 0)
    except OSError as problem:
        return isinstance(problem, ProcessLookupError)
    return False
