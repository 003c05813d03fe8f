"""A program as users write it, for mypy: types are precise, and a wrong option is found before the program runs."""

from __future__ import annotations

import asyncio
from typing import assert_type

from kafkalite.client import (
    Admin,
    ClusterDescription,
    Consumer,
    ConsumerOptions,
    ConsumerRecord,
    Delivery,
    ErrorCode,
    NewTopic,
    NoBrokersAvailableError,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Producer,
    RecordMetadata,
    SyncAdmin,
    SyncConsumer,
    SyncDelivery,
    SyncProducer,
    TopicDescription,
    TopicPartition,
)

PLACE = TopicPartition("flights", 0)


def blocking() -> None:
    with SyncProducer(bootstrap_servers="localhost:9092", value_serializer="json", linger_ms=5) as producer:
        assert_type(producer, SyncProducer)
        assert_type(producer.send("flights", {"delay": 4}), SyncDelivery)
        assert_type(producer.send("flights").result(1.0), RecordMetadata)
        assert_type(producer.send_and_wait("flights", b""), RecordMetadata)
    with SyncConsumer("flights", group_id="readers") as consumer:
        assert_type(consumer.poll(), dict[TopicPartition, list[ConsumerRecord]])
        assert_type(consumer.position(PLACE), int)
        assert_type(consumer.options, ConsumerOptions)
        assert_type(consumer.committed_offsets([PLACE]), dict[TopicPartition, OffsetAndMetadata | None])
        assert_type(consumer.offsets_for_times({PLACE: 0}), dict[TopicPartition, OffsetAndTimestamp | None])
        for record in consumer:
            assert_type(record, ConsumerRecord)
    with SyncAdmin.from_config({"bootstrap.servers": "localhost:9092"}, default_api_timeout_ms=5_000) as admin:
        assert_type(admin.describe_topics(["flights"]), list[TopicDescription])
        assert_type(admin.describe_cluster(), ClusterDescription)
        admin.create_topics([NewTopic("flights", num_partitions=3)])


async def concurrent() -> None:
    try:
        async with Producer(acks="all") as producer, Consumer() as consumer, Admin() as admin:
            assert_type(await producer.send("flights", b""), Delivery)
            assert_type(await (await producer.send("flights", b"")), RecordMetadata)
            assert_type(await consumer.getmany(), dict[TopicPartition, list[ConsumerRecord]])
            assert_type(await admin.describe_topics(), list[TopicDescription])
    except NoBrokersAvailableError as error:
        assert_type(error.code, ErrorCode)


def wrong() -> None:
    """mypy must complain of each of these lines: an ignored complaint that does not come is one itself (strict)."""
    Producer(bootstrap_server="localhost:9092")  # type: ignore[call-arg]
    SyncProducer(linger_ms="5")  # type: ignore[arg-type]
    SyncConsumer(group="readers")  # type: ignore[call-arg]
    SyncConsumer(1)  # type: ignore[arg-type]
    SyncAdmin(acks="all")  # type: ignore[call-arg]
    SyncProducer().send(topic=1)  # type: ignore[arg-type]


asyncio.run(concurrent())
