"""Leader epochs after `kafkalite mirror back`: what came back has those of the source's leaders, and followers and consumers of the source
agree about where each ends. The source has two brokers that die in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.record_batches.records import iter_batches
from tests.wire.conftest import wait_until_led
from tests.wire.mirror_back import TIMEOUT_S, Switched, produce

pytestmark = pytest.mark.wire

NAME = "epochs"
UNDEFINED = -1
END = 60
OF_THE_TARGET = 99
"""A leader epoch later than the source's, as those of a target are where a mirror was fenced."""


@pytest.fixture
def clusters(
    cluster: LocalCluster, pytestconfig: pytest.Config, tmp_path: Path
) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    if pytestconfig.getoption("--apache"):
        pytest.skip("the source has to be of kafkalite")
    few = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    connect = f"{cluster.zookeeper_connect}/{tmp_path.name}"
    with (
        LocalCluster(
            brokers=2, directory=tmp_path / "source", zookeeper_connect=f"{connect}-source", properties=few
        ) as source,
        LocalCluster(brokers=1, zookeeper_connect=f"{connect}-target", properties=few) as target,
    ):
        yield source, target


def describe(servers: str) -> Any:
    return AdminClient({"bootstrap.servers": servers}).list_topics(timeout=TIMEOUT_S).topics[NAME].partitions[0]


def read_log(source: LocalCluster, broker: int) -> bytes:
    (folder,) = source.log_directories()[broker]
    return b"".join(path.read_bytes() for path in sorted((folder / f"{NAME}-0").glob("*.log")))


def read_epochs(log: bytes) -> dict[int, int]:
    """Return where each leader epoch begins, by the batches of a log."""
    begins: dict[int, int] = {}
    for each in iter_batches(log):
        begins.setdefault(each.partition_leader_epoch, each.base_offset)
    return begins


async def ask_end(address: str, epoch: int) -> tuple[int, int, int]:
    """Return what a leader says of an epoch by OffsetForLeaderEpoch: error code, epoch, end offset."""
    host, port = address.split(":")
    connection = await Connection.open(host, int(port))
    m = messages.offset_for_leader_epoch_request
    partition = m.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    topic = m.OffsetForLeaderTopic(topic=NAME, partitions=[partition])
    try:
        response = await connection.request(m.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), 3)
    finally:
        connection.close()
    (found,) = response.topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


def read_from(servers: str, offset: int, leader_epoch: int) -> int:
    """Return the offset of the first record that a consumer gets that knows this offset with this epoch.

    It may not begin elsewhere: where the epoch is not known it raises KafkaException.
    """
    settings = {"bootstrap.servers": servers, "group.id": "none", "auto.offset.reset": "error"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(NAME, 0, offset, leader_epoch=leader_epoch)])
    try:
        found = consumer.poll(TIMEOUT_S)
        assert found is not None
        if found.error():
            raise confluent_kafka.KafkaException(found.error())
        return found.offset() or 0
    finally:
        consumer.close()


def test_followers_and_consumers_of_the_source_agree_about_epochs(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    source, target = clusters
    servers, theirs = source.bootstrap_servers, target.bootstrap_servers
    for where, replicas in ((servers, 2), (theirs, 1)):
        admin = AdminClient({"bootstrap.servers": where})
        admin.create_topics([NewTopic(NAME, 1, replicas)])[NAME].result(TIMEOUT_S)
        wait_until_led(where, NAME, 1)
    switched = Switched(NAME, servers, theirs, tmp_path / "mirror")

    def copy_back(text: bytes) -> None:
        produce(theirs, NAME, text, 20, partitions=1)
        done = switched.copy_back()
        assert done.exit_code == 0, done.output

    def wait_in_sync() -> None:
        wait_until(lambda: len(describe(servers).isrs) == 2, "both replicas in sync", TIMEOUT_S)

    wait_in_sync()
    copy_back(b"first")
    leader = describe(servers).leader
    follower = next(each for each in source.broker_ids if each != leader)
    source.kill(follower)
    copy_back(b"of the leader alone")
    source.start_broker(follower)
    wait_in_sync()
    source.kill(leader)
    wait_until(lambda: describe(servers).leader == follower, "another leader", TIMEOUT_S)
    copy_back(b"of the next epoch")
    source.start_broker(leader)
    wait_in_sync()

    assert switched.read(servers, 1) == switched.read(theirs, 1)
    log = read_log(source, follower)
    wait_until(lambda: read_log(source, leader) == log, "replicas with the same bytes", TIMEOUT_S)
    begins = read_epochs(log)
    assert list(begins.values()) == [0, 20, 40], "batches have the epochs of the source's leaders"
    check_epochs(source, follower, begins)
    source.kill(follower)
    wait_until(lambda: describe(servers).leader == leader, "the first leader again", TIMEOUT_S)
    check_epochs(source, leader, begins)

    with pytest.raises(confluent_kafka.KafkaException) as refused:
        read_from(servers, 10, OF_THE_TARGET)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET, (
        "auto.offset.reset=error: no offset of the other cluster is taken"
    )


def check_epochs(source: LocalCluster, leader: int, begins: dict[int, int]) -> None:
    """A leader tells where each epoch ends, a consumer that knows an epoch goes on, and of an epoch of the target alone it says nothing."""
    address = source.broker(leader).address
    for epoch in begins:
        end = min((begin for other, begin in begins.items() if other > epoch), default=END)
        assert asyncio.run(ask_end(address, epoch)) == (0, epoch, end)
        assert read_from(source.bootstrap_servers, end - 1, epoch) == end - 1
    assert asyncio.run(ask_end(address, OF_THE_TARGET)) == (0, UNDEFINED, UNDEFINED)
