"""The controller's orders: LeaderAndIsr and StopReplica, partition by partition, as Kafka's ReplicaManager takes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkalite.broker.metadata_cache import MetadataCache, TopicMetadata
from kafkalite.broker.replication.effects import IsrChange
from kafkalite.broker.replication.follower_state import NeverFetched
from kafkalite.broker.replication.partition import Partition
from kafkalite.broker.replication.replicas import Replicas
from kafkalite.config.topic import TopicConfig
from kafkalite.controller.control_requests import (
    EPOCH_DURING_DELETE,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LeaderAndIsrTopic,
    LiveBroker,
    PartitionMetadata,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.storage.directories.upkeep_pause import UpkeepPause
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import NO_TOPIC_ID, TopicPartition
from tests.unit.broker.fake_log import TP, FakeLog
from tests.unit.clocks import HandClock, LoopClock

ID, OTHER_ID = bytes(range(16)), b"another topic id"


class FakeLogs:
    """The part of `LogStore` that replicas use."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, FakeLog] = {}
        self.offline: set[TopicPartition] = set()
        self.offline_directories: list[str] = []
        self.deleted: list[TopicPartition] = []
        self.checkpointed: list[TopicPartition] = []
        self.without_files = 0
        self.clock = LoopClock()
        self.upkeep_pause = UpkeepPause(self.clock)

    def make_files(self) -> bool:
        self.without_files -= 1
        return self.without_files >= 0

    def get(self, topic_partition: TopicPartition) -> FakeLog | None:
        return self.logs.get(topic_partition)

    def create(self, topic_partition: TopicPartition, topic_id: bytes, config: TopicConfig) -> FakeLog:
        self.without_files = max(0, self.without_files) + 1
        self.logs[topic_partition] = FakeLog(config, topic_id)
        return self.logs[topic_partition]

    def delete(self, topic_partition: TopicPartition) -> None:
        self.deleted.append(topic_partition)
        self.logs.pop(topic_partition, None)

    def checkpoint_deletions(self) -> None:
        self.checkpointed = list(self.deleted)

    @property
    def offline_partitions(self) -> set[TopicPartition]:
        return self.offline

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.offline


class FakeFetchers:
    """Notes who is followed."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, int] = {}

    def follow(self, partition: Partition, topic_id: bytes) -> None:
        self.followed[partition.topic_partition] = partition.leader

    def stop(self, topic_partitions: Any) -> None:
        for topic_partition in topic_partitions:
            self.followed.pop(topic_partition, None)


class Watch:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.told = 0

    def on_append(self, partition: Partition) -> None:
        self.told += 1

    def on_leader_epoch(self, partition: Partition) -> None:
        self.told += 1

    def on_high_watermark(self, partition: Partition) -> None:
        self.told += 1

    def on_isr_exit(self, partition: Partition) -> None:
        self.told += 1


class Node:
    """Broker 1 with brokers 2 and 3 alive."""

    def __init__(self) -> None:
        self.logs, self.metadata, self.fetchers = FakeLogs(), MetadataCache(), FakeFetchers()
        self.metadata.brokers = {each: LiveBroker(each, {}) for each in (1, 2, 3)}
        self.proposed: list[IsrChange] = []
        self.roles: list[tuple[list[TopicPartition], list[TopicPartition]]] = []
        self.replicas = Replicas(
            1,
            self.logs,  # type: ignore[arg-type]
            self.metadata,
            HandClock(),
            30_000,
            self._config,
            lambda partition, change: self.proposed.append(change),
            self.fetchers,
            lambda leading, following: self.roles.append(
                ([p.topic_partition for p in leading], [p.topic_partition for p in following])
            ),
        )

    async def _config(self, topic: str) -> TopicConfig:
        return TopicConfig()

    async def order(self, leader: int = 1, epoch: int = 0, topic_id: bytes = ID, **more: Any) -> ErrorCode:
        """LeaderAndIsr for the one partition."""
        controller_epoch, broker_epoch = more.pop("controller_epoch", 1), more.pop("broker_epoch", -1)
        state = LeaderAndIsrPartition(
            TP,
            **{
                "controller_epoch": 0,
                "leader": leader,
                "leader_epoch": epoch,
                "partition_epoch": 0,
                "isr": (1, 2),
                "replicas": (1, 2, 3),
                "is_new": True,
                **more,
            },
        )
        topic = LeaderAndIsrTopic("t", topic_id, [state])
        request = LeaderAndIsr(3, controller_epoch, broker_epoch, [topic])
        return (await self.replicas.apply_leader_and_isr(request))[TP]

    async def stop(self, epoch: int = -1, delete: bool = False) -> ErrorCode:
        request = StopReplica(3, 1, -1, {TP: StopReplicaPartition(epoch, delete)})
        return (await self.replicas.stop_replicas(request))[TP]


def on_node(act: Callable[[Node], Awaitable[None]]) -> Node:
    async def scenario() -> Node:
        node = Node()
        await act(node)
        return node

    return virtual_time.run(scenario())


def test_roles_are_taken_and_changed() -> None:
    async def act(node: Node) -> None:
        assert await node.order(leader=2) == ErrorCode.NONE
        assert node.fetchers.followed == {TP: 2}
        assert await node.order(leader=1, epoch=1) == ErrorCode.NONE
        assert node.fetchers.followed == {}
        assert node.replicas.require(TP).is_leader
        assert node.replicas.topic_name(ID) == "t"
        assert node.roles == [([], [TP]), ([TP], [])]

    on_node(act)


def test_a_configuration_reaches_the_topics_logs_and_their_copies() -> None:
    """A copy takes the log's place, and kept the configuration of the time when it was begun."""

    async def act(node: Node) -> None:
        await node.order()
        log = node.logs.logs[TP]
        log.future = FakeLog()
        node.replicas.apply_topic_configs({"other": TopicConfig(segment_bytes=1000)})
        assert log.config == TopicConfig()
        node.replicas.apply_topic_configs({"t": TopicConfig(segment_bytes=1000)})
        assert log.config.segment_bytes == log.future.config.segment_bytes == 1000

    on_node(act)


