"""When a follower learns of high watermarks: with the next records, or alone, but soon."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.controller.control_requests import LeaderAndIsr, LeaderAndIsrPartition, LeaderAndIsrTopic
from kafkalite.protocol import messages
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.fetch.test_unknown_topic_ids import Broker, id_of

f = messages.fetch_request
FOLLOWER = 2


@pytest.mark.parametrize(("partitions", "waited_s"), [(1, 0.005), (64, 0.005), (65, 0.0)])
def test_partitions_that_are_new_in_a_session_are_read_twice_only_if_they_are_few(
    partitions: int, waited_s: float
) -> None:
    """Each of a thousand new partitions was read twice, because the fetch waited for records that were not to come."""

    async def act() -> None:
        broker, loop = Broker(), asyncio.get_running_loop()
        states = [
            LeaderAndIsrPartition(TopicPartition("t", index), 0, 1, 0, 0, (1, FOLLOWER), (1, FOLLOWER), is_new=True)
            for index in range(partitions + 1)
        ]
        topic = LeaderAndIsrTopic("t", id_of(1), states)
        await broker.node.replicas.apply_leader_and_isr(LeaderAndIsr(3, 1, -1, [topic]))

        async def fetch(indexes: range, wait_ms: int) -> int:
            part = f.FetchPartition
            asked = [part(partition=index, fetch_offset=0, partition_max_bytes=99) for index in indexes]
            request = f.FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=10_000,
                replica_id=FOLLOWER,
                session_id=broker.session_id,
                session_epoch=broker.epoch,
                topics=[f.FetchTopic(topic_id=id_of(1), partitions=asked)],
            )
            response = await broker.parts.ask(request, 13)
            broker.session_id, broker.epoch = response.session_id, broker.epoch + 1
            return sum(len(each.partitions) for each in response.responses)

        assert await fetch(range(1), 0) == 1
        began_s = loop.time()
        assert await fetch(range(1, partitions + 1), 500) == partitions
        assert loop.time() - began_s == pytest.approx(waited_s)

    virtual_time.run(act())
