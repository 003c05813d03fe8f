"""`kafkalite zk run|serve|tree|get|watch`: ZooKeeper servers, and a look at what is in ZooKeeper."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalite.cli.output import Exit, fail, flush, note, output_option, write_line
from kafkalite.cli.zookeeper.session import with_session, zookeeper_option

if TYPE_CHECKING:
    from zk.session import Session
    from zk.store import Store


@click.group()
def zk() -> None:
    """Run ZooKeeper servers; inspect znodes."""


@zk.command(short_help="Run ZooKeeper servers in the foreground.")
@click.option("--servers", type=int, default=1, show_default=True, help="1, 3 or 5.")
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), default=Path("zookeeper-data"), show_default=True
)
@click.option(
    "--base-port", type=int, default=2181, show_default=True, help="The first client port; the others follow."
)
@output_option("table", ("table", "json"))
def serve(servers: int, data_dir: Path, base_port: int, output: str) -> None:
    """Run ZooKeeper servers in the foreground until SIGTERM or SIGINT."""
    import asyncio

    from zk.servers.ensemble import Ensemble, EnsembleError
    from zk.servers.server_classes import MissingRequirementError

    async def run_servers() -> None:
        ensemble = Ensemble(data_dir.resolve(), servers, client_ports=[base_port + each for each in range(servers)])
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        try:
            await ensemble.start()
            if output == "json":
                members = [
                    {"id": m.number, "client_port": m.ports.client, "pid": m.process.pid}
                    for m in ensemble.members
                    if m.process
                ]
                write_line(json.dumps({"zookeeper_connect": ensemble.connect, "zookeepers": members}))
            else:
                write_line(ensemble.connect)
            flush()
            await stopping.wait()
        finally:
            await ensemble.stop()

    try:
        asyncio.run(run_servers())
    except ValueError as problem:
        fail(str(problem), Exit.USAGE)
    except OSError as problem:
        named = f"--data-dir {data_dir}: " if problem.filename is not None else ""
        fail(f"{named}{problem}")
    except (EnsembleError, MissingRequirementError) as problem:
        fail(str(problem))


@zk.command("run", short_help="Run one ZooKeeper server in the foreground.")
@click.option(
    "--config", type=click.Path(dir_okay=False, path_type=Path), required=True, help="A zoo.cfg of ZooKeeper."
)
@click.option("--id", "server_id", type=click.IntRange(1, 255), help="Written to dataDir/myid if that does not exist.")
@click.option("--heap-mb", type=click.IntRange(32), default=512, show_default=True, help="Memory of the Java heap.")
def run_server(config: Path, server_id: int | None, heap_mb: int) -> None:
    """Run one ZooKeeper server, a member of an ensemble or a lone one, in the foreground until SIGTERM or SIGINT.

    The process becomes ZooKeeper's. Options in SERVER_JVMFLAGS are given to Java.
    """
    from kafkalite.config.keys import ConfigError
    from kafkalite.config.properties import read_properties
    from zk.servers.server_classes import MissingRequirementError
    from zk.servers.server_command import java_environment, server_command

    try:
        settings = read_properties(config, "--config")
        if not config.read_bytes().isascii():
            fail(
                f"{config} has characters that ZooKeeper reads as ISO-8859-1; write those beyond ASCII as \\uXXXX",
                Exit.USAGE,
            )
        data_dir = settings.get("dataDir")
        if not data_dir:
            fail(f"{config} has no dataDir; ZooKeeper needs to know where its data is", Exit.USAGE)
        options = [f"-Xmx{heap_mb}m", "-XX:+ExitOnOutOfMemoryError"]
        command = server_command(config.absolute(), Path(data_dir), options)
        if server_id is not None:
            _claim_id(Path(data_dir, "myid"), server_id)
        flush()
        os.execve(command[0], command, java_environment())
    except (ConfigError, MissingRequirementError, OSError) as problem:
        fail(str(problem))


def _claim_id(path: Path, server_id: int) -> None:
    """Refuse a directory with the data of another member: under this id its votes would count twice."""
    try:
        with path.open("x") as new:
            new.write(f"{server_id}\n")
    except FileExistsError:
        found = path.read_text().strip()
        if found != str(server_id):
            fail(f"{path} says that this is server {found}, not {server_id}; give the right --id or another dataDir")


@zk.command(short_help="Show the znodes below a path.")
@click.argument("path", default="/")
@click.option("-d", "--data", is_flag=True, help="Also what the znodes hold.")
@zookeeper_option
def tree(path: str, data: bool, zookeeper: str) -> None:
    """Show the znodes below PATH; ephemeral ones with their session."""

    async def show(session: Session) -> None:
        await _show_below(session.store, path, 0, data)

    with_session(zookeeper, show)


async def _show_below(store: Store, path: str, depth: int, with_data: bool) -> None:
    content, stat = await store.read(path)
    name = path if depth == 0 else path.rsplit("/", 1)[1]
    owner = f"  [session 0x{stat.ephemeral_owner:x}]" if stat.ephemeral_owner else ""
    text = f"  {_text(content)}" if with_data and content else ""
    write_line(f"{'  ' * depth}{name}{owner}{text}")
    for child in sorted(await store.children(path)):
        await _show_below(store, f"{path.rstrip('/')}/{child}", depth + 1, with_data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


@zk.command()
@click.argument("path")
@zookeeper_option
@output_option("value", ("value", "json"))
def get(path: str, zookeeper: str, output: str) -> None:
    """Print what a znode holds, with -o json also its stat."""

    async def show(session: Session) -> None:
        content, stat = await session.store.read(path)
        if output == "json":
            fields = {name: getattr(stat, name) for name in stat.__slots__}
            write_line(json.dumps({"path": path, "data": _text(content), "stat": fields}, indent=2))
        else:
            write_line(_text(content))

    with_session(zookeeper, show)


@zk.command(short_help="Print changes of a znode and its children.")
@click.argument("path")
@zookeeper_option
def watch(path: str, zookeeper: str) -> None:
    """Print a line for each change of a znode and of its children, until interrupted."""
    from asyncio import Event

    from zk.watches import ChildrenChanged, ChildWatch, DataChanged, DataWatch

    def data_changed(change: DataChanged) -> None:
        version = f"version {change.stat.version}: {_text(change.data or b'')}" if change.stat else "absent"
        write_line(f"{change.path} {version}")
        flush()

    def children_changed(change: ChildrenChanged) -> None:
        for sign, names in (("+", change.added), ("-", change.removed)):
            for name in names:
                write_line(f"{change.path} {sign} {name}")
        flush()

    async def follow(session: Session) -> None:
        await DataWatch(session, path, data_changed).start()
        await ChildWatch(session, path, children_changed).start()
        note("watching; interrupt to end")
        await Event().wait()

    with_session(zookeeper, follow)