def test_the_upkeep_of_logs_waits_while_roles_change() -> None:
    async def play() -> None:
        node = Node()
        await node.order()
        began_ms = node.logs.clock.monotonic_ms()
        assert node.logs.without_files == 1, "the next of many requests may be on its way"
        await node.logs.upkeep_pause.wait()
        assert node.logs.clock.monotonic_ms() > began_ms

    virtual_time.run(play())


def test_the_same_order_twice_changes_nothing() -> None:
    async def act(node: Node) -> None:
        await node.order(epoch=3)
        assert await node.order(epoch=3, isr=(1,)) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert await node.order(epoch=2) == ErrorCode.STALE_CONTROLLER_EPOCH
        assert node.replicas.require(TP).isr == (1, 2)

    on_node(act)


def test_stale_controllers_and_earlier_lives_are_refused() -> None:
    async def act(node: Node) -> None:
        node.replicas.broker_epoch = 100
        await node.order(controller_epoch=7, broker_epoch=100)
        for fields, code in [
            ({"controller_epoch": 6}, ErrorCode.STALE_CONTROLLER_EPOCH),
            ({"controller_epoch": 7, "broker_epoch": 99}, ErrorCode.STALE_BROKER_EPOCH),
        ]:
            with pytest.raises(KafkaError) as raised:
                await node.order(epoch=1, **fields)
            assert raised.value.code == code
        assert await node.order(epoch=1, controller_epoch=7, broker_epoch=101) == ErrorCode.NONE

    on_node(act)


def test_topic_ids() -> None:
    async def act(node: Node) -> None:
        await node.order(topic_id=NO_TOPIC_ID)
        assert await node.order(topic_id=ID) == ErrorCode.NONE, "the same epoch, but now with an id"
        assert node.replicas.require(TP).topic_id == ID
        assert await node.order(epoch=1, topic_id=OTHER_ID) == ErrorCode.INCONSISTENT_TOPIC_ID
        assert await node.order(epoch=1, topic_id=NO_TOPIC_ID) == ErrorCode.NONE

    on_node(act)


