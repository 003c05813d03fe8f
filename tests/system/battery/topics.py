"""Topics come, go and change under load; logs are compacted, cut at their beginning, and forgotten by producers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalite.client import (
    ClientError,
    ConfigChange,
    ConfigResource,
    NewTopic,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    TopicPartition,
)
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.testing.history.events import RecordsDeleted
from tests.system.battery.deaths import bring_back
from tests.system.scenario import Scenario
from tests.system.test_groups import OFFSETS_TOPIC
from tests.system.test_reassignment import STANDSTILL_BYTES_PER_S, Mover

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

LIVES = 50
RECORDS = 20
EXPIRY_MS = 2_000


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Any]) -> Iterator[LocalCluster]:
    settings = {
        "producer.id.expiration.ms": str(EXPIRY_MS),
        "producer.id.expiration.check.interval.ms": "500",
        "log.cleaner.backoff.ms": "500",
        "log.retention.check.interval.ms": "1000",
        "log.initial.task.delay.ms": "1000",
        "offsets.topic.segment.bytes": "20000",
    }
    with new_cluster(properties=settings) as running:
        yield running


@pytest.fixture
def admin(scenario: Scenario) -> Iterator[SyncAdmin]:
    with SyncAdmin(bootstrap_servers=scenario.cluster.bootstrap_servers, default_api_timeout_ms=60_000) as made:
        yield made


def created(admin: SyncAdmin, topic: NewTopic) -> None:
    """As soon as what had the name before is gone."""

    def done() -> bool:
        try:
            admin.create_topics([topic])
        except ClientError as problem:
            if "TOPIC_ALREADY_EXISTS" in str(problem):
                return False
            raise
        return True

    wait_until(done, f"topic {topic.name}", 60)


def test_a_topic_is_made_again_and_again(scenario: Scenario, admin: SyncAdmin) -> None:
    """Each life has its own records and its own committed offsets, whoever asks, and however soon it follows."""
    servers = scenario.cluster.bootstrap_servers
    workload = scenario.start_workload(scenario.create_topic(3), 3)
    name = "again"
    with SyncProducer(bootstrap_servers=servers) as producer:
        for life in range(LIVES):
            created(admin, NewTopic(name, 2, 3, topic_configs={"min.insync.replicas": "2"}))
            values = [b"%d-%d" % (life, number) for number in range(RECORDS)]
            for number, value in enumerate(values):
                producer.send(name, value, partition=number % 2)
            producer.flush(60)
            with SyncConsumer(
                name,
                bootstrap_servers=servers,
                group_id="again",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=10_000,
            ) as consumer:
                found: list[bytes] = []
                deadline = time.monotonic() + 60
                while len(found) < RECORDS and time.monotonic() < deadline:
                    for records in consumer.poll(timeout_ms=500).values():
                        found += [bytes(each.value or b"") for each in records]
                assert sorted(found) == sorted(values), (
                    f"life {life}: {sorted(set(found) - set(values))[:5]} of another life"
                )
                consumer.commit()
            admin.delete_topics([name])
    scenario.verdict(workload)


def test_partitions_are_added_under_load(scenario: Scenario, admin: SyncAdmin) -> None:
    workload = scenario.start_workload(scenario.create_topic(2), 2)
    for count in range(3, 13):
        admin.create_partitions({workload.topic: count})
        wait_until(lambda count=count: len(scenario.facts.states(workload.topic)) == count, "new partitions", 60)  # type: ignore[misc]
        workload.wait_flowing(60)
    scenario.verdict(workload)


def test_a_topic_is_deleted_while_it_moves(scenario: Scenario, admin: SyncAdmin) -> None:
    """Neither the move nor the deletion hangs, and nothing is left of either."""
    other = scenario.start_workload(scenario.create_topic(3), 3)
    mover = Mover(scenario, 6)
    mover.throttle(STANDSTILL_BYTES_PER_S)
    with SyncProducer(bootstrap_servers=scenario.cluster.bootstrap_servers) as producer:
        for number in range(600):
            producer.send(mover.topic, b"x" * 1000, partition=number % 6)
        producer.flush(60)
    mover.begin(mover.shifted(1))
    assert mover.moving() > 0
    admin.delete_topics([mover.topic])
    client = scenario.facts.client
    from zk import paths

    wait_until(lambda: client.exists(paths.topic(mover.topic)) is None, "the end of the topic", 90)
    wait_until(lambda: mover.topic not in str(admin.list_topics()), "brokers that have forgotten it", 60)
    assert not client.exists(paths.REASSIGN_PARTITIONS)

    def gone() -> bool:
        folders = [
            path.name
            for some in scenario.cluster.log_directories().values()
            for each in some
            for path in each.iterdir()
        ]
        return not [name for name in folders if name.startswith(f"{mover.topic}-") and not name.endswith("-delete")]

    wait_until(gone, "no folder of the topic", 60)
    scenario.verdict(other)


def test_a_producer_is_forgotten_and_comes_back(scenario: Scenario, rng: random.Random) -> None:
    """Its id expires while it is silent; brokers restart while it sends. What it sends then is there, once and in order."""
    workload = scenario.start_workload(
        scenario.create_topic(2), 2, kinds=("kafkalite-idempotent", "confluent-idempotent")
    )
    topic = scenario.create_topic(1)
    sent = 0
    with SyncProducer(bootstrap_servers=scenario.cluster.bootstrap_servers, linger_ms=0) as producer:
        for _ in range(3):
            for _ in range(50):
                producer.send_and_wait(topic, b"%d" % sent, partition=0)
                sent += 1
            silent_s = time.monotonic() + 2 * EXPIRY_MS / 1000
            wait_until(lambda end=silent_s: time.monotonic() > end, "the end of the producer's id", 60)  # type: ignore[misc]
            victim = scenario.facts.leaders(topic)[0]
            epoch = scenario.facts.broker_epoch(victim)
            pending = [producer.send(topic, b"%d" % (sent + number), partition=0) for number in range(100)]
            scenario.cluster.kill(victim)
            bring_back(scenario, {victim: epoch})
            for each in pending:
                each.result(60)
            sent += len(pending)
            scenario.wait_replicated(topic, 60)
    with SyncConsumer(bootstrap_servers=scenario.cluster.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        read: list[int] = []
        deadline = time.monotonic() + 60
        while len(read) < sent and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                read += [int(bytes(each.value or b"")) for each in records]
    assert read == list(range(sent))
    scenario.verdict(workload)


def size_of(path: Path) -> int:
    """In bytes; 0 when the cleaner has taken it away meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_the_log_of_a_coordinator_is_compacted_and_loaded(
    scenario: Scenario, admin: SyncAdmin, rng: random.Random
) -> None:
    """What groups are told before and after is the same: their offsets, and who they are."""
    servers = scenario.cluster.bootstrap_servers
    topic = scenario.create_topic(4)
    workload = scenario.start_workload(topic, 4)
    groups = [f"compacted-{number}" for number in range(10)]
    wanted: dict[str, dict[TopicPartition, int]] = {}
    with SyncConsumer(bootstrap_servers=servers, group_id=groups[0]) as first:
        first.commit({TopicPartition(topic, 0): 1})
    scenario.wait_replicated(OFFSETS_TOPIC, 60)
    changes = [ConfigChange("min.cleanable.dirty.ratio", "set", "0.01"), ConfigChange("segment.ms", "set", "2000")]
    admin.incremental_alter_configs({ConfigResource("topic", OFFSETS_TOPIC): changes})
    for group in groups:
        with SyncConsumer(bootstrap_servers=servers, group_id=group) as consumer:
            for _ in range(150):
                offsets = {TopicPartition(topic, partition): rng.randrange(1000) for partition in range(4)}
                consumer.commit(offsets)
            wanted[group] = offsets

    def sizes() -> list[int]:
        folders = [some[0] / f"{OFFSETS_TOPIC}-0" for some in scenario.cluster.log_directories().values()]
        return [sum(map(size_of, folder.glob("*.log"))) for folder in folders]

    before = sum(sizes())
    wait_until(lambda: sum(sizes()) < before / 2, "a compaction", 120)
    for _ in range(3):
        victim = scenario.facts.leaders(OFFSETS_TOPIC)[0]
        epoch = scenario.facts.broker_epoch(victim)
        scenario.cluster.kill(victim)
        scenario.wait_led_by_others(OFFSETS_TOPIC, {victim}, 60)
        bring_back(scenario, {victim: epoch})
        scenario.wait_replicated(OFFSETS_TOPIC, 60)
        for group in groups:
            told = admin.list_group_offsets(group)
            assert {place: each.offset for place, each in told.items() if each} == wanted[group], group
    scenario.verdict(workload)


