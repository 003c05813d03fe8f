"""aiokafka."""

import asyncio
import signal
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from steps import serve, tell, texts

BOOTSTRAP = sys.argv[1]


async def consumer(group=None, topics=(), partitions=()):
    settings = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
    settings |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500, "metadata_max_age_ms": 1000}
    reader = AIOKafkaConsumer(*topics, bootstrap_servers=BOOTSTRAP, group_id=group, **settings)
    if partitions:
        reader.assign(partitions)
    await reader.start()
    return reader


async def take(reader, count):
    return texts([(await reader.getone()).value for _ in range(int(count))])


async def produce(topic, codec, count):
    codec = None if codec == "none" else codec
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type=codec, acks="all", linger_ms=50)
    await producer.start()
    sent = [
        await producer.send(topic, b"value-%d" % number, b"key-%d" % number, partition=number % 2)
        for number in range(int(count))
    ]
    await asyncio.gather(*sent)
    await producer.stop()


async def read(topic, count):
    reader = await consumer(partitions=[TopicPartition(topic, each) for each in (0, 1)])
    values = await take(reader, count)
    await reader.stop()
    return values


async def group(topic, name, count):
    reader = await consumer(name, [topic])
    values = await take(reader, count)
    await reader.commit()
    await reader.stop()
    return values


async def seek(topic, offset):
    partition = TopicPartition(topic, 0)
    reader = await consumer(partitions=[partition])
    reader.seek(partition, int(offset))
    values = await take(reader, 1)
    await reader.stop()
    return values


async def offsets(topic):
    partition = TopicPartition(topic, 0)
    reader = await consumer(partitions=[partition])
    found = [(await look([partition]))[partition] for look in (reader.beginning_offsets, reader.end_offsets)]
    await reader.stop()
    return found


async def transact(topic, name):
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=name)
    await producer.start()
    for outcome in ("aborted", "committed"):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, outcome.encode(), b"key", partition=0)
        if outcome == "aborted":
            await producer.abort_transaction()
        else:
            await producer.commit_transaction()
    await producer.stop()


async def follow(topic, name):
    reader = await consumer(name, [topic])
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    while not ended.is_set():
        for records in (await reader.getmany(timeout_ms=200)).values():
            for each in records:
                tell(each.partition, each.offset, each.value)
            await reader.commit()
    await reader.stop()
    sys.exit(0)


def limited(step):
    return lambda *words: asyncio.run(asyncio.wait_for(step(*words), 35))


STEPS = {each.__name__: limited(each) for each in (produce, read, group, seek, offsets, transact)}
serve(STEPS | {"follow": lambda *words: asyncio.run(follow(*words))})
