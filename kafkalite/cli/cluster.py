"""`kafkalite cluster up|info`: a cluster on this machine in the foreground, and what a cluster says of itself."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalite.cli.calls import admin_options, bootstrap_option, run
from kafkalite.cli.output import Exit, fail, flush, note, output_option, write_line, write_rows

if TYPE_CHECKING:
    from kafkalite.cli.cluster_processes import ClusterLayout, ClusterProcesses
    from kafkalite.client.admin import ClusterDescription

_WATCH_S = 0.25


@click.group()
def cluster() -> None:
    """Run a cluster on this machine; look at one."""


@cluster.command()
@click.option("--brokers", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--zookeepers", type=int, default=1, show_default=True, help="1, 3 or 5.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Kept, and used again. Without it: a temporary one that goes with the cluster.",
)
@click.option("--base-port", type=click.IntRange(1, 65000), help="Port of the first broker. Without it: free ports.")
@click.option("--first-broker-id", type=click.IntRange(0), default=101, show_default=True)
@click.option("-X", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting of every broker.")
@output_option("table", ("table", "json"))
def up(
    brokers: int,
    zookeepers: int,
    data_dir: Path | None,
    base_port: int | None,
    first_broker_id: int,
    overrides: tuple[str, ...],
    output: str,
) -> None:
    """Start ZooKeeper and brokers, say how to reach them, and run until SIGTERM or SIGINT.

    Brokers are stopped cleanly, then ZooKeeper. With -o json one line on stdout tells, once all is ready, addresses and processes.
    """
    from kafkalite.cli.cluster_processes import ClusterLayout, ClusterStartError
    from kafkalite.config.keys import ConfigError
    from kafkalite.config.properties import parse_overrides
    from zk.ensemble import EnsembleError
    from zk.server_classes import MissingRequirementError

    with ExitStack() as stack:
        if data_dir is None:
            data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkalite-")))
        try:
            settings = parse_overrides(overrides)
            layout = ClusterLayout(data_dir.resolve(), brokers, zookeepers, base_port, first_broker_id, settings)
            asyncio.run(_run(layout, output))
        except (ConfigError, ValueError) as problem:
            fail(str(problem), Exit.USAGE)
        except (ClusterStartError, EnsembleError, MissingRequirementError, OSError) as problem:
            fail(str(problem))


async def _run(layout: ClusterLayout, output: str) -> None:
    from kafkalite.cli.cluster_processes import ClusterProcesses

    loop = asyncio.get_running_loop()
    stop_asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)
    processes = ClusterProcesses(layout)
    starting = loop.create_task(processes.start())
    stopping = loop.create_task(stop_asked.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    stopping.cancel()
    await starting
    try:
        _show(processes, output)
        await _watch(processes, stop_asked)
        note("stopping")
    finally:
        await processes.stop()


async def _watch(processes: ClusterProcesses, stop_asked: asyncio.Event) -> None:
    """Until asked to stop; children that die are reported, the others run on."""
    while not stop_asked.is_set():
        for line in processes.deaths():
            note(line)
        try:
            async with asyncio.timeout(_WATCH_S):
                await stop_asked.wait()
        except TimeoutError:
            continue


def _show(processes: ClusterProcesses, output: str) -> None:
    facts = processes.to_dict()
    if output == "json":
        write_line(json.dumps(facts))
        flush()
        return
    for broker in facts["brokers"]:
        write_line(
            f"broker {broker['id']}  {broker['host']}:{broker['port']}  pid {broker['pid']}  {broker['log_dir']}"
        )
    for server in facts["zookeepers"]:
        write_line(f"zookeeper {server['id']}  127.0.0.1:{server['client_port']}  pid {server['pid']}")
    write_line(f"ready after {facts['ready_s']} s; reach it with")
    write_line(f"  export KAFKALITE_BOOTSTRAP_SERVERS={facts['bootstrap_servers']}")
    write_line(f"  zookeeper.connect={facts['zookeeper_connect']}")
    flush()


@cluster.command()
@bootstrap_option
@output_option()
def info(bootstrap_server: str, timeout: float, output: str) -> None:
    """Show the brokers, the controller and the cluster's id."""
    from kafkalite.client.admin import Admin

    async def call() -> ClusterDescription:
        async with Admin(**admin_options(bootstrap_server, timeout)) as admin:
            return await admin.describe_cluster()

    described = run(call())
    if output in ("json", "yaml"):
        write_rows([described.to_dict()], output, columns=[], name="cluster_id")
        return
    rows = [
        {**broker.to_dict(), "is_controller": broker.id == described.controller_id, "cluster_id": described.cluster_id}
        for broker in described.brokers
    ]
    write_rows(rows, output, columns=["id", "host", "port", "rack", "is_controller"], wide=["cluster_id"], name="id")
