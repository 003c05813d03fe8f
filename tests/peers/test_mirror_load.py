"""A mirror under load: producers and a group of readers are served by the source while it is copied, go on at the target, and return to the
source. With --long.

Meanwhile the mirror is killed, and so is a broker of the source, whose only broker is restarted instead: leader epochs grow.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.ports import ReservedPort
from tests.peers import kraft
from tests.peers.apache_kafka import wait_for_controller
from tests.peers.kraft import KraftCluster
from tests.peers.mirror_program import TIMEOUT_S, Program, check_segments, run_kafkalite, switch_with_evidence

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

PLAIN, TRANSACTIONAL = "plain", "transactional"
PARTITIONS = 2
PLACES = [(topic, number) for topic in (PLAIN, TRANSACTIONAL) for number in range(PARTITIONS)]
GROUP = "readers"
PROGRESS = 100
ABORTED_EVERY = 3

NOT_COMMITTED = (
    confluent_kafka.KafkaError.UNKNOWN_MEMBER_ID,
    confluent_kafka.KafkaError.ILLEGAL_GENERATION,
    confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS,
    confluent_kafka.KafkaError.NOT_COORDINATOR,
    confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
    confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    confluent_kafka.KafkaError.REQUEST_TIMED_OUT,
    confluent_kafka.KafkaError._TRANSPORT,
    confluent_kafka.KafkaError._TIMED_OUT,
    confluent_kafka.KafkaError._WAIT_COORD,
)
"""While brokers are restarted or killed a commit may fail; what was read may be read again then."""

Place = tuple[str, int]
Record = tuple[int, int]
"""Offset and number."""


class Load:
    """Clients of a cluster, each in a thread, and what they were told: committed records with their offsets, and what the group read."""

    def __init__(self) -> None:
        self.acknowledged: dict[Place, list[Record]] = defaultdict(list)
        self.read: dict[Place, list[Record]] = defaultdict(list)
        self.problems: list[str] = []
        self._committed: dict[Place, int] = defaultdict(int)
        self._next = dict.fromkeys((PLAIN, TRANSACTIONAL), 0)
        self._threads: dict[str, tuple[threading.Thread, threading.Event]] = {}

    def start(self, servers: str) -> None:
        for name, work in {
            PLAIN: self._produce,
            TRANSACTIONAL: self._produce_transactions,
            GROUP: self._consume,
        }.items():
            stop = threading.Event()
            thread = threading.Thread(target=self._run, args=(name, work, servers, stop))
            self._threads[name] = thread, stop
            thread.start()

    def _run(
        self, name: str, work: Callable[[str, threading.Event], None], servers: str, stop: threading.Event
    ) -> None:
        try:
            work(servers, stop)
        except Exception as problem:
            self.problems.append(f"{name}: {problem!r}")

    def stop(self, name: str) -> None:
        """Have one of them finish what it does."""
        thread, stop = self._threads.pop(name)
        stop.set()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive() and not self.problems, self.problems

    def end(self) -> None:
        for _, stop in self._threads.values():
            stop.set()
        for thread, _ in self._threads.values():
            thread.join(TIMEOUT_S)

    def count(self) -> tuple[int, int, int]:
        sizes = {topic: sum(len(self.acknowledged[topic, each]) for each in range(PARTITIONS)) for topic in self._next}
        return sizes[PLAIN], sizes[TRANSACTIONAL], sum(map(len, self.read.values()))

    def wait_progress(self) -> None:
        before = self.count()
        what = "records of all clients"
        wait_until(
            lambda: (
                bool(self.problems) or all(now >= was + PROGRESS for now, was in zip(self.count(), before, strict=True))
            ),
            what,
            TIMEOUT_S,
        )
        assert not self.problems, self.problems

    def _send(self, producer: confluent_kafka.Producer, topic: str, into: dict[Place, list[Record]]) -> None:
        number = self._next[topic]
        self._next[topic] += 1

        def note(error: confluent_kafka.KafkaError | None, sent: confluent_kafka.Message) -> None:
            if error is not None:
                self.problems.append(f"{topic}: {error}")
            else:
                into[topic, sent.partition() or 0].append((sent.offset() or 0, number))

        producer.produce(
            topic,
            b"%d" % number,
            b"k%d" % (number % 5),
            number % PARTITIONS,
            headers=[("n", b"%d" % number)],
            on_delivery=note,
        )
        producer.poll(0)

    def _produce(self, servers: str, stop: threading.Event) -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 20}
        )
        while not stop.wait(0.005):
            self._send(producer, PLAIN, self.acknowledged)
        assert producer.flush(TIMEOUT_S) == 0

    def _produce_transactions(self, servers: str, stop: threading.Event) -> None:
        settings = {"bootstrap.servers": servers, "transactional.id": "one", "linger.ms": 5}
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions(TIMEOUT_S)
        count = 0
        while not stop.is_set():
            count += 1
            sent: dict[Place, list[Record]] = defaultdict(list)
            producer.begin_transaction()
            for _ in range(8):
                self._send(producer, TRANSACTIONAL, sent)
            assert producer.flush(TIMEOUT_S) == 0
            if count % ABORTED_EVERY:
                producer.commit_transaction(TIMEOUT_S)
                for place, records in sent.items():
                    self.acknowledged[place] += records
            else:
                producer.abort_transaction(TIMEOUT_S)

    def _consume(self, servers: str, stop: threading.Event) -> None:
        settings = {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        consumer = confluent_kafka.Consumer(settings)
        consumer.subscribe([PLAIN, TRANSACTIONAL])
        while not stop.is_set():
            found = consumer.consume(50, 0.2)
            for each in found:
                if each.error():
                    raise confluent_kafka.KafkaException(each.error())
                self._note_read(
                    (each.topic() or "", each.partition() or 0), (each.offset() or 0, int(each.value() or b""))
                )
            if found:
                self._commit(consumer, found)
        consumer.close()

    def _note_read(self, place: Place, record: Record) -> None:
        """Note a record, but for one that is read again since its group moved on before it was committed."""
        read = self.read[place]
        is_behind = bool(read) and record[0] <= read[-1][0]
        if not is_behind or record[0] < self._committed[place] or record not in read:
            read.append(record)

    def _commit(self, consumer: confluent_kafka.Consumer, records: list[confluent_kafka.Message]) -> None:
        ends = {(each.topic() or "", each.partition() or 0): (each.offset() or 0) + 1 for each in records}
        try:
            offsets = [confluent_kafka.TopicPartition(*place, end) for place, end in ends.items()]
            consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as problem:
            if problem.args[0].code() not in NOT_COMMITTED:
                raise
        else:
            self._committed.update(ends)


@pytest.fixture(params=[1, 3])
def clusters(tmp_path: Path, long: bool, request: pytest.FixtureRequest) -> Iterator[tuple[LocalCluster, KraftCluster]]:
    if not long:
        pytest.skip("two Java machines start one after the other, and clients run for a minute: with --long")
    kraft.fetch()
    with (
        LocalCluster(brokers=request.param, directory=tmp_path / "source") as source,
        KraftCluster(tmp_path, 2) as target,
    ):
        wait_for_controller(source.bootstrap_servers)
        yield source, target


@pytest.fixture
def load() -> Iterator[Load]:
    found = Load()
    yield found
    found.end()


@pytest.fixture
def program(tmp_path: Path, clusters: tuple[LocalCluster, KraftCluster]) -> Iterator[Program]:
    source, target = clusters
    with ReservedPort() as port:
        found = Program(tmp_path / "mirror", source.bootstrap_servers, target, port.number, "--replication-factor", "1")
        yield found
        found.kill()


def make_topics(servers: str, replicas: int) -> None:
    """Topics, and a group that begins with their first records."""
    admin = AdminClient({"bootstrap.servers": servers})
    settings = {"min.insync.replicas": str(max(1, replicas - 1))}
    topics = [NewTopic(each, PARTITIONS, replicas, config=settings) for each in (PLAIN, TRANSACTIONAL)]
    for future in admin.create_topics(topics).values():
        future.result(TIMEOUT_S)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(*place, 0) for place in PLACES], asynchronous=False)
    consumer.close()


def find_ends(servers: str) -> dict[Place, int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "none"})
    found = {
        place: consumer.get_watermark_offsets(confluent_kafka.TopicPartition(*place), TIMEOUT_S)[1] for place in PLACES
    }
    consumer.close()
    return found


def find_committed(servers: str) -> dict[Place, int]:
    """Return where the group is."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": GROUP})
    found = consumer.committed([confluent_kafka.TopicPartition(*place) for place in PLACES], TIMEOUT_S)
    consumer.close()
    return {(each.topic, each.partition): each.offset for each in found}


