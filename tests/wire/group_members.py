"""Members of consumer groups for the tests: three foreign clients and ours behind one shape, in a thread or in a process to be killed.

A member notes what it owns as its client's callbacks say, with the time. `python -m tests.wire.group_members SETTINGS` runs one member
and prints a JSON line for each change; the process that started it kills it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PythonCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PythonRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as PythonSticky

import kafkalite.client

Pair: TypeAlias = tuple[str, int]
KINDS: Final = ("confluent", "kafka-python", "aiokafka", "kafkalite")
ASSIGNORS: Final[dict[str, dict[str, Any]]] = {
    "kafka-python": {
        "range": PythonRange,
        "roundrobin": PythonRoundRobin,
        "sticky": PythonSticky,
        "cooperative-sticky": PythonCooperative,
    },
    "aiokafka": {"range": AioRange, "roundrobin": AioRoundRobin, "sticky": AioSticky},
}
HEARTBEAT_MS: Final = 300
CLOSE_TIMEOUT_S: Final = 20


@dataclass(frozen=True)
class Settings:
    """What a member is told; `session_ms` must be within the brokers' bounds."""

    kind: str
    servers: str
    group: str
    topics: tuple[str, ...]
    assignor: str = "range"
    session_ms: int = 3000
    instance: str | None = None


