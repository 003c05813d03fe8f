"""confluent-kafka, which is librdkafka."""

import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from steps import serve, tell, texts

BOOTSTRAP = sys.argv[1]


def checked(record):
    if record.error() is not None:
        raise RuntimeError(record.error().str())
    return record


def consumer(group):
    return Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
        }
    )


def take(reader, count):
    records = []
    while len(records) < int(count):
        record = reader.poll(0.2)
        if record is not None:
            records.append(checked(record).value())
    return texts(records)


def produce(topic, codec, count):
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "compression.codec": codec, "linger.ms": 50, "acks": "all"})
    problems = []

    def delivered(problem, _):
        if problem is not None:
            problems.append(problem)

    for number in range(int(count)):
        producer.produce(topic, b"value-%d" % number, b"key-%d" % number, number % 2, on_delivery=delivered)
    if producer.flush(30) or problems:
        raise RuntimeError(str(problems))


def read(topic, count):
    reader = consumer("nobody")
    reader.assign([TopicPartition(topic, each, 0) for each in (0, 1)])
    values = take(reader, count)
    reader.close()
    return values


def group(topic, name, count):
    reader = consumer(name)
    reader.subscribe([topic])
    values = take(reader, count)
    reader.commit(asynchronous=False)
    reader.close()
    return values


def seek(topic, offset):
    reader = consumer("nobody")
    reader.assign([TopicPartition(topic, 0, 0)])
    take(reader, 1)
    reader.seek(TopicPartition(topic, 0, int(offset)))
    values = take(reader, 1)
    reader.close()
    return values


def offsets(topic):
    reader = consumer("nobody")
    found = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    reader.close()
    return found


def create(topic):
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)


def delete(topic):
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.delete_topics([topic])[topic].result(30)


def transact(topic, name):
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": name})
    producer.init_transactions(20)
    for outcome in ("aborted", "committed"):
        producer.begin_transaction()
        producer.produce(topic, outcome.encode(), b"key", 0)
        producer.flush(20)
        if outcome == "aborted":
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)


def follow(topic, name):
    reader = consumer(name)
    reader.subscribe([topic])
    try:
        while True:
            record = reader.poll(0.2)
            if record is not None:
                checked(record)
                tell(record.partition(), record.offset(), record.value())
                reader.commit(asynchronous=False)
    finally:
        reader.close()


serve(globals())