def test_a_log_is_cut_at_its_beginning_while_others_read_there(scenario: Scenario, admin: SyncAdmin) -> None:
    """Records are deleted while a follower is away and readers are behind: it begins where the leader's log does."""
    topic = scenario.create_topic(1, config={"segment.bytes": "50000"})
    workload = scenario.start_workload(topic, 1)
    place = TopicPartition(topic, 0)
    for _ in range(4):
        leader = scenario.facts.leaders(topic)[0]
        victim = next(broker for broker in scenario.facts.brokers() if broker != leader)
        epoch = scenario.facts.broker_epoch(victim)
        scenario.cluster.kill(victim)
        writer = workload.writers[0]
        more = writer.acknowledged + 400
        wait_until(lambda more=more, writer=writer: writer.acknowledged > more, "records", 60)  # type: ignore[misc]
        behind = min(reader.positions[0] for reader in workload.readers)
        (deleted,) = admin.delete_records({place: max(1, behind - 50)})
        assert deleted.low_watermark <= behind
        now_ns = workload.recorder.now_ns()
        workload.recorder.add(RecordsDeleted(now_ns, topic, 0, deleted.low_watermark))
        bring_back(scenario, {victim: epoch})
        scenario.wait_replicated(topic, 60)
        workload.wait_flowing(60)
    scenario.verdict(workload)
