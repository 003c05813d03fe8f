"""Every kind of traffic at once, for tests that stop brokers: what was acknowledged, committed and deleted is noted, and looked for later.

It runs on simulated brokers (`tests.simulation.stops`) and on real ones (`tests.system.stops`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafkalite.client import (
    Admin,
    ClientError,
    ConfigChange,
    ConfigResource,
    Consumer,
    NewTopic,
    Producer,
    TopicPartition,
)

PLAIN, CUT, KEYS, MONEY, COPIES = "plain", "cut", "keys", "money", "copies"
"""Topics of two partitions (`KEYS`: one): of all producers; with an idempotent one, whose records are deleted; compacted; of transactions;
one that is reassigned."""
COMPACTED: Final = {"cleanup.policy": "compact", "segment.bytes": "4000", "min.cleanable.dirty.ratio": "0.01"}
_METADATA_REQUESTS: Final = b"\0\0\0\x0e\0\3\0\0\0\0\0\1\0\0\0\0\0\0" * 40


@dataclass
class Figures:
    """What was seen in some seeds: how long each stop took in seconds, and how many were killed in the middle."""

    stops_s: list[float] = field(default_factory=list)
    kills: int = 0
    deaths: int = 0
    """Children of the cleaner that died with the stop of their broker."""
    acknowledged: int = 0
    committed: int = 0
    deletions: int = 0

    def took_part(self, traffic: Traffic) -> None:
        """Count what this traffic was told."""
        self.acknowledged += sum(map(len, traffic.acknowledged.values()))
        self.committed += len(traffic.committed)
        self.deletions += traffic.deletions

    def add(self, other: Figures) -> None:
        self.stops_s += other.stops_s
        for name in ("kills", "deaths", "acknowledged", "committed", "deletions"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        longest = sorted(self.stops_s)
        return (
            f"{len(longest)} stops and {self.kills} kills in the middle of one; a stop took {longest[len(longest) // 2]:.2f} s "
            f"(median), {longest[int(len(longest) * 0.99)]:.2f} s (99 %), {longest[-1]:.2f} s at most; {self.deaths} times the "
            f"cleaner's child died with it; {self.acknowledged} records acknowledged, {self.committed} of transactions committed, "
            f"{self.deletions} times records deleted"
        )


class Traffic:
    """See the module. `options` are those of every client, `chance()` gives random numbers to a program that begins, `now_s()` the time."""

    def __init__(
        self,
        options: Mapping[str, Any],
        brokers: Sequence[int],
        chance: Callable[[], random.Random],
        now_s: Callable[[], float],
    ) -> None:
        self._options, self._brokers, self._chance, self._now_s = options, brokers, chance, now_s
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {}
        """What was acknowledged with acks=all."""
        self.floors: dict[TopicPartition, int] = {}
        """Where each log starts at least, as DeleteRecords was answered while every replica was there and in sync.

        A replica that is down meanwhile is not waited for, as in Kafka: elected before it has left the ISR, it brings the records back.
        """
        self.interruptions = 0
        self.is_whole = True
        self.committed: set[bytes] = set()
        self.deletions = 0

    def interrupt(self) -> None:
        """Some brokers are about to stop; until `is_whole` is set again no deletion is counted on."""
        self.interruptions += 1
        self.is_whole = False

    def programs(self) -> dict[str, Callable[[], Any]]:
        """Coroutines that go on until they fail, when they are to be begun again, by name."""
        options = self._options
        return {
            "acks-0": lambda: self._produce("acks-0", PLAIN, acks=0, enable_idempotence=False, **options),
            "acks-1": lambda: self._produce("acks-1", PLAIN, acks=1, enable_idempotence=False, **options),
            "acks-all": lambda: self._produce("acks-all", PLAIN, acks="all", enable_idempotence=False, **options),
            "idempotent": lambda: self._produce("idempotent", CUT, acks="all", enable_idempotence=True, **options),
            "keys": lambda: self._produce("keys", KEYS, keys=3, acks="all", **options),
            "transactions": self._transact,
            "admin": self._administer,
            "deleter": self._delete,
            "long-poll": lambda: self._read([PLAIN, MONEY], fetch_max_wait_ms=5000, **options),
            "member-0": self._read_in_group,
            "member-1": self._read_in_group,
        }

    @staticmethod
    def undone(floors: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]) -> str:
        """Say which deletions were undone, if any: where logs start, and where they should at least."""
        found = {each: (starts[each], floor) for each, floor in floors.items() if starts[each] < floor}
        return f"records are back that were deleted (log start, deleted up to): {found}" if found else ""

    def lost(self, there: Mapping[str, Sequence[tuple[int, int, bytes | None]]]) -> str:
        """Say what is missing, if anything, in the records (partition, offset, value) of `PLAIN`, `CUT` and `MONEY`."""
        for partition, records in self.acknowledged.items():
            found = {offset: value for number, offset, value in there[partition.topic] if number == partition.partition}
            first = max(min(found, default=0), self.floors.get(partition, 0))
            lost = [offset for offset, value in records.items() if offset >= first and found.get(offset) != value]
            if lost:
                return f"{partition}: acknowledged records are lost at {lost[:10]}"
        missing = self.committed - {value for _, _, value in there[MONEY] if value is not None}
        return f"committed records are lost: {sorted(missing)[:10]}" if missing else ""

    async def _produce(self, name: str, topic: str, keys: int = 0, **options: Any) -> None:
        chance, number = self._chance(), 0
        async with Producer(linger_ms=chance.choice([0, 5]), **options) as producer:
            fates: set[asyncio.Future[None]] = set()
            while True:
                number += 1
                value = f"{name}-{self._now_s():.6f}-{number}".encode()
                key = b"key-%d" % chance.randrange(keys) if keys else None
                partition = 0 if keys else chance.randrange(2)
                delivery = await producer.send(topic, value, key=key, partition=partition)
                fate = asyncio.ensure_future(self._note(TopicPartition(topic, partition), value, delivery, options))
                fates.add(fate)
                fate.add_done_callback(fates.discard)
                await asyncio.sleep(chance.expovariate(6))

    async def _note(self, partition: TopicPartition, value: bytes, delivery: Any, options: dict[str, Any]) -> None:
        try:
            metadata = await delivery
        except ClientError:
            return
        if options["acks"] == "all" and partition.topic != KEYS:
            self.acknowledged.setdefault(partition, {})[metadata.offset] = value

    async def _transact(self) -> None:
        chance, number = self._chance(), 0
        async with Producer(transactional_id="money", **self._options) as producer:
            await producer.init_transactions()
            while True:
                number += 1
                values = [f"t-{self._now_s():.6f}-{number}-{part}".encode() for part in range(3)]
                async with producer.transaction():
                    for value in values:
                        await producer.send(MONEY, value, partition=chance.randrange(2))
                    await asyncio.sleep(chance.choice([0.0, 0.05]))
                self.committed.update(values)
                await asyncio.sleep(chance.expovariate(6))

    async def _read(self, topics: list[str], **options: Any) -> None:
        async with Consumer(*topics, auto_offset_reset="earliest", **options) as consumer:
            async for _ in consumer:
                pass

    async def _read_in_group(self) -> None:
        """A member that leaves and joins again."""
        chance = self._chance()
        while True:
            async with Consumer(
                PLAIN, CUT, group_id="group", auto_offset_reset="earliest", **self._options
            ) as consumer:
                left_s = self._now_s() + chance.uniform(0.5, 6.0)
                while self._now_s() < left_s:
                    await consumer.getmany(timeout_ms=200)
                await consumer.commit()

    async def _administer(self) -> None:
        chance, number = self._chance(), 0
        async with Admin(**self._options) as admin:
            while True:
                number += 1
                name = f"short-lived-{number % 3}"
                replicas = chance.sample(self._brokers, 2)
                change = {ConfigResource("topic", PLAIN): [ConfigChange("retention.ms", "set", str(10**9 + number))]}
                what = chance.randrange(4)
                try:
                    if what == 0:
                        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=2)])
                    elif what == 1:
                        await admin.delete_topics([name])
                    elif what == 2:
                        await admin.incremental_alter_configs(change)
                    else:
                        await admin.alter_partition_reassignments({TopicPartition(COPIES, 0): replicas})
                except ClientError:
                    pass
                await asyncio.sleep(chance.uniform(0.05, 0.6))

    async def _delete(self) -> None:
        chance = self._chance()
        async with Admin(**self._options) as admin:
            while True:
                partition = TopicPartition(CUT, chance.randrange(2))
                known = self.acknowledged.get(partition)
                if known:
                    asked_in, was_whole = self.interruptions, self.is_whole
                    try:
                        (done,) = await admin.delete_records({partition: chance.choice(list(known)[-50:])})
                        if was_whole and asked_in == self.interruptions:
                            self.floors[partition] = max(self.floors.get(partition, 0), done.low_watermark)
                            self.deletions += 1
                    except ClientError:
                        pass
                await asyncio.sleep(chance.uniform(0.05, 0.5))

    async def be_silent(self, host: str, port: int) -> None:
        """Half a request on one connection; on another one a request for much, of whose answer nothing is read."""
        loop = asyncio.get_running_loop()
        while True:
            for content in (b"\0\0\1\0\0\3", _METADATA_REQUESTS):
                try:
                    transport, _ = await loop.create_connection(asyncio.Protocol, host, port)
                except OSError:
                    continue
                transport.pause_reading()
                transport.write(content)
            await asyncio.sleep(5.0)
