"""The demo's command: a cluster of three ZooKeeper servers and three brokers, and the flights of 2013 through it.

In the middle of the stream the leader of a partition is killed, and the cluster starts the killed broker again. At the end Spark archives
and audits a day, and with `--console` a browser shows all of it. Exit code 0 when every published record was read back once, each key's in
order, and the day is archived; 7 when not.
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
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any

import click

from deploy.examples.flights.cluster_process import ClusterProcess
from deploy.examples.flights.console_process import ConsoleProcess
from deploy.examples.flights.night import DAY, run_night
from deploy.examples.flights.publisher import LeaderKill, Published, publish, wait_in_sync
from deploy.examples.flights.records import FlightsMissingError, departures_on, load_flights
from kafkalite.cli.calls import run
from kafkalite.cli.output import Exit, fail, flush, note, write_line, write_rows
from kafkalite.cli.topic import PARTITION_COLUMNS, partition_rows
from kafkalite.client import Admin, NewTopic, TopicDescription
from kafkalite.client.errors import ClientError
from kafkalite.standard_streams import standard_streams
from kafkalite.types import TopicPartition

_FLIGHTS, _FLIGHT_PARTITIONS = "flights", 6
_TEXTBOOK_TOPICS = {"Topic-A": 3, "Topic-B": 2}
_CHECK_TIMEOUT_S = 300.0
_TOPICS_TIMEOUT_S = 30.0
_IN_SYNC_TIMEOUT_S = 60.0
_KILL_AT = 1 / 3
"""Fraction of the stream after which the leader is killed."""

_REPLICAS = 3
_NIGHTLY = "nightly"
"""The folder of the batch's output."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--keep", is_flag=True, help="Leave the cluster running, and print how to reach it.")
@click.option("--console", "shows", is_flag=True, help="Show all of it in a browser, until interrupted.")
@click.option("-r", "--replication-factor", type=click.IntRange(1, 3), default=_REPLICAS, show_default=True)
@click.option("--kill/--no-kill", default=True, show_default=True, help="Kill a leader in the middle of the stream.")
@click.option(
    "--night/--no-night", default=True, show_default=True, help="End with the nightly batch of a day on Spark."
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the cluster's files.  [default: a temporary one, deleted with the cluster]",
)
def demo(keep: bool, shows: bool, replication_factor: int, kill: bool, night: bool, data_dir: Path | None) -> None:
    """Start a cluster, publish the flights of 2013, kill a leader meanwhile, read all back in another process, check, run the
    nightly batch of a day on Spark, stop.

    A leader is only killed with replication factor 3, where others can take over.
    """
    started_s = time.monotonic()
    folder = data_dir.resolve() if data_dir is not None else Path(tempfile.mkdtemp(prefix="kafkalite-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    cluster, console, flights = ClusterProcess(folder, keep), None, _FLIGHTS
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
            console = ConsoleProcess(facts["bootstrap_servers"], facts["zookeeper_connect"], nights, folder)
        flights = _run_stream(facts, table, replication_factor, kill and replication_factor == _REPLICAS)
        if night:
            _run_night(facts, table, folder, flights)
        if console is not None:
            console.wait()
        if keep:
            cluster.leave()
            _print_how_to_reach(facts, cluster, folder, flights, night)
            return
    except FlightsMissingError as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        if console is not None:
            console.stop()
        code = cluster.stop()
        if data_dir is None and not cluster.is_left and code == 0:
            shutil.rmtree(folder, ignore_errors=True)
    if code != 0:
        fail(f"the cluster did not stop cleanly (status {code}); its files are in {folder}")
    note(f"stopped cleanly; {time.monotonic() - started_s:.1f} s in all")


def _run_stream(facts: dict[str, Any], table: Any, replication_factor: int, kill_leader: bool) -> str:
    """Publish, read back and compare; returns the topic of the flights."""
    bootstrap_servers = facts["bootstrap_servers"]
    note(f"ready after {facts['ready_s']:.2f} s: {bootstrap_servers}")
    topics = run(_create_topics(bootstrap_servers, replication_factor))
    names = [each.name for each in topics]
    flights = next(each for each in names if each.startswith(_FLIGHTS))
    _show_topics(topics)
    kill = None
    if kill_leader:
        pids = {broker["id"]: broker["pid"] for broker in facts["brokers"]}
        kill = LeaderKill(bootstrap_servers, TopicPartition(flights, 0), int(len(table) * _KILL_AT), pids)
    elif replication_factor < _REPLICAS:
        note(f"no leader is killed: for that others must be able to take over, with replication factor {_REPLICAS}")
    published = run(_publish(bootstrap_servers, flights, table, kill))
    if kill is not None:
        write_line(
            f"killed broker {kill.killed}, the leader of {kill.partition}, with kill -9 after {kill.after_records:,} records: "
            f"broker {kill.successor} took over; writing to it paused for {kill.pause_s:.2f} s"
        )
    _print_rate("published", published.records, published.bytes, published.seconds)
    found = _read_back(bootstrap_servers, flights)
    _print_rate("read back", found["records"], found["bytes"], found["seconds"])
    _compare(published, found)
    if kill is not None:
        _wait_in_sync(bootstrap_servers, names, kill)
    _print_disk_usage(facts)
    return flights


def _run_night(facts: dict[str, Any], table: Any, folder: Path, flights: str) -> None:
    output = folder / _NIGHTLY
    run_night(facts["bootstrap_servers"], facts["zookeeper_connect"], flights, output, departures_on(table, DAY))


def _wait_in_sync(bootstrap_servers: str, topics: list[str], kill: LeaderKill) -> None:
    if not run(wait_in_sync(bootstrap_servers, topics, _IN_SYNC_TIMEOUT_S)):
        fail(f"not all replicas are in sync after {_IN_SYNC_TIMEOUT_S:g} s", Exit.CHECK_FAILED)
    write_line(f"broker {kill.killed} is back: all replicas of all partitions are in sync again")


async def _create_topics(bootstrap_servers: str, replication_factor: int) -> list[TopicDescription]:
    # The flights are years old by their timestamps, so retention by time would delete them at once.
    settings = {"retention.ms": "-1", "min.insync.replicas": str(min(2, replication_factor))}
    async with Admin(bootstrap_servers=bootstrap_servers) as admin:
        suffix = choose_suffix(await admin.list_topics())
        wanted = [
            NewTopic(f"{_FLIGHTS}{suffix}", _FLIGHT_PARTITIONS, replication_factor, topic_configs=settings),
            *(
                NewTopic(f"{name}{suffix}", partitions, replication_factor)
                for name, partitions in _TEXTBOOK_TOPICS.items()
            ),
        ]
        await admin.create_topics(wanted)
        return await _wait_for_leaders(admin, [topic.name for topic in wanted])


def choose_suffix(there: Collection[str]) -> str:
    """Return what the names of this demo's topics end with: nothing, or "-2" and so on where an earlier one has left its own in
    `--data-dir`.
    """
    suffixes = chain([""], (f"-{number}" for number in count(2)))
    return next(
        each for each in suffixes if not any(f"{name}{each}" in there for name in (_FLIGHTS, *_TEXTBOOK_TOPICS))
    )


async def _wait_for_leaders(admin: Admin, names: list[str]) -> list[TopicDescription]:
    """Return the topics once all partitions have leaders. The broker that answers may learn of them later than the controller."""
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


def _show_topics(topics: list[TopicDescription]) -> None:
    write_rows(partition_rows(topics), "table", columns=PARTITION_COLUMNS, name="topic")


async def _publish(bootstrap_servers: str, flights: str, table: Any, kill: LeaderKill | None) -> Published:
    with _progress("publishing flights", len(table)) as advance:
        return await publish(bootstrap_servers, flights, table, advance, kill)


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that advances a progress bar on stderr. Where stderr is no terminal, one line is printed instead."""
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


def _read_back(bootstrap_servers: str, flights: str) -> dict[str, Any]:
    """Return the findings of `check`, run in a process of its own."""
    command = [sys.executable, "-m", "deploy.examples.flights.check", bootstrap_servers, flights]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_CHECK_TIMEOUT_S, check=False)
    if done.returncode:
        fail(f"the reading process ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _compare(published: Published, found: dict[str, Any]) -> None:
    """Print that published and read records agree, or end the demo with the differences."""
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


def _print_rate(action: str, records: int, size: int, seconds: float) -> None:
    rate, megabytes = records / seconds, size / seconds / 1e6
    write_line(
        f"{action} {records:,} records, {size / 1e6:.1f} MB in {seconds:.2f} s: {rate:,.0f} records/s, {megabytes:.1f} MB/s"
    )


def _print_disk_usage(facts: dict[str, Any]) -> None:
    per_broker = {broker["id"]: _disk_bytes(Path(broker["log_dir"])) for broker in facts["brokers"]}
    listed = ", ".join(f"broker {broker_id} {size / 1e6:.1f} MB" for broker_id, size in per_broker.items())
    write_line(f"on disk: {sum(per_broker.values()):,} bytes ({listed})")
    write_line(f"time to ready: {facts['ready_s']:.2f} s")
    flush()


def _disk_bytes(folder: Path) -> int:
    """Return the bytes of the files below a folder. Index files are sparse until they are full, so their blocks are counted."""
    return sum(min(each.stat().st_size, each.stat().st_blocks * 512) for each in folder.rglob("*") if each.is_file())


def _print_how_to_reach(
    facts: dict[str, Any], cluster: ClusterProcess, folder: Path, flights: str, has_nights: bool
) -> None:
    write_line("the cluster stays up; reach it with")
    write_line(f"  export KAFKALITE_BOOTSTRAP_SERVERS={facts['bootstrap_servers']}")
    write_line(f"  kafkalite consume {flights} --max-messages 5 -o jsonl")
    write_line(f"  kafkalite zk tree /brokers -z {facts['zookeeper_connect']}")
    nights = f" --nights {folder / _NIGHTLY}" if has_nights else ""
    write_line(f"  kafkalite console -b {facts['bootstrap_servers']} -z {facts['zookeeper_connect']}{nights}")
    write_line(f"its files are in {folder}; stop it with: kill {cluster.pid}")
    flush()


if __name__ == "__main__":
    with standard_streams():
        demo(prog_name="deploy/demo")
