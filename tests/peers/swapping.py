"""Three brokers that `kafkalite migrate` replaces one by one, and the clients that are served meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import confluent_kafka
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.cli.main import main
from kafkalite.cli.migrate.sequence import Act
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, start_process, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.warm_brokers import start_warm
from kafkalite.types import TopicPartition
from tests.peers import apache_kafka, old_brokers
from tests.peers.swap_ledger import ACKS, COUNTS, IDEMPOTENT, TRANSACTIONAL, Ledger, Record, parse_ledger
from tests.wire.conftest import wait_until_led
from zk import paths

BROKERS: Final = (1, 2, 3)
PARTITIONS: Final = 3
OURS, APACHE = "kafkalite", "apache-kafka"
TOPICS: Final = (ACKS, IDEMPOTENT, TRANSACTIONAL, COUNTS)
PROGRESS: Final = 15
"""Records of each producer, and of readers, that make a cluster one that serves."""
_SOURCE: Final = Path(__file__).with_name("SwapLoad.java")
_WAIT_S: Final = 300.0
_SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "10000",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}


def broker_command(version: str) -> list[str]:
    """Return the command of a release's broker, fetched at the first call."""
    if version == apache_kafka.VERSION:
        apache_kafka.fetch()
        return apache_kafka.broker_command()
    return old_brokers.java(version, "kafka.Kafka")


class Load:
    """SwapLoad.java, with clients of the release that the cluster comes from."""

    def __init__(self, directory: Path, version: str, servers: str) -> None:
        directory.mkdir()
        self._ledger, self._stop, self._log = directory / "ledger", directory / "stop", directory / "log"
        release = tuple(map(int, version.split(".")))
        guarantee = "exactly_once" if release < (2, 5) else "exactly_once_beta" if release < (3,) else "exactly_once_v2"
        arguments = [servers, str(self._ledger), str(directory / "state"), guarantee, "50"]
        if version == apache_kafka.VERSION:
            command = apache_kafka.streams_command(_SOURCE, *arguments)
        else:
            command = old_brokers.streams_command(version, _SOURCE, *arguments)
        with self._log.open("wb") as log:
            self._process = start_process(command, log)

    def read_ledger(self) -> Ledger:
        """Return what clients saw until now. Raises AssertionError for an error that reached one."""
        ledger = Ledger()
        if self._ledger.exists():
            with self._ledger.open() as lines:
                ledger = parse_ledger(lines)
        assert not ledger.errors and self._process.poll() is None, self._describe(ledger)
        return ledger

    def _describe(self, ledger: Ledger) -> str:
        return "\n".join([*ledger.errors, self._log.read_text(errors="replace")[-5000:]])

    def await_progress(self) -> None:
        """Wait until each producer is acknowledged, transactions end, and readers read on."""
        was = self.read_ledger()

        def goes_on() -> bool:
            now = self.read_ledger()
            more = [now.count_acked(each) - was.count_acked(each) for each in (ACKS, IDEMPOTENT, TRANSACTIONAL)]
            ended = len(now.committed) + len(now.aborted) - len(was.committed) - len(was.aborted)
            return min(*more, now.count_read() - was.count_read()) >= PROGRESS and ended > 1

        try:
            wait_until(goes_on, "records of all clients", _WAIT_S)
        except TimeoutError as late:
            raise AssertionError(f"{late}: {self._describe(self.read_ledger())}") from None

    def end_producers(self) -> Ledger:
        """Let producers end, and readers read all; returns the whole ledger."""
        self._stop.touch()
        wait_until(lambda: "consumed" in self.read_ledger().ended, "the end of all readers", _WAIT_S)
        return self.read_ledger()

    def close(self) -> None:
        """End the process, which ends Kafka Streams in order."""
        self._process.terminate()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._process.wait()


