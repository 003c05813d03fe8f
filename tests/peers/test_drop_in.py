"""One broker's life, now as Apache Kafka and now as ours: the same server.properties, id, port, ZooKeeper and log directory.

Each change of program happens after a clean stop or after kill -9. What is there stays: records of all codecs, compacted topics,
producers' sequence numbers, transactions that were aborted and one that is ongoing, offsets of groups, the topics' settings; and all of it
goes on.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.cli.main import main
from kafkalite.cli.migrate.evidence import LEDGER_FILE
from kafkalite.cli.migrate.plan import parse_plan
from kafkalite.local.broker_process import BROKER_COMMAND, BrokerProcess, wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.cluster_facts import ClusterFacts
from kafkalite.local.ports import ReservedPort
from tests.peers import apache_kafka
from tests.wire.conftest import wait_until_led

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP: Final = "drop-in"
RECORDS: Final = 200
PROPERTIES: Final = {
    "zookeeper.session.timeout.ms": "3000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "150000",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.1",
}


def no_error(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
    assert error is None, error


class Machine:
    """The machine that runs one program or the other."""

    def __init__(self, directory: Path, cluster: LocalCluster, port: int) -> None:
        self.facts = ClusterFacts(cluster.zookeeper_connect)
        settings = PROPERTIES | {"zookeeper.connect": cluster.zookeeper_connect}
        commands = {"apache": apache_kafka.broker_command(), "ours": list(BROKER_COMMAND)}
        self.programs = {
            name: BrokerProcess(1, directory, settings, command, port) for name, command in commands.items()
        }
        self.servers = self.programs["ours"].address
        self.whereabouts = ["-b", self.servers, "-z", cluster.zookeeper_connect]
        self.model: dict[str, list[bytes]] = {codec: [] for codec in CODECS}
        self.latest: dict[bytes, bytes] = {}
        self.topics: list[str] = []
        self.committed: list[bytes] = []
        self.ongoing: confluent_kafka.Producer | None = None

    def start(self, program: str) -> None:
        self.running = self.programs[program]
        self.running.start()
        self.running.wait_started(90)
        apache_kafka.wait_for_controller(self.servers)
        for topic in self.topics:
            wait_until_led(self.servers, topic, 1)

    def end(self, how: str) -> None:
        if how == "clean":
            assert self.running.stop() in (0, 143)  # the Java machine's way to end after SIGTERM
        else:
            self.running.kill()
        wait_until(lambda: not self.facts.brokers(), "the end of the broker's session", 30)

    def close(self) -> None:
        for program in self.programs.values():
            program.close()
        self.facts.close()

    def create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        topics = [NewTopic(codec, 1, 1) for codec in CODECS]
        topics.append(NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact", "segment.bytes": "20000"}))
        topics += [NewTopic("transactions", 1, 1), NewTopic("probed", 1, 1)]
        for future in admin.create_topics(topics, request_timeout=30).values():
            future.result(30)
        self.topics = [topic.topic for topic in topics]
        for topic in self.topics:
            wait_until_led(self.servers, topic, 1)

    def write(self) -> None:
        for codec in CODECS:
            settings = {"compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
            producer = confluent_kafka.Producer({"bootstrap.servers": self.servers} | settings)
            values = [b"%s-%d" % (codec.encode(), len(self.model[codec]) + n) + b"." * 500 for n in range(RECORDS)]
            for value in values:
                producer.produce(codec, value, on_delivery=no_error)
            assert producer.flush(60) == 0
            self.model[codec] += values
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "batch.num.messages": 20})
        for number in range(1000):
            key, value = b"key-%d" % (number % 7), b"%d-%d" % (number, time.monotonic_ns())
            producer.produce("compacted", value, key, on_delivery=no_error)
            self.latest[key] = value
        assert producer.flush(60) == 0

    def write_transactions(self) -> None:
        """One aborted, one committed."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "transactional.id": "drop-in"})
        producer.init_transactions(60)
        for outcome in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for number in range(10):
                value = f"{outcome.__name__}-{number}".encode()
                producer.produce("transactions", value, on_delivery=no_error)
            producer.flush(30)
            outcome(60)
        self.committed += [b"commit_transaction-%d" % number for number in range(10)]

    def write_within(self, name: str) -> None:
        """Into the transaction that is ongoing, or a new one of a producer that outlives its broker."""
        if self.ongoing is None:
            settings = {"bootstrap.servers": self.servers, "transactional.id": "ongoing", "log_level": 0}
            self.ongoing = confluent_kafka.Producer(settings)
            self.ongoing.init_transactions(60)
            self.ongoing.begin_transaction()
        for number in range(10):
            self.ongoing.produce("transactions", f"{name}-{number}".encode(), on_delivery=no_error)
        assert self.ongoing.flush(60) == 0

    def end_ongoing(self, *names: str) -> None:
        """It is committed when there are names of what was written in it, else aborted."""
        assert self.ongoing is not None
        if names:
            self.ongoing.commit_transaction(60)
        else:
            self.ongoing.abort_transaction(60)
        self.ongoing = None
        self.committed += [f"{name}-{number}".encode() for name in names for number in range(10)]

    def commit_offset(self, offset: int) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, "group.id": GROUP})
        place = confluent_kafka.TopicPartition("none", 0, offset)
        consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()

    def committed_offset(self) -> int:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, "group.id": GROUP})
        found = consumer.committed([confluent_kafka.TopicPartition("none", 0)], timeout=60)[0].offset
        consumer.close()
        return int(found)

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        settings = {"group.id": "reader", "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers} | settings)
        place = confluent_kafka.TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=60, cached=False)
        consumer.assign([place])
        found: list[tuple[bytes | None, bytes | None]] = []
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and end:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                found.append((message.key(), message.value()))
            if consumer.position([place])[0].offset >= end:
                break
        consumer.close()
        return found

    def check(self) -> None:
        for codec in CODECS:
            assert [value for _, value in self.read(codec)] == self.model[codec], codec
        assert dict(self.read("compacted")) == self.latest
        assert [value for _, value in self.read("transactions")] == self.committed


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    apache_kafka.fetch()
    port = ReservedPort()
    with LocalCluster(brokers=0, directory=tmp_path) as cluster:
        machine = Machine(tmp_path, cluster, port.number)
        try:
            yield machine
        finally:
            machine.close()
            port.release()


