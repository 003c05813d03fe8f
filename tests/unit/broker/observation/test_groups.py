"""Groups and their lag: what is known here, what is asked for, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from kafkalite.broker.observation import group_metrics
from kafkalite.broker.observation.groups import ClusterGroups, GroupView, TopicLag
from kafkalite.broker.observation.peers import CoordinatedGroup
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import BrokerId, TopicPartition
from tests.unit.broker.observation.fake_broker import FakeBroker


class FakePeers:
    """Brokers 2 and 3; who is `away` does not answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, BrokerId]] = []
        self.known_ends: dict[TopicPartition, int] = {}
        self.known_groups: dict[BrokerId, list[CoordinatedGroup]] = {2: [], 3: []}
        self.away: set[BrokerId] = set()
        self.resting = False

    def disconnect(self) -> None:
        self.resting = True

    async def ends(self, leader: BrokerId, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        await self._asked("ends", leader)
        return {each: self.known_ends[each] for each in partitions if each in self.known_ends}

    async def groups(self, coordinator: BrokerId, most_groups: int) -> Sequence[CoordinatedGroup]:
        await self._asked("groups", coordinator)
        return self.known_groups[coordinator][:most_groups]

    async def _asked(self, what: str, broker: BrokerId) -> None:
        self.asked.append((what, broker))
        await asyncio.sleep(0.01)
        if broker in self.away:
            raise TimeoutError("no answer")


def look(broker: FakeBroker, peers: FakePeers, *, everywhere: bool, seconds: Sequence[float] = (0.0,)) -> ClusterGroups:
    """Looks after each of so many seconds, each to its end."""

    async def scenario() -> ClusterGroups:
        groups = ClusterGroups(broker, peers)  # type: ignore[arg-type]
        for pause_s in seconds:
            await asyncio.sleep(pause_s)
            await groups.refresh(everywhere=everywhere)
            await groups.wait_for_answers()
        return groups

    return virtual_time.run(scenario())


def test_lag_is_the_high_watermark_less_the_offset() -> None:
    broker = FakeBroker()
    broker.host("a", 0, 100)
    broker.host("a", 1, 50)
    broker.host("b", 0, 7)
    broker.group("g", {("a", 0): 90, ("a", 1): 10, ("b", 0): 8})  # a follower may not have heard of 8 yet
    (group,) = look(broker, FakePeers(), everywhere=False).coordinated
    assert group.topics == {"a": TopicLag(total=50, worst=40, partitions=2), "b": TopicLag(0, 0, 1, 0)}
    assert (group.lag, group.state, group.coordinator) == (50, "Empty", 1)


def test_nobody_is_asked_about_what_is_here() -> None:
    broker, peers = FakeBroker(), FakePeers()
    broker.host("a", 0, 100)
    broker.group("g", {("a", 0): 90})
    look(broker, peers, everywhere=False, seconds=(0, 10))
    assert peers.asked == []


def test_leaders_are_asked_for_the_ends_of_what_is_elsewhere() -> None:
    broker, peers = FakeBroker(), FakePeers()
    broker.partition("far", 0, leader=3, replicas=(3,), isr=(3,))
    broker.partition("gone", 0, leader=-1, replicas=(4,), isr=(4,))
    broker.group("g", {("far", 0): 4, ("gone", 0): 2, ("deleted", 0): 1})
    peers.known_ends[TopicPartition("far", 0)] = 10
    (first,) = look(broker, peers, everywhere=False).coordinated
    assert first.topics["far"] == TopicLag(partitions=1, unknown=1) and first.lag == 0
    (later,) = look(broker, peers, everywhere=False, seconds=(0, 0)).coordinated
    assert later.topics["far"] == TopicLag(6, 6, 1, 0)
    assert later.topics["gone"].unknown == later.topics["deleted"].unknown == 1
    assert set(peers.asked) == {("ends", 3)}


def test_others_are_not_asked_again_and_again() -> None:
    broker, peers = FakeBroker(), FakePeers()
    look(broker, peers, everywhere=True, seconds=(0, 0.1, 0.1, 0.1))
    assert peers.asked == [("groups", 2), ("groups", 3)]
    look(broker, peers, everywhere=True, seconds=(0, 2))
    assert len(peers.asked) == 6


def test_groups_of_other_coordinators_are_shown_with_their_lag() -> None:
    broker, peers = FakeBroker(), FakePeers()
    here, far = TopicPartition("here", 0), TopicPartition("far", 0)
    broker.host("here", 0, 20)
    broker.partition("far", 0, leader=2, replicas=(2,), isr=(2,))
    broker.group("z-local", {("here", 0): 20})
    peers.known_ends[far] = 9
    peers.known_groups[3] = [CoordinatedGroup("remote", "Stable", 2, [(here, 15), (far, 1)])]
    found = look(broker, peers, everywhere=True).everywhere
    assert [(each.group_id, each.coordinator, each.members, each.lag) for each in found] == [
        ("remote", 3, 2, 13),
        ("z-local", 1, 0, 0),
    ]
    assert found[0].to_dict()["topics"]["far"] == {"lag": 8, "partitions": 1, "unknown": 0}


def test_a_coordinator_that_does_not_answer_keeps_what_it_said_until_it_is_dead() -> None:
    broker, peers = FakeBroker(), FakePeers()
    peers.known_groups[3] = [CoordinatedGroup("remote", "Stable", 2, [])]

    async def scenario() -> None:
        groups = ClusterGroups(broker, peers)  # type: ignore[arg-type]

        async def found() -> list[str]:
            await asyncio.sleep(10)
            await groups.refresh(everywhere=True)
            await groups.wait_for_answers()
            return [each.group_id for each in groups.everywhere]

        assert await found() == ["remote"]
        peers.away.add(3)
        assert await found() == ["remote"]
        broker.set_alive(1, 2)
        assert await found() == []
        groups.disconnect()
        assert peers.resting

    virtual_time.run(scenario())


def test_metrics_tell_the_groups_that_lag_most() -> None:
    def view(name: str, lag: int) -> GroupView:
        return GroupView(name, "Stable", 1, 3, {"t": TopicLag(lag, lag, 1)})

    found: dict[str, Any] = {
        family.name: family.samples for family in group_metrics.families([view("a", 1), view("b", 9), view("c", 5)], 2)
    }
    assert [(each.labels, each.value) for each in found["kafkalite_group_lag_records"]] == [
        ('group="b",topic="t"', 9),
        ('group="c",topic="t"', 5),
    ]
    assert found["kafkalite_metrics_omitted_groups"][0].value == 1
    assert {each.labels: each.value for each in found["kafkalite_groups"]}['state="Stable"'] == 3


def test_of_a_group_with_many_topics_those_that_lag_most_are_shown() -> None:
    group = GroupView("g", "Stable", 1, 0, {f"t{number:03}": TopicLag(number, number, 1) for number in range(300)})
    shown = [topic for topic, _ in group.shown_topics]
    assert shown == list(group.to_dict()["topics"]) == [f"t{number}" for number in range(200, 300)]
    assert group.to_dict()["lag"] == sum(range(300))
