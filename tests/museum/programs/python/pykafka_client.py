"""pykafka. Its consumers share a topic through ZooKeeper (`balanced`), or through the brokers (`managed`), as the third argument says.

Groups keep their offsets in the brokers in both."""

import sys

from pykafka import KafkaClient
from pykafka.common import CompressionType, OffsetType
from steps import serve, tell, texts

BOOTSTRAP, ZOOKEEPER, KIND = sys.argv[1:4]
CODECS = {"none": CompressionType.NONE, "gzip": CompressionType.GZIP, "snappy": CompressionType.SNAPPY}
CODECS["lz4"] = getattr(CompressionType, "LZ4", 3)


CLIENTS = []
"""Kept: a client that is collected takes the connections of its consumers with it."""


def topic_of(name):
    CLIENTS.append(KafkaClient(hosts=BOOTSTRAP))
    return CLIENTS[-1].topics[name.encode()]


def take(reader, count):
    values = []
    while len(values) < int(count):
        values.append(reader.consume().value)
    return texts(values)


def produce(topic, codec, count):
    partitions = topic_of(topic)
    with partitions.get_producer(
        compression=CODECS[codec],
        sync=False,
        required_acks=-1,
        linger_ms=50,
        delivery_reports=True,
        partitioner=lambda known, key: known[int(key.rpartition(b"-")[2]) % 2],
    ) as producer:
        for number in range(int(count)):
            producer.produce(b"value-%d" % number, b"key-%d" % number)
        for _ in range(int(count)):
            _, problem = producer.get_delivery_report(timeout=30)
            if problem is not None:
                raise problem


def read(topic, count):
    reader = topic_of(topic).get_simple_consumer(auto_offset_reset=OffsetType.EARLIEST, reset_offset_on_start=True)
    values = take(reader, count)
    reader.stop()
    return values


def member(topic, name):
    settings = {"auto_offset_reset": OffsetType.EARLIEST, "auto_commit_enable": False, "auto_start": True}
    if KIND == "balanced":
        settings |= {"zookeeper_connect": ZOOKEEPER, "zookeeper_connection_timeout_ms": 8000}
    else:
        settings |= {"managed": True, "heartbeat_interval_ms": 500}
    settings |= {"rebalance_backoff_ms": 500, "rebalance_max_retries": 120, "consumer_timeout_ms": 200}
    return topic_of(topic).get_balanced_consumer(name.encode(), **settings)


def group(topic, name, count):
    reader = member(topic, name)
    values = []
    while len(values) < int(count):
        if (each := reader.consume(block=True)) is not None:
            values.append(each.value)
    reader.commit_offsets()
    reader.stop()
    return texts(values)


def seek(topic, offset):
    found = topic_of(topic)
    partition = found.partitions[0]
    reader = found.get_simple_consumer(partitions=[partition], auto_offset_reset=OffsetType.EARLIEST)
    reader.reset_offsets([(partition, int(offset) - 1)])
    values = take(reader, 1)
    reader.stop()
    return values


def offsets(topic):
    found = topic_of(topic)
    return [each[0].offset[0] for each in (found.earliest_available_offsets(), found.latest_available_offsets())]


def follow(topic, name):
    reader = member(topic, name)
    try:
        while True:
            if (each := reader.consume(block=True)) is not None:
                tell(each.partition_id, each.offset, each.value)
                reader.commit_offsets()
    finally:
        reader.stop()


serve(globals())
