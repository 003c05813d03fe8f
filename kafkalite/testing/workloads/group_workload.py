"""A consumer group at work while its coordinators are tormented: what its members read and commit, what OffsetFetch says, the verdict.

Rules, each for every partition:

    G1  OffsetFetch is never behind a commit that was acknowledged before it was asked
    G2  OffsetFetch is never behind what it had said before it was asked
    G3  every record below an acknowledged commit was given to a member
    G4  in the end the members have read and committed everything

Members commit what they read, batch by batch, and wait for the answer. A commit that failed promises nothing. They are of several
clients, which share the group: it goes on only when each of them has found its way.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple

import confluent_kafka

from kafkalite.client import SyncConsumer, TopicPartition
from kafkalite.client.errors import ClientError, CommitFailedError
from kafkalite.local.broker_process import wait_until

MEMBER_SESSION_MS: Final = 6000
MEMBERS: Final = ("confluent", "kafkalite")
_HEARTBEAT_MS: Final = 500
_NOTHING: Final = -1
_BATCH: Final = 200
_ANSWER_S: Final = 3.0
_CLOSE_S: Final = 60.0


class Acknowledged(NamedTuple):
    """A commit and the moment of its answer, in seconds of a monotonic clock."""

    at_s: float
    partition: int
    offset: int


class Fetched(NamedTuple):
    """What OffsetFetch said; it was asked after `asked_s` and had answered before `answered_s`. Several may ask at the same time."""

    asked_s: float
    partition: int
    offset: int
    answered_s: float


@dataclass
class GroupHistory:
    """Everything in the order in which it was noted; `read` has the offsets given to members by partition."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    fetched: list[Fetched] = field(default_factory=list)
    read: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    problems: list[str] = field(default_factory=list)


def judge(history: GroupHistory, ends: Mapping[int, int] | None = None) -> list[str]:
    """The promises that were broken; `ends` are the partitions' log ends, for G4."""
    violations = list(history.problems)
    floors: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for commit in history.acknowledged:
        known = floors[commit.partition]
        highest = max(commit.offset, known[-1][1]) if known else commit.offset
        known.append((commit.at_s, highest))
    said: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for answer in sorted(history.fetched, key=lambda each: each.answered_s):
        least = max(
            (offset for at_s, offset in floors.get(answer.partition, ()) if at_s <= answer.asked_s), default=_NOTHING
        )
        if answer.offset < least:
            violations.append(f"G1 partition {answer.partition}: {answer.offset} though {least} was acknowledged")
        told = said[answer.partition]
        earlier = bisect_right(told, answer.asked_s, key=itemgetter(0))
        before = told[earlier - 1][1] if earlier else _NOTHING
        if answer.offset < before:
            violations.append(f"G2 partition {answer.partition}: {answer.offset} after {before}")
        told.append((answer.answered_s, max(answer.offset, told[-1][1] if told else _NOTHING)))
    for partition, known in floors.items():
        skipped = set(range(known[-1][1])) - history.read[partition]
        if skipped:
            violations.append(f"G3 partition {partition}: {len(skipped)} records skipped, first {min(skipped)}")
    for partition, end in (ends or {}).items():
        committed = floors[partition][-1][1] if partition in floors else 0
        if committed != end:
            violations.append(f"G4 partition {partition}: {committed} of {end} committed")
    return violations


class GroupWorkload:
    """Members of one group on one topic, and a watcher that asks for their offsets. `members` names the client of each."""

    def __init__(
        self, servers: str, group: str, topic: str, partitions: int, *, members: Iterable[str] = MEMBERS
    ) -> None:
        self.history = GroupHistory()
        self.group, self.topic = group, topic
        self._servers, self._partitions = servers, partitions
        self._lock = threading.Lock()
        self._stopping = False
        bodies = {"confluent": self._consume, "kafkalite": self._consume_with_ours}
        jobs = [*(bodies[client] for client in members), self._watch]
        self._threads = [threading.Thread(target=self._guarded, args=(job,), daemon=True) for job in jobs]

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
        """Until a commit on each partition is acknowledged that was answered from now on; the seconds that took."""
        began_s = time.monotonic()
        first = len(self.history.acknowledged)

        def all_went_on() -> bool:
            with self._lock:
                return len({each.partition for each in self.history.acknowledged[first:]}) == self._partitions

        wait_until(all_went_on, f"commits of {self.group} on all {self._partitions} partitions", timeout_s)
        return time.monotonic() - began_s

    def wait_caught_up(self, ends: Mapping[int, int], timeout_s: float) -> None:
        """Until everything is committed."""

        def caught_up() -> bool:
            with self._lock:
                latest = {each.partition: each.offset for each in self.history.acknowledged}
            return all(latest.get(partition, 0) >= end for partition, end in ends.items())

        wait_until(caught_up, f"{self.group} to commit everything up to {dict(ends)}", timeout_s)

    def _guarded(self, job: Any) -> None:
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
        consumer = self._client(**options)
        consumer.subscribe([self.topic])
        while not self._stopping:
            messages = [each for each in consumer.consume(_BATCH, 0.1) if each.error() is None]
            ahead = self._noted((int(each.partition() or 0), int(each.offset() or 0)) for each in messages)
            offsets = [confluent_kafka.TopicPartition(self.topic, *each) for each in ahead.items()]
            try:
                answer = consumer.commit(offsets=offsets, asynchronous=False) if offsets else []
            except confluent_kafka.KafkaException:
                continue
            self._committed({each.partition: each.offset for each in answer or () if each.error is None})
        consumer.close()

    def _consume_with_ours(self) -> None:
        with SyncConsumer(
            self.topic,
            bootstrap_servers=self._servers,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=MEMBER_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            default_api_timeout_ms=int(_ANSWER_S * 1000),
            fetch_max_wait_ms=100,
        ) as consumer:
            while not self._stopping:
                found = consumer.poll(timeout_ms=100, max_records=_BATCH)
                ahead = self._noted((each.partition, each.offset) for records in found.values() for each in records)
                if not ahead:
                    continue
                try:
                    consumer.commit({TopicPartition(self.topic, number): offset for number, offset in ahead.items()})
                except ClientError as problem:
                    if not (problem.retriable or isinstance(problem, CommitFailedError)):
                        raise
                    continue
                self._committed(ahead)

    def _noted(self, places: Iterable[tuple[int, int]]) -> dict[int, int]:
        """Records at (partition, offset) were given to a member; the offsets to commit."""
        ahead: dict[int, int] = {}
        with self._lock:
            for partition, offset in places:
                self.history.read[partition].add(offset)
                ahead[partition] = offset + 1
        return ahead

    def _committed(self, offsets: Mapping[int, int]) -> None:
        with self._lock:
            at_s = time.monotonic()
            self.history.acknowledged += [Acknowledged(at_s, *each) for each in offsets.items()]

    def _watch(self) -> None:
        client = self._client()
        places = [confluent_kafka.TopicPartition(self.topic, number) for number in range(self._partitions)]
        while not self._stopping:
            asked_s = time.monotonic()
            try:
                answer = client.committed(places, timeout=_ANSWER_S)
            except confluent_kafka.KafkaException:
                continue
            answered_s = time.monotonic()
            with self._lock:
                self.history.fetched += [
                    Fetched(asked_s, place.partition, max(place.offset, _NOTHING), answered_s)
                    for place in answer
                    if place.error is None
                ]
            time.sleep(0.05)
        client.close()