class Ownership:
    """What a member owns, and every change of it: (monotonic seconds, gained, pairs)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.owned: frozenset[Pair] = frozenset()
        self.changes: list[tuple[float, bool, frozenset[Pair]]] = []
        self.read: list[tuple[str, int, int]] = []
        self.errors: list[str] = []
        self.ended_s: float | None = None

    def change(self, gained: bool, pairs: Iterable[Pair], at_s: float | None = None) -> None:
        changed = frozenset((topic, partition) for topic, partition in pairs)
        self.owned = self.owned | changed if gained else self.owned - changed
        self.changes.append((time.monotonic() if at_s is None else at_s, gained, changed))

    @property
    def alive(self) -> bool:
        return self.ended_s is None


class Member(Ownership):
    """A member in a thread; `stop` closes it as its client does."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.kind)
        self.settings = settings
        self._stopping = False
        run = {
            "confluent": self._run_confluent,
            "kafka-python": self._run_python,
            "aiokafka": self._run_aio,
            "kafkalite": self._run_ours,
        }
        self._thread = threading.Thread(target=self._guarded, args=(run[settings.kind],), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name} did not close in {CLOSE_TIMEOUT_S} s")

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as problem:
            self.errors.append(repr(problem))
        self.ended_s = time.monotonic()

    def _pairs(self, partitions: Iterable[Any]) -> list[Pair]:
        return [(each.topic, each.partition) for each in partitions]

    def _run_confluent(self) -> None:
        s = self.settings
        options: dict[str, Any] = {
            "bootstrap.servers": s.servers,
            "group.id": s.group,
            "session.timeout.ms": s.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": s.assignor,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
        if s.instance is not None:
            options["group.instance.id"] = s.instance
        consumer = confluent_kafka.Consumer(options)
        consumer.subscribe(
            list(s.topics),
            on_assign=lambda _, partitions: self.change(True, self._pairs(partitions)),
            on_revoke=lambda _, partitions: self.change(False, self._pairs(partitions)),
            on_lost=lambda _, partitions: self.change(False, self._pairs(partitions)),
        )
        while not self._stopping:
            message = consumer.poll(0.1)
            if message is None:
                continue
            problem = message.error()
            if problem is None:
                self.read.append((message.topic() or "", message.partition() or 0, message.offset() or 0))
            elif problem.fatal():
                self.errors.append(problem.str())
                break
        consumer.close()

    def _listener(self, base: type) -> Any:
        member = self

        class Listener(base):  # type: ignore[misc]
            """Synchronous for kafka-python; aiokafka takes either."""

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                member.change(False, member._pairs(revoked))

            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                member.change(True, member._pairs(assigned))

        return Listener()

    def _run_python(self) -> None:
        s = self.settings
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=s.servers,
            group_id=s.group,
            group_instance_id=s.instance,
            session_timeout_ms=s.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[ASSIGNORS["kafka-python"][s.assignor]],
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        consumer.subscribe(list(s.topics), listener=self._listener(kafka.ConsumerRebalanceListener))
        while not self._stopping:
            for pair, records in consumer.poll(100).items():
                self.read += [(pair.topic, pair.partition, record.offset) for record in records]
        consumer.close()
        self.change(False, self.owned)

    def _run_aio(self) -> None:
        asyncio.run(self._aio())

    async def _aio(self) -> None:
        s = self.settings
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=s.servers,
            group_id=s.group,
            group_instance_id=s.instance,
            session_timeout_ms=s.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[ASSIGNORS["aiokafka"][s.assignor]],
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        consumer.subscribe(list(s.topics), listener=self._listener(aiokafka.ConsumerRebalanceListener))
        await consumer.start()
        while not self._stopping:
            for pair, records in (await consumer.getmany(timeout_ms=100)).items():
                self.read += [(pair.topic, pair.partition, record.offset) for record in records]
        await consumer.stop()
        self.change(False, self.owned)

    def _run_ours(self) -> None:
        asyncio.run(self._ours())

    async def _ours(self) -> None:
        s = self.settings
        consumer = kafkalite.client.Consumer(
            bootstrap_servers=s.servers,
            group_id=s.group,
            group_instance_id=s.instance,
            session_timeout_ms=s.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=s.assignor,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
        )
        consumer.subscribe(list(s.topics), listener=self._listener(kafkalite.client.RebalanceListener))
        async with consumer:
            while not self._stopping:
                for pair, records in (await consumer.getmany(timeout_ms=100)).items():
                    self.read += [(pair.topic, pair.partition, record.offset) for record in records]
        self.change(False, self.owned)


class Mortal(Ownership):
    """A member in a process of its own; `kill` ends it without a word to anybody."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.kind)
        command = [sys.executable, "-u", "-m", "tests.wire.group_members", json.dumps(dataclasses.asdict(settings))]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
        self._listener_thread = threading.Thread(target=self._listen, daemon=True)
        self._listener_thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                at_s, gained, pairs = json.loads(line)
                self.change(gained, [(topic, partition) for topic, partition in pairs], at_s)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self._listener_thread.join(10)  # it reads to the end of what the member said, and closes the pipe
        self.ended_s = self.ended_s or time.monotonic()

    stop = kill


def owners_overlap(members: Sequence[Ownership]) -> list[str]:
    """Where two members owned a partition at the same time, as far as their callbacks tell."""
    spans: dict[Pair, list[tuple[float, float, str]]] = {}
    for member in members:
        since: dict[Pair, float] = {}
        for at_s, gained, pairs in member.changes:
            for pair in pairs:
                if gained:
                    since.setdefault(pair, at_s)
                elif pair in since:
                    spans.setdefault(pair, []).append((since.pop(pair), at_s, member.name))
        for pair, at_s in since.items():
            spans.setdefault(pair, []).append((at_s, member.ended_s or float("inf"), member.name))
    problems = []
    for pair, found in spans.items():
        found.sort()
        for (_, end_s, first), (begin_s, _, second) in itertools.pairwise(found):
            if begin_s < end_s:
                problems.append(f"{first} and {second} both owned {pair} for {end_s - begin_s:.3f} s")
    return problems


def main() -> None:
    settings = json.loads(sys.argv[1])
    settings["topics"] = tuple(settings["topics"])
    member = Member(Settings(**settings))
    told = 0
    while member.alive:
        while told < len(member.changes):
            at_s, gained, pairs = member.changes[told]
            print(json.dumps([at_s, gained, sorted(pairs)]), flush=True)
            told += 1
        time.sleep(0.02)


if __name__ == "__main__":
    main()
