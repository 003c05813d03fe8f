"""The status document and its changes, as the clients of `/events` get them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker.broker_state import BrokerState
from kafkalite.broker.observation import status
from kafkalite.broker.observation.groups import ClusterGroups
from kafkalite.broker.observation.live import HEARTBEAT, LiveStatus, TooManyStreams
from kafkalite.testing.simulation import virtual_time
from tests.unit.broker.observation.fake_broker import FakeBroker
from tests.unit.broker.observation.test_groups import FakePeers
from zk.store import SessionState

OF_A_LEADER = {"leader": 1, "leader_epoch": 0, "isr": [1, 2, 3], "replicas": [1, 2, 3]}


class Viewer:
    """What one client has seen so far; it reads on in a task of its own."""

    def __init__(self, messages: AsyncGenerator[bytes]) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.heartbeats = 0
        self.is_over = False
        self._messages = messages
        self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        async for message in self._messages:
            if message == HEARTBEAT:
                self.heartbeats += 1
                continue
            first, second, end = message.decode().split("\n", 2)
            assert end == "\n", "one line of data, and an empty one"
            self.events.append((first.removeprefix("event: "), json.loads(second.removeprefix("data: "))))
        self.is_over = True

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._messages.aclose()

    def changes(self) -> list[dict[str, Any]]:
        """Taken out, without the time."""
        found = [{key: value for key, value in data.items() if key != "time_ms"} for event, data in self.events[1:]]
        assert all(event == "change" for event, _ in self.events[1:])
        del self.events[1:]
        return found


def run(scenario: Callable[[FakeBroker, LiveStatus], Awaitable[None]], **settings: str) -> FakeBroker:
    broker = FakeBroker(**settings)

    async def all_of_it() -> None:
        groups = ClusterGroups(broker, FakePeers())  # type: ignore[arg-type]
        await scenario(broker, LiveStatus(broker, lambda: groups if broker.serving else None))  # type: ignore[arg-type]

    virtual_time.run(all_of_it())
    return broker


def test_the_document() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        broker.set_alive(1, 2)
        broker.partition("t", 0)
        broker.partition("t", 1, leader=-1, isr=(3,), replicas=(3, 4))
        broker.partition("__consumer_offsets", 0, leader=2, isr=(2, 1), replicas=(2, 1))
        broker.traffic.count_produced("t", 100, 3)
        broker.group("g", {("t", 0): 5})
        broker.host("t", 0, 8)
        whole = await live.full_status()
        assert (whole["version"], whole["time_ms"], whole["cluster_id"]) == (status.VERSION, 1000, "the-cluster")
        assert whole["broker"] == {
            "id": 1,
            "state": "running",
            "ready": True,
            "epoch": 7,
            "kafkalite_version": whole["broker"]["kafkalite_version"],
        }
        assert whole["controller"] == {"id": 2, "epoch": 5} and whole["zookeeper"] == {"session": "connected"}
        assert whole["traffic"] == {"bytes_in": 100, "bytes_out": 0, "records_in": 3, "records_out": 0}
        assert whole["counts"] == {
            "topics": 2,
            "partitions": 3,
            "under_replicated_partitions": 1,
            "offline_partitions": 1,
        }
        assert whole["brokers"]["1"] == {
            "alive": True,
            "rack": None,
            "endpoints": ["PLAINTEXT://host1:9092"],
            "leaders": 1,
            "replicas": 2,
            "in_sync": 2,
        }
        assert whole["brokers"]["4"] == {
            "alive": False,
            "rack": None,
            "endpoints": [],
            "leaders": 0,
            "replicas": 1,
            "in_sync": 0,
        }
        assert list(whole["topics"]) == ["__consumer_offsets", "t"]
        assert whole["topics"]["t"]["partitions"]["0"] == OF_A_LEADER
        assert (whole["topics"]["t"]["internal"], whole["topics"]["__consumer_offsets"]["internal"]) == (False, True)
        assert whole["groups"][0]["lag"] == 3 and whole["groups_omitted"] == 0
        assert {key for key in whole if f"    {key} " not in f"{status.__doc__}"} <= {"cluster_id"}

    run(scenario)


def test_a_broker_that_starts_tells_little() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        broker.state = BrokerState.RECOVERY
        whole = await live.full_status()
        assert set(whole) == {"version", "time_ms", "broker", "cluster_id"}
        assert whole["broker"]["state"] == "recovery" and not whole["broker"]["ready"]
        viewer = Viewer(live.subscribe())
        await asyncio.sleep(5)
        viewer.changes()
        broker.state = BrokerState.RUNNING
        broker.partition("t")
        await asyncio.sleep(2)
        told: dict[str, Any] = {}
        for change in viewer.changes():
            told |= change
        assert told["broker"]["ready"] and told["topics"]["t"]["partitions"] == {"0": OF_A_LEADER}
        assert told["groups"] == [] and told["counts"]["topics"] == 1
        await viewer.leave()

    run(scenario)


def test_only_what_changed_is_told_soon() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        for number in range(3):
            broker.partition("t", number)
        broker.partition("other")
        viewer = Viewer(live.subscribe())
        await asyncio.sleep(3)
        assert viewer.events[0][0] == "status" and len(viewer.events[0][1]["topics"]) == 2
        viewer.changes()
        broker.partition("t", 1, leader=2, isr=(2, 3), epoch=1)
        await asyncio.sleep(0.2)
        (change,) = viewer.changes()
        assert change["topics"]["t"]["partitions"] == {
            "1": {"leader": 2, "leader_epoch": 1, "isr": [2, 3], "replicas": [1, 2, 3]}
        }
        assert list(change["topics"]) == ["t"] and change["counts"]["under_replicated_partitions"] == 1
        broker.delete("other")
        broker.metadata.controller_id = 3
        await asyncio.sleep(0.2)
        (change,) = viewer.changes()
        assert change["topics"] == {"other": None} and change["controller"]["id"] == 3
        broker.set_alive(1, 2)
        await asyncio.sleep(0.2)
        (change,) = viewer.changes()
        assert not change["brokers"]["3"]["alive"] and "topics" not in change
        assert not change["broker"]["ready"], "its controller is dead"
        broker.store.enter(SessionState.SUSPENDED)
        broker.group("g", {})
        broker.traffic.count_produced("t", 10, 1)
        await asyncio.sleep(2)
        told: dict[str, Any] = {}
        for each in viewer.changes():
            told |= each
        assert told["zookeeper"] == {"session": "suspended"} and [each["id"] for each in told["groups"]] == ["g"]
        assert told["traffic"]["bytes_in"] == 10
        await asyncio.sleep(40)
        assert viewer.changes() == [] and viewer.heartbeats >= 2, "nothing happened"
        await viewer.leave()

    run(scenario)


def test_all_who_look_get_the_same_and_late_ones_the_whole() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        broker.partition("t")
        first = Viewer(live.subscribe())
        await asyncio.sleep(2)
        broker.partition("t", leader=2, epoch=1)
        await asyncio.sleep(1)
        late = Viewer(live.subscribe())
        await asyncio.sleep(2)
        assert late.events[0][1]["topics"]["t"]["partitions"]["0"]["leader"] == 2
        first.changes(), late.changes()
        broker.partition("t", leader=3, epoch=2)
        await asyncio.sleep(1)
        assert first.changes() == late.changes() != []
        await first.leave()
        broker.partition("t", leader=1, epoch=3)
        await asyncio.sleep(1)
        assert late.changes()[0]["topics"]["t"]["partitions"]["0"]["leader"] == 1
        await late.leave()

    run(scenario)


def test_nothing_is_computed_while_nobody_looks() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        viewer = Viewer(live.subscribe())
        await asyncio.sleep(1)
        await viewer.leave()
        await asyncio.sleep(3)
        assert [task for task in asyncio.all_tasks() if task.get_name() == "live status"] == []
        broker.partition("t")
        again = Viewer(live.subscribe())
        await asyncio.sleep(1)
        assert list(again.events[0][1]["topics"]) == ["t"]
        await again.leave()

    run(scenario)


def test_more_streams_than_allowed_are_refused() -> None:
    async def scenario(_: FakeBroker, live: LiveStatus) -> None:
        viewers = []
        for _number in range(2):
            viewers.append(Viewer(live.subscribe()))
            await asyncio.sleep(0.1)
        with pytest.raises(TooManyStreams):
            live.subscribe()
        for each in viewers:
            await each.leave()
        live.subscribe()

    run(scenario, kafkalite_http_max_event_streams="2")


def test_a_client_that_does_not_read_is_let_go_and_others_go_on() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        broker.partition("t")
        stuck = live.subscribe()
        await anext(stuck)  # and reads no further
        viewer = Viewer(live.subscribe())
        for epoch in range(1, 150):
            broker.partition("t", epoch=epoch)
            await asyncio.sleep(0.2)
        assert [message async for message in stuck] == []
        assert viewer.changes()[-1]["topics"]["t"]["partitions"]["0"]["leader_epoch"] == 149
        await viewer.leave()

    run(scenario)


def test_after_an_error_clients_restart_session() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        viewer = Viewer(live.subscribe())
        await asyncio.sleep(0.5)
        machines = broker.groups
        with virtual_time.expected_errors() as seen:
            broker.groups = None  # what the next look stumbles over
            await asyncio.sleep(2)
        assert viewer.is_over and seen.count == 1
        broker.groups = machines
        broker.partition("t")
        again = Viewer(live.subscribe())
        await asyncio.sleep(2)
        broker.partition("t", epoch=1)
        await asyncio.sleep(0.2)
        assert again.changes()[-1]["topics"]["t"]["partitions"]["0"]["leader_epoch"] == 1
        await again.leave()

    run(scenario)


def test_thousands_of_partitions_are_described_in_portions() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        for number in range(2000):
            broker.partition(f"t{number // 20}", number % 20)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.get_running_loop().create_task(other())
        whole = await live.full_status()
        task.cancel()
        assert turns >= 4 and whole["counts"]["partitions"] == 2000
        assert len(json.dumps(whole, separators=(",", ":"))) < 200_000

    run(scenario)


def test_a_group_too_many_is_counted() -> None:
    async def scenario(broker: FakeBroker, live: LiveStatus) -> None:
        for number in range(status.GROUPS_SHOWN + 5):
            broker.group(f"g{number:03}", {})
        whole = await live.full_status()
        assert len(whole["groups"]) == status.GROUPS_SHOWN and whole["groups_omitted"] == 5

    run(scenario)
