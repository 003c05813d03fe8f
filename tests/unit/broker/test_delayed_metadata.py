"""Metadata requests that wait for a new leader, from the request of a client to its response."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker import delayed_metadata
from kafkalite.broker.delayed_metadata import LONGEST_WAIT_S, DelayedMetadata
from kafkalite.controller.control_requests import PartitionMetadata, UpdateMetadata, UpdateMetadataTopic
from kafkalite.protocol import messages
from kafkalite.protocol.messages import metadata_request as m
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import NO_TOPIC_ID, OFFSETS_TOPIC, BrokerId, TopicPartition
from tests.unit.broker.memory_parts import MemoryParts, know

SUSPECT, SUCCESSOR = 2, 1


class Site:
    """Broker 2, which is taken for dead, leads t-0 and t-1; broker 1 leads u-0."""

    def __init__(self) -> None:
        self.parts: Any = MemoryParts()
        self.suspects: set[BrokerId] = {SUSPECT}
        for name, index, leader in (("t", 0, SUSPECT), ("t", 1, SUSPECT), ("u", 0, SUCCESSOR)):
            know(self.parts.metadata, TopicPartition(name, index), leader)
        self.parts.delayed_metadata = DelayedMetadata(self.parts.metadata, self.suspects.__contains__)

    async def ask(self, *names: str, version: int = 12, every: bool = False) -> tuple[list[int], float]:
        """Return the leaders of the response, and the seconds until it came."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        topics = None if every else [m.MetadataRequestTopic(name=name) for name in names]
        response = await self.parts.ask(m.MetadataRequest(topics=topics), version)
        leaders = [each.leader_id for topic in response.topics for each in topic.partitions]
        return leaders, loop.time() - began_s

    def remove_suspect(self) -> None:
        """The controller knows that the broker is dead, and tells of its partitions later."""
        self.suspects.clear()
        del self.parts.metadata.brokers[SUSPECT]

    def elect(self, *partitions: int, leader: int = SUCCESSOR, topic: str = "t") -> None:
        states = {index: PartitionMetadata(leader, 5, [1], [1, 2], [], 1, 1) for index in partitions}
        metadata = self.parts.metadata
        update = UpdateMetadataTopic(topic, NO_TOPIC_ID, states)
        metadata.apply(UpdateMetadata(1, 1, -1, [update], list(metadata.brokers.values())))


def play(scenario: Callable[[Site], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(Site())

    virtual_time.run(run())


def test_a_request_waits_until_all_its_partitions_have_another_leader() -> None:
    async def scenario(site: Site) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, site.elect, 0)
        loop.call_later(0.2, site.elect, 1)
        leaders, took_s = await site.ask("t")
        assert leaders == [SUCCESSOR, SUCCESSOR]
        assert took_s == pytest.approx(0.2)

    play(scenario)


def test_a_request_waits_for_all_that_the_controller_tells_when_the_broker_has_left() -> None:
    async def scenario(site: Site) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, lambda: (site.remove_suspect(), site.elect(0)))
        loop.call_later(0.2, site.elect, 1)
        assert await site.ask("t") == ([SUCCESSOR, SUCCESSOR], pytest.approx(0.2))

    play(scenario)


def test_a_client_that_names_topics_is_told_also_of_brokers_that_have_just_left() -> None:
    async def scenario(site: Site) -> None:
        metadata = site.parts.metadata
        left = metadata.brokers[SUSPECT]
        site.remove_suspect()
        site.parts.delayed_metadata = DelayedMetadata(metadata, site.suspects.__contains__, find_left=lambda: [left])
        for topics, listed in (([m.MetadataRequestTopic(name="u")], [SUCCESSOR, SUSPECT]), (None, [SUCCESSOR])):
            response = await site.parts.ask(m.MetadataRequest(topics=topics), 12)
            assert [each.node_id for each in response.brokers] == listed

    play(scenario)


def test_a_request_looks_around_before_it_names_leaders() -> None:
    async def scenario(site: Site) -> None:
        site.suspects.clear()

        async def look_around() -> None:
            site.suspects.add(SUSPECT)

        site.parts.delayed_metadata = DelayedMetadata(site.parts.metadata, site.suspects.__contains__, look_around)
        asyncio.get_running_loop().call_later(0.1, site.elect, 0, 1)
        assert await site.ask("t") == ([SUCCESSOR, SUCCESSOR], pytest.approx(0.1))

    play(scenario)


def test_a_request_does_not_wait_long() -> None:
    async def scenario(site: Site) -> None:
        assert await site.ask("t") == ([SUSPECT, SUSPECT], pytest.approx(LONGEST_WAIT_S))

    play(scenario)


def test_a_partition_that_has_no_leader_any_more_is_not_waited_for() -> None:
    async def scenario(site: Site) -> None:
        asyncio.get_running_loop().call_later(0.1, lambda: site.elect(0, 1, leader=-1))
        assert await site.ask("t") == ([-1, -1], pytest.approx(0.1))
        assert await site.ask("t") == ([-1, -1], 0)

    play(scenario)


@pytest.mark.parametrize(
    ("names", "options", "leaders"),
    [
        (("u",), {}, [SUCCESSOR]),
        (("t",), {"version": 0}, [SUSPECT] * 2),
        ((), {"every": True}, [SUSPECT, SUSPECT, SUCCESSOR]),
    ],
)
def test_other_requests_are_answered_at_once(
    names: tuple[str, ...], options: dict[str, Any], leaders: list[int]
) -> None:
    async def scenario(site: Site) -> None:
        assert await site.ask(*names, **options) == (leaders, 0)

    play(scenario)


def test_nobody_waits_for_a_broker_that_is_not_suspected() -> None:
    async def scenario(site: Site) -> None:
        site.suspects.clear()
        assert await site.ask("t") == ([SUSPECT, SUSPECT], 0)

    play(scenario)


@pytest.mark.parametrize("bound", ["REQUEST_PARTITIONS_MAX", "WAITING_PARTITIONS_MAX"])
def test_too_many_partitions_do_not_wait(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_metadata, bound, 1)

    async def scenario(site: Site) -> None:
        assert await site.ask("t") == ([SUSPECT, SUSPECT], 0)

    play(scenario)


def test_the_bound_is_for_all_that_wait_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_metadata, "WAITING_PARTITIONS_MAX", 4)

    async def scenario(site: Site) -> None:
        for _ in range(2):
            waits = [took_s for _, took_s in await asyncio.gather(*(site.ask("t") for _ in range(3)))]
            assert sorted(waits) == pytest.approx([0, LONGEST_WAIT_S, LONGEST_WAIT_S])

    play(scenario)


def test_who_looks_for_a_coordinator_waits_for_its_successor() -> None:
    async def scenario(site: Site) -> None:
        know(site.parts.metadata, TopicPartition(OFFSETS_TOPIC, 0), SUSPECT)
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, lambda: site.elect(0, topic=OFFSETS_TOPIC))
        request = messages.find_coordinator_request.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        response = await site.parts.ask(request, 4)
        assert [each.node_id for each in response.coordinators] == [SUCCESSOR]
        assert loop.time() == pytest.approx(0.1)

    play(scenario)
