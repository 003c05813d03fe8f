"""Publish the demo's flights, and in the middle of the stream kill the leader of a partition with `kill -9`.

The totals that the publisher returns must be those that `check` reads back.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.examples.flights.check import SEQUENCE, SEQUENCE_HEADER, record_checksum
from deploy.examples.flights.records import flight_records
from kafkalite.client import Admin
from kafkalite.client.errors import ClientError
from kafkalite.client.producer.producer import Producer
from kafkalite.client.records import RecordMetadata
from kafkalite.types import NO_BROKER, TopicPartition

_PROGRESS_STEP = 4096
_POLL_S = 0.05
_SUCCESSION_S = 20.0


@dataclass(frozen=True, slots=True)
class Published:
    """Totals of the records that were sent, to be compared with those read back."""

    records: int
    bytes: int
    checksum: int
    keys: int
    null_keys: int
    seconds: float


class LeaderKill:
    """Kills the leader of one partition after `after_records` records, and measures how long writes to the partition pause."""

    def __init__(
        self, bootstrap_servers: str, partition: TopicPartition, after_records: int, pids: Mapping[int, int]
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._pids = pids
        self._last_delivery_s = 0.0
        self.partition = partition
        self.after_records = after_records
        self.killed: int | None = None
        self.successor: int | None = None
        """The next leader of the partition. Later the killed broker may be back, and lead again."""
        self.pause_s = 0.0
        self._watching: asyncio.Task[None] | None = None

    async def kill_leader(self) -> None:
        """Send SIGKILL to the leader. Raises ClientError, ProcessLookupError."""
        admin = Admin(bootstrap_servers=self._bootstrap_servers)
        try:
            await admin.connect()
            leader = await self._find_leader(admin)
            os.kill(self._pids[leader], signal.SIGKILL)
        except BaseException:
            await admin.close()
            raise
        self.killed = leader
        self._last_delivery_s = asyncio.get_running_loop().time()
        self._watching = asyncio.create_task(self._watch_leader(admin))

    async def _watch_leader(self, admin: Admin) -> None:
        try:
            while self.successor is None:
                try:
                    leader = await self._find_leader(admin)
                except ClientError as problem:
                    if not problem.retriable:
                        raise
                else:
                    self.successor = leader if leader not in (NO_BROKER, self.killed) else None
                await asyncio.sleep(_POLL_S)
        finally:
            await admin.close()

    async def wait_for_successor(self) -> None:
        """Wait until another broker leads the partition. After the time limit the current leader counts as the successor."""
        if self._watching is None:
            return
        await asyncio.wait([self._watching], timeout=_SUCCESSION_S)
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        if self.successor is None:
            self.successor = await self.find_leader()

    def record_delivery(self) -> None:
        """Note that a record of the partition was acknowledged now."""
        if self.killed is not None:
            now_s = asyncio.get_running_loop().time()
            self.pause_s = max(self.pause_s, now_s - self._last_delivery_s)
            self._last_delivery_s = now_s

    async def find_leader(self) -> int:
        """Return the partition's current leader, -1 if there is none."""
        async with Admin(bootstrap_servers=self._bootstrap_servers) as admin:
            return await self._find_leader(admin)

    async def _find_leader(self, admin: Admin) -> int:
        (described,) = await admin.describe_topics([self.partition.topic])
        return described.partitions[self.partition.partition].leader


async def publish(
    bootstrap_servers: str, topic: str, table: Any, advance: Callable[[int], None], kill: LeaderKill | None
) -> Published:
    """Send every row, keyed by tail number, with its number among its key's rows in a header; `advance` is called with the steps done.

    Returns when everything is acknowledged by all in-sync replicas. Raises the first error of a delivery.
    """
    failures: list[Exception] = []
    watched = -1 if kill is None else kill.partition.partition

    def on_delivery(found: RecordMetadata | None, problem: Exception | None) -> None:
        if problem is not None:
            failures.append(problem)
        elif kill is not None and found is not None and found.partition == watched:
            kill.record_delivery()

    numbers: defaultdict[bytes | None, int] = defaultdict(int)
    sent = size = checksum = 0
    loop = asyncio.get_running_loop()
    async with Producer(
        bootstrap_servers=bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        compression_type="zstd",
        linger_ms=20,
    ) as producer:
        started_s = loop.time()
        for key, value, timestamp in flight_records(table):
            number = numbers[key]
            numbers[key] = number + 1
            headers: list[tuple[str, bytes | None]] = [(SEQUENCE_HEADER, SEQUENCE.pack(number))]
            await producer.send_bytes(topic, value, key, None, timestamp, headers, on_delivery)
            sent += 1
            size += len(value) + len(key or b"")
            checksum += record_checksum(key, value)
            if not sent % _PROGRESS_STEP:
                advance(_PROGRESS_STEP)
            if kill is not None and sent == kill.after_records:
                await kill.kill_leader()
        await producer.flush()
        seconds = loop.time() - started_s
        if kill is not None:
            await kill.wait_for_successor()
        advance(sent % _PROGRESS_STEP)
    if failures:
        raise failures[0]
    null_keys = numbers.pop(None, 0)
    return Published(sent, size, checksum, len(numbers), null_keys, seconds)


async def wait_in_sync(bootstrap_servers: str, topics: list[str], timeout_s: float) -> bool:
    """Wait until all replicas of the topics are in sync with their leaders. Return False after `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s), Admin(bootstrap_servers=bootstrap_servers) as admin:
            while True:
                try:
                    described = await admin.describe_topics(topics)
                    if not any(each.under_replicated for topic in described for each in topic.partitions):
                        return True
                except ClientError as problem:
                    if not problem.retriable:
                        raise
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        return False
