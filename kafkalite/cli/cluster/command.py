"""`kafkalite cluster up|info|health|watch`: run a cluster on this machine, describe a cluster, check it, follow its changes."""

from __future__ import annotations

import errno
import json
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kafkalite.cli.admin_call import ask_cluster
from kafkalite.cli.calls import admin_options, bootstrap_option, given_timeout_s, run
from kafkalite.cli.cluster.secure import secure as secure_command
from kafkalite.cli.cluster.secure import users as users_command
from kafkalite.cli.output import Exit, fail, flush, note, output_option, write_line, write_rows
from kafkalite.cli.zookeeper.session import with_session, zookeeper_option
from kafkalite.extras import MissingExtraError
from kafkalite.types import NO_BROKER

if TYPE_CHECKING:
    from kafkalite.administration.cluster_changes import Change, ClusterChanges
    from kafkalite.administration.cluster_health import Verdict
    from kafkalite.client import Admin, ClusterDescription, TopicDescription
    from kafkalite.local.cluster import LocalCluster
    from zk.session import Session

_WATCH_S = 0.25
_PATIENCE_S = 2.0
"""Waits longer than this are explained to the user."""


@click.group()
def cluster() -> None:
    """Run a cluster on this machine; inspect any cluster."""


cluster.add_command(secure_command, "secure")
cluster.add_command(users_command, "users")


