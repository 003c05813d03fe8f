"""A short run of a broker in a process from which brokers are forked, so that what is made at first use is made before.

These are codecs of messages above all, modules that are imported late, and caches of settings. The ZooKeeper is one in memory.
"""

from __future__ import annotations

import asyncio
import random
import tempfile

from kafkalite import event_loop
from kafkalite.broker.app import Broker
from kafkalite.client import Consumer, Producer
from kafkalite.clock import SystemClock
from kafkalite.config.broker import load_broker_config
from kafkalite.storage.disk import OsDisk
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper
from zk.session import Session

_SETTINGS = {
    "broker.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "zookeeper.connect": "127.0.0.1:1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def run() -> None:
    """Run the broker to its end; raises what goes wrong."""
    event_loop.run(_serve_twice())


async def _serve_twice() -> None:
    zookeeper = MemoryZooKeeper()
    with tempfile.TemporaryDirectory(prefix="kafkalite-practice-") as directory:
        for _ in range(2):  # the second begins with what the first has left
            await _serve(zookeeper, directory)


async def _serve(zookeeper: MemoryZooKeeper, directory: str) -> None:
    store = MemoryStore(zookeeper)
    await store.start(10)
    config = load_broker_config(None, _SETTINGS | {"log.dirs": directory})
    broker = Broker(config, Session(store), OsDisk(), SystemClock(), random.Random(), lambda reason: None)
    await broker.start()
    assert broker.serving is not None
    port = next(iter(broker.serving.server.bound_ports.values()))
    servers = f"127.0.0.1:{port}"
    async with Producer(bootstrap_servers=servers, transactional_id="practice") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("practice", b"one")
    async with Consumer(
        "practice", bootstrap_servers=servers, group_id="practice", auto_offset_reset="earliest"
    ) as consumer:
        async with asyncio.timeout(10):
            await consumer.getone()
    await broker.stop()
