"""Consumer groups of foreign clients and ours: one owner for each partition, at all times, whoever comes, goes or dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from kafkalite.local.broker_process import wait_until
from tests.wire.conftest import TopicMaker
from tests.wire.group_members import KINDS, Member, Mortal, Ownership, Settings, owners_overlap

pytestmark = pytest.mark.wire

SETTLE_S = 40
Starter = Callable[..., Any]


@pytest.fixture
def start(servers: str) -> Iterator[Starter]:
    """`start(kind, group, topics, mortal=False, **settings)`: a member that ends with the test."""
    with ExitStack() as ends:

        def begin(kind: str, group: str, *topics: str, mortal: bool = False, **settings: Any) -> Ownership:
            made = (Mortal if mortal else Member)(Settings(kind, servers, group, topics, **settings))
            ends.callback(made.stop)
            return made

        yield begin


def wait_settled(members: list[Any], topic: str, partitions: int, idle: int = 0) -> None:
    """Until every partition has one owner, shares are even, and `idle` members have none."""
    wanted = frozenset((topic, number) for number in range(partitions))

    def settled() -> bool:
        living = [member for member in members if member.alive]
        problems = [f"{member.name}: {member.errors}" for member in living if member.errors]
        if problems:
            raise AssertionError(problems)
        sizes = sorted(len(member.owned) for member in living)
        even = sizes[-1] - sizes[0] <= 1
        return (
            sum(sizes) == len(wanted)
            and frozenset().union(*(member.owned for member in living)) == wanted
            and even
            and sizes.count(0) == idle
        )

    try:
        wait_until(settled, "one owner for each partition", SETTLE_S)
    except TimeoutError as problem:
        raise AssertionError([(member.name, sorted(member.owned)) for member in members]) from problem


def describe(admin: AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group], request_timeout=20)[group].result(20)


@pytest.mark.parametrize(
    ("assignor", "kinds"),
    [
        ("range", KINDS),
        ("roundrobin", KINDS),
        ("sticky", ("kafka-python", "aiokafka", "kafkalite")),
        ("cooperative-sticky", ("confluent", "kafka-python", "kafkalite")),
    ],
)
def test_clients_come_and_go_in_turn(
    start: Starter, make_topic: TopicMaker, admin: AdminClient, assignor: str, kinds: tuple[str, ...]
) -> None:
    topic, group = make_topic(6), f"turn-{assignor}"
    members: list[Any] = []
    for count, kind in enumerate(kinds, 1):
        members.append(start(kind, group, topic, assignor=assignor))
        wait_settled(members, topic, 6)
        described = describe(admin, group)
        assert described.state.name == "STABLE" and len(described.members) == count
        assert described.partition_assignor == assignor
    for member in members[:-1]:
        member.stop()
        wait_settled(members, topic, 6)
    assert not owners_overlap(members)


def test_clients_come_together_and_read_everything_once(
    start: Starter, make_topic: TopicMaker, servers: str, admin: AdminClient
) -> None:
    topic, group = make_topic(6), "together"
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(600):
        producer.produce(topic, str(number), partition=number % 6)
    producer.flush(20)
    members = [start(kind, group, topic, assignor="roundrobin") for kind in (*KINDS, *KINDS[:2])]
    wait_settled(members, topic, 6)
    wait_until(lambda: sum(len(member.read) for member in members) >= 600, "all records", SETTLE_S)
    read = sorted(each for member in members for each in member.read)
    assert set(read) == {(topic, partition, offset) for partition in range(6) for offset in range(100)}
    assert not owners_overlap(members)
    told = {
        frozenset((p.topic, p.partition) for p in m.assignment.topic_partitions) for m in describe(admin, group).members
    }
    assert told == {member.owned for member in members}


def test_members_without_a_partition_stay_idle(start: Starter, make_topic: TopicMaker) -> None:
    topic = make_topic(2)
    members = [start(kind, "crowd", topic) for kind in KINDS]
    wait_settled(members, topic, 2, idle=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_member_is_replaced_when_its_session_ends(start: Starter, make_topic: TopicMaker, kind: str) -> None:
    topic = make_topic(4)
    survivor = start("confluent", f"killed-{kind}", topic)
    victim = start(kind, f"killed-{kind}", topic, mortal=True)
    wait_settled([survivor, victim], topic, 4)
    victim.kill()
    began_s = time.monotonic()
    wait_settled([survivor, victim], topic, 4)
    took_s = time.monotonic() - began_s
    assert 1.5 < took_s < 3 + 5, f"the session is 3 s, it took {took_s:.1f} s"


@pytest.mark.parametrize("kind", KINDS)
def test_a_static_member_restarts_without_a_rebalance(
    start: Starter, make_topic: TopicMaker, admin: AdminClient, kind: str
) -> None:
    topic, group = make_topic(4), f"static-{kind}"
    first = start(kind, group, topic, instance="one", session_ms=15_000, mortal=True)
    second = start("confluent", group, topic, instance="two", session_ms=15_000)
    wait_settled([first, second], topic, 4)
    owned, changes = first.owned, len(second.changes)
    before = {member.group_instance_id: member.member_id for member in describe(admin, group).members}
    first.kill()
    again = start(kind, group, topic, instance="one", session_ms=15_000)
    wait_until(lambda: again.owned == owned, "the same partitions again", SETTLE_S)
    described = describe(admin, group)
    after = {member.group_instance_id: member.member_id for member in described.members}
    assert described.state.name == "STABLE" and len(second.changes) == changes
    assert after["two"] == before["two"] and after["one"] != before["one"]


def test_two_groups_read_the_same_topic(start: Starter, make_topic: TopicMaker, servers: str) -> None:
    topic = make_topic(3)
    groups = [[start("confluent", name, topic), start("kafka-python", name, topic)] for name in ("left", "right")]
    for members in groups:
        wait_settled(members, topic, 3)
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(90):
        producer.produce(topic, str(number), partition=number % 3)
    producer.flush(20)
    for members in groups:
        wait_until(lambda members=members: sum(len(m.read) for m in members) >= 90, "all records", SETTLE_S)
        assert len({each for member in members for each in member.read}) == 90


def test_what_one_client_commits_another_reads(servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic(2)
    writer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "shared", "log_level": 0})
    offsets = [confluent_kafka.TopicPartition(topic, 0, 17, metadata="seventeen")]
    assert writer.commit(offsets=offsets, asynchronous=False)[0].error is None  # type: ignore[index]
    reader = kafka.KafkaConsumer(bootstrap_servers=servers, group_id="shared", enable_auto_commit=False)
    found = reader.committed(kafka.TopicPartition(topic, 0), metadata=True)
    assert (found.offset, found.metadata.rstrip("\0")) == (17, "seventeen")
    assert reader.committed(kafka.TopicPartition(topic, 1)) is None
    reader.commit({kafka.TopicPartition(topic, 1): kafka.OffsetAndMetadata(5, "", -1)})
    reader.close()
    again = writer.committed([confluent_kafka.TopicPartition(topic, number) for number in (0, 1)], timeout=20)
    assert [each.offset for each in again] == [17, 5]
    writer.close()


def test_an_administrator_deletes_offsets_and_groups(servers: str, make_topic: TopicMaker, admin: AdminClient) -> None:
    topic = make_topic(1)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "doomed", "log_level": 0})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 3)], asynchronous=False)
    consumer.close()
    listed = admin.list_consumer_groups(request_timeout=20).result(20)
    assert "doomed" in {group.group_id for group in listed.valid} and not listed.errors
    admin.delete_consumer_groups(["doomed"], request_timeout=20)["doomed"].result(20)
    assert "doomed" not in {g.group_id for g in admin.list_consumer_groups(request_timeout=20).result(20).valid}
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        admin.delete_consumer_groups(["doomed"], request_timeout=20)["doomed"].result(20)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.GROUP_ID_NOT_FOUND


def test_offsets_of_a_deleted_topic_go(servers: str, make_topic: TopicMaker, admin: AdminClient) -> None:
    topic, kept = make_topic(1), make_topic(1)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "orphan", "log_level": 0})
    places = [confluent_kafka.TopicPartition(name, 0, 3) for name in (topic, kept)]
    consumer.commit(offsets=places, asynchronous=False)
    admin.delete_topics([topic], request_timeout=20)[topic].result(20)

    def gone() -> bool:
        return [each.offset for each in consumer.committed(places, timeout=20)] == [-1001, 3]

    wait_until(gone, "the deleted topic's offset to go", SETTLE_S)
    consumer.close()