class Swap:
    """The cluster, its plan, and `kafkalite migrate` on it. The test does what the tool's commands ask for."""

    def __init__(self, directory: Path, cluster: LocalCluster, version: str) -> None:
        self.facts = ClusterFacts(cluster.zookeeper_connect)
        self._directory = directory
        self._plan = directory / "plan.toml"
        self._apaches = broker_command(version)
        protocol = version.rpartition(".")[0]
        settings = _SETTINGS | {
            "zookeeper.connect": cluster.zookeeper_connect,
            "inter.broker.protocol.version": protocol,
            "log.message.format.version": "3.0" if protocol.startswith("3.") else protocol,
        }
        self.brokers = {each: BrokerProcess(each, directory, settings, self._apaches) for each in BROKERS}
        self.sides = dict.fromkeys(BROKERS, APACHE)
        self.servers = ",".join(each.address for each in self.brokers.values())
        self._where = ["-b", self.servers, "-z", cluster.zookeeper_connect]

    def start(self) -> None:
        """Start all three as Apache Kafka, and create the topics."""
        for each in self.brokers.values():
            each.start()
        for each in self.brokers.values():
            each.wait_started(_WAIT_S)
        apache_kafka.wait_for_controller(self.servers, _WAIT_S)
        admin = AdminClient({"bootstrap.servers": self.servers})
        replicas = [[*BROKERS[first:], *BROKERS[:first]] for first in range(PARTITIONS)]
        topics = [NewTopic(each, PARTITIONS, replica_assignment=replicas) for each in TOPICS]
        for created in admin.create_topics(topics, request_timeout=30).values():
            created.result(30)
        for topic in TOPICS:
            wait_until_led(self.servers, topic, PARTITIONS)

    def close(self) -> None:
        for each in self.brokers.values():
            each.close()
        self.facts.close()

    def migrate(self, *words: str) -> Result:
        """Run `kafkalite migrate` in this process."""
        return CliRunner().invoke(main, ["migrate", *words, *self._where])

    def make_plan(self) -> None:
        planned = self.migrate("plan", str(self._plan))
        assert planned.exit_code == 0, planned.output

    def replace(self, verb: str, kills: Sequence[Act], *words: str) -> int:
        """Let the tool replace a broker, and kill it when it begins one of these acts, once each; returns the broker's id."""
        target = OURS if verb == "step" else APACHE
        before = dict(self.sides)
        for act in (*kills, None):
            if self._run_tool(verb, target, words, kill_at=act):
                break
        (changed,) = (each for each in BROKERS if self.sides[each] != before[each])
        return changed

    def _run_tool(self, verb: str, target: str, words: Sequence[str], kill_at: Act | None) -> bool:
        """Run the tool, doing what its commands ask for; returns False if it was killed. A killed tool takes its command with it."""
        output = self._directory / "migrate.log"
        command = [sys.executable, "-m", "kafkalite", "migrate", verb, str(self._plan), *self._where, "--yes", *words]
        command += ["--stop-command", self._script("stop"), "--start-command", self._script("start")]
        begin = output.stat().st_size if output.exists() else 0
        with output.open("ab") as log:
            tool = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

        def printed() -> str:
            return output.read_bytes()[begin:].decode()

        def has_ended() -> bool:
            self._serve(target)
            if kill_at is not None and any(line.endswith(f": {kill_at}") for line in printed().splitlines()):
                os.killpg(tool.pid, signal.SIGKILL)
            return tool.poll() is not None

        try:
            wait_until(has_ended, f"migrate {verb}", _WAIT_S)
        except TimeoutError as late:
            raise AssertionError(f"{late}:\n{printed()}") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(tool.pid, signal.SIGKILL)  # with its command, which would wait for this test for ever
            tool.wait()
        assert tool.returncode in ((0,) if kill_at is None else (0, -signal.SIGKILL)), printed()
        return tool.returncode == 0

    def _script(self, verb: str) -> str:
        """Return a command that leaves a request in the test's directory, and returns when it is served."""
        ask = f'echo "$KAFKALITE_BROKER_ID" > draft && mv draft $$.{verb}'
        return f"cd {self._directory} && {ask} && while [ -e $$.{verb} ]; do sleep 0.05; done"

    def _serve(self, target: str) -> None:
        for request in [*self._directory.glob("*.stop"), *self._directory.glob("*.start")]:
            broker = self.brokers[int(request.read_text())]
            if request.suffix == ".stop":
                assert broker.stop() in (0, 143), broker.log_tail()
            else:
                self._become(broker, target)
            request.unlink()

    def _become(self, broker: BrokerProcess, side: str) -> None:
        self.sides[broker.id] = side
        broker.command = BROKER_COMMAND if side == OURS else self._apaches
        broker.start_process = start_warm if side == OURS else start_process
        broker.start()
        broker.wait_started(_WAIT_S)

    def of_side(self, side: str) -> set[int]:
        return {each for each, found in self.sides.items() if found == side}

    def move_controller(self, side: str) -> None:
        """Let a broker of that side become the controller: the others are paused while the seat is free."""
        wanted = self.of_side(side)
        others = [each for number, each in self.brokers.items() if number not in wanted]
        try:
            for each in others:
                each.pause()
            self.facts.client.delete(paths.CONTROLLER)
            wait_until(lambda: self.facts.controller() in wanted, f"a controller of {side}", 30)
        finally:
            for each in others:
                each.resume()

    def await_in_sync(self) -> None:
        """Wait until every replica of the topics is in sync."""
        wait_until(lambda: all(map(self.facts.fully_replicated, TOPICS)), "all replicas in sync", _WAIT_S)

    def leading_sides(self) -> set[str]:
        """Return the sides that lead partitions of the topics."""
        return {self.sides[each] for topic in TOPICS for each in self.facts.leaders(topic)}

    def read_committed(self, topics: Collection[str]) -> dict[TopicPartition, list[tuple[str, Record]]]:
        """Return key, offset and value of what a reader of committed records finds."""
        settings = {"group.id": "judge", "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, **settings})
        places = [confluent_kafka.TopicPartition(each, number, 0) for each in topics for number in range(PARTITIONS)]
        ends = {(each.topic, each.partition): consumer.get_watermark_offsets(each, timeout=60)[1] for each in places}
        consumer.assign(places)
        found: dict[TopicPartition, list[tuple[str, Record]]] = {TopicPartition(*each): [] for each in ends}

        def has_all() -> bool:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                place = TopicPartition(message.topic(), message.partition())
                found[place].append((message.key().decode(), (message.offset(), message.value().decode())))
            at = {(each.topic, each.partition): each.offset for each in consumer.position(places)}
            return all(at[each] >= end for each, end in ends.items())

        wait_until(has_all, "what is in the topics", 60)
        consumer.close()
        return found
