"""What a partition in which nothing happens takes of a broker's memory: it may host a hundred thousand, and know of more."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kafkalite.broker.fetch.fetch_sessions import FetchSession, FetchSessionCache, random_session_ids
from kafkalite.broker.handlers import control, fetch
from kafkalite.broker.metadata_cache import MetadataCache
from kafkalite.broker.replication.fetch_states import FetchStates, PartitionFetchState
from kafkalite.broker.replication.follower_state import NeverFetched
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.replication.replicas import Replicas
from kafkalite.broker.settings.rates import ReplicationRate
from kafkalite.broker.traffic import Traffic
from kafkalite.config.topic import TopicConfig
from kafkalite.portions import in_one_go
from kafkalite.protocol import codec, messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.broker.fake_log import assignment, make_partition
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.broker.memory_parts import MemoryParts, context_of, leader
from tests.unit.clocks import HandClock
from tests.unit.storage.logs import NOW_MS, produced
from tests.unit.storage.stores import TOPIC_ID, close, die, opened, store_at

TOPICS, OF_A_TOPIC = 60, 10
PARTITIONS = TOPICS * OF_A_TOPIC
APPENDS = 70
REQUESTER = NeverFetched(5.0)
BROKERS = [1, 2, 3]
ROLES_VERSION, METADATA_VERSION, FETCH_VERSION = 7, 8, 13
FETCHER_SETTINGS: Any = SimpleNamespace(
    replica_fetch_wait_max_ms=500,
    replica_fetch_max_bytes=1 << 20,
    replica_fetch_min_bytes=1,
    replica_fetch_response_max_bytes=1 << 20,
)


class Node:
    """Broker 1 of three, as far as requests of the controller and of followers concern it."""

    def __init__(self, path: Path) -> None:
        self.metadata, self.logs, self.config = MetadataCache(), store_at(path), TopicConfig()
        self.followed: list[tuple[Partition, bytes]] = []
        self.replicas = Replicas(
            1, self.logs, self.metadata, HandClock(), 30_000, self._config, lambda *_: None, self, lambda *_: None
        )
        self.coordinators, self.traffic = self, Traffic()
        self.sessions = FetchSessionCache(
            1000, random_session_ids(random.Random(1)), self.replicas.watch, self.replicas.unwatch
        )

    async def _config(self, topic: str) -> TopicConfig:
        return self.config

    def forget_partitions(self, removed: object) -> None:
        pass

    def follow(self, partition: Partition, topic_id: bytes) -> None:
        self.followed.append((partition, topic_id))

    def stop(self, topic_partitions: object) -> None:
        pass

    async def learn_metadata(self) -> None:
        m = messages.update_metadata_request
        live = [m.LiveBroker(id=broker, endpoints=[]) for broker in BROKERS]
        request = messages.UpdateMetadataRequest(
            controller_id=1, topic_states=topics_of(m, zk_version=5, offline_replicas=[]), live_brokers=live
        )
        request = as_received(ApiKey.UPDATE_METADATA, request, METADATA_VERSION)
        await control.update_metadata(self, request, context_of(METADATA_VERSION))  # type: ignore[arg-type]

    async def take_roles(self) -> None:
        m = messages.leader_and_isr_request
        request = messages.LeaderAndIsrRequest(controller_id=1, topic_states=topics_of(m, is_new=True))
        request = as_received(ApiKey.LEADER_AND_ISR, request, ROLES_VERSION)
        await control.leader_and_isr(self, request, context_of(ROLES_VERSION))  # type: ignore[arg-type]
        while self.logs.make_files():
            pass
        assert self.count_open_files() == 0

    def write_checkpoints(self) -> None:
        self.logs.checkpoint_recovery_points()
        self.logs.checkpoint_log_start_offsets()
        self.replicas.checkpoint_high_watermarks()

    def count_open_files(self) -> int:
        return sum(len(directory.files) for directory in self.logs.directories)

    def serve_followers(self) -> None:
        """Let the two other brokers fetch what this one leads."""
        m = messages.fetch_request
        for broker in BROKERS[1:]:
            topics: dict[bytes, Any] = {}
            for partition in self.replicas.leading():
                topic = topics.setdefault(partition.topic_id, m.FetchTopic(topic_id=partition.topic_id))
                index = partition.topic_partition.partition
                topic.partitions.append(m.FetchPartition(partition=index, partition_max_bytes=1 << 20))
            request = messages.FetchRequest(replica_id=broker, topics=list(topics.values()))
            asked = as_received(ApiKey.FETCH, request, FETCH_VERSION).topics
            params: Any = SimpleNamespace(is_follower=True, uses_topic_ids=True)
            items, _ = in_one_go(fetch._items(self, asked, params, context_of(FETCH_VERSION)))  # type: ignore[arg-type]
            session = self.sessions.open(len(items), True, True, 0.0)
            assert session is not None
            self.sessions.update(session, items.values())
            self._read_all(broker, session)

    def _read_all(self, broker: int, session: FetchSession) -> None:
        nothing = messages.fetch_response.PartitionData(high_watermark=0, log_start_offset=0)
        for item in session.items.values():
            item.is_drained = True
            self.replicas.require(item.topic_partition).follower_fetched(broker, 0, 0, 5.0, session)
        session.select_changed(dict.fromkeys(session.items, nothing))
        assert not session.ready

    def follow_leaders(self) -> FetchStates:
        states = FetchStates(1, ReplicationRate(11, 1000.0, lambda: 1e9))
        for partition, topic_id in self.followed:
            states.add(PartitionFetchState(partition, topic_id, partition.leader_epoch), 0.0)
        states.make_request(FETCH_VERSION, 1.0, FETCHER_SETTINGS, 1)
        states.complete_fetch(7)
        return states


def topics_of(m: Any, **more: Any) -> list[Any]:
    """Topics of partitions that the three brokers lead by turns."""
    return [
        m.TopicState(
            topic_name=f"orders-of-region-{number:05d}",
            topic_id=(1000 + number).to_bytes(16, "big"),
            partition_states=[
                m.PartitionState(
                    partition_index=index,
                    leader=BROKERS[(number + index) % len(BROKERS)],
                    isr=BROKERS,
                    replicas=BROKERS,
                    **more,
                )
                for index in range(OF_A_TOPIC)
            ],
        )
        for number in range(TOPICS)
    ]


def as_received(key: ApiKey, request: Any, version: int) -> Any:
    data = b"".join(bytes(part) for part in codec.encode_request(request, version))
    return codec.decode_request(key, version, data)


def bytes_each(make: Callable[[], object]) -> float:
    """The memory that is kept of what `make` makes, for each partition."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del made
    return kept / PARTITIONS


