"""Two clusters after the switch of a topic, and `kafkalite mirror back` between them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import confluent_kafka
from click.testing import CliRunner, Result

from kafkalite.cli.main import main
from kafkalite.cli.mirror.administered.reading import read_administered
from kafkalite.cli.mirror.administered.state import Administered, AtSwitch
from kafkalite.cli.mirror.files import MirrorDirectory, MirrorState
from kafkalite.cli.mirror.plan import KnownTopic
from kafkalite.client import Admin, AdminOptions, SyncAdmin
from kafkalite.client.cluster.client import ClusterClient

TIMEOUT_S = 60
PARTITIONS = 2


async def read_side(servers: str) -> Administered:
    options = AdminOptions(bootstrap_servers=servers)
    cluster = ClusterClient(options)
    await cluster.connect()
    try:
        async with Admin(bootstrap_servers=servers) as admin:
            return await read_administered(admin, cluster)
    finally:
        await cluster.close()


class Switched:
    """A topic of both clusters after a switch, at which it was empty, or had the same records."""

    def __init__(self, name: str, source: str, target: str, directory: Path) -> None:
        self.name, self.source, self.target, self.directory = name, source, target, directory
        ids, clusters, there = [], [], []
        for servers in (source, target):
            with SyncAdmin(bootstrap_servers=servers) as admin:
                ids.append(admin.describe_topics([name])[0].topic_id)
                clusters.append(admin.describe_cluster().cluster_id or "")
            there.append(asyncio.run(read_side(servers)))
        directory.mkdir()
        state = MirrorState(*clusters, 900, "00" * 16, {name: KnownTopic(*ids)}, is_switched=True)
        MirrorDirectory(directory).write_state(state)
        MirrorDirectory(directory).write_at_switch(AtSwitch(there[1]))

    def copy_back(self, wait_s: float = TIMEOUT_S, *more: str) -> Result:
        where = ["-b", self.source, "--to", self.target, "--wait", str(wait_s), "--replication-factor", "1"]
        return CliRunner().invoke(main, ["mirror", "back", str(self.directory), *where, *more])

    def verify(self, *more: str) -> Result:
        where = ["-b", self.source, "--to", self.target]
        return CliRunner().invoke(main, ["mirror", "verify", str(self.directory), *where, *more])

    def read(self, servers: str, partitions: int = PARTITIONS) -> list[tuple[object, ...]]:
        """All committed records, with offsets and timestamps."""
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": servers, "group.id": "none", "enable.partition.eof": True}
        )
        found: list[tuple[object, ...]] = []
        for number in range(partitions):
            consumer.assign([confluent_kafka.TopicPartition(self.name, number, 0)])
            while (each := consumer.poll(TIMEOUT_S)) is not None and each.error() is None:
                found.append((number, each.offset(), each.timestamp(), each.key(), each.value(), each.headers()))
            assert each is not None and each.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
        consumer.close()
        return found


def produce(servers: str, topic: str, text: bytes, count: int = 20, partitions: int = PARTITIONS) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, text, b"k%d" % number, number % partitions, headers=[("h", b"x")])
    assert producer.flush(TIMEOUT_S) == 0
