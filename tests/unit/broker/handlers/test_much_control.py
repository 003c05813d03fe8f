"""Requests of a controller that name very many partitions: cut in portions, in order, and shown as a whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kafkalite.broker.handlers import control
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.requests.request_context import RequestContext
from kafkalite.broker.traffic import Traffic
from kafkalite.controller.cluster_state import Leadership
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from tests.case import case
from tests.unit.broker.loop_turns import Turns, measured_turns
from tests.unit.broker.memory_parts import context_of
from tests.unit.broker.replication.test_replicas import Node

TOPICS = 1000
PARTITIONS = 2


class Broker:
    """The parts that the control handlers use, replicas and metadata for real."""

    def __init__(self) -> None:
        node = Node()
        self.node, self.replicas, self.metadata = node, node.replicas, node.metadata
        self.traffic, self.controller, self.coordinators = Traffic(), self, self
        self.forgotten: list[Any] = []

    def forget_partitions(self, removed: Any) -> None:
        self.forgotten += removed

    async def alter_partition(self, request: Any) -> list[Any]:
        return [Leadership(1, 1, each.isr, 1) for each in request.proposals]


def name_of(number: int) -> str:
    return f"topic-{number}"


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def roles(controller_epoch: int = 1, topics: int = TOPICS, replicas: Sequence[int] = (1,)) -> Any:
    m = messages.leader_and_isr_request
    states = [
        m.PartitionState(partition_index=index, leader=1, isr=list(replicas), replicas=list(replicas), is_new=True)
        for index in range(PARTITIONS)
    ]
    told = [
        m.TopicState(topic_name=name_of(number), topic_id=id_of(number + 1), partition_states=states)
        for number in range(topics)
    ]
    return m.LeaderAndIsrRequest(controller_id=1, controller_epoch=controller_epoch, topic_states=told)


def metadata(leader: int = 1, controller_epoch: int = 1, topics: int = TOPICS) -> Any:
    m = messages.update_metadata_request
    states = [
        m.PartitionState(partition_index=index, leader=leader, isr=[1], replicas=[1]) for index in range(PARTITIONS)
    ]
    told = [
        m.TopicState(topic_name=name_of(number), topic_id=id_of(number + 1), partition_states=states)
        for number in range(topics)
    ]
    live = [m.LiveBroker(id=1, endpoints=[])]
    return m.UpdateMetadataRequest(
        controller_id=1, controller_epoch=controller_epoch, topic_states=told, live_brokers=live
    )


def stops(topics: int = TOPICS) -> Any:
    m = messages.stop_replica_request
    states = [
        m.PartitionState(partition_index=index, leader_epoch=-2, delete_partition=True) for index in range(PARTITIONS)
    ]
    told = [m.TopicState(topic_name=name_of(number), partition_states=states) for number in range(topics)]
    return m.StopReplicaRequest(controller_id=1, controller_epoch=1, topic_states=told)


def changes() -> Any:
    m = messages.alter_partition_request
    data = [m.PartitionData(partition_index=index, new_isr=[1]) for index in range(PARTITIONS)]
    topics = [m.TopicData(topic_id=id_of(number + 1), partitions=data) for number in range(TOPICS)]
    return m.AlterPartitionRequest(broker_id=1, topics=topics)


def play(scenario: Callable[[Broker], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(Broker())

    virtual_time.run(run())


def test_no_turn_of_the_loop_does_much_of_a_large_request() -> None:
    async def scenario(broker: Broker) -> None:
        steps: tuple[tuple[Any, Any, int], ...] = (
            (control.leader_and_isr, roles(), 7),
            (control.update_metadata, metadata(), 8),
            (control.alter_partition, changes(), 2),
            (control.update_metadata, metadata(leader=-2), 8),
            (control.stop_replica, stops(), 4),
        )
        for handle, request, version in steps:
            with case(type(request).__name__):
                context: RequestContext = context_of(version, size=1 << 20)
                with measured_turns() as turns:
                    await handle(broker, request, context)
                assert turns.longest < turns.calls / 4, turns
        assert not broker.replicas.partitions and not broker.metadata.topics
        assert not broker.replicas.topic_ids
        assert len(broker.forgotten) == len(broker.node.logs.deleted) == TOPICS * PARTITIONS

    play(scenario)


class _Noted:
    """Says of the calls of a method in which turns of the loop they were."""

    def __init__(self, owner: Any, name: str) -> None:
        self.turns: Counter[int] = Counter()
        self.running: Turns | None = None
        self._inner = getattr(owner, name)
        setattr(owner, name, self._call)

    def _call(self, *arguments: Any) -> Any:
        if self.running is not None:
            self.turns[self.running.count] += 1
        return self._inner(*arguments)

    async def during(self, work: Awaitable[Any]) -> list[int]:
        """How many calls there were in each turn that had any."""
        self.turns.clear()
        with measured_turns() as self.running:
            await work
        self.running = None
        return list(self.turns.values())


def test_files_are_made_and_removed_in_turns_of_their_own() -> None:
    """The disk may take a millisecond and more for each; the fifty partitions of `__consumer_offsets` took 47 in one turn."""
    count = TOPICS * PARTITIONS // 40

    async def scenario(broker: Broker) -> None:
        replicas, logs = broker.replicas, broker.node.logs
        made, removed, led = _Noted(logs, "create"), _Noted(logs, "delete"), _Noted(replicas, "_change_role")
        filled = _Noted(logs, "make_files")
        request = roles(topics=TOPICS // 40)
        turns = await made.during(control.leader_and_isr(broker, request, context_of(7)))  # type: ignore[arg-type]
        assert sum(turns) == count and max(turns) <= 2, turns
        assert logs.without_files >= count - 1, "roles are taken before there are files"

        async def all_filled() -> None:
            while logs.without_files >= 0:
                await asyncio.sleep(0.001)

        more = roles(topics=TOPICS // 40 * 2)
        turns = await filled.during(control.leader_and_isr(broker, more, context_of(7)))  # type: ignore[arg-type]
        assert sum(turns) <= 2, "producers wait for the roles, nobody waits for the files"
        turns = await filled.during(all_filled())
        assert turns == [1] * len(turns) and len(turns) >= 2 * count - 3, turns
        for state in request.topic_states[0].partition_states:
            state.leader_epoch = 1
        turns = await led.during(control.leader_and_isr(broker, request, context_of(7)))  # type: ignore[arg-type]
        assert sum(turns) == count and len(turns) > 1, (
            "a new epoch writes no file, and leading in it takes turns all the same"
        )
        assert len(replicas.leading()) == 2 * count
        stopping = stops(topics=TOPICS // 40)
        assert await removed.during(control.stop_replica(broker, stopping, context_of(4))) == [1] * count  # type: ignore[arg-type]
        assert len(logs.checkpointed) == count, "once, when all are deleted"

    play(scenario)


def test_isrs_are_looked_at_in_portions() -> None:
    async def scenario(broker: Broker) -> None:
        await control.leader_and_isr(broker, roles(replicas=(1, 2)), context_of(7, size=1 << 20))
        for look in (broker.replicas.shrink_isrs, broker.replicas.stop_waiting_for_dead):
            with measured_turns() as turns:
                await look()
            assert turns.calls > TOPICS * PARTITIONS and turns.longest < turns.calls / 3, turns

    play(scenario)


def test_what_is_led_elsewhere_once_its_turn_comes_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker) -> None:
        await control.leader_and_isr(broker, roles(replicas=(1, 2)), context_of(7, size=1 << 20))
        looking = asyncio.ensure_future(broker.replicas.shrink_isrs())
        await asyncio.sleep(0)
        last = list(broker.replicas.partitions.values())[-1]
        looked_at: list[Partition] = []
        monkeypatch.setattr(Partition, "stop_waiting", lambda partition, now_ms: looked_at.append(partition))
        last.resign()
        await looking
        assert looked_at and last not in looked_at

    play(scenario)


def test_metadata_shows_an_update_as_a_whole() -> None:
    async def scenario(broker: Broker) -> None:
        await control.update_metadata(broker, metadata(topics=10), context_of(8))  # type: ignore[arg-type]
        version = broker.metadata.version
        update = asyncio.ensure_future(control.update_metadata(broker, metadata(leader=2), context_of(8)))  # type: ignore[arg-type]
        turns = 0
        while not update.done():
            await asyncio.sleep(0)
            turns += 1
            leaders = {each.leader for topic in broker.metadata.topics.values() for each in topic.partitions.values()}
            seen = len(broker.metadata.topics), leaders, broker.metadata.version
            assert seen in ((10, {1}, version), (TOPICS, {2}, version + 1)), seen
        assert turns > 5
        assert broker.metadata.topic_name(id_of(TOPICS)) == name_of(TOPICS - 1)

    play(scenario)


def test_requests_of_two_controllers_are_applied_one_after_the_other() -> None:
    """The later one has the last word, wherever the earlier one stood when it came."""

    async def scenario(broker: Broker) -> None:
        handlers = [
            asyncio.ensure_future(handle(broker, request, context_of(version)))  # type: ignore[operator]
            for handle, request, version in (
                (control.leader_and_isr, roles(1), 7),
                (control.update_metadata, metadata(2, 1), 8),
                (control.update_metadata, metadata(3, 2), 8),
            )
        ]
        await asyncio.gather(*handlers)
        assert broker.metadata.controller_epoch == 2
        assert {each.leader for each in broker.metadata.topics[name_of(7)].partitions.values()} == {3}
        for handle, request, version in (
            (control.leader_and_isr, roles(1), 7),
            (control.update_metadata, metadata(1, 1), 8),
        ):
            with pytest.raises(KafkaError) as refused:
                await handle(broker, request, context_of(version))  # type: ignore[operator]
            assert refused.value.code == ErrorCode.STALE_CONTROLLER_EPOCH

    play(scenario)
