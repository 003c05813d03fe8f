"""Notifications of changed configurations: none is lost when ZooKeeper is away, and none stands in the way of the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kafkalite.broker.settings.dynamic_configs import ConfigChanges, DynamicConfigs
from kafkalite.clock import SystemClock
from kafkalite.config.broker import BrokerConfig, LiveConfig
from kafkalite.lifecycle import Jobs
from kafkalite.testing.simulation import virtual_time
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.session import Session
from zk.store import SessionExpiredError, Stat, StoreError
from zk.watches import ChildrenChanged, ChildWatch
from zk.znodes import ConfigChange, ConfigEntity


def taken(problems: dict[str, list[Exception]], *others: str) -> tuple[list[str], int]:
    """(the topics whose change was taken, the errors reported), when taking a topic first raises what `problems` says.

    `others` are znodes that lie beside the notifications.
    """

    async def scenario() -> tuple[list[str], int]:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)
        await store.create(paths.CONFIG_CHANGES, parents=True)
        for topic in "abc":
            change = ConfigChange(f"topics/{topic}").encode()
            await store.create(paths.CONFIG_CHANGE_PREFIX, change, sequence=True)
        for other in others:
            await store.create(paths.child(paths.CONFIG_CHANGES, other), ConfigChange("topics/x").encode())
        names = await store.children(paths.CONFIG_CHANGES)
        seen: list[str] = []

        async def changed(entity_type: str, name: str) -> None:
            if problems.get(name):
                raise problems[name].pop()
            seen.append(name)

        changes, jobs = ConfigChanges(store, SystemClock(), changed), Jobs()
        with virtual_time.expected_errors() as errors:
            assert changes.seen(names)
            jobs.retry(changes.look, "configuration changes")
            await asyncio.sleep(5)
        await jobs.stop()
        return seen, errors.count

    return virtual_time.run(scenario())


def test_a_change_was_lost_when_zookeeper_did_not_answer() -> None:
    assert taken({"b": [StoreError("/b", "away"), StoreError("/b", "away")]}) == (["a", "b", "c"], 2)


def test_the_end_of_a_session_is_no_error_for_what_looks_again_under_the_next() -> None:
    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)
        change = ConfigChange("topics/a").encode()
        await store.create(paths.CONFIG_CHANGE_PREFIX, change, sequence=True, parents=True)
        names = await store.children(paths.CONFIG_CHANGES)
        ends, seen = [SessionExpiredError("/a", "the session ended")], []

        async def changed(entity_type: str, name: str) -> None:
            if ends:
                raise ends.pop()
            seen.append(name)

        changes = ConfigChanges(store, SystemClock(), changed)
        for wanted in ([], ["a"]):
            assert changes.seen(list(names))
            await changes.look()
            assert seen == wanted

    virtual_time.run(scenario())


def test_a_change_that_cannot_be_taken_does_not_stand_in_the_way_of_the_next() -> None:
    assert taken({"b": [ZeroDivisionError("a bug")]}) == (["a", "c"], 1)


def test_a_znode_without_a_number_stood_in_the_way_of_all_changes() -> None:
    """And one with a number that ZooKeeper never gives made all later ones old."""
    assert taken({}, "nonsense") == (["x", "a", "b", "c"], 0)
    assert taken({}, "config_change_9999999999") == (["a", "b", "c", "x"], 0)


def test_a_storm_of_changes_read_each_of_them_at_every_change() -> None:
    async def scenario() -> tuple[int, int]:
        server = MemoryZooKeeper(lambda: 0.001)
        store, writer = MemoryStore(server), MemoryStore(server)
        for each in (store, writer):
            await each.start(1)
        await store.create(paths.CONFIG_CHANGES, parents=True)
        session, jobs, seen, begun = Session(store), Jobs(), set(), 0

        async def changed(entity_type: str, name: str) -> None:
            seen.add(name)

        changes = ConfigChanges(store, SystemClock(), changed)

        def children(change: ChildrenChanged) -> None:
            nonlocal begun
            if changes.seen(change.names):
                begun += 1
                jobs.retry(changes.look, "configuration changes")

        watch = ChildWatch(session, paths.CONFIG_CHANGES, children)
        await watch.start()
        reads, read_many = 0, store.read_many

        async def counted(some: Sequence[str]) -> list[tuple[bytes, Stat] | None]:
            nonlocal reads
            reads += len(some)
            return await read_many(some)

        store.read_many = counted  # type: ignore[method-assign]
        for number in range(500):
            await writer.create(paths.CONFIG_CHANGE_PREFIX, ConfigChange(f"topics/{number}").encode(), sequence=True)
        while len(seen) < 500:
            await asyncio.sleep(0.01)
        await watch.stop()
        await jobs.stop()
        return reads, begun

    reads, begun = virtual_time.run(scenario())
    assert reads == 500
    assert begun < 50


def test_the_configurations_of_topics_and_notices_of_changes_are_read_in_few_requests() -> None:
    """A broker that started read that of each topic in a request of its own, and after a change of many topics each notice."""

    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(1)
        names = [f"t{number:03}" for number in range(300)]
        for number, name in enumerate(names):
            config = ConfigEntity({"retention.ms": str(number)}).encode()
            await store.create(paths.topic_config(name), b"garbage" if number == 7 else config, parents=True)
            change = ConfigChange(f"topics/{name}").encode()
            await store.create(paths.CONFIG_CHANGE_PREFIX, change, sequence=True, parents=True)
        requests, request = [], store._request

        async def counted(path: str, carry_out: Callable[[], Any]) -> Any:
            requests.append(path)
            return await request(path, carry_out)

        store._request = counted  # type: ignore[method-assign, assignment]
        properties = {"zookeeper.connect": "memory", "broker.id": "0", "log.retention.ms": "9000"}
        configs = DynamicConfigs(store, LiveConfig(BrokerConfig.from_properties(properties)))
        found = await configs.all_topics()
        assert [found[name].retention_ms for name in names] == [*range(7), 9000, *range(8, 300)]
        assert len(requests) <= 3
        taken: list[str] = []
        counts: list[int] = []

        async def changed(entity_type: str, name: str) -> None:
            taken.append(name)
            counts.append(len(requests))

        changes = ConfigChanges(store, SystemClock(), changed)
        changes.seen(await store.children(paths.CONFIG_CHANGES))
        await changes.look()
        assert taken == names
        assert counts[-1] <= 6

    virtual_time.run(scenario())
