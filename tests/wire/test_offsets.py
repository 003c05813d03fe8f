"""Offsets by time, first and last offsets, and the deletion of records before an offset."""

from __future__ import annotations

import time

import confluent_kafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.wire.clients import CLIENTS, Record
from tests.wire.conftest import TopicMaker

pytestmark = pytest.mark.wire


def test_offsets_for_times(servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    base_ms = int(time.time() * 1000) - 100_000
    records = [Record(b"%d" % n, b"v", (), base_ms + n * 1000) for n in range(10)]
    CLIENTS[0].produce(servers, topic, records[:5], codec="gzip")
    CLIENTS[0].produce(servers, topic, records[5:])
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers.split(","), group_id=None)
    partition = kafka.TopicPartition(topic, 0)
    try:
        for at_ms, expected in [
            (base_ms - 1, (0, base_ms)),
            (base_ms + 3000, (3, base_ms + 3000)),
            (base_ms + 3001, (4, base_ms + 4000)),
            (base_ms + 9000, (9, base_ms + 9000)),
        ]:
            found = consumer.offsets_for_times({partition: at_ms})[partition]
            assert (found.offset, found.timestamp) == expected
        assert consumer.offsets_for_times({partition: base_ms + 9001})[partition] is None
        assert consumer.beginning_offsets([partition])[partition] == 0
        assert consumer.end_offsets([partition])[partition] == 10
    finally:
        consumer.close()


def test_records_before_an_offset_can_be_deleted(servers: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic()
    CLIENTS[0].produce(servers, topic, [Record(b"%d" % n, b"v") for n in range(10)])
    deleted = admin.delete_records([TopicPartition(topic, 0, 4)], request_timeout=30)
    ((_, answer),) = deleted.items()
    assert answer.result(30).low_watermark == 4
    for client in CLIENTS:
        assert [read.offset for read in client.consume(servers, topic, 6, offset=4)] == [4, 5, 6, 7, 8, 9], client.name
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "unused"})
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30, cached=False) == (4, 10)
    finally:
        consumer.close()


def test_records_beyond_the_end_cannot_be_deleted(servers: str, admin: AdminClient, make_topic: TopicMaker) -> None:
    topic = make_topic()
    ((_, answer),) = admin.delete_records([TopicPartition(topic, 0, 7)], request_timeout=30).items()
    with pytest.raises(KafkaException) as caught:
        answer.result(30)
    assert caught.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