def test_orders_that_cannot_be_followed() -> None:
    async def act(node: Node) -> None:
        assert await node.order(replicas=(2, 3)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node.logs.offline_directories = ["d"]
        assert await node.order(is_new=False) == ErrorCode.KAFKA_STORAGE_ERROR
        assert TP not in node.replicas.partitions
        assert await node.order(is_new=True) == ErrorCode.NONE

    on_node(act)


def test_a_leader_that_is_not_alive_is_followed_once_it_is() -> None:
    """The leader epoch is not taken over before, so that the same order counts when it comes again."""

    async def act(node: Node) -> None:
        assert await node.order(leader=9, epoch=4) == ErrorCode.NONE
        assert (node.fetchers.followed, node.replicas.require(TP).leader_epoch) == ({}, -1)
        node.metadata.brokers[9] = LiveBroker(9, {})
        assert await node.order(leader=9, epoch=4) == ErrorCode.NONE
        assert node.fetchers.followed == {TP: 9}

    on_node(act)


def test_a_leader_that_metadata_learns_of_later_is_followed_then() -> None:
    """All sessions had ended. The new controller's LeaderAndIsr came before the metadata in which its leader lives, and it comes only once:
    such partitions had one replica in sync for ever, and took no records."""

    def make_update(*brokers: int) -> UpdateMetadata:
        return UpdateMetadata(1, 1, -1, [], [LiveBroker(each, {}) for each in brokers])

    async def act(node: Node) -> None:
        await node.order(leader=9, epoch=4)
        await node.replicas.update_metadata(make_update(1, 2, 3))
        assert node.fetchers.followed == {}
        await node.replicas.update_metadata(make_update(1, 2, 3, 9))
        assert node.fetchers.followed == {TP: 9}
        assert node.replicas.require(TP).leader_epoch == 4
        assert node.roles[-1] == ([], [TP])

        await node.order(leader=8, epoch=5)
        await node.order(leader=2, epoch=6)
        await node.replicas.update_metadata(make_update(1, 2, 3, 8))
        assert node.fetchers.followed == {TP: 2}, "an older order counts no more"

        await node.order(leader=7, epoch=7)
        await node.stop(epoch=7)
        await node.replicas.update_metadata(make_update(1, 2, 3, 7))
        assert node.fetchers.followed == {}, "a replica that was stopped follows nobody"

    on_node(act)


def test_an_existing_log_keeps_its_checkpointed_high_watermark() -> None:
    async def act(node: Node) -> None:
        node.logs.logs[TP] = FakeLog(log_end_offset=10, high_watermark=6)
        await node.order(leader=2)
        assert node.replicas.require(TP).high_watermark == 6

    on_node(act)


def test_a_directory_that_fails_while_roles_are_taken_leaves_none_of_its_own() -> None:
    """Coordinators were told of all roles at the end, also of those that were gone by then."""

    async def act(node: Node) -> None:
        first, second = TP, TopicPartition("t", 1)
        create = node.logs.create

        def fail(topic_partition: TopicPartition, topic_id: bytes, config: TopicConfig) -> FakeLog:
            if topic_partition == second:
                node.logs.offline.add(first)
                node.replicas.drop_offline_partitions()
            return create(topic_partition, topic_id, config)

        node.logs.create = fail  # type: ignore[method-assign]
        states = [LeaderAndIsrPartition(each, 0, 1, 0, 0, (1, 2), (1, 2), is_new=True) for each in (first, second)]
        await node.replicas.apply_leader_and_isr(LeaderAndIsr(3, 1, -1, [LeaderAndIsrTopic("t", ID, states)]))
        assert node.roles == [([first], []), ([], [first]), ([second], [])]

    on_node(act)


def test_a_broker_leads_before_it_follows() -> None:
    """Followers elsewhere fetched from a leader that was still making the logs that it follows, and had to try again."""

    async def act(node: Node) -> None:
        states = [
            LeaderAndIsrPartition(TopicPartition("t", index), 0, leader, 0, 0, (1, 2), (1, 2), is_new=True)
            for index, leader in enumerate((2, 1, 2, 1))
        ]
        topics = [LeaderAndIsrTopic("t", ID, states[:2]), LeaderAndIsrTopic("t", ID, states[2:])]
        await node.replicas.apply_leader_and_isr(LeaderAndIsr(3, 1, -1, topics))
        assert [each.partition for each in node.replicas.partitions] == [1, 3, 0, 2]

    on_node(act)


def test_stopping_and_deleting() -> None:
    async def act(node: Node) -> None:
        await node.order(leader=2, epoch=5)
        assert await node.stop(epoch=4) == ErrorCode.FENCED_LEADER_EPOCH
        assert node.fetchers.followed == {TP: 2}
        assert await node.stop(epoch=5) == ErrorCode.NONE
        assert (node.fetchers.followed, node.logs.deleted) == ({}, [])
        assert TP in node.replicas.partitions
        assert await node.stop(epoch=EPOCH_DURING_DELETE, delete=True) == ErrorCode.NONE
        assert (node.replicas.partitions, node.logs.deleted) == ({}, [TP])
        assert node.replicas.topic_name(ID) is None
        assert await node.stop(delete=True) == ErrorCode.NONE, "a log that is not hosted is deleted all the same"

    on_node(act)


def test_what_is_not_here_is_told_apart() -> None:
    node = Node()
    codes = []
    for _ in range(3):
        with pytest.raises(KafkaError) as raised:
            node.replicas.require(TP)
        codes.append(raised.value.code)
        if len(codes) == 1:
            known = PartitionMetadata(2, 0, [2], [2], [], 0, 1)
            node.metadata.topics["t"] = TopicMetadata("t", ID, {0: known})
        else:
            node.logs.offline.add(TP)
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ]


def test_a_failed_directory_takes_its_partitions_along() -> None:
    async def act(node: Node) -> None:
        await node.order()
        node.logs.offline.add(TP)
        assert node.replicas.drop_offline_partitions() == [TP]
        assert node.replicas.drop_offline_partitions() == []
        assert await node.order(epoch=1) == ErrorCode.KAFKA_STORAGE_ERROR

    on_node(act)


