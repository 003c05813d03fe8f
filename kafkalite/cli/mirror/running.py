"""`kafkalite mirror run`: its options, and what is connected before a mirror is at work."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkalite.cli.calls import Decorated, admin_options, bootstrap_option, given_timeout_s, run_long
from kafkalite.cli.output import Exit, fail, note

if TYPE_CHECKING:
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorState
    from kafkalite.cli.mirror.follower_rights import FollowerRights
    from kafkalite.cli.mirror.listener_security import ListenerSecurity
    from kafkalite.cli.mirror.mirroring import Wanted
    from kafkalite.client.cluster.client import ClusterClient
    from kafkalite.client.options import Opener
    from kafkalite.net.connection import Connection

log = logging.getLogger("kafkalite.mirror")

_FILE: Final = click.Path(dir_okay=False, exists=True, path_type=Path)


@click.command(short_help="Mirror until the switch, or until it is stopped.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--to", "target", required=True, metavar="HOST:PORT,...", help="Brokers of the target to connect to first."
)
@click.option(
    "--controllers",
    required=True,
    metavar="HOST:PORT,...",
    help="Controllers of the target, by their controller listener.",
)
@click.option(
    "--to-config",
    type=_FILE,
    help="A properties file with the security settings for brokers and controllers of the target.",
)
@click.option(
    "--broker-id",
    type=click.IntRange(0),
    required=True,
    help="A node id that is free in the target: the mirror registers as that broker.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    required=True,
    help="Where the target's brokers fetch from the mirror.",
)
@click.option(
    "--bind", metavar="ADDRESS", default="", help="The local address of that port.  [default: the host of --listen]"
)
@click.option(
    "--listener-name", default="PLAINTEXT", show_default=True, help="The target's inter.broker.listener.name."
)
@click.option(
    "--listen-protocol",
    type=click.Choice(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
    default="PLAINTEXT",
    show_default=True,
    help="The security protocol of that listener. With SASL or SSL, --to is by the same one.",
)
@click.option(
    "--listen-config",
    type=_FILE,
    help="A properties file for the mirror's listener. SASL_SSL: ssl.keystore.*. SSL: also ssl.truststore.*, and super.users, "
    "ssl.principal.mapping.rules and allow.everyone.if.no.acl.found as the target's brokers have them.",
)
@click.option(
    "-t", "--topic", "topics", multiple=True, help="Only this topic; may be repeated. Without: all but internal ones."
)
@click.option(
    "--replication-factor", type=click.IntRange(1), help="Replicas in the target.  [default: as in the source]"
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    help="Seconds between two comparisons of topics, settings, groups, ACLs and quotas.",
)
@bootstrap_option
def run(
    directory: Path,
    target: str,
    controllers: str,
    to_config: Path | None,
    broker_id: int,
    listen: str,
    bind: str,
    listener_name: str,
    listen_protocol: str,
    listen_config: Path | None,
    topics: tuple[str, ...],
    replication_factor: int | None,
    interval_s: float,
) -> None:
    """Mirror until the switch, or until it is stopped; the same call goes on. DIRECTORY holds what it has to remember.

    The mirror registers with the target's controllers as a broker and leads the mirrored partitions there, so they take no records from
    clients. The target's brokers copy them as followers; while the mirror is away they have no leader.
    Ends with 0 after the switch, and with 7 when records came into the source after it.
    """
    from kafkalite.cli.mirror.files import MirrorDirectory, MirrorFileError
    from kafkalite.cli.mirror.mirroring import Wanted

    options, to_options = admin_options(), target_options(target, to_config)
    security = _load_security(listen_protocol, listen_config, to_options)
    files = MirrorDirectory(directory)
    wanted = Wanted(topics, replication_factor, interval_s)
    try:
        with files.lock():
            problems = run_long(
                _mirror(
                    files,
                    options,
                    to_options,
                    controllers,
                    broker_id,
                    (listen, bind, listener_name),
                    security,
                    wanted,
                )
            )
    except MirrorFileError as problem:
        fail(str(problem))
    note("switched: the target leads")
    for each in problems:
        note(f"Problem: {each}")
    if problems:
        raise SystemExit(int(Exit.CHECK_FAILED))


def switched_mirror(function: Decorated) -> Decorated:
    """Add the directory of a mirror that has switched, and the options that locate its target: `directory`, `target`, `to_config`."""
    for parameter in (
        click.option(
            "--to-config", type=_FILE, help="A properties file with the security settings for brokers of the target."
        ),
        click.option(
            "--to", "target", required=True, metavar="HOST:PORT,...", help="Brokers of the target, as for `run`."
        ),
        click.argument("directory", type=click.Path(file_okay=False, exists=True, path_type=Path)),
    ):
        function = parameter(function)
    return function


def target_options(servers: str, config: Path | None) -> dict[str, Any]:
    """Return the options of a client of the target. Invalid settings end the command."""
    timeout_ms = int(given_timeout_s() * 1000)
    return {
        "request_timeout_ms": timeout_ms,
        "default_api_timeout_ms": timeout_ms,
        **_read_options(config, "--to-config"),
        "bootstrap_servers": servers,
    }


def _read_options(config: Path | None, name: str, others: Collection[str] = ()) -> dict[str, Any]:
    """Return the options of a client that a file has, `others` left out. Invalid settings end the command."""
    from kafkalite.cli.context.file import ContextError
    from kafkalite.cli.context.settings import Setting, keyword_options
    from kafkalite.config.keys import ConfigError

    try:
        given = {key: value for key, value in _read_file(config, name).items() if key not in others}
        settings = {key: Setting(value, str(config)) for key, value in given.items()}
        return keyword_options(settings, "Admin", config, note)
    except (ConfigError, ContextError) as problem:
        fail(str(problem), Exit.USAGE)


def _read_file(config: Path | None, name: str) -> Mapping[str, str]:
    from kafkalite.config.properties import read_properties

    return {} if config is None else read_properties(config, name)


def _load_security(protocol: str, config: Path | None, to_options: dict[str, Any]) -> ListenerSecurity:
    """Return what secures the listener. What is wrong with it ends the command."""
    from kafkalite.cli.mirror.listener_security import BROKER_SETTINGS, load_security
    from kafkalite.config.keys import ConfigError

    name = "--listen-config"
    try:
        given = _read_file(config, name)
        of_brokers = {key: given[key] for key in BROKER_SETTINGS if key in given} if protocol == "SSL" else {}
        return load_security(protocol, _read_options(config, name, of_brokers), to_options, of_brokers)
    except (ValueError, ConnectionError, ConfigError) as problem:
        fail(str(problem), Exit.USAGE)


async def _mirror(
    files: MirrorDirectory,
    source_options: dict[str, Any],
    target_options: dict[str, Any],
    controllers: str,
    broker_id: int,
    listener: tuple[str, str, str],
    security: ListenerSecurity,
    wanted: Wanted,
) -> list[str]:
    """Connect both sides and mirror; return what is wrong after the switch."""
    from kafkalite.cli.mirror.clusters import Clusters, make_internal_topics
    from kafkalite.cli.mirror.listener import Listener
    from kafkalite.cli.mirror.listener_security import PROTOCOLS
    from kafkalite.cli.mirror.mirroring import Mirror
    from kafkalite.cli.mirror.passing import Passing
    from kafkalite.cli.mirror.quorum import Quorum, Registration
    from kafkalite.client import Admin
    from kafkalite.server_addresses import parse_servers

    ((host, port),) = parse_servers(listener[0])
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(Admin(**source_options))
        source_cluster = await connect(stack, source_options)
        source_cluster.watch_all_topics()
        target_cluster = await connect(stack, target_options)
        opener = _open_elsewhere(target_cluster, (host, port))
        target = await stack.enter_async_context(Admin(**target_options | {"opener": opener}))
        state = _load_state(files, source_cluster, target_cluster, broker_id)
        await make_internal_topics(target_cluster, given_timeout_s())
        protocol = PROTOCOLS[security.protocol]
        who = Registration(broker_id, bytes.fromhex(state.incarnation), listener[2], host, port, protocol)
        quorum = Quorum(parse_servers(controllers), target_cluster.open_separate, who)
        stack.callback(quorum.close)
        clusters = Clusters(source, source_cluster, target, target_cluster)
        mirror = Mirror(files, state, clusters, quorum, wanted)
        if security.rights is not None:
            await stack.enter_async_context(_keeping(security.rights, target_cluster, wanted.interval_s))
        passing = Passing(partial(_find_brokers, target_cluster, broker_id), security)
        if security.refusal:
            note(f"Note: {security.refusal}")
        served = Listener(mirror.relay, source_cluster, passing, security)
        mirror.find_notes = served.describe_problems
        stack.push_async_callback(served.close)
        await served.listen(listener[1] or host, port)
        note(f"mirroring from cluster {state.source_cluster} to {state.target_cluster} as broker {broker_id}")
        return await mirror.run()


@asynccontextmanager
async def _keeping(rights: FollowerRights, target: ClusterClient, interval_s: float) -> AsyncIterator[None]:
    """Read the target's ACLs now, and again and again until the context ends. Raises ClientError, OSError at the first time."""
    import asyncio

    from kafkalite.cli.mirror.administered.acl_listing import read_acls
    from kafkalite.client.errors import ClientError

    async def keep() -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                rights.replace_acls((await read_acls(target))[0])
            except (OSError, ClientError) as problem:
                rights.note_unread(str(problem))
                log.warning("the target's ACLs are not read, and count as before: %s", problem)

    rights.replace_acls((await read_acls(target))[0])
    keeping = asyncio.create_task(keep(), name="kafkalite-mirror-acls")
    try:
        yield
    finally:
        keeping.cancel()


