"""Streams that are killed at random moments leave in each sink what one undisturbed batch leaves: every row once.

Spark 4.3 streams into Parquet files and, in transactions, into a topic, Spark 4.0 into Delta Lake and Iceberg, two queries at once in one
driver (`stream_program`). With Trigger.AvailableNow and with a batch after the other, each kind of victim is killed (the driver with its
Java; one of its Python processes, be it a task, the source's or the sink's; a broker), until KAFKALITE_STREAM_KILLS deaths of it (1 by
default) have hit a running batch. KAFKALITE_STREAM_SEED chooses the moments; each is printed.

A moment is a while after a new batch of one of the queries has begun, up to what such batches take. A batch runs from when
the checkpoint has its end (`offsets/N`) to when it is written down as done (`commits/N`). Spark keeps Python processes that have nothing to
do, so a Python process is taken that has worked meanwhile, and its death counts only if a task or a query failed by it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from kafkalite.client import NewTopic, SyncAdmin, SyncProducer
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.peers import spark_connector, table_packages
from tests.peers.stream_program import (
    AVAILABLE_NOW,
    BATCH,
    CONTINUOUS,
    ICEBERG_CATALOG,
    MODES,
    REQUEST,
    checkpoint_of,
)
from tests.peers.stream_readers import (
    Row,
    records_in_topic,
    rows_in_delta,
    rows_in_files,
    rows_in_iceberg,
    undisturbed,
)
from tests.spark import class_data
from tests.spark.sessions import SESSION, driver_environment, warm_python_program

pytestmark = [pytest.mark.peer, pytest.mark.spark, pytest.mark.timeout(7200)]

KILLS: Final = int(os.environ.get("KAFKALITE_STREAM_KILLS", "1"))
SEED: Final = int(os.environ.get("KAFKALITE_STREAM_SEED", "40"))
TRIES_PER_KILL: Final = 10
DRIVER, WORKER, BROKER = "driver", "worker", "broker"
PARTITIONS: Final = 2
RECORDS: Final = 300
"""Of each portion; the topic gets another one for each kill."""

RUN_TIMEOUT_S: Final = 900
_RECENT_BATCHES: Final = 9
PROPERTIES: Final = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "20000",
}


@dataclass(frozen=True)
class Release:
    """A Spark, what it streams into, and how its driver is started."""

    name: str
    sinks: tuple[str, ...]
    limits: dict[str, str]
    environment: Callable[[], dict[str, str]]
    settings: Callable[[Path], dict[str, str]]


def _settings_with_tables(output: Path) -> dict[str, str]:
    catalog = f"spark.sql.catalog.{ICEBERG_CATALOG}"
    return {
        "spark.driver.extraJavaOptions": class_data.JAVA_OPTIONS,
        "spark.jars": table_packages.jars(),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(output / "iceberg"),
    }


NEWEST: Final = Release(
    "newest", ("parquet", "topic"), {"maxOffsetsPerTrigger": "120"}, driver_environment, lambda _: {}
)
WITH_TABLES: Final = Release("4.0", ("delta", "iceberg"), {}, spark_connector.environment, _settings_with_tables)


class Driver:
    """The program with the queries, which is killed and started again."""

    def __init__(self, release: Release, servers: str, topic: str, target: str, scratch: Path) -> None:
        self.sinks, self.output = release.sinks, scratch / "output"
        self._environment = release.environment()
        self._control = scratch / "control"
        self._log = scratch / "driver.log"
        self._events = scratch / "events"
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None
        local = {"spark.local.dir": str(scratch / "local"), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
        local |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(self._events)}
        local |= {"spark.eventLog.compress": "false"}
        self._control.mkdir()
        self._events.mkdir()
        question = {
            "servers": servers,
            "topic": topic,
            "target": target,
            "sinks": release.sinks,
            "limits": {**release.limits, "topicIdsInOffsets": "true"},
            "output": str(self.output),
            "settings": SESSION | local | release.settings(self.output),
        }
        (self._control / "question.json").write_text(json.dumps(question))

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.peers.stream_program", str(self._control / "question.json")],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the driver, Python and Java, without warning. Its workers live until they notice."""
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def request(self, mode: str) -> int:
        """Ask for a run; returns its number."""
        self._number += 1
        draft = self._control / "draft"
        draft.write_text(json.dumps({"number": self._number, "mode": mode}))
        draft.replace(self._control / REQUEST)
        return self._number

    def wait_done(self, number: int) -> None:
        self.wait_until((self._control / f"done-{number}").exists, f"run {number}")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that the driver is to do. AssertionError, with what it printed, when it ends or takes too long."""

        def holds() -> bool:
            held = condition()
            assert held or self._process is None or self._process.poll() is None, (
                f"{what}: the driver has ended\n{self.tail()}"
            )
            return held

        try:
            wait_until(holds, what, RUN_TIMEOUT_S)
        except TimeoutError as problem:
            raise AssertionError(f"{problem}\n{self.tail()}") from None

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def failed_queries(self) -> int:
        """How often a query failed and was started again in the same process."""
        return self._log.read_text(errors="replace").count("failed, and is started again")

    def failed_tasks(self) -> int:
        """How many tasks failed, from Spark's own log of events. Those of a driver that was killed may not be in it."""
        logs = [each for each in self._events.rglob("*") if each.is_file()]
        return sum(each.read_text(errors="replace").count('"Reason":"ExceptionFailure"') for each in logs)

    # what the checkpoints say

    def newest(self, sink: str, kind: str) -> tuple[int, float]:
        """The number and the time of the newest file among a query's `offsets` or `commits`; -1 when there is none."""
        folder = checkpoint_of(self.output, sink) / kind
        names = [int(each.name) for each in folder.iterdir() if each.name.isdigit()] if folder.exists() else []
        number = max(names, default=-1)
        return number, (folder / str(number)).stat().st_mtime if names else 0.0

    def running(self) -> list[str]:
        """The sinks whose queries are amid a batch."""
        return [each for each in self.sinks if self.newest(each, "offsets")[0] > self.newest(each, "commits")[0]]

    def batch_duration_s(self, sink: str) -> float:
        """How long a batch takes: the median of the newest ones that are done, at least a tenth of a second, at most ten.

        The last one alone may have waited for a driver that was killed, and a delay of that length mostly misses the next.
        """
        newest, _ = self.newest(sink, "commits")
        folder, took_s = checkpoint_of(self.output, sink), []
        for number in map(str, range(max(0, newest - _RECENT_BATCHES + 1), newest + 1)):
            done, begun = folder / "commits" / number, folder / "offsets" / number
            if done.exists() and begun.exists():  # Spark removes old ones
                took_s.append(done.stat().st_mtime - begun.stat().st_mtime)
        return min(max(statistics.median(took_s), 0.1), 10.0)

    def reached(self, sink: str) -> int:
        """How many offsets of the source lie before the end of the newest batch that is done."""
        number, _ = self.newest(sink, "commits")
        if number < 0:
            return 0
        text = (checkpoint_of(self.output, sink) / "offsets" / str(number)).read_text().splitlines()[2]
        (ends,) = json.loads(text).values()
        return sum(int(offset) for name, offset in ends.items() if name != "id")


