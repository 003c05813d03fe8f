"""Requests that overlap decide as if one came after the other: what was checked still holds when it is written.

Each case is told with the second request begun after every number of loop iterations that the first one takes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import pytest

from kafkalite.controller.requests import NewPartitions, NewTopic, TopicReference
from kafkalite.errors import ErrorCode
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.controller.fake_cluster import FakeCluster, code_of
from zk import paths
from zk.store import SessionExpiredError

ITERATIONS: Final = 40
"""More than a request of one topic takes."""
COLLIDES, EXISTS = ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_ALREADY_EXISTS


async def later(iterations: int, act: Awaitable[Any]) -> Any:
    for _ in range(iterations):
        await asyncio.sleep(0)
    return await act


def topic(name: str, **configs: str) -> NewTopic:
    return NewTopic(name, 1, 1, (), tuple(configs.items()))


async def created(cluster: FakeCluster, *topics: NewTopic, validate_only: bool = False) -> list[int]:
    outcomes = await cluster.controller.create_topics(topics, validate_only=validate_only)
    assert list(outcomes) == list(dict.fromkeys(each.name for each in topics))
    return [code_of(each) for each in outcomes.values()]


async def deleted(cluster: FakeCluster, name: str) -> int:
    ((_, problem),) = await cluster.controller.delete_topics([TopicReference(name)])
    return code_of(problem)


async def enlarged(cluster: FakeCluster, name: str, count: int) -> int:
    return code_of((await cluster.controller.create_partitions([NewPartitions(name, count)]))[name])


async def moved(cluster: FakeCluster, name: str, *replicas: int) -> int:
    wanted: Any = {TopicPartition(name, 0): replicas}
    (problem,) = (await cluster.controller.alter_partition_reassignments(wanted)).values()
    return code_of(problem)


def told(script: Callable[[FakeCluster], Coroutine[Any, Any, None]], *brokers: int) -> None:
    async def scenario() -> None:
        cluster = await FakeCluster().start(*(brokers or (1,)))
        await script(cluster)
        await cluster.stop()

    run(scenario())


def test_of_names_that_collide_in_one_request_the_first_is_made() -> None:
    async def script(cluster: FakeCluster) -> None:
        assert await created(cluster, topic("a.b"), topic("a_b"), topic("c_d"), topic("c.d")) == [
            *(0, COLLIDES),
            *(0, COLLIDES),
        ]
        assert sorted(await cluster.tool.children(paths.TOPICS)) == ["a.b", "c_d"]
        outcomes = await cluster.controller.create_topics([topic("e.f.g"), topic("e_f.g")])
        assert str(outcomes["e_f.g"]) == "Topic 'e_f.g' collides with existing topics: e.f.g"

    told(script)


def test_a_topic_that_is_not_made_takes_no_name_away() -> None:
    """Because it is refused, or only validated, as in Kafka."""

    async def script(cluster: FakeCluster) -> None:
        refused = NewTopic("g.h", 0, 1, (), ())
        assert await created(cluster, refused, topic("g_h")) == [ErrorCode.INVALID_PARTITIONS, 0]
        assert await created(cluster, topic("e.f"), topic("e_f"), validate_only=True) == [0, 0]
        assert await created(cluster, topic("x"), topic("x"), topic("x_")) == [ErrorCode.INVALID_REQUEST, 0]

    told(script)


def test_of_many_that_collide_in_one_request_one_is_made() -> None:
    async def script(cluster: FakeCluster) -> None:
        names = [f"a{first}b{second}c{number}" for number in range(40) for first in "._" for second in "._"]
        outcomes = await created(cluster, *map(topic, names))
        assert outcomes == [0, COLLIDES, COLLIDES, COLLIDES] * 40
        assert sorted(await cluster.tool.children(paths.TOPICS)) == sorted(names[::4])

    told(script)


def test_of_names_that_collide_in_two_requests_one_is_made() -> None:
    async def script(cluster: FakeCluster) -> None:
        for n in range(ITERATIONS):
            outcomes = await asyncio.gather(
                created(cluster, topic(f"a.{n}")), later(n, created(cluster, topic(f"a_{n}")))
            )
            assert sorted(outcomes) == [[0], [COLLIDES]], n

    told(script)


def test_a_name_in_two_requests_is_made_once_with_the_settings_of_the_request_that_made_it() -> None:
    """The other one wrote its settings over them before it was refused."""

    async def script(cluster: FakeCluster) -> None:
        for n in range(ITERATIONS):
            name = f"t{n}"
            outcomes = await asyncio.gather(
                created(cluster, topic(name, **{"retention.ms": "1"})),
                later(n, created(cluster, topic(name, **{"retention.ms": "2"}))),
            )
            assert sorted(outcomes) == [[0], [EXISTS]], n
            data, _ = await cluster.tool.read(paths.topic_config(name))
            assert json.loads(data)["config"] == {"retention.ms": "1" if outcomes[0] == [0] else "2"}

    told(script)


def test_a_topic_that_is_made_while_its_predecessor_is_deleted_keeps_its_settings() -> None:
    async def script(cluster: FakeCluster) -> None:
        for n in range(2 * ITERATIONS):
            name = f"t{n}"
            await created(cluster, topic(name))
            await cluster.quiet()
            assert await deleted(cluster, name) == 0
            (code,) = await later(n, created(cluster, topic(name, **{"retention.ms": "2"})))
            await cluster.quiet()
            there = name in await cluster.tool.children(paths.TOPICS)
            assert (code, there) in ((0, True), (EXISTS, False)), n
            if there:
                data, _ = await cluster.tool.read(paths.topic_config(name))
                assert json.loads(data)["config"] == {"retention.ms": "2"}, n

    told(script)


def test_a_topic_that_was_made_and_deleted_since_the_names_were_read_is_being_deleted() -> None:
    async def script(cluster: FakeCluster) -> None:
        for n in range(ITERATIONS):
            name, others = f"t{n}", [f"other{n}-{number}" for number in range(100)]

            async def make_and_delete(name: str = name) -> None:
                if await created(cluster, topic(name)) == [0]:
                    assert await deleted(cluster, name) == 0

            many = created(cluster, *map(topic, others), topic(name, **{"retention.ms": "2"}))
            outcomes, _ = await asyncio.gather(many, later(n, make_and_delete()))
            await cluster.quiet()
            there = name in await cluster.tool.children(paths.TOPICS)
            assert there == (outcomes[-1] == 0), (n, outcomes[-1])
            if there:
                data, _ = await cluster.tool.read(paths.topic_config(name))
                assert json.loads(data)["config"] == {"retention.ms": "2"}, n

    told(script)


def test_a_write_whose_outcome_is_not_known_is_looked_at_by_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name that it took is neither free nor taken until the names are read again."""

    async def script(cluster: FakeCluster) -> None:
        store = cluster.members[1].store
        create = store.create

        async def answer_lost(path: str, *arguments: Any, **more: Any) -> str:
            made = await create(path, *arguments, **more)
            if path == paths.topic("a.b"):
                raise SessionExpiredError(path)
            return made

        monkeypatch.setattr(store, "create", answer_lost)
        first, second = await asyncio.gather(
            created(cluster, topic("a.b")), created(cluster, topic("a_b")), return_exceptions=True
        )
        assert isinstance(first, SessionExpiredError) and second == [COLLIDES]

    told(script)


