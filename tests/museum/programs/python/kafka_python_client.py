"""kafka-python, pinned to the version of brokers in the third argument, such as 0.9, if there is one."""

import sys

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from steps import serve, tell, texts

BOOTSTRAP = sys.argv[1]
PINNED = {"api_version": tuple(map(int, sys.argv[3].split(".")))} if len(sys.argv) > 3 else {}


def consumer(group=None, **more):
    settings = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "consumer_timeout_ms": 30000}
    if PINNED.get("api_version", (9,)) >= (0, 9):
        settings |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    settings |= {"metadata_max_age_ms": 1000}
    return KafkaConsumer(bootstrap_servers=BOOTSTRAP, group_id=group, **settings, **PINNED, **more)


def take(reader, count):
    values = []
    while len(values) < int(count):
        values.append(next(reader).value)
    return texts(values)


def produce(topic, codec, count):
    codec = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type=codec, acks="all", linger_ms=50, **PINNED)
    sent = [
        producer.send(topic, b"value-%d" % number, b"key-%d" % number, partition=number % 2)
        for number in range(int(count))
    ]
    for each in sent:
        each.get(30)
    producer.close()


def read(topic, count):
    reader = consumer()
    reader.assign([TopicPartition(topic, each) for each in (0, 1)])
    values = take(reader, count)
    reader.close()
    return values


def group(topic, name, count):
    reader = consumer(name)
    reader.subscribe([topic])
    values = take(reader, count)
    reader.commit()
    reader.close()
    return values


def seek(topic, offset):
    reader = consumer()
    partition = TopicPartition(topic, 0)
    reader.assign([partition])
    reader.seek(partition, int(offset))
    values = take(reader, 1)
    reader.close()
    return values


def offsets(topic):
    reader = consumer()
    partition = TopicPartition(topic, 0)
    reader.assign([partition])
    found = []
    for move in (reader.seek_to_beginning, reader.seek_to_end):
        move(partition)
        found.append(reader.position(partition))
    reader.close()
    return found


def create(topic):
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP, **PINNED)
    admin.create_topics([NewTopic(topic, 3, 1)])
    admin.close()


def delete(topic):
    admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP, **PINNED)
    admin.delete_topics([topic])
    admin.close()


def transact(topic, name):
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=name, **PINNED)
    producer.init_transactions()
    for outcome in ("aborted", "committed"):
        producer.begin_transaction()
        producer.send(topic, outcome.encode(), b"key", partition=0).get(30)
        if outcome == "aborted":
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()


def follow(topic, name):
    reader = consumer(name)
    reader.subscribe([topic])
    try:
        while True:
            for records in reader.poll(200).values():
                for each in records:
                    tell(each.partition, each.offset, each.value)
                reader.commit()
    finally:
        reader.close()


serve(globals())