def python_processes() -> dict[int, int]:
    """The Python processes of running drivers, with the processor time that each has had, in ticks: all are forked from the warm Python
    of this process."""
    folder = os.path.dirname(warm_python_program())
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    servers: set[int] = set()
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            fields = (each / "stat").read_text().rpartition(")")[2].split()
            parents[int(each.name)], ticks[int(each.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
            words = (each / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended
        if "server" in words and any(word.startswith(folder) for word in words):
            servers.add(int(each.name))
    # Forks have the command line of what they were forked from.
    return {each: ticks[each] for each in sorted(servers) if parents.get(each) in servers}


@dataclass(frozen=True)
class Death:
    """What was killed, which queries were amid a batch then, and how many tasks and queries failed within a driver that lived on."""

    mode: str
    victim: str
    running: tuple[str, ...]
    failed_tasks: int
    failed_queries: int

    def has_hit(self, sink: str) -> bool:
        return sink in self.running and (self.victim != WORKER or self.failed_tasks + self.failed_queries > 0)


class Killer:
    """Kills at random moments, and counts what it hit."""

    def __init__(self, cluster: LocalCluster, driver: Driver, chance: random.Random, feed: Callable[[], None]) -> None:
        self._cluster, self._driver, self._chance, self._feed = cluster, driver, chance, feed
        self.deaths: list[Death] = []
        self._begun_s = time.monotonic()

    def hit(self, mode: str, victim: str, sink: str) -> None:
        """Kill a victim until it died amid a batch of the sink's query."""
        for _ in range(TRIES_PER_KILL):
            death = self._kill_amid_batch(mode, victim, sink)
            self.deaths.append(death)
            if death.has_hit(sink):
                return
        raise AssertionError(
            f"{TRIES_PER_KILL} deaths of a {victim} all missed the batches of {sink}:\n{self._driver.tail()}"
        )

    def _kill_amid_batch(self, mode: str, victim: str, sink: str) -> Death:
        driver, chance = self._driver, self._chance
        before, _ = driver.newest(sink, "offsets")
        longest_s = driver.batch_duration_s(sink)
        self._feed()
        number = driver.request(mode) if mode == AVAILABLE_NOW else 0
        driver.wait_until(lambda: driver.newest(sink, "offsets")[0] > before, f"a new batch of {sink}")
        idle = python_processes()
        failed_tasks, failed_queries = driver.failed_tasks(), driver.failed_queries()
        delay_s = chance.uniform(0, longest_s)
        time.sleep(delay_s)  # not a wait for anything: the moment of death is to be any
        running = tuple(driver.running())
        what = self._kill(victim, idle)
        print(
            f"{time.monotonic() - self._begun_s:.0f} s, seed {SEED}, {mode}: killed {what} "
            f"{delay_s:.2f} s after the beginning of batch {before + 1} of {sink}; "
            f"amid a batch were {', '.join(running) or 'none'}",
            flush=True,
        )
        if victim == DRIVER:
            driver.start()
        if victim == BROKER:
            time.sleep(chance.uniform(0, 2))  # it stays away for any while
            self._cluster.start_broker(int(what.split()[1]))
        if number:
            driver.wait_done(number)
        else:
            driver.wait_until(lambda: driver.newest(sink, "commits")[0] > before, f"the end of a batch of {sink}")
        return Death(
            mode, victim, running, driver.failed_tasks() - failed_tasks, driver.failed_queries() - failed_queries
        )

    def _kill(self, victim: str, idle: dict[int, int]) -> str:
        if victim == BROKER:
            broker = self._chance.choice(self._cluster.broker_ids)
            self._cluster.kill(broker)
            return f"broker {broker}"
        if victim == DRIVER:
            self._driver.kill()
            return "the driver"
        processes = python_processes()
        busy = [each for each, ticks in processes.items() if ticks > idle.get(each, 0)]
        with suppress(ProcessLookupError):  # it has just ended: then nothing fails, and another one is killed
            os.kill(self._chance.choice(busy or list(processes)), signal.SIGKILL)
        return f"one of {len(busy)} busy Python processes, of {len(processes)},"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, properties=PROPERTIES) as running:
        yield running


class Portions:
    """What was sent to a topic so far: numbered records, in portions that are acknowledged by all replicas."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self.sent: list[tuple[int, bytes, bytes]] = []

    def send(self) -> None:
        first = len(self.sent)
        records = [(n % PARTITIONS, b"key-%d" % (n % 17), b"value-%d" % n) for n in range(first, first + RECORDS)]
        with SyncProducer(bootstrap_servers=self._servers, acks="all") as producer:
            for partition, key, value in records:
                producer.send(self._topic, value, key, partition)
            producer.flush()
        self.sent += records


@pytest.mark.parametrize("release", [NEWEST, WITH_TABLES], ids=lambda each: each.name)
def test_a_killed_stream_is_what_one_batch_is(cluster: LocalCluster, release: Release, tmp_path: Path) -> None:
    servers, topic, target = cluster.bootstrap_servers, f"source-{release.name}", f"target-{release.name}"
    with SyncAdmin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 2) for name in (topic, target)])
    portions = Portions(servers, topic)
    portions.send()
    chance = random.Random(f"{SEED} {release.name}")
    driver = Driver(release, servers, topic, target, tmp_path)
    first = driver.request(AVAILABLE_NOW)
    driver.start()
    try:
        driver.wait_done(first)  # undisturbed: how long a batch takes
        killer = Killer(cluster, driver, chance, portions.send)
        for mode in MODES:
            victims = [each for each in (DRIVER, WORKER, BROKER) for _ in range(KILLS)]
            chance.shuffle(victims)
            if mode == CONTINUOUS:
                driver.request(mode)
            for number, victim in enumerate(victims):
                killer.hit(mode, victim, release.sinks[number % len(release.sinks)])
        for sink in release.sinks:
            driver.wait_until(lambda sink=sink: driver.reached(sink) >= len(portions.sent), f"the end of {sink}")  # type: ignore[misc]
        driver.wait_done(driver.request(BATCH))
    finally:
        driver.kill()
    check_deaths(killer.deaths, release.sinks)
    check_rows(driver.output, release.sinks, servers, target, portions)


def check_deaths(deaths: list[Death], sinks: tuple[str, ...]) -> None:
    """Each kind of victim died amid a batch in each mode, and each sink's query was amid one in each."""
    hits = [each for each in deaths if any(map(each.has_hit, sinks))]
    tasks, queries = sum(each.failed_tasks for each in deaths), sum(each.failed_queries for each in deaths)
    print(
        f"{len(deaths)} deaths, {len(hits)} of them amid a batch; {tasks} tasks and {queries} queries failed within a driver"
    )
    assert {(each.mode, each.victim) for each in hits} == {(m, v) for m in MODES for v in (DRIVER, WORKER, BROKER)}
    assert {(each.mode, sink) for each in hits for sink in each.running} == {(m, s) for m in MODES for s in sinks}


def check_rows(output: Path, sinks: tuple[str, ...], servers: str, target: str, portions: Portions) -> None:
    expected = undisturbed(output)
    assert sorted((partition, key, value) for partition, _, key, value in expected) == sorted(portions.sent)
    readers: dict[str, Callable[[], list[Row]]] = {
        "parquet": lambda: rows_in_files(output),
        "delta": lambda: rows_in_delta(output),
        "iceberg": lambda: rows_in_iceberg(output),
        "topic": lambda: records_in_topic(servers, target, range(PARTITIONS)),
    }
    for sink in sinks:
        wanted = expected if sink != "topic" else sorted((key, value) for _, _, key, value in expected)
        found = readers[sink]()
        print(f"{sink}: {len(found)} rows of {len(wanted)}")
        assert found == wanted, f"{sink}: {len(found)} rows, {len(wanted)} in one batch"
