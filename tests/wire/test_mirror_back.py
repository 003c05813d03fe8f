"""`kafkalite mirror back` into brokers of ours: what another cluster got after the switch has the same offsets here.

The other cluster is of ours, too, since it is read as any leader is; tests/peers/test_mirror_load.py has Apache Kafka 4.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from kafkalite.cli.main import main
from kafkalite.cli.mirror.files import MirrorDirectory
from kafkalite.client import QuotaEntity
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.wire.conftest import TopicMaker, wait_until_led
from tests.wire.mirror_back import PARTITIONS, TIMEOUT_S, Switched, produce, read_side

pytestmark = pytest.mark.wire

GROUP = "mirror-back"


@pytest.fixture(scope="module")
def target(cluster: LocalCluster, pytestconfig: pytest.Config) -> Iterator[str]:
    if pytestconfig.getoption("--apache"):
        pytest.skip("the source has to be of kafkalite")
    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    connect = f"{cluster.zookeeper_connect}/mirror-back"
    with LocalCluster(brokers=1, zookeeper_connect=connect, properties=settings) as running:
        yield running.bootstrap_servers


@pytest.fixture
def switched(make_topic: TopicMaker, servers: str, target: str, tmp_path: Path) -> Switched:
    name = make_topic(PARTITIONS)
    admin = AdminClient({"bootstrap.servers": target})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(TIMEOUT_S)
    wait_until_led(target, name, PARTITIONS)
    return Switched(name, servers, target, tmp_path / "mirror")


def kafkalite(*words: str) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output


def produce_transactions(servers: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    for is_committed in (True, False, True):
        producer.begin_transaction()
        for number in range(4):
            producer.produce(topic, b"committed" if is_committed else b"aborted", partition=number % PARTITIONS)
        producer.flush(TIMEOUT_S)
        if is_committed:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)


def commit(servers: str, topic: str, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(servers: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], TIMEOUT_S)
    consumer.close()
    return found.offset


def test_records_transactions_and_groups_come_back(switched: Switched) -> None:
    produce(switched.target, switched.name, b"first")
    commit(switched.target, switched.name, 3)
    assert switched.copy_back().exit_code == 0
    produce_transactions(switched.target, switched.name)
    produce(switched.target, switched.name, b"second")
    commit(switched.target, switched.name, 17)
    done = switched.copy_back()
    assert done.exit_code == 0 and "level" in done.stderr
    records = switched.read(switched.target)
    assert switched.read(switched.source) == records and b"aborted" not in {each[4] for each in records}
    assert committed(switched.source, switched.name) == 17
    same = switched.verify("-o", "json")
    assert same.exit_code == 0, same.output
    assert [(each["source"], each["problem"]) for each in json.loads(same.stdout)] == [(24, None)] * PARTITIONS
    produce(switched.source, switched.name, b"third")  # a new producer, whose id is none of those that came
    assert len(switched.read(switched.source)) == len(records) + 20


def test_added_partitions_come_back(switched: Switched) -> None:
    admin = AdminClient({"bootstrap.servers": switched.target})
    admin.create_partitions([NewPartitions(switched.name, PARTITIONS + 1)])[switched.name].result(TIMEOUT_S)
    wait_until_led(switched.target, switched.name, PARTITIONS + 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": switched.target})
    producer.produce(switched.name, b"v", partition=PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0
    assert switched.copy_back().exit_code == 0
    assert switched.read(switched.source, PARTITIONS + 1) == switched.read(switched.target, PARTITIONS + 1)


def test_what_administrators_changed_comes_back(switched: Switched) -> None:
    made, gone = f"{switched.name}-made", switched.name
    admin = AdminClient({"bootstrap.servers": switched.target})
    admin.create_topics([NewTopic(made, 2, 1, config={"retention.ms": "86400000"})])[made].result(TIMEOUT_S)
    wait_until_led(switched.target, made, 2)
    new = copy(switched)
    new.name = made
    produce(switched.target, made, b"of the target")
    place = confluent_kafka.TopicPartition(made, 1, 10)  # of 10 records: all that it has
    admin.delete_records([place])[place].result(TIMEOUT_S)
    commit(switched.target, made, 7)
    kafkalite("config", "set", "--topic", gone, "-b", switched.target, "max.message.bytes=77777")
    kafkalite("config", "set", "--user", made, "-b", switched.target, "producer_byte_rate=123456")

    shown = switched.copy_back(0, "--dry-run", "-o", "json")
    assert shown.exit_code == 0, shown.output
    planned = {(each["kind"], each["name"], each["key"]): each["becomes"] for each in json.loads(shown.stdout)}
    assert planned == {
        ("topic", made, ""): "2 partitions, 1 replica",
        ("setting", made, "retention.ms"): "86400000",
        ("setting", gone, "max.message.bytes"): "77777",
        ("quota", f"user {made}", "producer_byte_rate"): "123456",
    }
    assert made not in AdminClient({"bootstrap.servers": switched.source}).list_topics(timeout=TIMEOUT_S).topics

    done = switched.copy_back()
    assert done.exit_code == 0, done.output
    assert "changed in the source: 4 of 4 planned changes" in done.stderr
    there = asyncio.run(read_side(switched.source))
    assert there.topics[made].settings == {"retention.ms": "86400000"}
    assert there.topics[gone].settings["max.message.bytes"] == "77777"
    assert there.quotas[QuotaEntity((("user", made),))] == {"producer_byte_rate": 123456.0}
    assert new.read(new.source) == new.read(new.target) and committed(new.source, made) == 7
    consumer = confluent_kafka.Consumer({"bootstrap.servers": new.source, "group.id": "none"})
    place = confluent_kafka.TopicPartition(made, 1)
    assert consumer.get_watermark_offsets(place, TIMEOUT_S) == (10, 10), "as in the target"
    consumer.close()
    assert switched.copy_back().exit_code == 0 and new.read(new.source) == new.read(new.target)


def test_a_topic_that_was_deleted_in_the_target_is_deleted_when_it_is_asked_for(switched: Switched) -> None:
    admin = AdminClient({"bootstrap.servers": switched.target})
    admin.delete_topics([switched.name])[switched.name].result(TIMEOUT_S)
    wait_until(
        lambda: switched.name not in admin.list_topics(timeout=TIMEOUT_S).topics, "a topic that is gone", TIMEOUT_S
    )
    for words in ((), ("--dry-run",)):
        told = switched.copy_back(0, *words)
        assert told.exit_code == 7 and f"topic {switched.name} is not in the target any more" in told.stderr
    assert switched.copy_back(0, "--delete-topics", "--follow").exit_code == 2
    assert switched.copy_back(0, "--delete-topics").exit_code == 2, "it asks"
    assert switched.copy_back(TIMEOUT_S, "--delete-topics", "--yes").exit_code == 0
    assert (
        switched.name not in AdminClient({"bootstrap.servers": switched.source}).list_topics(timeout=TIMEOUT_S).topics
    )


def delete_before(servers: str, topic: str, offset: int) -> None:
    admin, place = AdminClient({"bootstrap.servers": servers}), confluent_kafka.TopicPartition(topic, 0, offset)
    admin.delete_records([place])[place].result(TIMEOUT_S)


def find_bounds(servers: str, topic: str) -> object:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "none"})
    found = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), TIMEOUT_S)
    consumer.close()
    return found


def test_records_that_were_deleted_in_the_target_are_deleted_when_it_is_asked_for(switched: Switched) -> None:
    name, row = switched.name, {"kind": "records", "in_source": "from 0", "becomes": "from 5"}
    produce(switched.target, name, b"first")
    assert switched.copy_back().exit_code == 0
    delete_before(switched.target, name, 5)
    told = switched.copy_back()
    assert told.exit_code == 0 and f"records of {name}-0 before 5 are deleted in the target" in told.stderr
    assert find_bounds(switched.source, name) == (0, 10)
    assert switched.copy_back(0, "--delete-records").exit_code == 2, "it asks"
    shown = switched.copy_back(0, "--delete-records", "--dry-run", "-o", "json")
    assert shown.exit_code == 0 and json.loads(shown.stdout) == [{**row, "name": name, "key": "0"}]
    done = switched.copy_back(TIMEOUT_S, "--delete-records", "--yes")
    assert done.exit_code == 0 and "changed in the source: 1 of 1 planned change" in done.stderr, done.output
    assert find_bounds(switched.source, name) == (5, 10)

    produce(switched.target, name, b"second")
    delete_before(switched.target, name, 13)
    told = switched.copy_back(0)
    assert told.exit_code == 7 and f"{name}-0: " in told.stderr
    assert switched.copy_back(TIMEOUT_S, "--delete-records", "--yes").exit_code == 0
    assert find_bounds(switched.source, name) == (13, 20)
    assert switched.read(switched.source) == switched.read(switched.target)


def test_a_topic_is_left_in_the_target(switched: Switched) -> None:
    made = f"{switched.name}-left"
    refused = switched.copy_back(0, "--leave", made)
    assert refused.exit_code == 2 and f"--leave {made}: no topic of that name was made in the target" in refused.stderr
    admin = AdminClient({"bootstrap.servers": switched.target})
    admin.create_topics([NewTopic(made, 1, 1)])[made].result(TIMEOUT_S)
    wait_until_led(switched.target, made, 1)
    produce(switched.target, made, b"of the target", 5, partitions=1)
    assert switched.copy_back(TIMEOUT_S, "--leave", made).exit_code == 0
    topics = AdminClient({"bootstrap.servers": switched.source}).list_topics(timeout=TIMEOUT_S).topics
    assert made not in topics
    assert switched.copy_back().exit_code == 0, "and is brought back without the option"
    assert find_bounds(switched.source, made) == (0, 5)
    produce(switched.target, made, b"later", 5, partitions=1)
    told = switched.copy_back(TIMEOUT_S, "--leave", made)
    assert told.exit_code == 0 and "the source has what was copied of it before" in told.stderr
    assert find_bounds(switched.source, made) == (0, 5)


def test_records_of_its_own_in_the_source_are_named_and_nothing_is_put_behind_them(switched: Switched) -> None:
    produce(switched.target, switched.name, b"of the target")
    produce(switched.source, switched.name, b"of the source", 2)
    for count, why in ((0, "source and target have different records at offset 0"), (40, "records of its own")):
        if count:
            produce(switched.source, switched.name, b"more", count)
        before = switched.read(switched.source)
        done = switched.copy_back(0)
        assert done.exit_code == 7 and f"{switched.name}-0: " in done.stderr and why in done.stderr
        assert switched.read(switched.source) == before
        differing = switched.verify("-o", "json")
        assert differing.exit_code == 7
        problems = {
            each["problem"]: (each["from"], each["to"])
            for each in json.loads(differing.stdout)
            if not each["partition"]
        }
        assert problems["1 record with other contents" if not count else "10 records with other contents"] == (
            0,
            1 if not count else 10,
        )
        assert ("the source ends at offset 21, the target at 10" in problems) == bool(count)


def test_an_open_transaction_keeps_the_source_from_being_level(switched: Switched) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": switched.target, "transactional.id": switched.name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(switched.name, b"v", partition=0)
    producer.flush(TIMEOUT_S)
    done = switched.copy_back(0)
    assert done.exit_code == 7 and "a transaction is open in the target since offset 0" in done.stderr
    producer.commit_transaction(TIMEOUT_S)
    assert switched.copy_back().exit_code == 0
    assert switched.read(switched.source) == switched.read(switched.target)


def test_it_is_refused_with_the_directory_of_no_switch_or_of_other_clusters(switched: Switched) -> None:
    files = MirrorDirectory(switched.directory)
    state = files.read_state()
    assert state is not None
    state.is_switched = False
    files.write_state(state)
    assert "of no mirror that has switched" in switched.copy_back(0).stderr
    state.is_switched, state.target_cluster = True, state.source_cluster
    files.write_state(state)
    assert "is of a mirror from" in switched.copy_back(0).stderr
