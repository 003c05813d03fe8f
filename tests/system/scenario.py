"""One failure test: a topic with writers and readers at work on it, what is done to the cluster meanwhile, the verdict.

Topics have factor 3 and min.insync.replicas 2 unless a test says otherwise; writers have acks=all.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import BrokerDied, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.testing.history.files import write_history
from kafkalite.testing.history.judge import Verdict
from kafkalite.testing.history.report import explain
from kafkalite.testing.workloads.workload import Workload, longest_gap

SESSION_S = 2.0
PROPERTIES = {
    "zookeeper.session.timeout.ms": "2000",
    "zookeeper.connection.timeout.ms": "20000",  # its default is the session's: too short for a start on a busy machine
    "replica.lag.time.max.ms": "4000",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "auto.leader.rebalance.enable": "false",  # leaders move when a test moves them
}

RECORDS_PER_S = 120
"""Of each writer: on each of six partitions a burst every quarter of a second. More is no other test, and costs the processor that brokers
need to be quick."""

_numbers = itertools.count(1)


class Scenario:
    """The cluster of a test and its workloads; `apache` when the brokers are Apache Kafka's."""

    def __init__(self, cluster: LocalCluster, directory: Path, *, apache: bool = False) -> None:
        self.cluster = cluster
        self.facts = ClusterFacts(cluster.zookeeper_connect)
        self._directory = directory
        self._apache = apache
        self._workloads: list[Workload] = []

    def create_topic(
        self, partitions: int, *, replication: int = 3, config: dict[str, str] | None = None, name: str | None = None
    ) -> str:
        """Returns when all replicas of all partitions are in sync."""
        name = name or f"system-{next(_numbers)}"
        wanted = NewTopic(name, partitions, replication, config={"min.insync.replicas": "2"} | (config or {}))

        def created() -> bool:
            """A broker may not have heard yet who the controller is, which librdkafka takes for the outcome, and does not ask again."""
            admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
            try:
                admin.create_topics([wanted], request_timeout=30, operation_timeout=30)[name].result(60)
            except KafkaException as failure:
                if failure.args[0].code() != KafkaError.NOT_CONTROLLER:
                    raise
                return False
            return True

        wait_until(created, f"topic {name}, which the controller creates", 30)
        self.wait_replicated(name)
        return name

    def wait_replicated(self, topic: str, timeout_s: float = 30) -> None:
        def replicated() -> bool:
            return len(self.facts.brokers()) == len(self.cluster.brokers) and self.facts.fully_replicated(topic)

        try:
            wait_until(replicated, f"all replicas of {topic} in sync", timeout_s)
        except TimeoutError as problem:
            shown = {partition: (s.leader, s.isr) for partition, s in self.facts.states(topic).items()}
            raise TimeoutError(f"{problem}; brokers {self.facts.brokers()}; leaders and ISRs {shown}") from None

    def start_workload(
        self,
        topic: str,
        partitions: int = 6,
        kinds: Sequence[str] = ("confluent", "kafkalite-idempotent"),
        request_timeout_ms: int = 30_000,
    ) -> Workload:
        workload = Workload(
            self.cluster,
            self.facts,
            topic,
            partitions,
            kinds=kinds,
            records_per_s=RECORDS_PER_S,
            request_timeout_ms=request_timeout_ms,
        )
        self._workloads.append(workload)
        workload.start()
        return workload

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was killed. Apache Kafka gives up while its old session lives, and is started again."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self.cluster.start_broker(broker_id)
                return
            except BrokerDied:
                if not self._apache or time.monotonic() > deadline:
                    raise

    def wait_dead(self, broker_id: int, timeout_s: float = 30) -> None:
        """Until a broker's process has ended by itself."""
        wait_until(lambda: not self.cluster.broker(broker_id).running, f"the end of broker {broker_id}", timeout_s)

    def wait_registered_again(self, broker_id: int, old_epoch: int, timeout_s: float = 30) -> None:
        """Until the broker has another registration than that of `old_epoch`."""
        registered = f"broker {broker_id} registered again"
        wait_until(lambda: self.facts.broker_epoch(broker_id) > old_epoch, registered, timeout_s)

    def wait_led_by_others(self, topic: str, broker_ids: set[int], timeout_s: float = 30) -> None:
        """Until every partition is led by a broker that is not one of these."""

        def led() -> bool:
            return all(leader >= 0 and leader not in broker_ids for leader in self.facts.leaders(topic))

        wait_until(led, f"leaders of {topic} other than {broker_ids}", timeout_s)

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        """The log end of each partition; asked again where a client knows no leader, or no partition, in an election."""
        probe = Consumer({"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": "probe", "log_level": 0})
        found: dict[int, int] = {}

        def told() -> bool:
            for partition in range(partitions):
                if partition not in found:
                    try:
                        marks = probe.get_watermark_offsets(TopicPartition(topic, partition), timeout=20, cached=False)
                    except KafkaException:
                        return False
                    found[partition] = marks[1]
            return True

        try:
            wait_until(told, f"the ends of {topic}", 60)
        finally:
            probe.close()
        return found

    def verdict(self, workload: Workload) -> Verdict:
        """Let the cluster become whole, end the workload, and hold its history to all rules; no client may have met an error."""
        self.wait_replicated(workload.topic)
        workload.wait_flowing()
        path = self._history_path(workload)
        verdict = workload.finish(path)
        problems = workload.problems
        assert not problems, f"{len(problems)} problems, first {problems[:5]}; history in {path}"
        assert not verdict.violations, f"{explain(workload.recorder.events, verdict)}\nhistory in {path}"
        idle = verdict.idle()
        assert not idle, f"nothing was held to {idle}: {verdict}"
        print(verdict)
        return verdict

    def _history_path(self, workload: Workload) -> Path:
        return self._directory / f"history-{workload.topic}.msgpack"

    @contextmanager
    def measured(self, workload: Workload, what: str, most_s: float | None = None) -> Iterator[None]:
        """Print, and bound by `most_s`, the longest time that a producer had no acknowledgement on a partition."""
        since_ns = workload.recorder.now_ns()
        yield
        gap = longest_gap(workload.recorder.events, since_ns, workload.recorder.now_ns())
        print(f"{what}: {gap}")
        assert most_s is None or gap.duration_s <= most_s, f"{what}: {gap}"

    def close(self) -> None:
        """End what still runs, and repair the cluster for the next test."""
        for workload in self._workloads:
            workload.stop()
            if not (path := self._history_path(workload)).exists():  # the test failed before its verdict
                write_history(path, workload.recorder.events)
        try:
            self.cluster.heal()
            for broker in self.cluster.brokers.values():
                self.cluster.unpause(broker.id)
                if not broker.running:
                    self.start_broker(broker.id)
            wait_until(lambda: len(self.facts.brokers()) == len(self.cluster.brokers), "all brokers registered", 30)
        finally:
            self.facts.close()