def test_of_two_requests_for_the_same_partitions_one_makes_them() -> None:
    async def script(cluster: FakeCluster) -> None:
        for n in range(ITERATIONS):
            name = f"t{n}"
            await created(cluster, topic(name))
            outcomes = await asyncio.gather(enlarged(cluster, name, 4), later(n, enlarged(cluster, name, 4)))
            assert sorted(outcomes) == [0, ErrorCode.INVALID_PARTITIONS], n
            outcomes = await asyncio.gather(enlarged(cluster, name, 5), later(n, enlarged(cluster, name, 6)))
            assert outcomes in ([0, 0], [ErrorCode.INVALID_PARTITIONS, 0])
            assert sorted((await cluster.topic(name)).partitions) == [*range(6)]

    told(script)


def test_partitions_that_are_added_while_a_move_begins_are_kept() -> None:
    """The move was written from memory over a znode that had more partitions by then: they were acknowledged, and gone."""

    async def script(cluster: FakeCluster) -> None:
        for n in range(ITERATIONS):
            name = f"t{n}"
            await cluster.create_topic(name, [1])
            outcomes = await asyncio.gather(enlarged(cluster, name, 4), later(n, moved(cluster, name, 2)))
            await cluster.quiet()
            assert outcomes in ([0, 0], [ErrorCode.REASSIGNMENT_IN_PROGRESS, 0]), n
            found = await cluster.topic(name)
            assert len(found.partitions) == (4 if outcomes[0] == 0 else 1), n
            assert (found.partitions[0], found.adding[0], found.removing[0]) == ((2, 1), (2,), (1,)), n
            assert len(cluster.controller.cluster.topics[name].partitions) == len(found.partitions)

    told(script, 1, 2)


def test_partitions_that_are_added_after_a_topic_is_marked_are_taken_back() -> None:
    async def script(cluster: FakeCluster) -> None:
        for n in range(ITERATIONS):
            name = f"t{n}"
            await cluster.create_topic(name, [1])
            outcomes = await asyncio.gather(deleted(cluster, name), later(n, enlarged(cluster, name, 4)))
            await cluster.quiet()
            unknown = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert outcomes[0] == 0 and (outcomes[1] in unknown or n < 5), n
            assert await cluster.tool.exists(paths.topic(name)) is None, n
            assert await cluster.tool.exists(paths.topic_config(name)) is None, n

    told(script)
