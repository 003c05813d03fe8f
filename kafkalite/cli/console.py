"""`kafkalite console`: a cluster in a browser, as a client with the settings of the current context."""

from __future__ import annotations

import gc
import os
import socket
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kafkalite.cli.calls import admin_options, bootstrap_option, given_on_command_line, producer_options, run
from kafkalite.cli.output import Exit, fail, flush, note, write_line
from kafkalite.cli.zookeeper.session import named_zookeeper, zookeeper_security

if TYPE_CHECKING:
    from kafkalite.console.access import Access
    from kafkalite.console.actions.plan import Where
    from kafkalite.console.schema_registry import SchemaRegistry
    from kafkalite.net.login import Login
    from zk.store import Store

DEFAULT_PORT = 8980
_USER, _PASSWORD = "KAFKALITE_CONSOLE_USER", "KAFKALITE_CONSOLE_PASSWORD"
_ZOOKEEPER_TIMEOUT_S = 10.0
_FETCH_WAIT_MS = 100
_PREFETCH_BYTES = 8 * 1024 * 1024
"""Limit of each page, search or follower: there may be many of them, and none reads fast."""


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to bind. Elsewhere than here a login is demanded."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0 takes a free one."
)
@click.option(
    "--read-only/--allow-changes",
    default=None,
    help="Serve nothing that changes anything.  [default: --read-only, unless only this machine reaches it]",
)
@click.option(
    "--users-file",
    type=click.Path(dir_okay=False),
    envvar="KAFKALITE_CONSOLE_USERS_FILE",
    help=f"Who may look: lines name:password.  [default: {_USER} and {_PASSWORD}]",
)
@click.option(
    "--name", "names", multiple=True, metavar="HOST", help="A name by which browsers reach it, beside its addresses."
)
@click.option(
    "--schema-registry",
    metavar="URL",
    envvar="KAFKALITE_SCHEMA_REGISTRY",
    help="Where schemas of values in Avro are: http://HOST:PORT, with name:password@ if it asks.",
)
@click.option("--nights", metavar="FOLDER", help="Show what the nightly jobs on Spark did: their --output.")
@click.option(
    "-z",
    "--zookeeper",
    default="",
    metavar="HOST:PORT,.../CHROOT",
    help="Show its tree.  [default: KAFKALITE_ZOOKEEPER, or the context's; without one there is no tree]",
)
@bootstrap_option
def console(
    host: str,
    port: int,
    read_only: bool | None,
    users_file: str | None,
    names: tuple[str, ...],
    schema_registry: str | None,
    nights: str | None,
    zookeeper: str,
) -> None:
    """Show a cluster in a browser: topics and their records, groups and their lag, settings, ZooKeeper's tree, what changes.

    It is a client like any other, with the settings of the context, and works with Apache Kafka too. It serves this machine only, unless
    --host says otherwise; then there must be a login, and something in front of it that speaks TLS.
    """
    from kafkalite.extras import MissingExtraError, require_extra

    try:
        require_extra("console", "the console")
    except MissingExtraError as problem:
        fail(str(problem), Exit.USAGE)
    from kafkalite.clock import SystemClock
    from kafkalite.console.schema_registry import SchemaRegistry, http_fetch
    from kafkalite.console.serving import bound_socket

    try:
        registry = SchemaRegistry(http_fetch(schema_registry), SystemClock()) if schema_registry else None
    except ValueError as problem:
        fail(f"--schema-registry: {problem}", Exit.USAGE)
    access = _access(host, names, users_file, read_only)
    try:
        listening = bound_socket(host, port)
    except OSError as problem:
        fail(f"{problem.strerror}; --port names another port")
    with listening:
        run(_serve(listening, access, registry, nights, zookeeper))


