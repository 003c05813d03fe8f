"""Notifications of changed configurations: none is lost when ZooKeeper is away, and none stands in the way of the next."""

from __future__ import annotations

import asyncio

from kafkalite.broker.dynamic_configs import ConfigChanges
from kafkalite.clock import SystemClock
from kafkalite.lifecycle import Jobs
from kafkalite.testing.simulation import virtual_time
from zk import paths
from zk.memory_store import MemoryStore, MemoryZooKeeper
from zk.store import StoreError
from zk.znodes import ConfigChange


def taken(problems: dict[str, list[Exception]]) -> tuple[list[str], int]:
    """(the topics whose change was taken, the errors reported), when taking a topic first raises what `problems` says."""

    async def scenario() -> tuple[list[str], int]:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)
        await store.create(paths.CONFIG_CHANGES, parents=True)
        for topic in "abc":
            change = ConfigChange(f"topics/{topic}").encode()
            await store.create(paths.CONFIG_CHANGE_PREFIX, change, sequence=True)
        names = await store.children(paths.CONFIG_CHANGES)
        seen: list[str] = []

        async def changed(entity_type: str, name: str) -> None:
            if problems.get(name):
                raise problems[name].pop()
            seen.append(name)

        changes, jobs = ConfigChanges(store, SystemClock(), changed), Jobs()
        with virtual_time.expected_errors() as errors:
            jobs.retry(lambda: changes.look(names), "configuration changes")
            await asyncio.sleep(5)
        await jobs.stop()
        return seen, errors.count

    return virtual_time.run(scenario())


def test_a_change_was_lost_when_zookeeper_did_not_answer() -> None:
    assert taken({"b": [StoreError("/b", "away"), StoreError("/b", "away")]}) == (["a", "b", "c"], 2)


def test_a_change_that_cannot_be_taken_does_not_stand_in_the_way_of_the_next() -> None:
    assert taken({"b": [ZeroDivisionError("a bug")]}) == (["a", "c"], 1)
