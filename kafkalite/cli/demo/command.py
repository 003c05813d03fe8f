"""`kafkalite demo`: a cluster of three ZooKeeper servers and three brokers, and the flights of 2013 through it.

In the middle of the stream the leader of a partition is killed. The cluster is `kafkalite cluster up` as a process of its own, so that
`--keep` can leave it; it starts the killed broker again. At the end Spark archives and audits a day (`night`), and with `--console` a
browser can look at all of it (`browsing`). Exit code 0 when all that was published was read back, nothing twice, each key in order, and
the day is archived; 7 when not.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.calls import run
from kafkalite.cli.output import Exit, fail, flush, note, write_line, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.cli.demo.flight_publisher import LeaderKill, Published
    from kafkalite.client import Admin, TopicDescription

_FLIGHTS, _FLIGHT_PARTITIONS = "flights", 6
_TEXTBOOK_TOPICS = {"Topic-A": 3, "Topic-B": 2}
_START_TIMEOUT_S = 90.0
_CHECK_TIMEOUT_S = 300.0
_TOPICS_TIMEOUT_S = 30.0
_IN_SYNC_TIMEOUT_S = 60.0
_SESSION_TIMEOUT_MS = 3000
_RESTART_AFTER_S = 4.0
"""Longer than a session, so that a new leader is elected before the killed broker is back."""

_KILL_AT = 1 / 3
"""The leader is killed when this part of the stream is sent."""

_REPLICAS = 3
_NIGHTLY = "nightly"
"""The folder of the batch's output."""


