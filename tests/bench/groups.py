"""Cells about consumer groups: how long a broker loads committed offsets after a restart, for two sizes, and what a commit costs.

The offsets lie in the log as they do after compaction: one record for each group and partition. They are written over the protocol, a
hundred in each request; the time is that from the broker's start until it lists all groups without error.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.errors import ErrorCode
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from tests.bench.cells import Target, cell, wait_for_controller

TOPIC: Final = "committed"
PARTITIONS: Final = 100
SIZES: Final = (100_000, 200_000)
COMMITS: Final = 2000
TIMEOUT_S: Final = 60.0
_AGAIN: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


def commit_request(group: str, partitions: int) -> Any:
    m = messages.offset_commit_request
    places = [m.OffsetCommitRequestPartition(partition_index=p, committed_offset=p) for p in range(partitions)]
    return m.OffsetCommitRequest(group_id=group, topics=[m.OffsetCommitRequestTopic(name=TOPIC, partitions=places)])


async def connect(cluster: LocalCluster) -> Connection:
    broker = next(iter(cluster.brokers.values()))
    host, port = broker.address.split(":")
    return await Connection.open(host, int(port), client_id="bench", timeout_s=TIMEOUT_S)


async def commit(connection: Connection, group: str, partitions: int) -> None:
    """Until it is acknowledged."""
    while True:
        reply = await connection.request(commit_request(group, partitions), 8, TIMEOUT_S)
        codes = {each.error_code for topic in reply.topics for each in topic.partitions}
        if codes == {ErrorCode.NONE}:
            return
        if not codes <= _AGAIN:
            raise RuntimeError(f"a commit was refused: {codes}")
        await asyncio.sleep(0.05)


async def fill(cluster: LocalCluster, offsets: int) -> None:
    connection = await connect(cluster)
    m = messages.find_coordinator_request
    await connection.request(m.FindCoordinatorRequest(coordinator_keys=["g"]), 4, TIMEOUT_S)
    for number in range(offsets // PARTITIONS):
        await commit(connection, f"group-{number}", PARTITIONS)
    connection.close()


async def wait_loaded(cluster: LocalCluster, groups: int) -> None:
    connection = await connect(cluster)
    while True:
        reply = await connection.request(messages.list_groups_request.ListGroupsRequest(), 4, TIMEOUT_S)
        if not reply.error_code and len(reply.groups) == groups:
            connection.close()
            return
        await asyncio.sleep(0.01)


def new_cluster(target: Target) -> LocalCluster:
    return LocalCluster(brokers=1, command=target.command)


def prepare(cluster: LocalCluster) -> None:
    wait_for_controller(cluster.bootstrap_servers)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], request_timeout=30)[TOPIC].result(30)


def load_s(offsets: int, target: Target) -> float:
    """From the start of the process until every group is served."""
    with new_cluster(target) as cluster:
        prepare(cluster)
        asyncio.run(fill(cluster, offsets))
        (broker_id,) = cluster.brokers
        cluster.stop(broker_id)
        began = time.perf_counter()
        cluster.start_broker(broker_id)
        asyncio.run(wait_loaded(cluster, offsets // PARTITIONS))
        return time.perf_counter() - began


for _size in SIZES:
    cell(f"load-{_size // 1000}k-offsets", "s")(partial(load_s, _size))


@cell("offset-commit", "ms")
def commit_ms(target: Target) -> float:
    """The mean of commits of one partition, one after the other, on one connection."""

    async def measure(cluster: LocalCluster) -> float:
        await fill(cluster, PARTITIONS)
        connection = await connect(cluster)
        began = time.perf_counter()
        for _ in range(COMMITS):
            await commit(connection, "group-0", 1)
        took_s = time.perf_counter() - began
        connection.close()
        return 1000 * took_s / COMMITS

    with new_cluster(target) as cluster:
        prepare(cluster)
        return asyncio.run(measure(cluster))