def _find_brokers(cluster: ClusterClient, mirror_id: int) -> list[tuple[str, int]]:
    """Return where brokers of the target are reached."""
    return [(each.host, each.port) for each in cluster.view.brokers.values() if each.id != mirror_id]


def _open_elsewhere(cluster: ClusterClient, own: tuple[str, int]) -> Opener:
    """Return what opens connections to brokers of the target, and to one of its `servers` in the place of the mirror (`own`).

    Brokers of Kafka 4 name any broker as the controller, the mirror too, which would only pass on what it asks.
    """

    async def open_connection(host: str, port: int) -> Connection:
        failed: OSError | None = None
        for address in cluster.servers if (host, port) == own else [(host, port)]:
            try:
                return await cluster.open_separate(*address)
            except OSError as problem:
                failed = failed or problem
        raise failed or ConnectionError(f"{host}:{port} is the mirror itself")

    return open_connection


async def connect(stack: AsyncExitStack, options: dict[str, Any]) -> ClusterClient:
    from kafkalite.client import AdminOptions
    from kafkalite.client.cluster.client import ClusterClient

    cluster = ClusterClient(AdminOptions(**options))
    stack.push_async_callback(cluster.close)
    await cluster.connect(given_timeout_s())
    return cluster


def _load_state(files: MirrorDirectory, source: ClusterClient, target: ClusterClient, broker_id: int) -> MirrorState:
    """Return what the directory remembers, or begin. Raises MirrorFileError for a directory of another mirror."""
    from kafkalite.cli.mirror.files import MirrorFileError, MirrorState

    clusters = source.view.cluster_id or "", target.view.cluster_id or ""
    state = files.read_state()
    if clusters[0] == clusters[1]:
        raise MirrorFileError(f"source and target are the same cluster, {clusters[0]}")
    if state is None:
        state = MirrorState(*clusters, broker_id, os.urandom(16).hex())
        if broker_id in target.view.brokers:
            raise MirrorFileError(f"the target has a broker {broker_id}; give another --broker-id")
        files.write_state(state)
    if state.is_switched:
        raise MirrorFileError(f"{files.path} is of a mirror that has switched; give another directory")
    if (state.source_cluster, state.target_cluster, state.broker_id) != (*clusters, broker_id):
        was = f"from {state.source_cluster} to {state.target_cluster} as broker {state.broker_id}"
        raise MirrorFileError(
            f"{files.path} is of a mirror {was}, not from {clusters[0]} to {clusters[1]} as {broker_id}"
        )
    return state
