"""A consumer group at work while its coordinators are tormented: what its members read and commit, what OffsetFetch says, the verdict.

What is recorded is judged by rules C11 and C12 of `kafkalite.testing.history.judge`, and in the end the members must have committed
everything.

Members commit what they read, batch by batch, and wait for the answer. A commit that failed promises nothing. They are of several
clients, which share the group: it goes on only when each of them has found its way.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka

from kafkalite import NAME
from kafkalite.client import RebalanceListener, SyncConsumer, TopicPartition
from kafkalite.client.errors import ClientError, CommitFailedError
from kafkalite.local.broker_process import wait_until
from kafkalite.testing.history.events import (
    NO_OFFSET,
    UNKNOWN_GENERATION,
    CommitAcknowledged,
    CommitInvoked,
    OffsetFetched,
    PartitionAssigned,
    ReaderStarted,
    RecordRead,
)
from kafkalite.testing.history.facts import facts_of
from kafkalite.testing.history.judge import RULES
from kafkalite.testing.history.recorder import Recorder

MEMBER_SESSION_MS: Final = 6000
MEMBERS: Final = ("confluent", NAME)
_HEARTBEAT_MS: Final = 500
_BATCH: Final = 200
_ANSWER_S: Final = 3.0
_CLOSE_S: Final = 60.0
_METADATA_MAGIC: Final = b"CGMDv2:"

_members = itertools.count(1)


@dataclass
class GroupHistory:
    """What the members of `group` did with `topic`; they and the watcher append to it from threads of their own."""

    group: str
    topic: str
    recorder: Recorder = field(default_factory=Recorder)
    problems: list[str] = field(default_factory=list)
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """Partition and offset of each acknowledged commit, in their order."""
    _commits: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def record_start(self, name: str) -> None:
        """Record that a member begins."""
        self.recorder.add(ReaderStarted(self.recorder.now_ns(), name, self.group, False))

    def record_reads(self, member: str, places: Iterable[tuple[int, int]]) -> dict[int, int]:
        """Record that a member was given the records at (partition, offset); return the offsets to commit."""
        ahead: dict[int, int] = {}
        for partition, offset in places:
            self.record_read(member, partition, offset)
            ahead[partition] = offset + 1
        return ahead

    def record_read(self, member: str, partition: int, offset: int) -> None:
        self.recorder.add(RecordRead(self.recorder.now_ns(), member, self.topic, partition, offset, "", offset))

    def record_assignment(self, member: str, generation: int, partitions: Iterable[int]) -> None:
        """Record that a member was given these partitions."""
        for each in partitions:
            now_ns = self.recorder.now_ns()
            self.recorder.add(PartitionAssigned(now_ns, self.group, member, generation, self.topic, each))

    def record_invocations(self, member: str, offsets: Mapping[int, int]) -> dict[int, int]:
        """Record that offsets are about to be committed; return the number of each partition's commit."""
        numbers = {}
        for partition, offset in offsets.items():
            numbers[partition] = number = next(self._commits)
            now_ns = self.recorder.now_ns()
            self.recorder.add(CommitInvoked(now_ns, self.group, member, number, self.topic, partition, offset))
        return numbers

    def record_commit(
        self, member: str, number: int, partition: int, offset: int, generation: int = UNKNOWN_GENERATION
    ) -> None:
        now_ns = self.recorder.now_ns()
        self.recorder.add(CommitAcknowledged(now_ns, self.group, member, number, generation))
        self.acknowledged.append((partition, offset))

    def record_fetch(self, asked_ns: int, partition: int, offset: int) -> None:
        now_ns = self.recorder.now_ns()
        self.recorder.add(OffsetFetched(now_ns, asked_ns, "watcher", self.group, self.topic, partition, offset))


def judge(history: GroupHistory, ends: Mapping[int, int] | None = None) -> list[str]:
    """Return the promises that were broken; `ends` are the partitions' log ends, which the members must have committed."""
    violations = list(history.problems)
    facts = facts_of(list(history.recorder.events))
    for rule in ("C11", "C12"):
        violations += [f"{rule} {subject}: {finding}" for subject, finding in RULES[rule](facts) if finding is not None]
    committed: dict[int, int] = {}
    for partition, offset in history.acknowledged:
        committed[partition] = max(offset, committed.get(partition, 0))
    for partition, end in (ends or {}).items():
        if committed.get(partition, 0) != end:
            violations.append(f"partition {partition}: {committed.get(partition, 0)} of {end} committed")
    return violations


