"""Writers, readers and observers on one topic of a cluster, from the first record to the verdict.

workload = Workload(cluster, facts, "t", partitions=6, kinds=("confluent", "kafkalite-idempotent"))
workload.start()
cluster.kill(2)
workload.wait_flowing()
verdict = workload.finish(tmp_path / "history.msgpack")
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient

from kafkalite import NAME
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.testing.history.events import Drained, Event, ReplicaLog, SegmentChecked, SendAcknowledged
from kafkalite.testing.history.facts import ACKS_ALL
from kafkalite.testing.history.files import write_history
from kafkalite.testing.history.judge import Verdict, judge
from kafkalite.testing.history.recorder import Recorder
from kafkalite.testing.history.replicas import compare_replicas, partition_directories, read_replica
from kafkalite.testing.workloads.clients import (
    ConfluentReader,
    ConfluentWriter,
    KafkaliteReader,
    KafkaliteWriter,
    Reader,
    Writer,
    WriterOptions,
)
from kafkalite.testing.workloads.observers import BrokerObserver, observe_zookeeper
from kafkalite.testing.workloads.resources import ResourceWatch
from kafkalite.testing.workloads.threads import WorkloadThread
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.local.cluster import LocalCluster
    from kafkalite.testing.containers.cluster import KafkaliteCluster

WRITERS: Final[dict[str, tuple[type[Writer], bool]]] = {
    "confluent": (ConfluentWriter, False),
    "confluent-idempotent": (ConfluentWriter, True),
    NAME: (KafkaliteWriter, False),
    f"{NAME}-idempotent": (KafkaliteWriter, True),
}
"""The kinds of writer, and which of them are idempotent."""
_ASK_AGAIN_S: Final = 0.2
_GIVEN_BACK_WITHIN_S: Final = 20.0

_runs = itertools.count(1)


class Workload:
    """`kinds` are names of `WRITERS`; each kind of client that writes also reads. `records_per_s` is of each writer."""

    def __init__(
        self,
        cluster: LocalCluster | KafkaliteCluster,
        facts: ClusterFacts,
        topic: str,
        partitions: int,
        *,
        kinds: Sequence[str] = ("confluent", "kafkalite-idempotent"),
        acks: Literal[-1, 0, 1] = ACKS_ALL,
        records_per_s: int = 200,
        request_timeout_ms: int = 30_000,
    ) -> None:
        self.recorder = Recorder()
        self.topic, self.partitions = topic, partitions
        self._cluster, self._facts = cluster, facts
        self._servers = cluster.bootstrap_servers
        self._run = next(_runs)
        self.writers: list[Writer] = []
        for kind in kinds:
            writer, idempotent = WRITERS[kind]
            name = f"{kind}-{self._run}"
            options = WriterOptions(name, topic, partitions, acks, idempotent, records_per_s, request_timeout_ms)
            self.writers.append(writer(self.recorder, self._servers, options))
        readers: list[type[Reader]] = []
        if any(kind.startswith("confluent") for kind in kinds):
            readers.append(ConfluentReader)
        if any(kind.startswith(NAME) for kind in kinds):
            readers.append(KafkaliteReader)
        self.readers = [
            reader(self.recorder, self._servers, f"{reader.__name__}-{self._run}", topic, partitions)
            for reader in readers
        ]
        addresses = {broker.id: (broker.host, broker.port) for broker in cluster.brokers.values()}
        self._observer = BrokerObserver(self.recorder, addresses, topic)
        self._resources = ResourceWatch(self.recorder, cluster.brokers.values())

    @property
    def _threads(self) -> list[WorkloadThread]:
        return [*self.writers, *self.readers, self._observer]

    @property
    def problems(self) -> list[str]:
        """The problems that no client should have met, so far."""
        return [problem for thread in self._threads for problem in thread.problems]

    def start(self, timeout_s: float = 30) -> None:
        """Start all threads; returns when every writer is acknowledged on every partition."""
        self._resources.record_baseline()
        observe_zookeeper(self.recorder, self._facts, self.topic, self.partitions)
        for thread in reversed(self._threads):
            thread.start()
        self.wait_flowing(timeout_s)

    def wait_flowing(self, timeout_s: float = 30) -> float:
        """Wait until every writer is acknowledged on every partition since the call; return the seconds it took. TimeoutError."""
        since_ns = self.recorder.now_ns()

        def flowing() -> bool:
            return all(writer.acknowledged_on_all_since(since_ns) for writer in self.writers)

        try:
            wait_until(flowing, "acknowledgements on every partition", timeout_s)
        except TimeoutError as problem:
            raise TimeoutError(
                f"{problem}; {self._describe_silence(since_ns)}; problems: {self.problems[:5]}"
            ) from None
        return (self.recorder.now_ns() - since_ns) / 1e9

    def _describe_silence(self, since_ns: int) -> str:
        silent = [
            f"{writer.options.name} has none on {partition} ({writer.describe_partition(partition) or 'of which it tells nothing'})"
            for writer in self.writers
            for partition in range(self.partitions)
            if not writer.acknowledged_on(partition, since_ns)
        ]
        states = {partition: (state.leader, state.isr) for partition, state in self._facts.states(self.topic).items()}
        return f"{'; '.join(silent)}; leaders and ISRs are {states}"

    def stop(self) -> None:
        """End all threads without a verdict."""
        for thread in self._threads:
            thread.finish()

    def finish(self, path: Path, timeout_s: float = 60) -> Verdict:
        """End the writers, read everything once more, compare the replicas, keep the history in `path` and judge it.

        The cluster must be whole. A reader that does not get to the end within `timeout_s` is a problem.
        """
        for writer in self.writers:
            writer.finish(timeout_s)
        ends = _find_acknowledged_ends(self.recorder.events, self.topic, self.partitions)
        for reader in self.readers:
            try:
                wait_until(lambda reader=reader: reader.has_reached(ends), f"{reader.name} at {ends}", timeout_s)  # type: ignore[misc]
            except TimeoutError as problem:
                reader.problems.append(f"{problem}, it is at {reader.positions}")
        for thread in self._threads[len(self.writers) :]:
            thread.finish()
        self.drain(ends, timeout_s)
        self.record_replicas()
        self._resources.record_leftovers(_GIVEN_BACK_WITHIN_S)
        write_history(path, self.recorder.events)
        return judge(self.recorder.events)

    def drain(self, ends: Sequence[int], timeout_s: float = 60) -> None:
        """Read the topic from its beginning to its end, which is at or behind `ends` unless records were lost."""
        name = f"drain-{next(_runs)}"
        found = _watermarks(self._servers, self.topic, ends, timeout_s)
        reader = ConfluentReader(self.recorder, self._servers, name, self.topic, self.partitions)
        reader.positions[:] = [start for start, _ in found]
        reader.start()
        try:
            wait_until(lambda: reader.has_reached([end for _, end in found]), f"{name} at {found}", timeout_s)
        finally:
            reader.finish()
        for partition, (start, end) in enumerate(found):
            self.recorder.add(Drained(self.recorder.now_ns(), name, self.topic, partition, start, end))

    def record_replicas(self, timeout_s: float = 30) -> None:
        """Put the content of all replicas into the history, as soon as they are equal or the time is over."""
        names = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        log_dirs: dict[int, list[Path]] = {}

        def equal() -> bool:
            log_dirs.update(self._cluster.log_directories())
            return compare_replicas(log_dirs, names).equal

        try:
            wait_until(equal, "equal replicas", timeout_s)
        except TimeoutError:
            pass  # the judge says where they differ
        for broker, paths in log_dirs.items():
            found = partition_directories(paths)
            for name in names:
                if name in found:
                    batches, faults = read_replica(found[name])
                    self.recorder.add(ReplicaLog(self.recorder.now_ns(), broker, *name, batches))
                    self.recorder.add(SegmentChecked(self.recorder.now_ns(), broker, *name, "segments", faults))


class Gap(NamedTuple):
    """A time without an acknowledgement that a producer waited for."""

    duration_s: float
    began_ns: int
    producer: str
    partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.duration_s:.2f} s without an acknowledgement for {self.producer} on {self.partition}"


def longest_gap(events: Iterable[Event], since_ns: int, until_ns: int) -> Gap:
    """Return the longest time without acknowledgements of a producer's partition that ended between the two moments."""
    latest: dict[tuple[str, TopicPartition], int] = {}
    longest = Gap(0.0, since_ns, "nobody", TopicPartition("", 0))
    for event in events:
        if isinstance(event, SendAcknowledged) and event.at_ns <= until_ns:
            key = event.producer, TopicPartition(event.topic, event.partition)
            before = latest.get(key)
            if before is not None and event.at_ns > since_ns and event.at_ns - before > longest.duration_s * 1e9:
                longest = Gap((event.at_ns - before) / 1e9, before, *key)
            latest[key] = event.at_ns
    return longest


