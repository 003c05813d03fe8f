"""`kafkalite mirror` from brokers of ours to Apache Kafka 4: what the target has after the switch is what the source had, and what its
administrators change then comes back.

Two brokers follow, the mirror is killed once, and the source's leader epochs get ahead of the target's. With --long.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from tests.peers import kraft
from tests.peers.apache_kafka import wait_for_controller
from tests.peers.kraft import KraftCluster
from tests.peers.mirror_changes import change_target, check_changes_come_back
from tests.peers.mirror_program import MIRROR, TIMEOUT_S, Program, check_segments, switch_with_evidence

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

BROKERS = 2
TOPICS = {"plain": {"retention.ms": "-1"}, "transactional": {"min.insync.replicas": "1"}}
PARTITIONS = [f"{name}-{number}" for name in TOPICS for number in range(2)]
PROPERTIES = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}


@pytest.fixture
def clusters(tmp_path: Path, long: bool) -> Iterator[tuple[LocalCluster, KraftCluster]]:
    if not long:
        pytest.skip("five Java machines start one after the other: with --long")
    kraft.fetch()
    with (
        LocalCluster(brokers=1, directory=tmp_path / "source", properties=PROPERTIES) as source,
        KraftCluster(tmp_path, BROKERS) as target,
    ):
        wait_for_controller(source.bootstrap_servers)
        yield source, target


@pytest.fixture
def program(tmp_path: Path, clusters: tuple[LocalCluster, KraftCluster]) -> Iterator[Program]:
    source, target = clusters
    with ReservedPort() as port:
        found = Program(tmp_path / "mirror", source.bootstrap_servers, target, port.number)
        yield found
        found.kill()


def make_source(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [NewTopic(name, 2, 1, config=settings) for name, settings in TOPICS.items()]
    for future in admin.create_topics(topics).values():
        future.result(TIMEOUT_S)
    produce(servers, 0)
    place = confluent_kafka.TopicPartition("plain", 1, 100)
    admin.delete_records([place])[place].result(TIMEOUT_S)
    rule = AclBinding(
        ResourceType.TOPIC,
        "plain",
        ResourcePatternType.LITERAL,
        "User:reader",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([rule]).values():
        future.result(TIMEOUT_S)
    user = UserScramCredentialUpsertion(
        "secret-user", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"secret"
    )
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result(TIMEOUT_S)
    commit(servers, 42)


def commit(servers: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "readers"})
    place = confluent_kafka.TopicPartition("plain", 0, offset, "note")
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()


def produce(servers: str, begin: int) -> None:
    """Compressed batches with headers, and transactions, every second one aborted."""
    plain = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "compression.type": "lz4", "enable.idempotence": True}
    )
    for number in range(begin, begin + 1000):
        plain.produce("plain", b"v" * 50, b"k%d" % number, number % 2, headers=[("h", b"x")])
    assert plain.flush(TIMEOUT_S) == 0
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "one"})
    producer.init_transactions(TIMEOUT_S)
    for transaction in range(4):
        producer.begin_transaction()
        for number in range(10):
            producer.produce("transactional", b"%d" % (begin + number), partition=number % 2)
        if transaction % 2:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)


def find_ends(servers: str) -> dict[tuple[str, int], int]:
    """Of all partitions: where they end."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "none"})
    places = [confluent_kafka.TopicPartition(name, number) for name in TOPICS for number in range(2)]
    found = {(each.topic, each.partition): consumer.get_watermark_offsets(each, TIMEOUT_S)[1] for each in places}
    consumer.close()
    return found


def test_the_target_has_what_the_source_had(
    clusters: tuple[LocalCluster, KraftCluster], program: Program, tmp_path: Path
) -> None:
    source, target = clusters
    servers, theirs = source.bootstrap_servers, target.bootstrap_servers
    make_source(servers)
    program.start()
    wait_until(lambda: program.is_level(find_ends(servers)), "a mirror that is level", TIMEOUT_S)
    assert any("set the passwords of secret-user in the target" in each for each in program.read_status()["notes"])
    program.kill()
    source.restart(1)  # the next leader epochs
    produce(servers, 1000)
    commit(servers, 77)
    program.start()
    ends = find_ends(servers)
    wait_until(lambda: program.is_level(ends), "a mirror that is level again", TIMEOUT_S)

    switch_with_evidence(program, tmp_path / "evidence", servers, theirs)
    compared = program.call("verify", str(program.directory), "-b", servers, "--to", theirs, "-o", "json")
    assert compared.returncode == 0, compared.stdout + compared.stderr
    rows = {(each["topic"], each["partition"]): each for each in json.loads(compared.stdout)}
    assert rows.keys() == ends.keys() and {each["problem"] for each in rows.values()} == {None}
    assert rows["plain", 1]["from"] == 100 and rows["plain", 1]["source"] == ends["plain", 1] - 100
    check_segments(source, target, PARTITIONS)
    check_target(theirs, ends)
    change_target(theirs, "plain", "transactional")
    check_changes_come_back(program, servers, theirs, "plain", "transactional")


def check_target(servers: str, ends: dict[tuple[str, int], int]) -> None:
    """Settings, groups, ACLs are there, the mirror is gone, and a producer's record is appended behind all others."""
    admin = AdminClient({"bootstrap.servers": servers})
    metadata = admin.list_topics(timeout=TIMEOUT_S)
    assert MIRROR not in metadata.brokers
    for name in TOPICS:
        for each in metadata.topics[name].partitions.values():
            assert MIRROR not in each.replicas and sorted(each.isrs) == sorted(each.replicas) and each.leader > 0
    reader = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "readers"})
    (committed,) = reader.committed([confluent_kafka.TopicPartition("plain", 0)], TIMEOUT_S)
    reader.close()
    assert (committed.offset, committed.metadata) == (77, "note")
    for name, wanted in TOPICS.items():
        resource = confluent_kafka.admin.ConfigResource("topic", name)  # type: ignore[attr-defined]
        found: Any = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        assert {key: each.value for key, each in found.items() if each.source == 1} == wanted
    acls = subprocess.run(
        [sys.executable, "-m", "kafkalite", "acl", "list", "-b", servers, "-o", "json"], capture_output=True, text=True
    )
    assert "User:reader" in acls.stdout
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "none"})
    place = confluent_kafka.TopicPartition("plain", 1)
    assert consumer.get_watermark_offsets(place, TIMEOUT_S) == (100, ends["plain", 1])
    consumer.close()
    delivered: list[int] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    producer.produce("plain", b"new", partition=0, on_delivery=lambda error, sent: delivered.append(sent.offset()))
    assert producer.flush(TIMEOUT_S) == 0 and delivered == [ends["plain", 0]]