class GroupWorkload:
    """Members of one group on one topic, and a watcher that asks for their offsets. `members` names the client of each."""

    def __init__(
        self, servers: str, group: str, topic: str, partitions: int, *, members: Iterable[str] = MEMBERS
    ) -> None:
        self.history = GroupHistory(group, topic)
        self.group, self.topic = group, topic
        self._servers, self._partitions = servers, partitions
        self._stopping = False
        bodies = {"confluent": self._consume, NAME: self._consume_with_ours}
        jobs = [*(bodies[client] for client in members), self._watch]
        self._threads = [threading.Thread(target=self._run_guarded, args=(job,), daemon=True) for job in jobs]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the members as their client does. TimeoutError when one does not."""
        self._stopping = True
        for thread in self._threads:
            thread.join(_CLOSE_S)
            if thread.is_alive():
                raise TimeoutError(f"a member of {self.group} did not close in {_CLOSE_S} s")

    def wait_committing(self, timeout_s: float) -> float:
        """Wait until a commit on each partition is answered from now on; return the seconds it took."""
        began_s = time.monotonic()
        first = len(self.history.acknowledged)

        def all_went_on() -> bool:
            return len({partition for partition, _ in self.history.acknowledged[first:]}) == self._partitions

        wait_until(all_went_on, f"commits of {self.group} on all {self._partitions} partitions", timeout_s)
        return time.monotonic() - began_s

    def wait_caught_up(self, ends: Mapping[int, int], timeout_s: float) -> None:
        """Wait until everything is committed."""

        def caught_up() -> bool:
            latest = dict(self.history.acknowledged)
            return all(latest.get(partition, 0) >= end for partition, end in ends.items())

        wait_until(caught_up, f"{self.group} to commit everything up to {dict(ends)}", timeout_s)

    def _run_guarded(self, job: Any) -> None:
        try:
            job()
        except Exception as problem:
            self.history.problems.append(f"a client failed: {problem!r}")

    def _client(self, **options: Any) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                **options,
            }
        )

    def _consume(self) -> None:
        options = {
            "session.timeout.ms": MEMBER_SESSION_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "fetch.wait.max.ms": 100,
        }
        name = self._register_member("confluent")
        consumer = self._client(**options)

        def record_assignment(client: Any, given: list[confluent_kafka.TopicPartition]) -> None:
            self.history.record_assignment(name, _generation(client), [int(each.partition or 0) for each in given])

        consumer.subscribe([self.topic], on_assign=record_assignment)
        while not self._stopping:
            messages = [each for each in consumer.consume(_BATCH, 0.1) if each.error() is None]
            places = ((int(each.partition() or 0), int(each.offset() or 0)) for each in messages)
            ahead = self.history.record_reads(name, places)
            numbers = self.history.record_invocations(name, ahead)
            offsets = [confluent_kafka.TopicPartition(self.topic, *each) for each in ahead.items()]
            generation = _generation(consumer)
            try:
                answer = consumer.commit(offsets=offsets, asynchronous=False) if offsets else []
            except confluent_kafka.KafkaException:
                continue
            taken = {each.partition: each.offset for each in answer or () if each.error is None}
            self._record_commits(name, numbers, taken, (generation, _generation(consumer)))
        consumer.close()

    def _consume_with_ours(self) -> None:
        name = self._register_member(NAME)
        with SyncConsumer(
            bootstrap_servers=self._servers,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=MEMBER_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            default_api_timeout_ms=int(_ANSWER_S * 1000),
            fetch_max_wait_ms=100,
        ) as consumer:
            consumer.subscribe([self.topic], listener=_Assignments(self.history, name, consumer))
            while not self._stopping:
                found = consumer.poll(timeout_ms=100, max_records=_BATCH)
                places = ((each.partition, each.offset) for records in found.values() for each in records)
                ahead = self.history.record_reads(name, places)
                if not ahead:
                    continue
                numbers = self.history.record_invocations(name, ahead)
                generation = _generation_of_ours(consumer)
                try:
                    consumer.commit({TopicPartition(self.topic, number): offset for number, offset in ahead.items()})
                except ClientError as problem:
                    if not (problem.retriable or isinstance(problem, CommitFailedError)):
                        raise
                    continue
                self._record_commits(name, numbers, ahead, (generation, _generation_of_ours(consumer)))

    def _register_member(self, client: str) -> str:
        name = f"{client}-{next(_members)}"
        self.history.record_start(name)
        return name

    def _record_commits(
        self, member: str, numbers: Mapping[int, int], offsets: Mapping[int, int], generations: tuple[int, int]
    ) -> None:
        """Record acknowledged commits. `generations` are the member's before the commit and after it."""
        before, after = generations
        known = before if before == after else UNKNOWN_GENERATION
        for partition, offset in offsets.items():
            self.history.record_commit(member, numbers[partition], partition, offset, known)

    def _watch(self) -> None:
        client = self._client()
        places = [confluent_kafka.TopicPartition(self.topic, number) for number in range(self._partitions)]
        while not self._stopping:
            asked_ns = self.history.recorder.now_ns()
            try:
                answer = client.committed(places, timeout=_ANSWER_S)
            except confluent_kafka.KafkaException:
                continue
            for place in answer:
                if place.error is None:
                    self.history.record_fetch(asked_ns, place.partition, max(place.offset, NO_OFFSET))
            time.sleep(0.05)
        client.close()


class _Assignments(RebalanceListener):
    """Notes what a member of our client is given; the next rebalance waits for it."""

    def __init__(self, history: GroupHistory, member: str, consumer: SyncConsumer) -> None:
        self._history, self._member, self._consumer = history, member, consumer

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        partitions = sorted(each.partition for each in assigned)
        self._history.record_assignment(self._member, _generation_of_ours(self._consumer), partitions)


def _generation_of_ours(consumer: SyncConsumer) -> int:
    try:
        return consumer.group_metadata().generation_id
    except CommitFailedError:  # no member now, or partitions were given up meanwhile
        return UNKNOWN_GENERATION


def _generation(consumer: confluent_kafka.Consumer) -> int:
    """librdkafka tells it only as part of what rd_kafka_consumer_group_metadata_write writes: a magic, the generation, names."""
    written: Any = consumer.consumer_group_metadata()
    (generation,) = struct.unpack_from("=i", written, len(_METADATA_MAGIC))
    return int(generation) if written.startswith(_METADATA_MAGIC) else UNKNOWN_GENERATION