def _find_acknowledged_ends(events: Iterable[Event], topic: str, partitions: int) -> list[int]:
    """Return for each partition the offset behind the last acknowledged record."""
    ends = [0] * partitions
    for event in events:
        if isinstance(event, SendAcknowledged) and event.topic == topic:
            ends[event.partition] = max(ends[event.partition], event.offset + 1)
    return ends


def _partitions_at_each_broker(servers: str, topic: str) -> str:
    """Return what each broker's metadata has of a topic, for the report of a failure."""
    lines = []
    for server in servers.split(","):
        try:
            metadata = AdminClient({"bootstrap.servers": server, "log_level": 0}).list_topics(topic, timeout=5)
        except confluent_kafka.KafkaException as problem:
            lines.append(f"{server}: {problem}")
            continue
        partitions = {number: each.leader for number, each in sorted(metadata.topics[topic].partitions.items())}
        lines.append(f"{server}: leaders of {topic} {partitions}")
    return "; ".join(lines)


def _watermark_client(servers: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "watermarks", "log_level": 0})


def _watermarks(servers: str, topic: str, ends: Sequence[int], timeout_s: float) -> list[tuple[int, int]]:
    """Return start and end of each partition, as soon as the end is where it should be or the time is over."""
    client = _watermark_client(servers)
    deadline = time.monotonic() + timeout_s
    found = []
    try:
        for partition, end in enumerate(ends):
            wanted = confluent_kafka.TopicPartition(topic, partition)
            while True:
                try:
                    marks = client.get_watermark_offsets(wanted, timeout=5, cached=False)
                except confluent_kafka.KafkaException as problem:
                    if time.monotonic() > deadline:
                        problem.add_note(_partitions_at_each_broker(servers, topic))
                        raise
                    time.sleep(_ASK_AGAIN_S)
                    # One that a broker has told of fewer partitions, for want of news, does not ask again for minutes.
                    client.close()
                    client = _watermark_client(servers)
                    continue
                if marks[1] >= end or time.monotonic() > deadline:
                    found.append(marks)
                    break
    finally:
        client.close()
    return found
