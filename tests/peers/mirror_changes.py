"""What administrators of Apache Kafka 4 change after a switch, and what the source has of it after `kafkalite mirror back`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import confluent_kafka
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkalite.local.broker_process import wait_until
from tests.peers.mirror_program import TIMEOUT_S, Program, run_kafkalite

MADE = "made-in-the-target"


def change_target(servers: str, grown: str, deleted: str) -> None:
    """Make a topic with records and a group, add a partition, delete a topic, change settings, ACLs, a quota, and a user's password."""
    admin = AdminClient({"bootstrap.servers": servers})
    settings = {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
    admin.create_topics([NewTopic(MADE, 2, 2, config=settings)])[MADE].result(TIMEOUT_S)
    admin.create_partitions([NewPartitions(grown, 3)])[grown].result(TIMEOUT_S)
    admin.delete_topics([deleted])[deleted].result(TIMEOUT_S)
    wait_until(lambda: deleted not in admin.list_topics(timeout=TIMEOUT_S).topics, "a topic that is gone", TIMEOUT_S)
    run_kafkalite("config", "set", "--topic", grown, "-b", servers, "max.message.bytes=77777")
    run_kafkalite("config", "delete", "--topic", grown, "-b", servers, "retention.ms")
    run_kafkalite("acl", "remove", "--principal", "User:reader", "--topic", "plain", "--yes", "-b", servers)
    run_kafkalite("acl", "add", "User:writer", "write", "--topic", MADE, "-b", servers)
    run_kafkalite("config", "set", "--user", "writer", "-b", servers, "producer_byte_rate=1000000")
    information = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion("new-user", information, b"secret")
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result(TIMEOUT_S)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(100):
        producer.produce(MADE, b"%d" % number, b"k%d" % number, partition=number % 2)
        producer.produce(grown, b"%d" % number, partition=2)
    assert producer.flush(TIMEOUT_S) == 0
    place = confluent_kafka.TopicPartition(MADE, 1, 20)
    admin.delete_records([place])[place].result(TIMEOUT_S)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "of-the-target"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(MADE, 0, 33)], asynchronous=False)
    consumer.close()


def check_changes_come_back(program: Program, source: str, target: str, grown: str, deleted: str) -> None:
    """The plan names all of it, the source has it afterwards, and a second plan is empty."""
    where = ["-b", source, "--to", target, "--replication-factor", "1"]
    command = [sys.executable, "-m", "kafkalite", "mirror", "back", str(program.directory), *where]
    words = ["--dry-run", "-o", "json"]
    shown = subprocess.run([*command, "--delete-topics", *words], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    planned = {(each["kind"], each["name"], each["key"]): each["becomes"] for each in json.loads(shown.stdout)}
    assert planned == {
        ("topic", deleted, ""): None,
        ("topic", MADE, ""): "2 partitions, 1 replica",
        ("setting", MADE, "cleanup.policy"): "compact,delete",
        ("setting", MADE, "retention.ms"): "86400000",
        ("partitions", grown, ""): "3",
        ("setting", grown, "max.message.bytes"): "77777",
        ("setting", grown, "retention.ms"): None,
        ("acl", "User:reader may Read Topic plain", ""): None,
        ("acl", f"User:writer may Write Topic {MADE}", ""): "added",
        ("quota", "user writer", "producer_byte_rate"): "1000000",
    }
    refused = subprocess.run([*command, "--wait", "0"], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert refused.returncode == 7 and f"topic {deleted} is not in the target any more" in refused.stderr
    done = subprocess.run([*command, "--delete-topics", "--yes"], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "set the passwords of new-user in the source" in done.stderr
    again = subprocess.run([*command, *words], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert again.returncode == 0 and json.loads(again.stdout) == []

    admin = AdminClient({"bootstrap.servers": source})
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    assert deleted not in topics and (len(topics[MADE].partitions), len(topics[grown].partitions)) == (2, 3)
    assert read_settings(source, MADE) == {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
    assert read_settings(source, grown) == {"max.message.bytes": "77777"}
    acls = run_kafkalite("acl", "list", "-b", source, "-o", "json")
    assert "User:writer" in acls and "User:reader" not in acls
    assert "1000000" in run_kafkalite("config", "describe", "--user", "writer", "-b", source, "-o", "json")
    for topic, number in ((MADE, 0), (MADE, 1), (grown, 2)):
        assert find_bounds(source, topic, number) == find_bounds(target, topic, number)
    assert find_bounds(source, MADE, 1) == (20, 50)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": source, "group.id": "of-the-target"})
    (committed,) = consumer.committed([confluent_kafka.TopicPartition(MADE, 0)], TIMEOUT_S)
    consumer.close()
    assert committed.offset == 33


def read_settings(servers: str, topic: str) -> dict[str, str]:
    """Return the topic's own settings."""
    resource = confluent_kafka.admin.ConfigResource("topic", topic)  # type: ignore[attr-defined]
    admin = AdminClient({"bootstrap.servers": servers})
    found: Any = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {key: each.value for key, each in found.items() if each.source == 1}


def find_bounds(servers: str, topic: str, number: int) -> Any:
    """Return where a partition begins and ends."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "none"})
    found = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, number), TIMEOUT_S)
    consumer.close()
    return found