def check_before_replacing(machine: Machine, target: str) -> list[dict[str, str]]:
    """What `kafkalite migrate check` finds of brokers and metadata, all of it well or a warning."""
    only = ["--only", "brokers", "--only", "metadata"]
    result = CliRunner().invoke(main, ["migrate", "check", *machine.whereabouts, *only, "--to", target, "-o", "json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, str]] = json.loads(result.stdout)
    return rows


class Steps:
    """`kafkalite migrate step` and `rollback` of one plan. What they command is done by the test, which kills the tool meanwhile."""

    def __init__(self, machine: Machine, directory: Path) -> None:
        self._machine, self._directory = machine, directory
        self._plan = directory / "plan.toml"

    def replace(self, verb: str, program: str) -> None:
        if not self._plan.exists():
            planned = CliRunner().invoke(main, ["migrate", "plan", str(self._plan), *self._machine.whereabouts])
            assert planned.exit_code == 0, planned.output
        for each in ("stop", "start"):
            for suffix in ("asked", "done"):
                (self._directory / f"{each}.{suffix}").unlink(missing_ok=True)
        self._kill_at(verb, "stop")
        self._machine.end("clean")
        (self._directory / "stop.done").touch()
        self._kill_at(verb, "start")
        self._machine.start(program)
        (self._directory / "start.done").touch()
        tool = self._begin(verb)
        assert tool.wait(120) == 0
        done = CliRunner().invoke(main, ["migrate", verb, str(self._plan), *self._commands(), "--dry-run"])
        assert done.exit_code == 3, done.output

    def _kill_at(self, verb: str, command: str) -> None:
        """Kill the tool when its command is carried out; what was begun then ends when the test has done it."""
        tool = self._begin(verb)
        try:
            wait_until((self._directory / f"{command}.asked").exists, f"the command to {command}", 60)
        finally:
            tool.kill()
            tool.wait()

    def _begin(self, verb: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "kafkalite", "migrate", verb, str(self._plan), *self._commands(), "--yes"]
        return subprocess.Popen([*words, *self._machine.whereabouts])

    def _commands(self) -> list[str]:
        scripts = {
            each: f"touch {self._directory}/{each}.asked; until [ -e {self._directory}/{each}.done ]; do sleep 0.1; done"
            for each in ("stop", "start")
        }
        return ["--stop-command", scripts["stop"], "--start-command", scripts["start"]]


def test_a_broker_of_apache_kafka_goes_on_as_ours_and_back(machine: Machine, tmp_path: Path) -> None:
    """Made by Apache Kafka; each of the two takes over from the other after a clean stop, by `kafkalite migrate`, and after kill -9."""
    steps = Steps(machine, tmp_path)
    machine.start("apache")
    machine.create()
    machine.write()
    machine.write_transactions()
    machine.commit_offset(123)
    assert check_before_replacing(machine, "kafkalite")[0]["found"] == (
        "Apache Kafka 3.9: 1. 1 of 1 to be replaced by kafkalite"
    )
    offset = 123
    for how, program in (("clean", "ours"), ("clean", "apache"), ("kill", "ours"), ("kill", "apache")):
        machine.write_within(f"before {how} {program}")
        if how == "clean":
            steps.replace("step" if program == "ours" else "rollback", program)
        else:
            machine.end(how)
            machine.start(program)
        machine.write_within(f"after {how} {program}")
        machine.end_ongoing(*((f"before {how} {program}", f"after {how} {program}") if how == "kill" else ()))
        machine.check()
        assert machine.committed_offset() == offset
        machine.write()
        offset += 100
        machine.commit_offset(offset)
        machine.check()
    machine.end("clean")


def call(machine: Machine, *words: str) -> str:
    result = CliRunner().invoke(main, ["migrate", *words, *(() if words[0] == "verify" else machine.whereabouts[:2])])
    assert result.exit_code == 0, result.output
    return result.output


@contextmanager
def probing(machine: Machine, directory: Path) -> Iterator[None]:
    """`kafkalite migrate probe` beside what happens, with acknowledgements before it and after it."""
    ledger = directory / LEDGER_FILE
    command = [sys.executable, "-m", "kafkalite", "migrate", "probe", str(directory), "-t", "probed", "--rate", "50"]
    probe = subprocess.Popen([*command, *machine.whereabouts[:2]])
    try:
        wait_until(lambda: ledger.exists() and len(ledger.read_text().splitlines()) > 10, "acknowledgements", 60)
        yield
        lines = len(ledger.read_text().splitlines())
        wait_until(lambda: len(ledger.read_text().splitlines()) > lines + 10, "more acknowledgements", 60)
        probe.send_signal(signal.SIGINT)
        assert probe.wait(60) == 0
    finally:
        probe.kill()
        probe.wait()


def test_a_broker_of_ours_goes_on_as_apache_kafka(machine: Machine, tmp_path: Path) -> None:
    """Made by ours, and killed, while a probe of `kafkalite migrate` writes; its auditor finds nothing."""
    machine.start("ours")
    machine.create()
    machine.write()
    machine.write_transactions()
    machine.write_within("ours")
    machine.commit_offset(42)
    assert check_before_replacing(machine, "apache-kafka")[0]["found"] == (
        "kafkalite 3.9: 1. 1 of 1 to be replaced by Apache Kafka"
    )
    planned = CliRunner().invoke(
        main, ["migrate", "plan", "plan.toml", "--dry-run", "--to", "apache-kafka", *machine.whereabouts]
    )
    (step,) = parse_plan(planned.stdout).steps
    assert (step.broker, step.is_controller, step.kind) == (1, True, "kafkalite 3.9"), planned.output
    evidence = tmp_path / "evidence"
    call(machine, "evidence", "before", str(evidence))
    with probing(machine, evidence):
        machine.end("kill")
        machine.start("apache")
    machine.write_within("apache")
    machine.end_ongoing("ours", "apache")
    call(machine, "evidence", "after", str(evidence))
    verdict = call(machine, "verify", str(evidence))
    assert "there once, in order" in verdict and "problem" not in verdict, verdict
    machine.check()
    assert machine.committed_offset() == 42
    machine.write()
    machine.check()
    machine.end("clean")