def test_an_idle_partition_takes_less_than_two_kilobytes(tmp_path: Path) -> None:
    async def host(node: Node) -> Node:
        await node.logs.open()
        await node.learn_metadata()
        await node.take_roles()
        return node

    warm = asyncio.run(host(Node(tmp_path / "warm")))  # what is made once, such as readers of messages
    warm.serve_followers()
    warm.follow_leaders()
    node = Node(tmp_path / "logs")
    metadata = bytes_each(lambda: asyncio.run(node.learn_metadata()))
    logs = bytes_each(lambda: asyncio.run(host(node)))
    checkpoints = bytes_each(node.write_checkpoints)
    sessions = bytes_each(node.serve_followers)
    states = bytes_each(node.follow_leaders)
    die(node.logs)
    assert metadata < 100
    assert logs < 1900, "with its log, in a broker that hosts it"
    assert checkpoints < 120 and logs + checkpoints < 1980, "a line in two checkpoints, noted as changed"
    assert sessions + states < 550, "as a replica of which a third is led here"


def test_a_partition_that_was_busy_takes_little_more_once_it_is_idle(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def fill() -> None:
        await node.logs.open()
        await node.take_roles()

    def use() -> None:
        for partition in node.replicas.partitions.values():
            if partition.is_leader:
                for sequence in range(APPENDS):
                    records = produced(producer_id=sequence % 2, sequence=sequence // 2)
                    partition.append(records, 1, 0.0, NOW_MS)
                for broker in BROKERS[1:]:
                    partition.follower_fetched(broker, APPENDS, 0, 5.0, REQUESTER)
        assert node.count_open_files()
        asyncio.run(node.replicas.shrink_isrs())
        assert not node.count_open_files()

    asyncio.run(fill())
    kept = bytes_each(use) * PARTITIONS / len(node.replicas.leading())
    die(node.logs)
    assert kept < 3500, "a hundred bytes and more for each of ten batches of two producers, indexes"


def test_a_fetch_of_idle_partitions_takes_as_long_for_a_thousand_as_for_ten() -> None:
    async def count_calls(partitions: int, replica_id: int) -> int:
        parts = MemoryParts(*(leader(index=index, isr=(1, 2)) for index in range(partitions)))
        m = messages.fetch_request
        asked = [m.FetchPartition(partition=index, partition_max_bytes=100) for index in range(partitions)]
        fields = {"replica_id": replica_id, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 10_000}
        topic = m.FetchTopic(topic="t", partitions=asked)
        session = await parts.ask(messages.FetchRequest(topics=[topic], session_epoch=0, **fields), 11)
        for epoch in (1, 2):
            request = messages.FetchRequest(session_id=session.session_id, session_epoch=epoch, **fields)
            with measured_turns() as turns:
                answer = await parts.ask(request, 11)
            assert not answer.responses
        return turns.calls

    for replica_id in (-1, 2):
        few, many = (virtual_time.run(count_calls(partitions, replica_id)) for partitions in (10, 1000))
        assert abs(many - few) < 50, (replica_id, few, many)


def test_a_follower_of_a_thousand_idle_partitions_makes_a_request_as_one_of_ten_does() -> None:
    def count_calls(partitions: int) -> int:
        states, calls = FetchStates(1, ReplicationRate(11, 1000.0, lambda: 1e9)), 0
        for index in range(partitions):
            partition = make_partition(topic_partition=TopicPartition("t", index))
            partition.become_follower(assignment(leader=2))
            states.add(PartitionFetchState(partition, TOPIC_ID, 0), 0.0)

        def count(*_: object) -> None:
            nonlocal calls
            calls += 1

        for epoch in range(2):
            sys.setprofile(count if epoch else None)
            request, _ = states.make_request(FETCH_VERSION, 1.0, FETCHER_SETTINGS, 1)
            states.complete_fetch(7)
            sys.setprofile(None)
        assert request is not None and not request.topics
        return calls

    assert count_calls(10) == count_calls(1000)


def test_an_idle_log_takes_little_more_after_a_start(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def fill() -> None:
        await node.logs.open()
        await node.take_roles()

    asyncio.run(fill())
    close(node.logs)
    logs = bytes_each(lambda: opened(tmp_path))
    assert logs < 1700
