"""Nights that are killed: drivers, executors and brokers die at random moments, and the next run makes it as if nothing had been.

KAFKALITE_NIGHT_KILLS says how many drivers and executors die (two drivers and one executor by default), KAFKALITE_NIGHT_SEED when.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.testing.spark_cluster import SparkCluster
from spark_jobs import commands
from spark_jobs.batch import layout, session
from spark_jobs.batch.formats import Formats
from spark_jobs.batch.run_lock import run_lock
from spark_jobs.jobs import audit, backfill
from spark_jobs.jobs.nightly import Program
from tests.spark.conftest import EXECUTOR, TopicMaker
from tests.spark.nights import DIGESTS, FOREVER, TIMES, Sent, after, ledger, night_on, send, tables
from tests.spark.sessions import SESSION, driver_environment

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

DRIVER_KILLS = int(os.environ.get("KAFKALITE_NIGHT_KILLS", "2"))
EXECUTOR_KILLS = int(os.environ.get("KAFKALITE_NIGHT_KILLS", "1"))
SEED = int(os.environ.get("KAFKALITE_NIGHT_SEED", "10"))
DAYS = [after(number) for number in range(4)]
DAYS_PER_JOB = 2
DRIVER_TIMEOUT_S = 300


@dataclass
class Expected:
    """What an undisturbed backfill leaves: rows by file, and the ledger."""

    tables: dict[str, list[dict[str, Any]]]
    ledger: dict[str, Any]
    files: int
    """How many files there are, of whatever kind."""

    @classmethod
    def of(cls, output: Path) -> Expected:
        return cls(tables(output), ledger(output, (*TIMES, *DIGESTS)), files_below(output))

    def check(self, output: Path) -> None:
        """`output` has the same files with the same rows, and its ledger is the same but for times."""
        found = Expected.of(output)
        assert sorted(found.tables) == sorted(self.tables)
        assert [name for name in found.tables if found.tables[name] != self.tables[name]] == []
        assert found.ledger == self.ledger


class Nights:
    """Backfills of one topic by programs of their own, with the lock in ZooKeeper."""

    def __init__(self, cluster: LocalCluster, topic: str, scratch: Path) -> None:
        self._cluster, self._topic, self._scratch = cluster, topic, scratch

    def command(self, output: Path, *more: str) -> list[str]:
        cluster = self._cluster
        command = [sys.executable, "-m", "spark_jobs", "backfill", "--topic", self._topic, "--output", str(output)]
        command += ["-b", cluster.bootstrap_servers, "-z", cluster.zookeeper_connect, "--from", str(DAYS[0])]
        command += ["--to", str(DAYS[-1]), "--days-per-job", str(DAYS_PER_JOB), "--no-audit", *more]
        settings = SESSION | EXECUTOR | {"spark.local.dir": str(self._scratch)}
        return command + [word for name, text in settings.items() for word in ("--conf", f"{name}={text}")]

    def start(self, output: Path, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(output, *more),
            env=driver_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, output: Path, *more: str) -> str:
        """Run to the end, which must be a good one; what it said."""
        process = self.start(output, *more)
        try:
            said, _ = process.communicate(timeout=DRIVER_TIMEOUT_S)
        finally:
            process.kill()
        assert process.returncode == 0, said[-4000:]
        return said


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster, make_topic: TopicMaker) -> str:
    """Four days in no order, in four partitions."""
    chance = random.Random(SEED)
    records = [
        Sent(chance.choice(DAYS), number, number % 4, b"%d" % (number % 50), chance.randbytes(40))
        for number in range(2000)
    ]
    name = make_topic(4, 2, config=FOREVER)
    send(cluster.bootstrap_servers, name, records)
    return name


@pytest.fixture(scope="module")
def expected(spark: Any, cluster: LocalCluster, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    output = tmp_path_factory.mktemp("nights") / "undisturbed"
    with night_on(spark, cluster.bootstrap_servers, output) as night:
        backfill.main(night, Program(Formats()), [topic], DAYS, DAYS_PER_JOB, again=False)
    return Expected.of(output)


@pytest.fixture
def nights(cluster: LocalCluster, topic: str, tmp_path: Path) -> Iterator[Nights]:
    yield Nights(cluster, topic, tmp_path / "spark-local")


def check_whole_days(output: Path, expected: Expected) -> None:
    """What can be seen is whole: each date that is there has all of its files, as they should be."""
    seen = tables(output)
    assert [name for name, rows in seen.items() if rows != expected.tables.get(name)] == []
    folders = {str(Path(name).parent) for name in seen}
    assert sorted(seen) == [name for name in sorted(expected.tables) if str(Path(name).parent) in folders]


def files_below(folder: Path) -> int:
    """How many files there are at the moment; folders may come and go meanwhile."""
    return sum(len(names) for _, _, names in os.walk(folder))


def test_killed_drivers(nights: Nights, expected: Expected, tmp_path: Path) -> None:
    """kill -9 of the driver, again and again, each time somewhere else; then a run that may finish."""
    chance = random.Random(SEED)
    output = tmp_path / "killed"
    killed = 0
    for _ in range(DRIVER_KILLS):
        before = files_below(output)
        limit = before + chance.randint(1, max(1, (expected.files - before) // 2))
        with nights.start(output, "--wait", "60") as process:
            wait_until(
                lambda process=process, limit=limit: process.poll() is not None or files_below(output) >= limit,
                f"{limit} files of a night",
                DRIVER_TIMEOUT_S,
            )
            killed += process.poll() is None
            process.kill()
        check_whole_days(output, expected)
    assert killed
    nights.run(output, "--wait", "60")
    expected.check(output)
    assert not (output / layout.STAGING).exists()


def test_killed_executors(
    nights: Nights, topic: str, expected: Expected, standalone: SparkCluster, tmp_path: Path
) -> None:
    """On a standalone cluster: executors die while they work, Spark starts others, and the result is the same."""
    chance = random.Random(SEED)
    output = tmp_path / "executors"
    plans = output / layout.ledger_folder("archive", topic)
    # One at a time: none is there but the one that dies, and the one in its place.
    process = nights.start(output, "--master", standalone.url, "--conf", "spark.cores.max=1")
    try:
        for _ in range(EXECUTOR_KILLS):
            wait_until(lambda: bool(standalone.executor_pids()) or process.poll() is not None, "an executor", 120)
            wait_until(lambda: plans.exists() or process.poll() is not None, "the first plans", 120)
            time.sleep(chance.uniform(0, 2))  # not a wait for anything: the moment of death is to be any
            pids = standalone.executor_pids()
            if pids and process.poll() is None:
                standalone.kill_executor(chance.choice(pids))
        said, _ = process.communicate(timeout=DRIVER_TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 0, said[-4000:]
    expected.check(output)


def test_killed_broker(spark: Any, cluster: LocalCluster, topic: str, expected: Expected, tmp_path: Path) -> None:
    """A broker dies once the plans are written; others lead on, and the night ends as it should."""
    output = tmp_path / "broker"
    plans = output / layout.ledger_folder("archive", topic)

    def kill() -> None:
        wait_until(lambda: any(plans.glob("*.pending.json")), "the first plans", 120)
        cluster.kill(2)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        with night_on(spark, cluster.bootstrap_servers, output) as night:
            backfill.main(night, Program(Formats()), [topic], DAYS, DAYS_PER_JOB, again=False)
            killer.join()
            audit.main(night, [topic], DAYS)
    finally:
        killer.join()
        cluster.start_broker(2)
    expected.check(output)


def test_two_runs_at_once(nights: Nights, cluster: LocalCluster, tmp_path: Path) -> None:
    """The second is told who runs, at once, and has done nothing; with --wait it would have its turn."""
    output = tmp_path / "locked"
    with run_lock(cluster.zookeeper_connect, output.as_uri(), "nightly 2013-06-15", 1):
        process = nights.start(output)
        said, _ = process.communicate(timeout=DRIVER_TIMEOUT_S)
    assert process.returncode == 4
    assert f"another run is active on {output.as_uri()}: process {os.getpid()} on " in said
    assert "(nightly 2013-06-15)" in said
    assert not output.exists()


def test_bad_input_ends_before_spark_is_started(
    cluster: LocalCluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with its own exit code and a line that says what is wrong."""
    monkeypatch.setattr(session, "open_session", None)
    (tmp_path / "file").touch()
    place = ["-b", cluster.bootstrap_servers, "-z", cluster.zookeeper_connect]

    def ends(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(commands.main, arguments)
        return done.exit_code, done.stderr

    day = ["--date", str(date(2013, 6, 15))]
    code, said = ends("nightly", "--topic", "no-such", "--output", str(tmp_path / "out"), *place, *day)
    assert (code, said) == (
        3,
        "Error: the cluster has no topic no-such; `kafkalite topic list` shows those that it has\n",
    )
    code, said = ends("nightly", "--topic", topic, "--output", str(tmp_path / "file" / "out"), *place, *day)
    assert code == 9 and "the output folder must be writable" in said
    code, said = ends("nightly", "--topic", topic, "--output", str(tmp_path), "-b", place[1], "-z", "127.0.0.1:1", *day)
    assert code == 5 and "give --zookeeper, or --no-lock" in said