@cluster.command(short_help="Start ZooKeeper and brokers on this machine.")
@click.option("--brokers", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--zookeepers", type=int, default=1, show_default=True, help="1, 3 or 5.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Kept, and used again. Without it: a temporary one, deleted with the cluster.",
)
@click.option("--base-port", type=click.IntRange(1, 65000), help="Port of the first broker. Without it: free ports.")
@click.option("--first-broker-id", type=click.IntRange(0), default=101, show_default=True)
@click.option(
    "--restart-after",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Restart a broker that died, this long after its death. Without it: it stays down.",
)
@click.option("--http/--no-http", default=True, show_default=True, help="Metrics and a status page for every broker.")
@click.option(
    "--secure",
    is_flag=True,
    help="With TLS, users, ACLs and a ZooKeeper that only the brokers reach; writes and prints how clients connect.",
)
@click.option("-X", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting of every broker.")
@output_option("table", ("table", "json"))
def up(
    brokers: int,
    zookeepers: int,
    data_dir: Path | None,
    base_port: int | None,
    first_broker_id: int,
    restart_after: float | None,
    http: bool,
    secure: bool,
    overrides: tuple[str, ...],
    output: str,
) -> None:
    """Start ZooKeeper and brokers, say how to reach them, and run until SIGTERM or SIGINT.

    Brokers are stopped cleanly, then ZooKeeper. With -o json one line on stdout tells, once all is ready, addresses and processes.
    """
    from kafkalite.config.keys import ConfigError
    from kafkalite.config.properties import parse_overrides
    from kafkalite.local.broker_process import BrokerDied
    from kafkalite.local.cluster import LocalCluster
    from zk.servers.ensemble import EnsembleError
    from zk.servers.server_classes import MissingRequirementError

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    begun_s = time.monotonic()
    try:
        running = LocalCluster(
            brokers=brokers,
            zookeepers=zookeepers,
            properties=parse_overrides(overrides),
            directory=data_dir.resolve() if data_dir is not None else None,
            first_broker_id=first_broker_id,
            base_port=base_port,
            http=http,
            secure=secure,
        )
    except (ConfigError, MissingExtraError, ValueError) as problem:
        fail(str(problem), Exit.USAGE)
    running.tell_death = _tell
    _tell_ports(running)
    try:
        running.start(lambda line: _tell(line) if time.monotonic() - begun_s > _PATIENCE_S else None)
        _show(running, time.monotonic() - begun_s, output)
        _supervise(running, restart_after)
    except _StopAsked:
        note("stopping")
    except (BrokerDied, TimeoutError, EnsembleError, MissingRequirementError) as problem:
        fail(str(problem))
    except OSError as problem:
        is_full = problem.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = f"; make room in {running.directory}, or choose another --data-dir" if is_full else ""
        if data_dir is not None and _is_about(problem.filename, data_dir):
            fail(f"--data-dir {data_dir}: {problem.strerror} ({problem.filename}){remedy}")
        fail(f"{problem}{remedy}")
    finally:
        unclean = running.close(_tell)
    if unclean:
        fail(f"brokers that did not stop cleanly, with their exit statuses: {unclean}")


def _is_about(name: object, folder: Path) -> bool:
    """True if a file lies in the folder, or the folder below it."""
    if not isinstance(name, str | Path):
        return False
    return Path(name).is_relative_to(folder.resolve()) or folder.resolve().is_relative_to(name)


def _tell_ports(running: LocalCluster) -> None:
    """Print the ports of the servers. A port that is in use ends the command."""
    from kafkalite.local.ports import is_free, span

    ports = running.fixed_ports()
    if not ports:
        _tell("starting on free ports, named below; --base-port 9092 would fix them")
        return
    _tell("starting on ports " + ", ".join(f"{span(each)} ({what})" for what, each in ports.items()))
    busy = [(port, what) for what, each in ports.items() for port in each if not is_free(port)]
    if busy:
        port, what = busy[0]
        fail(
            f"port {port} ({what}) is taken; see by whom: ss -ltnp 'sport = :{port}'. End that program, choose another "
            "--base-port, or leave it out: then free ports are found"
        )


def _tell(line: str) -> None:
    """Print a note as `note` does, and go on when nobody reads stderr any more, so that the brokers are stopped all the same."""
    with suppress(OSError):
        note(line)


class _StopAsked(KeyboardInterrupt):
    """Raised on SIGTERM or SIGINT. It is a KeyboardInterrupt, so that a running event loop passes it on."""


def _stop(*_: object) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # nothing may interrupt the stop
    raise _StopAsked


def _supervise(running: LocalCluster, restart_after_s: float | None) -> NoReturn:
    from kafkalite.cli.cluster.supervisor import Supervisor

    supervisor = Supervisor(running, restart_after_s)
    while True:
        for line in supervisor.check_processes(time.monotonic()):
            note(line)
        time.sleep(_WATCH_S)


def _facts(running: LocalCluster, ready_s: float) -> dict[str, Any]:
    """Return the object that `cluster up -o json` prints."""
    return {
        **_security_facts(running),
        "bootstrap_servers": running.bootstrap_servers,
        "zookeeper_connect": running.zookeeper_connect,
        "brokers": [
            {
                "id": each.id,
                "host": each.host,
                "port": each.port,
                "http_url": each.http_url,
                "pid": each.pid,
                "log_dir": str(each.log_dir),
            }
            for each in running.brokers.values()
        ],
        "zookeepers": [
            {
                "id": each.number,
                "client_port": each.ports.client or each.ports.secure,
                "pid": each.process.pid if each.process else None,
            }
            for each in (running.ensemble.members if running.ensemble else ())
        ],
        "ready_s": round(ready_s, 3),
    }


def _security_facts(running: LocalCluster) -> dict[str, Any]:
    """Write the client files of a secured cluster, and return their paths."""
    if not running.is_secure:
        return {}
    files = running.security.write_client_files(running.bootstrap_servers, running.zookeeper_connect)
    return {"client_files": {purpose: str(path) for purpose, path in files.items()}}


def _show(running: LocalCluster, ready_s: float, output: str) -> None:
    facts = _facts(running, ready_s)
    if output == "json":
        write_line(json.dumps(facts))
        flush()
        return
    for broker in facts["brokers"]:
        write_line(
            f"broker {broker['id']}  {broker['host']}:{broker['port']}  pid {broker['pid']}  {broker['log_dir']}"
        )
        if broker["http_url"] is not None:
            write_line(f"  status page {broker['http_url']}")
    for server in facts["zookeepers"]:
        write_line(f"zookeeper {server['id']}  port {server['client_port']}  pid {server['pid']}")
    write_line(f"ready after {facts['ready_s']} s; reach it with")
    if "client_files" in facts:
        for line in running.security.client_lines(facts["client_files"]):
            write_line(line)
    else:
        write_line(f"  export KAFKALITE_BOOTSTRAP_SERVERS={facts['bootstrap_servers']}")
        write_line(f"  export KAFKALITE_ZOOKEEPER={facts['zookeeper_connect']}")
    flush()


@cluster.command(short_help="Show brokers, controller, and counts of partitions.")
@bootstrap_option
@output_option()
def info(output: str) -> None:
    """Show the brokers with what they lead and hold, the controller, and how many partitions are not as they should be."""
    from kafkalite.administration.cluster_info import COLUMNS, broker_rows, partition_counts

    async def call(admin: Admin) -> tuple[ClusterDescription, list[TopicDescription]]:
        return await admin.describe_cluster(), await admin.describe_topics()

    described, topics = ask_cluster(call)
    brokers, counts = broker_rows(described, topics), partition_counts(topics)
    if output in ("json", "yaml"):
        write_rows([{**described.to_dict(), "brokers": brokers, **counts}], output, columns=[], name="cluster_id")
        return
    rows = [{**broker, "cluster_id": described.cluster_id} for broker in brokers]
    write_rows(rows, output, columns=COLUMNS, wide=["cluster_id"], name="id")
    if output in ("table", "wide"):
        note(
            f"{counts['partitions']} partitions of {counts['topics']} topics: "
            f"{counts['under_replicated_partitions']} under-replicated, {counts['unavailable_partitions']} unavailable"
        )


@cluster.command(short_help="Check controller, brokers, leaders and replicas.")
@click.option("--wait", is_flag=True, help="Wait until the cluster is healthy, for --timeout seconds at most.")
@bootstrap_option
@output_option()
def health(wait: bool, output: str) -> None:
    """Check that there is a controller, that no broker is missing, and that every partition has a leader and all replicas in sync.

    The exit code is 7 when something is not as it should be, 5 when no broker answers.
    """
    from kafkalite.cli.cluster.health import COLUMNS, table_row, wait_until_healthy

    verdicts = run(wait_until_healthy(_check_once, given_timeout_s() if wait else 0.0))
    rows = [table_row(each) if output in ("table", "wide") else each.to_dict() for each in verdicts]
    write_rows(rows, output, columns=COLUMNS, name="check")
    if not all(each.healthy for each in verdicts):
        raise SystemExit(int(Exit.CHECK_FAILED))


async def _check_once() -> list[Verdict]:
    """Check the cluster once, with a new client, because the client before may not have found a broker."""
    from kafkalite.administration.cluster_health import check_cluster
    from kafkalite.client import Admin

    async with Admin(**admin_options()) as admin:
        return await check_cluster(admin)


@cluster.command(short_help="Print elections and ISR changes as they happen.")
@click.argument("topics", nargs=-1)
@click.option("--max-changes", type=click.IntRange(1), help="End after so many changes.")
@zookeeper_option
@output_option("table", ("table", "jsonl"))
def watch(topics: tuple[str, ...], max_changes: int | None, zookeeper: str, output: str) -> None:
    """Print a line for each election, ISR change and new or deleted partition of TOPICS (default: all), as they happen.

    Also when brokers come and go and when the controller changes. Runs until interrupted.
    """
    from asyncio import Queue

    from kafkalite.cli.cluster.watch import ClusterWatch
    from kafkalite.clock import SystemClock

    clock = SystemClock()

    async def follow(session: Session) -> None:
        changes: Queue[Change] = Queue()
        watching = ClusterWatch(session, changes.put_nowait, topics)
        await watching.start()
        note(_summary(watching.changes))
        written = 0
        while max_changes is None or written < max_changes:
            _write_change(await changes.get(), clock.now_ms(), output)
            written += 1

    with_session(zookeeper, follow)


def _summary(known: ClusterChanges) -> str:
    brokers = ",".join(map(str, sorted(known.brokers or ()))) or "none"
    controller = "none" if known.controller in (None, NO_BROKER) else known.controller
    return f"watching {len(known.states)} partitions; brokers {brokers}, controller {controller}; interrupt to end"


def _write_change(change: Change, now_ms: int, output: str) -> None:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    if output == "jsonl":
        write_line(json.dumps({"time": moment.isoformat(timespec="milliseconds"), **change.to_dict()}))
    else:
        write_line(f"{moment.astimezone().strftime('%H:%M:%S.%f')[:-3]}  {change}")
    flush()