def test_who_watches_a_partition_before_it_exists_hears_of_it() -> None:
    """1. A follower fetches from a broker that does not lead yet, in a session. 2. LeaderAndIsr comes. 3. Records come."""

    async def act(node: Node) -> None:
        watch = Watch()
        node.replicas.watch(TP, watch)
        await node.order()
        before = watch.told
        node.replicas.require(TP).append(bytearray(1), 1, 0.0, 0, 9)
        assert watch.told > before

    on_node(act)


def test_who_watches_hears_of_a_partition_that_is_created_again() -> None:
    async def act(node: Node) -> None:
        watch = Watch()
        await node.order()
        node.replicas.watch(TP, watch)
        await node.stop(epoch=EPOCH_DURING_DELETE, delete=True)
        assert watch.told == 1
        await node.order(epoch=0, topic_id=OTHER_ID)
        before = watch.told
        node.replicas.require(TP).append(bytearray(1), 1, 0.0, 0, 9)
        assert watch.told > before
        node.replicas.unwatch(TP, watch)
        assert node.replicas.require(TP).watchers == {}
        await node.stop(delete=True)
        assert node.replicas._watchers == {}, "nothing is kept of what nobody watches or hosts"

    on_node(act)


def test_isrs_of_idle_partitions_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may lead tens of thousands of them; a follower that has all, and learns that all is committed, is not due for anything."""
    looked_at: list[Partition] = []
    look = Partition.stop_waiting
    monkeypatch.setattr(
        Partition, "stop_waiting", lambda partition, now_ms: (looked_at.append(partition), look(partition, now_ms))
    )

    async def count_looks(node: Node) -> int:
        looked_at.clear()
        await node.replicas.shrink_isrs()
        await node.replicas.stop_waiting_for_dead()
        return len(looked_at)

    async def act(node: Node) -> None:
        await node.order()
        partition = node.replicas.require(TP)
        assert await count_looks(node) == 2, "the follower has not fetched yet"
        partition.follower_fetched(2, 0, 0, 0.0, NeverFetched())
        assert [await count_looks(node), await count_looks(node)] == [0, 0]
        partition.append(bytearray(1), 1, 0.0, 0, 9)
        assert [await count_looks(node), await count_looks(node)] == [2, 2]
        partition.follower_fetched(2, 1, 0, 0.0, NeverFetched())
        assert await count_looks(node) == 0
        partition.follower_fetched(2, 0, 0, 0.0, NeverFetched())
        assert await count_looks(node) == 2, "the follower has lost a record"
        await node.order(leader=2, epoch=1)
        assert await count_looks(node) == 0, "led elsewhere"
        freed = node.logs.logs[TP].segments.freed
        partition.log.append_as_follower(bytearray(1), now_ms=0)
        partition.follow_high_watermark(2)
        assert [await count_looks(node), await count_looks(node)] == [0, 0]
        assert node.logs.logs[TP].segments.freed == freed + 1, "once after it grew"

    on_node(act)


def test_laggards_are_proposed_to_be_left_out() -> None:
    async def act(node: Node) -> None:
        await node.order()
        partition = node.replicas.require(TP)
        partition.append(bytearray(1), 1, 0.0, 0, 9)
        partition.followers[2].last_caught_up_ms = -30_001.0
        await node.replicas.shrink_isrs()
        await node.replicas.shrink_isrs()
        assert [change.isr for change in node.proposed] == [(1,)]
        assert node.replicas.statistics() == {"partitions": 1, "leaders": 1, "under_replicated": 1, "under_min_isr": 0}

    on_node(act)


@pytest.mark.parametrize(
    "topic_partition",
    [
        TopicPartition("../../x", 0),
        TopicPartition("a/b", 0),
        TopicPartition("a\0b", 0),
        TopicPartition("", 0),
        TopicPartition("t", -1),
    ],
)
def test_a_stranger_who_plays_the_controller_made_directories_elsewhere(topic_partition: TopicPartition) -> None:
    async def act(node: Node) -> None:
        state = LeaderAndIsrPartition(topic_partition, 0, 1, 0, 0, (1,), (1,), is_new=True)
        good = LeaderAndIsrPartition(TP, 0, 1, 0, 0, (1,), (1,), is_new=True)
        topics = [LeaderAndIsrTopic(topic_partition.topic, OTHER_ID, [state]), LeaderAndIsrTopic("t", ID, [good])]
        outcome = await node.replicas.apply_leader_and_isr(LeaderAndIsr(3, 1, -1, topics))
        assert outcome == {topic_partition: ErrorCode.INVALID_TOPIC_EXCEPTION, TP: ErrorCode.NONE}
        assert list(node.logs.logs) == [TP]

    on_node(act)
