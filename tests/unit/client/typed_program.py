"""A program as users write it, for mypy: types are precise, and a wrong option is found before the program runs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Unpack, assert_type

from kafkalite.client import (
    Admin,
    ClusterDescription,
    Consumer,
    ConsumerKeywords,
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


@dataclass(frozen=True)
class Flight:
    carrier: str
    delay: int

    @classmethod
    def parse(cls, data: bytes) -> Flight:
        return cls(**json.loads(data))


def typed_records() -> None:
    """What a deserializer makes is what records have; null is None."""
    with SyncConsumer("flights", group_id="a", value_deserializer=Flight.parse) as consumer:
        assert_type(consumer, SyncConsumer[Any, Flight | None])
        assert_type(consumer.getone(), ConsumerRecord[Any, Flight | None])
        assert_type(consumer.getmany(), dict[TopicPartition, list[ConsumerRecord[Any, Flight | None]]])
        for record in consumer:
            assert_type(record.value, Flight | None)
            if record.value is not None:
                assert_type(record.value.delay, int)
    with SyncConsumer("flights", group_id="a", key_deserializer=bytes.decode, value_deserializer=Flight.parse) as both:
        assert_type(both.poll(), dict[TopicPartition, list[ConsumerRecord[str | None, Flight | None]]])
    assert_type(SyncConsumer(key_deserializer=bytes.decode), SyncConsumer[str | None, Any])
    assert_type(SyncConsumer(value_deserializer="json"), SyncConsumer[Any, Any])
    named: SyncConsumer[str, Flight] = SyncConsumer.from_config({"group.id": "a"}, value_deserializer="json")
    assert_type(named.getone().value, Flight)
    made = ConsumerRecord("flights", 0, 0, 0, 0, "UA", Flight("UA", 4), (), -1)
    assert_type(made, ConsumerRecord[str, Flight])


def make_consumer(**options: Unpack[ConsumerKeywords]) -> SyncConsumer:
    """A program's own function takes the options of a client, and passes them on."""
    return SyncConsumer("flights", **options)


async def concurrent() -> None:
    try:
        async with Producer(acks="all") as producer, Consumer() as consumer, Admin() as admin:
            assert_type(await producer.send("flights", b""), Delivery)
            assert_type(await (await producer.send("flights", b"")), RecordMetadata)
            assert_type(await consumer.getmany(), dict[TopicPartition, list[ConsumerRecord]])
            assert_type(await admin.describe_topics(), list[TopicDescription])
        async with Consumer("flights", group_id="a", value_deserializer=Flight.parse) as typed:
            async for record in typed:
                assert_type(record, ConsumerRecord[Any, Flight | None])
    except NoBrokersAvailableError as error:
        assert_type(error.code, ErrorCode)


def wrong() -> None:
    """mypy must complain of each of these lines: an ignored complaint that does not come is one itself (strict)."""
    Producer(bootstrap_server="localhost:9092")  # type: ignore[call-arg]
    SyncProducer(linger_ms="5")  # type: ignore[arg-type]
    SyncProducer(acks="every")  # type: ignore[arg-type]
    SyncProducer(compression_type="zst")  # type: ignore[arg-type]
    SyncProducer(partitioner="random")  # type: ignore[arg-type]
    SyncProducer(value_serializer="yaml")  # type: ignore[arg-type]
    SyncProducer(security_protocol="TLS")  # type: ignore[arg-type]
    SyncAdmin(sasl_mechanism="SCRAM")  # type: ignore[arg-type]
    SyncConsumer(group="readers")  # type: ignore[call-overload]
    SyncConsumer(1)  # type: ignore[call-overload]
    SyncConsumer(auto_offset_reset="smallest")  # type: ignore[call-overload]
    SyncConsumer(isolation_level="committed")  # type: ignore[call-overload]
    SyncConsumer(partition_assignment_strategy=["ranges"])  # type: ignore[list-item]
    SyncAdmin(acks="all")  # type: ignore[call-arg]
    SyncProducer().send(topic=1)  # type: ignore[arg-type]


asyncio.run(concurrent())
