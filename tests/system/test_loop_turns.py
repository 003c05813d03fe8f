"""How long a broker's event loop works at a time while fifty old consumers come, whose first reads make `__consumer_offsets`.

They are members of groups of their own, and read compressed batches as messages; meanwhile another topic of fifty partitions is made.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest

from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.errors import ErrorCode
from kafkalite.local.broker_process import BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.types import OFFSETS_TOPIC
from tests.bench.old_consumers import next_offset

pytestmark = [pytest.mark.system, pytest.mark.timing, pytest.mark.timeout(300)]

CROWD: Final = 50
PARTITIONS: Final = 50
RECORDS: Final = 20_000
FETCH_BYTES: Final = 1 << 18
LIMIT_MS: Final = 20.0
TRIES: Final = 3
"""A processor that others share may be half as fast for a while; a loop that works long does so each time."""
TIMEOUT_S: Final = 60
_AGAIN: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class _OldConsumer:
    """A connection that does what a consumer of 0.10 does, in the versions of that time."""

    def __init__(self, connection: Connection, topic: str, group: str) -> None:
        self._connection, self._topic, self._group = connection, topic, group

    async def _ask(self, request: Any, version: int) -> Any:
        return await self._connection.request(request, version, TIMEOUT_S)

    async def join(self) -> None:
        """Find the coordinator, join the group as its only member, and ask for its offset."""
        f, j = messages.find_coordinator_request, messages.join_group_request
        s, o = messages.sync_group_request, messages.offset_fetch_request
        while (await self._ask(f.FindCoordinatorRequest(coordinator_keys=[self._group]), 0)).coordinators[0].error_code:
            await asyncio.sleep(0.05)
        protocols = [j.JoinGroupRequestProtocol(name="range", metadata=b"")]
        joining = j.JoinGroupRequest(
            group_id=self._group, session_timeout_ms=30_000, protocol_type="consumer", protocols=protocols
        )
        while (joined := await self._ask(joining, 1)).error_code in _AGAIN:
            await asyncio.sleep(0.05)
        mine = s.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        sync = s.SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[mine],
        )
        assert (await self._ask(sync, 0)).assignment == b"all"
        topics = [o.OffsetFetchRequestTopics(name=self._topic, partition_indexes=[0])]
        asked = o.OffsetFetchRequest(groups=[o.OffsetFetchRequestGroup(group_id=self._group, topics=topics)])
        assert not (await self._ask(asked, 1)).groups[0].error_code

    async def read(self, end: int) -> None:
        """All of the topic's partition 0, as messages."""
        m, offset = messages.fetch_request, 0
        while offset < end:
            asked = m.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            topics = [m.FetchTopic(topic=self._topic, partitions=[asked])]
            request = m.FetchRequest(replica_id=-1, max_wait_ms=500, min_bytes=1, topics=topics)
            (found,) = (await self._ask(request, 2)).responses[0].partitions
            assert not found.error_code, found.error_code
            offset = next_offset(bytes(found.records), 0)
            assert offset, "nothing was read"


async def _crowd(broker: BrokerProcess, topic: str) -> None:
    host, port = broker.address.split(":")

    async def consume(number: int) -> None:
        connection = await Connection.open(host, int(port), client_id=f"old-{number}")
        try:
            consumer = _OldConsumer(connection, topic, f"group-{number}")
            await consumer.join()
            await consumer.read(RECORDS)
        finally:
            connection.close()

    async def create() -> None:
        connection = await Connection.open(host, int(port))
        try:
            m = messages.create_topics_request
            wanted = m.CreatableTopic(name="meanwhile", num_partitions=PARTITIONS, replication_factor=1)
            made = await connection.request(m.CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 2, TIMEOUT_S)
            assert not made.topics[0].error_code
        finally:
            connection.close()

    await asyncio.gather(create(), *map(consume, range(CROWD)))


def _fill(broker: BrokerProcess, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "compression.type": "gzip", "batch.size": 16384, "linger.ms": 50}
    )
    for number in range(RECORDS):
        producer.produce(topic, b"%100d" % number)
    assert producer.flush(TIMEOUT_S) == 0


@contextmanager
def _broker(folder: Path) -> Iterator[tuple[BrokerProcess, Path]]:
    """(a broker that measures itself, where it writes what it measured)."""
    measured = folder / "longest"
    command = (sys.executable, str(Path(__file__).with_name("timed_broker.py")), str(measured), "--config")
    settings = {"offsets.topic.num.partitions": str(PARTITIONS), "group.initial.rebalance.delay.ms": "0"}
    with LocalCluster(brokers=1, properties=settings, directory=folder, command=command) as cluster:
        yield cluster.broker(1), measured


def _longest_turn_ms(broker: BrokerProcess, path: Path) -> float:
    """Since it was asked last."""
    path.unlink(missing_ok=True)
    os.kill(broker.pid, signal.SIGUSR2)
    wait_until(path.exists, "what the broker has measured", TIMEOUT_S)
    return float(path.read_text())


def _while_old_consumers_come_ms(folder: Path) -> float:
    with _broker(folder) as (broker, path), SyncAdmin(bootstrap_servers=broker.address) as admin:
        admin.create_topics([NewTopic("read", 1, 1)])
        _fill(broker, "read")
        assert OFFSETS_TOPIC not in admin.list_topics(include_internal=True)
        _longest_turn_ms(broker, path)
        asyncio.run(_crowd(broker, "read"))
        return _longest_turn_ms(broker, path)


def test_the_loop_works_for_less_than_20_ms_while_old_consumers_come(tmp_path: Path) -> None:
    found: list[float] = []
    while not found or (min(found) >= LIMIT_MS and len(found) < TRIES):
        found.append(_while_old_consumers_come_ms(tmp_path / str(len(found))))
    print("longest turns of the loop:", ", ".join(f"{each:.1f} ms" for each in found))
    assert min(found) < LIMIT_MS
