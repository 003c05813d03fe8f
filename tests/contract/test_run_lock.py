"""The lock of runs, on the store in memory and on a real ZooKeeper."""

from __future__ import annotations

import asyncio
import os

import pytest

from kafkalite.client.blocking.loop_thread import LoopThread
from spark_jobs.batch.failures import RunActiveError
from spark_jobs.batch.run_lock import lock_holder, run_lock
from tests.contract.conftest import Stores
from zk import paths
from zk.run_lock import LockHeldError, RunLock, read_holder, spark_job_lock
from zk.servers.ensemble import Ensemble
from zk.store import NodeExistsError, SessionState, Store
from zk.znodes.run_locks import RunLockHolder

OUTPUT = "file:///data/out put"


def lock_of(store: Store, pid: int, dead: bool = False) -> RunLock:
    return spark_job_lock(store, OUTPUT, RunLockHolder("host", pid, 1, "nightly 2013-06-15"), lambda _: dead)


def test_second_run_is_told_who_runs(stores: Stores) -> None:
    async def scenario() -> None:
        async with stores.open() as one, stores.open() as other:
            first, second = lock_of(one, 1), lock_of(other, 2)
            await first.acquire(0, 0)
            assert first.held
            with pytest.raises(LockHeldError, match=r"process 1 on host \(nightly 2013-06-15\)"):
                await second.acquire(0.05, 0)
            assert not second.held
            await first.release()
            assert not first.held
            await second.acquire(0, 0)
            assert await read_holder(one, OUTPUT) == RunLockHolder("host", 2, 1, "nightly 2013-06-15")
            await second.release()
            assert await read_holder(one, OUTPUT) is None

    asyncio.run(scenario())


def test_waiting_run_gets_the_lock_when_it_is_free(stores: Stores) -> None:
    async def scenario() -> None:
        async with stores.open() as one, stores.open() as other:
            first, second = lock_of(one, 1), lock_of(other, 2)
            await first.acquire(0, 0)
            waiting = asyncio.create_task(second.acquire(20, 0))
            while other.state is not SessionState.CONNECTED or waiting.done():
                await asyncio.sleep(0)
            await first.release()
            await waiting
            assert second.held

    asyncio.run(scenario())


def test_dead_holder_is_waited_for_until_its_session_ends(stores: Stores) -> None:
    async def scenario() -> None:
        async with stores.open() as one, stores.open() as other:
            await lock_of(one, 1).acquire(0, 0)
            successor = lock_of(other, 2, dead=True)
            waiting = asyncio.create_task(successor.acquire(0, 20))
            await asyncio.sleep(0)
            stores.expire(one)
            await waiting
            assert successor.held

    asyncio.run(scenario())


def test_lock_is_lost_with_the_session(stores: Stores) -> None:
    async def scenario() -> None:
        async with stores.open() as one:
            lock = lock_of(one, 1)
            await lock.acquire(0, 0)
            stores.expire(one)
            async with asyncio.timeout(20):
                while lock.held:
                    await asyncio.sleep(0.005)
            await lock.release()

    asyncio.run(scenario())


def test_lost_connection_is_no_lost_lock(stores: Stores) -> None:
    async def scenario() -> None:
        async with stores.open() as one:
            lock = lock_of(one, 1)
            await lock.acquire(0, 0)
            seen: list[SessionState] = []
            one.add_session_listener(seen.append)
            stores.drop_connection(one)
            async with asyncio.timeout(20):
                while SessionState.CONNECTED not in seen:
                    await asyncio.sleep(0.005)
            assert lock.held
            assert await one.exists(paths.spark_job_lock(OUTPUT)) is not None

    asyncio.run(scenario())


def test_own_znode_of_a_lost_answer_is_the_lock(stores: Stores) -> None:
    async def scenario() -> None:
        async with stores.open() as one:
            lock = lock_of(one, 1)
            original = one.create

            async def create(*args: object, **settings: object) -> str:
                await original(*args, **settings)  # type: ignore[arg-type]
                raise NodeExistsError("the first attempt had succeeded")

            one.create = create  # type: ignore[method-assign]
            await lock.acquire(0, 0)
            assert lock.held

    asyncio.run(scenario())


def test_a_run_holds_its_lock_while_it_works(zookeeper: Ensemble) -> None:
    """The session lives on the loop thread of the process, which ends with its last user."""
    connect, output = f"{zookeeper.connect}/run-locks", "file:///data/nightly"
    with run_lock(connect, output, "nightly", 0) as held:
        held.check()
        assert str(os.getpid()) in str(lock_holder(connect, output))
        with pytest.raises(RunActiveError, match="another run is active"), run_lock(connect, output, "nightly", 1):
            pass
    assert lock_holder(connect, output) is None
    assert LoopThread._shared is None
