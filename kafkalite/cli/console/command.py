"""`kafkalite console`: clusters in a browser, each as a client with the settings of a context."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkalite.cli.calls import bootstrap_option, contexts_option, run_long
from kafkalite.cli.console.clusters import ClusterSettings, choose_contexts, gather_settings, open_console
from kafkalite.cli.output import Exit, fail, flush, note, write_line

if TYPE_CHECKING:
    from kafkalite.console.access import Access
    from kafkalite.net.login import Login

DEFAULT_PORT = 8980
_USER, _PASSWORD = "KAFKALITE_CONSOLE_USER", "KAFKALITE_CONSOLE_PASSWORD"


@click.command()
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to bind. Other than on a loopback address a login is required.",
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
    "registries",
    multiple=True,
    metavar="[CONTEXT=]URL",
    envvar="KAFKALITE_SCHEMA_REGISTRY",
    help="Where schemas of values in Avro and Protobuf are: http://HOST:PORT, with name:password@ if it asks.",
)
@click.option(
    "--nights",
    multiple=True,
    metavar="[CONTEXT=]FOLDER",
    help="Show what the nightly jobs on Spark did: their --output.",
)
@click.option(
    "-z",
    "--zookeeper",
    default="",
    metavar="HOST:PORT,.../CHROOT",
    help="Show its tree.  [default: KAFKALITE_ZOOKEEPER, or the context's; without one there is no tree]",
)
@click.option("--all-contexts", is_flag=True, help="Show the clusters of all contexts; the current one is the first.")
@bootstrap_option
@contexts_option
def console(
    host: str,
    port: int,
    read_only: bool | None,
    users_file: str | None,
    names: tuple[str, ...],
    registries: tuple[str, ...],
    nights: tuple[str, ...],
    zookeeper: str,
    all_contexts: bool,
    context: tuple[str, ...],
) -> None:
    """Show clusters in a browser: topics and their records, groups and their lag, settings, ZooKeeper's tree, what changes.

    It is a client like any other, with the settings of the context, and works with Apache Kafka too. With several contexts the header
    has a switch between them. It serves this machine only, unless --host says otherwise; then there must be a login, and something in
    front of it that speaks TLS.
    """
    from kafkalite.extras import MissingExtraError, require_extra

    try:
        require_extra("console", "the console")
    except MissingExtraError as problem:
        fail(str(problem), Exit.USAGE)
    from kafkalite.console.serving import bound_socket

    contexts = choose_contexts(context, all_contexts, zookeeper)
    clusters = gather_settings(contexts, zookeeper, registries, nights)
    access = _access(host, names, users_file, read_only)
    try:
        listening = bound_socket(host, port)
    except OSError as problem:
        fail(f"{problem.strerror}; --port names another port")
    with listening:
        run_long(_serve(listening, access, clusters))


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


async def _serve(listening: socket.socket, access: Access, clusters: Sequence[ClusterSettings]) -> None:
    from kafkalite.console.serving import serve

    def ready() -> None:
        address, port = listening.getsockname()[:2]
        write_line(f"http://{f'[{address}]' if ':' in address else address}:{port}/")
        flush()
        note("the console serves; interrupt to end")

    if len(clusters) == 1:
        async with open_console(clusters[0], access) as shown:
            _collect_seldom()
            await serve(shown.app, listening, ready)
        return
    from kafkalite.console.clusters import Cluster, Clusters

    several = [
        Cluster(each.where.context or "", each.where.servers, partial(open_console, each, access)) for each in clusters
    ]
    _collect_seldom()
    await serve(Clusters(several, access, note).app, listening, ready)


def _collect_seldom() -> None:
    """Let the garbage collector run less often, over what is made from now on.

    Each look at a cluster makes ten objects for a topic and frees those of the look before: searched for cycles at every seven hundredth,
    ten thousand topics would cost a third more, and requests would wait 40 ms for a search of all of them.
    """
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)
