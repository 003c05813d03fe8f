"""Controlled shutdown: when a broker that stops waits for others, and when it does not. Under virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.broker.shutdown import controlled_shutdown
from kafkalite.controller.control_requests import LiveBroker, PartitionMetadata, UpdateMetadata, UpdateMetadataTopic
from kafkalite.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.testing.simulation.virtual_time import run
from kafkalite.types import TopicPartition
from tests.unit.broker.memory_parts import MemoryParts

T0 = TopicPartition("t", 0)


class Cluster:
    """Broker 1 stops; it leads t-0, replicas 1 and 2. The controller moves the leader when 2 is in the ISR and alive."""

    def __init__(self, alive: set[int], isr: list[int]) -> None:
        self.asked_s: list[float] = []
        self.metadata = MetadataCache()
        self.refusing = False
        self.is_away = False
        self.publish(alive, isr)

    @property
    def broker(self) -> Any:
        settings = {"controlled_shutdown_retry_backoff_ms": "5000", "controlled_shutdown_max_retries": "3"}
        parts: Any = MemoryParts(**settings)
        parts.metadata, parts.replicas.broker_epoch = self.metadata, 7
        parts.controller_channel = self
        return parts

    def publish(self, alive: set[int], isr: list[int], leader: int = 1) -> None:
        self.alive, self.isr = alive, isr
        known = PartitionMetadata(leader, 0, isr, [1, 2], [], 0, 1)
        topics = [UpdateMetadataTopic("t", bytes(15) + b"\1", {0: known})]
        brokers = [LiveBroker(number, {}) for number in sorted(alive)]
        self.metadata.apply(UpdateMetadata(3, 1, -1, topics, brokers))

    async def request(self, request: Any, deadline_s: float) -> Any:
        """Answer in the newest version that both know: the setting for peers does not bound it (seed 301604 of the lies)."""
        self.asked_s.append(asyncio.get_running_loop().time())
        if self.is_away:
            raise TimeoutError
        m = messages.controlled_shutdown_response
        if self.refusing:
            return m.ControlledShutdownResponse(error_code=int(ErrorCode.STALE_BROKER_EPOCH))
        movable = 2 in self.isr and 2 in self.alive
        self.publish(self.alive, self.isr, 2 if movable else 1)
        remaining = [] if movable else [m.RemainingPartition(topic_name="t", partition_index=0)]
        return m.ControlledShutdownResponse(remaining_partitions=remaining)


def stop(cluster: Cluster, **later: Any) -> tuple[bool, float]:
    """Whether it went well, and how long it took; `later` is published after three seconds."""

    async def scenario() -> tuple[bool, float]:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        if later:
            loop.call_later(3.0, lambda: cluster.publish(**later))
        return await controlled_shutdown(cluster.broker), loop.time() - begun_s

    return run(scenario())


def test_leaders_are_moved_at_once() -> None:
    cluster = Cluster({1, 2, 3}, [1, 2])
    assert stop(cluster) == (True, 0.0) and len(cluster.asked_s) == 1


def test_a_broker_that_is_alone_asks_nobody() -> None:
    cluster = Cluster({1}, [1])
    assert stop(cluster) == (False, 0.0) and cluster.asked_s == []


def test_nobody_waits_for_replicas_that_are_gone() -> None:
    """A cluster of three was stopped, one broker after the other: topics with two replicas held the second one up for 15 s."""
    cluster = Cluster({1, 3}, [1])
    assert stop(cluster) == (False, 0.0) and len(cluster.asked_s) == 1


def test_a_follower_that_catches_up_is_waited_for() -> None:
    cluster = Cluster({1, 2, 3}, [1])
    assert stop(cluster, alive={1, 2, 3}, isr=[1, 2]) == (True, 3.0)
    assert len(cluster.asked_s) == 2


def test_what_the_controller_publishes_for_a_try_is_no_reason_for_the_next() -> None:
    """It was tried again hundreds of times a second."""
    cluster = Cluster({1, 2, 3}, [1])
    went_well, took_s = stop(cluster)
    assert not went_well and took_s == 15.0
    assert len(cluster.asked_s) == 4, "every five seconds, and once more at the end"


def test_a_refusal_is_tried_again() -> None:
    cluster = Cluster({1, 2, 3}, [1, 2])
    cluster.refusing = True
    went_well, took_s = stop(cluster)
    assert not went_well and took_s == 15.0


def test_without_a_controller_it_stops() -> None:
    cluster = Cluster({1, 2, 3}, [1, 2])
    cluster.is_away = True
    assert stop(cluster) == (False, 0.0)


def test_a_controller_that_is_slow_but_at_it_is_waited_for() -> None:
    """The request timed out while leaders were being moved, and the broker stopped with the others still its own."""
    cluster = Cluster({1, 2, 3}, [1, 2])
    ask = cluster.request

    async def slow(request: Any, deadline_s: float) -> Any:
        if not cluster.asked_s:
            cluster.asked_s.append(0.0)
            await asyncio.sleep(5)
            cluster.publish({1, 2, 3}, [1, 2], leader=2)
            raise TimeoutError
        return await ask(request, deadline_s)

    cluster.request = slow  # type: ignore[method-assign]
    assert stop(cluster) == (True, 5.0)
