"""What is refused, and how clients see it."""

from __future__ import annotations

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.wire.clients import CLIENTS, Client, Record
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire


def code_of(answer: object) -> int:
    with pytest.raises(KafkaException) as caught:
        answer.result(30)  # type: ignore[attr-defined]
    return int(caught.value.args[0].code())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "sp ace", "ünï", "x" * 250])
def test_bad_names_are_refused(admin: AdminClient, name: str) -> None:
    wanted = NewTopic(name, num_partitions=1, replication_factor=1)
    assert code_of(admin.create_topics([wanted], request_timeout=30)[name]) == KafkaError.TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"replication_factor": 4}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"retention.mz": "1"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_topics_that_cannot_be_are_refused(admin: AdminClient, more: dict[str, object], code: int) -> None:
    settings = {"num_partitions": 1, "replication_factor": 1} | more
    wanted = NewTopic("never-made", **settings)
    assert code_of(admin.create_topics([wanted], request_timeout=30)["never-made"]) == code
    assert "never-made" not in admin.list_topics(timeout=30).topics


def test_a_topic_is_made_once_and_deleted_once(admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic()
    wanted = NewTopic(topic, num_partitions=1, replication_factor=1)
    assert code_of(admin.create_topics([wanted], request_timeout=30)[topic]) == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic], request_timeout=30)[topic].result(30)
    assert code_of(admin.delete_topics([topic], request_timeout=30)[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize("client", CLIENTS[:3], ids=lambda client: client.name)
def test_a_record_above_the_topics_limit_is_refused_and_the_next_is_taken(
    servers: str, make_topic: TopicMaker, client: Client
) -> None:
    topic = make_topic(config={"max.message.bytes": "2000"})
    with pytest.raises(Exception, match=r"(?i)too.?large|MSG_SIZE_TOO_LARGE|MessageSizeTooLarge|MESSAGE_TOO_LARGE"):
        client.produce(servers, topic, [Record(b"k", b"x" * 3000)], acks="1")
    client.produce(servers, topic, [Record(b"k", b"x" * 1000)], acks="1")
    assert client.consume(servers, topic, 1)[0].value == b"x" * 1000


def test_an_unknown_topic_is_told(servers: str) -> None:
    errors: list[int] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "topic.metadata.propagation.max.ms": 100})
    producer.produce("nobody-made-this", b"v", on_delivery=lambda error, message: errors.append(error.code()))
    producer.flush(30)
    assert errors in ([KafkaError._UNKNOWN_TOPIC], [KafkaError.UNKNOWN_TOPIC_OR_PART])


def test_an_offset_out_of_range_is_told(servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    settings = {"bootstrap.servers": servers, "group.id": "unused", "auto.offset.reset": "error"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 1000)])
        message = consumer.poll(30)
        assert message is not None and message.error() is not None
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    finally:
        consumer.close()


def test_min_insync_replicas_above_the_number_of_replicas_asks_for_all_of_them(
    servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic(replication=1, config={"min.insync.replicas": "2"})
    CLIENTS[0].produce(servers, topic, [Record(b"k", b"v")], acks="all")
