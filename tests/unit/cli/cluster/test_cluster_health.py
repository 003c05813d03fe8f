"""What `cluster health` makes of a cluster, and how long it waits."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.administration.cluster_health import Verdict, judge
from kafkalite.cli.cluster.health import table_row, wait_until_healthy
from kafkalite.client import ClusterDescription, TopicDescription
from kafkalite.client.cluster.view import BrokerNode, PartitionView
from kafkalite.client.errors import NoBrokersAvailableError


def cluster(*brokers: int, controller: int = 1) -> ClusterDescription:
    return ClusterDescription("c", controller, tuple(BrokerNode(each, "h", 1) for each in brokers))


def topic(*partitions: tuple[int, tuple[int, ...], tuple[int, ...]]) -> TopicDescription:
    views = [
        PartitionView("t", number, leader, replicas=replicas, isr=isr)
        for number, (leader, replicas, isr) in enumerate(partitions)
    ]
    return TopicDescription("t", "", False, tuple(views))


def problems(*arguments: object) -> dict[str, tuple[str, ...]]:
    return {each.check: each.problems for each in judge(*arguments) if not each.healthy}  # type: ignore[arg-type]


def test_a_sound_cluster_has_no_problems() -> None:
    assert problems(cluster(1, 2), [topic((1, (1, 2), (1, 2)))], {"t": 2}) == {}


def test_each_problem_is_told() -> None:
    found = problems(
        cluster(1, 2, controller=-1),
        [topic((1, (1, 2, 3), (1, 2)), (-1, (3,), (3,)), (1, (1, 2, 3), (1,)), (1, (1,), (1,)))],
        {"t": 2},
    )
    assert found == {
        "controller": ("there is no controller",),
        "brokers": ("broker 3 is not there",),
        "offline partitions": ("t-1",),
        "under-replicated partitions": ("t-0", "t-1", "t-2"),
        "partitions under min.insync.replicas": ("t-2",),
    }


def test_a_controller_that_is_gone_is_none() -> None:
    assert "controller" in problems(cluster(1, 2, controller=3), [], {})


def test_people_see_the_first_problems_only() -> None:
    row = table_row(Verdict("x", tuple("abcdefg")))
    assert row["count"] == 7 and row["what"] == "a, b, c, d, e, and 2 more"
    assert table_row(Verdict("x", ()))["what"] is None


def test_waiting_ends_with_health_also_after_nobody_answered() -> None:
    answers = [NoBrokersAvailableError({}), [Verdict("x", ("bad",))], [Verdict("x", ())]]

    async def looking() -> list[Verdict]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert asyncio.run(wait_until_healthy(looking, 30)) == [Verdict("x", ())] and not answers


def test_waiting_ends_with_its_time() -> None:
    async def ill() -> list[Verdict]:
        return [Verdict("x", ("bad",))]

    async def away() -> list[Verdict]:
        raise NoBrokersAvailableError({})

    assert asyncio.run(wait_until_healthy(ill, 0))[0].problems == ("bad",)
    with pytest.raises(NoBrokersAvailableError):
        asyncio.run(wait_until_healthy(away, 0))