def read_records(servers: str, ends: dict[Place, int]) -> list[tuple[object, ...]]:
    """Return all that there is of records, also of aborted transactions: offset, timestamp, key, value, headers."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "none",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    left = {place for place, end in ends.items() if end}
    consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in sorted(left)])
    found: list[tuple[object, ...]] = []

    def has_read() -> bool:
        for each in consumer.consume(1000, 0.2):
            if each.error() is not None:
                assert each.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, each.error()
                left.discard((each.topic() or "", each.partition() or 0))
                continue
            where = each.topic(), each.partition(), each.offset()
            found.append((*where, each.timestamp(), each.key(), each.value(), each.headers()))
        return not left

    wait_until(has_read, "all records", TIMEOUT_S)
    consumer.close()
    return sorted(found, key=repr)


def judge(load: Load) -> None:
    """All that was acknowledged was read by the group, once, in order, at its offset, and nothing else."""
    for place in PLACES:
        assert load.read[place] == load.acknowledged[place], place
        numbers = [number for _, number in load.read[place]]
        assert numbers == sorted(set(numbers)), place


def test_clients_go_on_at_the_target_where_they_were_and_return(
    clusters: tuple[LocalCluster, KraftCluster], program: Program, load: Load, tmp_path: Path
) -> None:
    source, target = clusters
    servers, theirs = source.bootstrap_servers, target.bootstrap_servers
    make_topics(servers, len(source.broker_ids))
    load.start(servers)
    load.wait_progress()
    program.start()
    wait_until(lambda: program.read_status().get("phase") == "mirroring", "a mirror at work", TIMEOUT_S)
    load.wait_progress()
    program.kill()
    disturb(source, 1, load)
    program.start()
    load.wait_progress()

    load.stop(GROUP)  # with records left that it has not read
    load.stop(TRANSACTIONAL)
    load.stop(PLAIN)
    ends = find_ends(servers)
    wait_until(lambda: program.is_level(ends), "a mirror that is level", TIMEOUT_S)
    switch_with_evidence(program, tmp_path / "evidence", servers, theirs)
    wait_in_sync(servers, len(source.broker_ids))
    check_segments(source, target, [f"{topic}-{number}" for topic, number in PLACES])
    assert find_ends(theirs) == ends
    assert read_records(theirs, ends) == read_records(servers, ends)
    assert load.read != load.acknowledged, "the group is behind"

    load.start(theirs)
    load.wait_progress()
    with following(program, servers, theirs):
        disturb(source, len(source.broker_ids), load)
        load.stop(GROUP)
        load.stop(TRANSACTIONAL)
        load.stop(PLAIN)
        wait_until(lambda: find_ends(servers) == find_ends(theirs), "a source that has followed", TIMEOUT_S)
    check_way_back(program, servers, theirs, tmp_path / "back")

    load.start(servers)
    load.wait_progress()
    load.stop(TRANSACTIONAL)
    load.stop(PLAIN)
    wait_until(lambda: load.count()[2] >= sum(load.count()[:2]), "a group that has read all", TIMEOUT_S)
    load.stop(GROUP)
    judge(load)
    committed = find_committed(servers)
    assert program.call("back", str(program.directory), "-b", servers, "--to", theirs, "--wait", "0").returncode == 7
    assert find_committed(servers) == committed, "the group has returned"


def disturb(source: LocalCluster, broker: int, load: Load) -> None:
    """Kill a broker under load and start it again, or restart the only one."""
    if len(source.broker_ids) == 1:
        source.restart(broker)
        load.wait_progress()
        return
    source.kill(broker)
    load.wait_progress()
    source.start_broker(broker)
    wait_in_sync(source.bootstrap_servers, len(source.broker_ids))
    load.wait_progress()


def wait_in_sync(servers: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})

    def is_complete() -> bool:
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
        found = [each for name in (PLAIN, TRANSACTIONAL) for each in topics[name].partitions.values()]
        return all(len(each.isrs) == replicas for each in found)

    wait_until(is_complete, "all replicas in sync", TIMEOUT_S)


@contextmanager
def following(program: Program, servers: str, theirs: str) -> Iterator[None]:
    """`kafkalite mirror back --follow`, at work when this is entered, since it needs both clusters to begin; killed at the end."""
    command = [
        sys.executable,
        "-m",
        "kafkalite",
        "mirror",
        "back",
        str(program.directory),
        "-b",
        servers,
        "--to",
        theirs,
    ]
    told = program.directory.with_suffix(".back")
    with told.open("wb") as output:
        process = subprocess.Popen([*command, "--follow"], stdout=output, stderr=output)
    try:
        wait_until(lambda: "copying back from cluster" in told.read_text(), "a way back at work", TIMEOUT_S)
        yield
    finally:
        process.kill()
        process.wait()


def check_way_back(program: Program, servers: str, theirs: str, evidence: Path) -> None:
    """The source is level, and has what the target has."""
    run_kafkalite("migrate", "evidence", "before", str(evidence), "-b", theirs, "--without-epochs")
    done = program.call("back", str(program.directory), "-b", servers, "--to", theirs)
    assert done.returncode == 0, done.stderr
    run_kafkalite("migrate", "evidence", "after", str(evidence), "-b", servers)
    told = run_kafkalite("migrate", "verify", "--copy", "--without-probe", str(evidence))
    assert "problem" not in told and "warning" not in told
    ends = find_ends(theirs)
    assert find_ends(servers) == ends
    assert read_records(servers, ends) == read_records(theirs, ends)