@click.command()
@click.option("--keep", is_flag=True, help="Leave the cluster up, and say how to reach it.")
@click.option("--console", "shows", is_flag=True, help="Show all of it in a browser, until interrupted.")
@click.option("-r", "--replication-factor", type=click.IntRange(1, 3), default=_REPLICAS, show_default=True)
@click.option("--kill/--no-kill", default=True, show_default=True, help="Kill a leader in the middle of the stream.")
@click.option(
    "--night/--no-night", default=True, show_default=True, help="End with the nightly batch of a day on Spark."
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="For the cluster's files. Without it: a temporary one that goes with the cluster.",
)
def demo(keep: bool, shows: bool, replication_factor: int, kill: bool, night: bool, data_dir: Path | None) -> None:
    """Start a cluster, publish the flights of 2013, kill a leader meanwhile, read all back in another process, check, run the
    nightly batch of a day on Spark, stop.

    A leader is only killed where others can take over: with replication factor 3.
    """
    from kafkalite.cli.demo.browsing import DemoConsole
    from kafkalite.cli.demo.flights import FlightsMissingError, load_flights

    begun_s = time.monotonic()
    folder = data_dir.resolve() if data_dir is not None else Path(tempfile.mkdtemp(prefix="kafkalite-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    cluster, console = _DemoCluster(folder, keep), None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if shows:  # a shell that has started this in the background ignores interrupts for it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        cluster.launch()
        note("starting 3 ZooKeeper servers and brokers 101, 102 and 103")
        table = load_flights()  # while the cluster starts
        facts = cluster.wait_ready()
        if shows:
            nights = folder / _NIGHTLY if night else None
            console = DemoConsole(facts["bootstrap_servers"], facts["zookeeper_connect"], nights, folder)
        _run(facts, table, replication_factor, kill and replication_factor == _REPLICAS)
        if night:
            _run_night(facts, table, folder)
        if console is not None:
            console.wait()
        if keep:
            cluster.leave()
            _say_how_to_reach(facts, cluster, folder, night)
            return
    except FlightsMissingError as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        if console is not None:
            console.stop()
        code = cluster.stop()
        if data_dir is None and not cluster.left and code == 0:
            shutil.rmtree(folder, ignore_errors=True)
    if code != 0:
        fail(f"the cluster did not stop cleanly (status {code}); its files are in {folder}")
    note(f"stopped cleanly; {time.monotonic() - begun_s:.1f} s in all")


class _DemoCluster:
    """The process of `kafkalite cluster up`."""

    def __init__(self, folder: Path, may_be_left: bool) -> None:
        self._folder = folder
        self._may_be_left = may_be_left
        self._log_path = folder / "cluster.log"
        self._process: subprocess.Popen[str] | None = None
        self.left = False

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def launch(self) -> None:
        from zk.servers.ensemble import end_with_parent

        command = [sys.executable, "-m", "kafkalite", "cluster", "up", "--brokers", "3", "--zookeepers", "3"]
        command += ["--first-broker-id", "101", "--data-dir", str(self._folder), "-o", "json"]
        command += [
            "--restart-after",
            str(_RESTART_AFTER_S),
            "-X",
            f"zookeeper.session.timeout.ms={_SESSION_TIMEOUT_MS}",
        ]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # an interrupt is for the demo, which then stops the cluster
                preexec_fn=None if self._may_be_left else end_with_parent(signal.SIGTERM),
            )

    def wait_ready(self) -> dict[str, Any]:
        """What the cluster says of itself when it is ready. Ends the command when it does not get ready."""
        process = self._process
        if process is None or process.stdout is None:
            fail("the cluster was not launched")
        with _alarm(_START_TIMEOUT_S):
            line = process.stdout.readline()
        if not line:
            process.wait()
            fail(f"the cluster did not start:\n{self._log_path.read_text(errors='replace')}")
        facts: dict[str, Any] = json.loads(line)
        return facts

    def leave(self) -> None:
        """Let the cluster run on after this process."""
        self.left = True

    def stop(self) -> int:
        """Stop the cluster unless it is left; its exit status. It kills what makes no progress with its stop itself."""
        process = self._process
        if process is None or self.left:
            return 0
        process.terminate()
        return process.wait()


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """End the command when what is inside takes longer."""

    def ring(*_: object) -> None:
        fail(f"the cluster is not ready after {seconds:g} s", Exit.UNREACHABLE)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _run(facts: dict[str, Any], table: Any, replication_factor: int, kill_leader: bool) -> None:
    from kafkalite.cli.demo.flight_publisher import LeaderKill
    from kafkalite.types import TopicPartition

    bootstrap_servers = facts["bootstrap_servers"]
    note(f"ready after {facts['ready_s']:.2f} s: {bootstrap_servers}")
    _show_topics(run(_create_topics(bootstrap_servers, replication_factor)))
    kill = None
    if kill_leader:
        pids = {broker["id"]: broker["pid"] for broker in facts["brokers"]}
        kill = LeaderKill(bootstrap_servers, TopicPartition(_FLIGHTS, 0), int(len(table) * _KILL_AT), pids)
    elif replication_factor < _REPLICAS:
        note(f"no leader is killed: for that others must be able to take over, with replication factor {_REPLICAS}")
    published = run(_publish(bootstrap_servers, table, kill))
    if kill is not None:
        write_line(
            f"killed broker {kill.killed}, the leader of {kill.partition}, with kill -9 after {kill.after_records:,} records: "
            f"broker {kill.successor} took over; writing to it paused for {kill.pause_s:.2f} s"
        )
    _say("published", published.records, published.bytes, published.seconds)
    found = _read_back(bootstrap_servers)
    _say("read back", found["records"], found["bytes"], found["seconds"])
    _compare(published, found)
    if kill is not None:
        _await_in_sync(bootstrap_servers, kill)
    _say_disk(facts)


def _run_night(facts: dict[str, Any], table: Any, folder: Path) -> None:
    from kafkalite.cli.demo.flights import departures_on
    from kafkalite.cli.demo.night import DAY, run_night

    output = folder / _NIGHTLY
    run_night(facts["bootstrap_servers"], facts["zookeeper_connect"], _FLIGHTS, output, departures_on(table, DAY))


def _await_in_sync(bootstrap_servers: str, kill: LeaderKill) -> None:
    from kafkalite.cli.demo.flight_publisher import wait_in_sync

    if not run(wait_in_sync(bootstrap_servers, [_FLIGHTS, *_TEXTBOOK_TOPICS], _IN_SYNC_TIMEOUT_S)):
        fail(f"not all replicas are in sync after {_IN_SYNC_TIMEOUT_S:g} s", Exit.CHECK_FAILED)
    write_line(f"broker {kill.killed} is back: all replicas of all partitions are in sync again")


async def _create_topics(bootstrap_servers: str, replication_factor: int) -> list[TopicDescription]:
    from kafkalite.client import Admin, NewTopic

    # The flights are years old by their timestamps: a retention by time would delete them at once.
    settings = {"retention.ms": "-1", "min.insync.replicas": str(min(2, replication_factor))}
    wanted = [
        NewTopic(_FLIGHTS, _FLIGHT_PARTITIONS, replication_factor, topic_configs=settings),
        *(NewTopic(name, count, replication_factor) for name, count in _TEXTBOOK_TOPICS.items()),
    ]
    async with Admin(bootstrap_servers=bootstrap_servers) as admin:
        await admin.create_topics(wanted)
        return await _described_with_leaders(admin, [topic.name for topic in wanted])


async def _described_with_leaders(admin: Admin, names: list[str]) -> list[TopicDescription]:
    """The topics once all partitions have leaders: the broker that is asked may hear of them later than the controller."""
    from kafkalite.client.errors import ClientError

    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _TOPICS_TIMEOUT_S
    while True:
        try:
            described = await admin.describe_topics(names)
            if all(partition.leader >= 0 for topic in described for partition in topic.partitions):
                return described
        except ClientError as problem:
            if not problem.retriable or loop.time() > deadline_s:
                raise
        if loop.time() > deadline_s:
            fail(f"not all partitions have a leader after {_TOPICS_TIMEOUT_S:g} s", Exit.UNREACHABLE)
        await asyncio.sleep(0.05)


def _show_topics(described: list[TopicDescription]) -> None:
    from kafkalite.cli.topic import PARTITION_COLUMNS, partition_rows

    write_rows(partition_rows(described), "table", columns=PARTITION_COLUMNS, name="topic")


async def _publish(bootstrap_servers: str, table: Any, kill: LeaderKill | None) -> Published:
    from kafkalite.cli.demo.flight_publisher import publish

    with _progress("publishing flights", len(table)) as advance:
        return await publish(bootstrap_servers, _FLIGHTS, table, advance, kill)


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr when that is a terminal; a line otherwise. Call what it gives with the steps done."""
    if not sys.stderr.isatty():
        note(f"{title}: {total} rows")
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)


def _read_back(bootstrap_servers: str) -> dict[str, Any]:
    """What the second process found."""
    command = [sys.executable, "-m", "kafkalite.cli.demo.flight_check", bootstrap_servers, _FLIGHTS]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_CHECK_TIMEOUT_S, check=False)
    if done.returncode:
        fail(f"the reading process ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _compare(published: Published, found: dict[str, Any]) -> None:
    """Say that all is well, or end the command with what is not."""
    problems = list(found["problems"])
    for name in ("records", "bytes", "checksum", "keys", "null_keys"):
        if found[name] != getattr(published, name):
            problems.append(f"{name}: {getattr(published, name)} published, {found[name]} read back")
    if problems:
        fail("what was read is not what was published:\n  " + "\n  ".join(problems), Exit.CHECK_FAILED)
    write_line(
        f"checked: all {published.records:,} records are there and none twice, of {published.keys:,} tail numbers each in order, "
        f"{published.null_keys:,} without one"
    )


def _say(what: str, records: int, size: int, seconds: float) -> None:
    rate, megabytes = records / seconds, size / seconds / 1e6
    write_line(
        f"{what} {records:,} records, {size / 1e6:.1f} MB in {seconds:.2f} s: {rate:,.0f} records/s, {megabytes:.1f} MB/s"
    )


def _say_disk(facts: dict[str, Any]) -> None:
    per_broker = {broker["id"]: _bytes_below(Path(broker["log_dir"])) for broker in facts["brokers"]}
    listed = ", ".join(f"broker {broker_id} {size / 1e6:.1f} MB" for broker_id, size in per_broker.items())
    write_line(f"on disk: {sum(per_broker.values()):,} bytes ({listed})")
    write_line(f"time to ready: {facts['ready_s']:.2f} s")
    flush()


def _bytes_below(folder: Path) -> int:
    """What the partitions' files hold; index files are sparse until they are full, so their blocks are counted."""
    return sum(min(each.stat().st_size, each.stat().st_blocks * 512) for each in folder.rglob("*") if each.is_file())


def _say_how_to_reach(facts: dict[str, Any], cluster: _DemoCluster, folder: Path, has_nights: bool) -> None:
    write_line("the cluster stays up; reach it with")
    write_line(f"  export KAFKALITE_BOOTSTRAP_SERVERS={facts['bootstrap_servers']}")
    write_line(f"  kafkalite consume {_FLIGHTS} --max-messages 5 -o jsonl")
    write_line(f"  kafkalite zk tree /brokers -z {facts['zookeeper_connect']}")
    nights = f" --nights {folder / _NIGHTLY}" if has_nights else ""
    write_line(f"  kafkalite console -b {facts['bootstrap_servers']} -z {facts['zookeeper_connect']}{nights}")
    write_line(f"its files are in {folder}; stop it with: kill {cluster.pid}")
    flush()