def _access(host: str, names: tuple[str, ...], users_file: str | None, read_only: bool | None) -> Access:
    """Return the rules of access; where others could reach the console and nothing is said, it only reads. Without a login it ends the
    command there.
    """
    from kafkalite.console.access import Access, is_loopback

    login = _login(users_file)
    if login is None and not is_loopback(host):
        fail(
            f"--host {host} is not this machine alone: name who may look by --users-file, or by {_USER} and {_PASSWORD}",
            Exit.USAGE,
        )
    own = () if is_loopback(host) else (host, socket.gethostname(), socket.getfqdn())
    return Access((*own, *names), login, not is_loopback(host) if read_only is None else read_only)


def _login(users_file: str | None) -> Login | None:
    from kafkalite.config.keys import ConfigError
    from kafkalite.net.login import Login, read_login

    if users_file is not None:
        try:
            return read_login(users_file, "--users-file", may_be_exposed=False)
        except ConfigError as problem:
            fail(str(problem), Exit.USAGE)
    user, password = os.environ.get(_USER), os.environ.get(_PASSWORD)
    if bool(user) != bool(password):
        fail(f"{_USER} and {_PASSWORD} belong together", Exit.USAGE)
    return Login({user: password}) if user and password else None


async def _serve(
    listening: socket.socket, access: Access, registry: SchemaRegistry | None, nights: str | None, zookeeper: str
) -> None:
    from kafkalite.client import Admin, Consumer, Producer
    from kafkalite.client.options import AdminOptions
    from kafkalite.clock import SystemClock
    from kafkalite.console.app import Console, Ports
    from kafkalite.console.serving import serve
    from kafkalite.console.state_sources import BrokerConnections

    consuming: dict[str, Any] = admin_options("Consumer") | {
        "group_id": None,
        "fetch_max_wait_ms": _FETCH_WAIT_MS,
        "auto_offset_reset": "earliest",
    }
    consuming.setdefault("prefetch_max_bytes", _PREFETCH_BYTES)
    producing, asking = producer_options(), admin_options()
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Admin(**asking))
        survey_admin = await stack.enter_async_context(Admin(**asking))
        store, problem = await _store(zookeeper, stack)
        brokers = BrokerConnections(AdminOptions(**asking))
        clients = admin, survey_admin, brokers, partial(Consumer, **consuming), partial(Producer, **producing)
        ports = Ports(*clients, store, SystemClock(), nights, registry, problem)
        where = _where(asking)
        name = f"{where.context} ({where.servers})" if where.context else where.servers
        shown = Console(ports, access, name, where)

        def ready() -> None:
            address, port = listening.getsockname()[:2]
            write_line(f"http://{f'[{address}]' if ':' in address else address}:{port}/")
            flush()
            note("the console serves; interrupt to end")

        # Each look at the cluster makes ten objects for a topic and frees those of the look before: searched for cycles at every seven
        # hundredth, ten thousand topics would cost a third more, and requests would wait 40 ms for a search of all of them.
        gc.freeze()
        gc.set_threshold(20_000, 10, 20)
        await serve(shown.app, listening, ready)


async def _store(zookeeper: str, stack: AsyncExitStack) -> tuple[Store | None, str | None]:
    """Return a connection to ZooKeeper when its address is known, or why there is none. Without it the console has no tree."""
    connect = named_zookeeper(zookeeper)
    if connect is None:
        return None, None
    from zk.kazoo_adapter.kazoo_store import KazooStore
    from zk.store import StoreError

    store = KazooStore(connect, security=zookeeper_security())
    stack.push_async_callback(store.close)
    try:
        await store.start(_ZOOKEEPER_TIMEOUT_S)
    except (OSError, TimeoutError, StoreError) as problem:
        note(f"ZooKeeper at {connect}: {problem}; its tree is not shown")
        return None, f"ZooKeeper at {connect} did not answer when the console was started; start it again"
    return store, None


def _where(options: dict[str, Any]) -> Where:
    """Return how command lines name the cluster: its context, and its servers. No other setting leaves the console."""
    from kafkalite.cli.context.settings import load_contexts, working_directory
    from kafkalite.console.actions.plan import Where

    line = given_on_command_line()
    name = load_contexts(os.environ, working_directory(), line.context).name
    servers = options["bootstrap_servers"]
    return Where(servers if isinstance(servers, str) else ",".join(map(str, servers)), name or None)
