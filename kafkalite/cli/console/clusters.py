"""The clusters of `kafkalite console`: which contexts it serves, with which settings it connects to each, and the connection."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.calls import admin_options, given_on_command_line, producer_options, use_context
from kafkalite.cli.context.file import ContextError, check_name
from kafkalite.cli.context.settings import BOOTSTRAP_SERVERS, ZOOKEEPER_CONNECT, load_contexts, working_directory
from kafkalite.cli.output import Exit, fail, note
from kafkalite.cli.zookeeper.session import named_zookeeper, zookeeper_security

if TYPE_CHECKING:
    from kafkalite.console.access import Access
    from kafkalite.console.actions.plan import Where
    from kafkalite.console.app import Console
    from kafkalite.console.schemas.registry import SchemaRegistry
    from zk.security.store_security import StoreSecurity
    from zk.store import Store

_ZOOKEEPER_TIMEOUT_S: Final = 10.0
_FETCH_WAIT_MS: Final = 100
_PREFETCH_BYTES: Final = 8 * 1024 * 1024
"""Limit of each page, search or follower: there may be many of them, and none reads fast."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings of one cluster: options of the clients, `connect` of ZooKeeper or None, and what belongs to it besides."""

    where: Where
    asking: Mapping[str, Any]
    consuming: Mapping[str, Any]
    producing: Mapping[str, Any]
    connect: str | None
    zookeeper_security: StoreSecurity
    registry: SchemaRegistry | None
    nights: str | None

    @property
    def name(self) -> str:
        """Return the cluster as the page names it."""
        where = self.where
        return f"{where.context} ({where.servers})" if where.context else where.servers


def choose_contexts(given: Sequence[str], wants_all: bool, zookeeper: str) -> list[str]:
    """Return the contexts that the console serves, the first one first; none for the cluster that the command line names otherwise.

    Options that name one cluster end the command where there are several.
    """
    try:
        known = load_contexts(os.environ, working_directory())
    except ContextError as problem:
        fail(str(problem), Exit.USAGE)
    names = list(given)
    if wants_all:
        if given:
            fail("--all-contexts and --context: give one of them", Exit.USAGE)
        names = sorted(known.names(), key=lambda name: (name != known.name, name))
        if not names:
            fail(f"--all-contexts: there are none in {known.user.path}; `kafkalite context set` makes one", Exit.USAGE)
    if len(names) > 1:
        _require_no_single_cluster(zookeeper)
        for name in names:
            _require_own_address(name)
    return names


def _require_no_single_cluster(zookeeper: str) -> None:
    line = given_on_command_line()
    keys = {each.partition("=")[0].strip() for each in line.overrides}
    options = {
        "--bootstrap-server": line.bootstrap_server,
        "--zookeeper": zookeeper,
        "--command-config": line.command_config,
        f"-X {BOOTSTRAP_SERVERS}": BOOTSTRAP_SERVERS in keys,
        f"-X {ZOOKEEPER_CONNECT}": ZOOKEEPER_CONNECT in keys,
    }
    for option, value in options.items():
        if value:
            fail(f"{option} names one cluster, and there are several contexts; leave it out", Exit.USAGE)


def _require_own_address(name: str) -> None:
    """End the command for a context that does not exist, or would be connected to where the environment says."""
    try:
        check_name(name)
        settings = load_contexts(os.environ, working_directory(), name).current_settings()
    except ContextError as problem:
        fail(str(problem), Exit.USAGE)
    if BOOTSTRAP_SERVERS not in settings:
        remedy = f"kafkalite context set {name} {BOOTSTRAP_SERVERS}=HOST:PORT"
        fail(f"context {name} has no {BOOTSTRAP_SERVERS}, which it needs beside others: {remedy}", Exit.USAGE)


def gather_settings(
    contexts: Sequence[str], zookeeper: str, registries: Sequence[str], nights: Sequence[str]
) -> list[ClusterSettings]:
    """Return the settings of these contexts, of the command line's cluster without one. Invalid ones end the command.

    `registries` and `nights` are values for all clusters, or for one as CONTEXT=VALUE.
    """
    urls = _values_by_context("--schema-registry", registries, contexts)
    folders = _values_by_context("--nights", nights, contexts)
    if not contexts:
        return [_gather_one(named_zookeeper(zookeeper), urls.get(""), folders.get(""))]
    found = []
    for name in contexts:
        with use_context(name):
            own = load_contexts(os.environ, working_directory(), name).current_settings()
            own_connect = own[ZOOKEEPER_CONNECT].value if ZOOKEEPER_CONNECT in own else None
            connect = named_zookeeper(zookeeper) if len(contexts) == 1 else own_connect
            found.append(_gather_one(connect, urls.get(name, urls.get("")), folders.get(name, folders.get(""))))
    return found


def _values_by_context(option: str, given: Sequence[str], contexts: Sequence[str]) -> dict[str, str]:
    """Return the value of each context that has one of its own, and at "" the one of all others."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        name, value = (name, value) if equals and name in contexts else ("", each)
        if name in found:
            fail(f"{option} is given twice{f' for {name}' if name else ''}; give CONTEXT=VALUE for each", Exit.USAGE)
        found[name] = value
    return found


def _gather_one(connect: str | None, registry: str | None, nights: str | None) -> ClusterSettings:
    consuming: dict[str, Any] = admin_options("Consumer") | {
        "group_id": None,
        "fetch_max_wait_ms": _FETCH_WAIT_MS,
        "auto_offset_reset": "earliest",
    }
    consuming.setdefault("prefetch_max_bytes", _PREFETCH_BYTES)
    asking = admin_options()
    clients = asking, consuming, producer_options()
    return ClusterSettings(_where(asking), *clients, connect, zookeeper_security(), _registry(registry), nights)


def _registry(url: str | None) -> SchemaRegistry | None:
    from kafkalite.clock import SystemClock
    from kafkalite.console.schemas.registry import SchemaRegistry, http_fetch

    try:
        return SchemaRegistry(http_fetch(url), SystemClock()) if url else None
    except ValueError as problem:
        fail(f"--schema-registry: {problem}", Exit.USAGE)


def _where(options: Mapping[str, Any]) -> Where:
    """Return how command lines name the cluster: its context, and its servers. No other setting leaves the console."""
    from kafkalite.console.actions.plan import Where

    line = given_on_command_line()
    name = load_contexts(os.environ, working_directory(), line.context).name
    servers = options["bootstrap_servers"]
    return Where(servers if isinstance(servers, str) else ",".join(map(str, servers)), name or None)


@asynccontextmanager
async def open_console(settings: ClusterSettings, access: Access) -> AsyncIterator[Console]:
    """Connect to a cluster, and yield its console. Raises ClientError when no broker answers."""
    from kafkalite.client import Admin, Consumer, Producer
    from kafkalite.client.admin.options import AdminOptions
    from kafkalite.clock import SystemClock
    from kafkalite.console.app import Console, Ports
    from kafkalite.console.state_sources import BrokerConnections

    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Admin(**settings.asking))
        survey_admin = await stack.enter_async_context(Admin(**settings.asking))
        store, problem = await _store(settings, stack)
        brokers = BrokerConnections(AdminOptions(**settings.asking))
        opening = partial(Consumer, **settings.consuming), partial(Producer, **settings.producing)
        clients = admin, survey_admin, brokers, *opening
        ports = Ports(*clients, store, SystemClock(), settings.nights, settings.registry, problem)
        yield Console(ports, access, settings.name, settings.where)


async def _store(settings: ClusterSettings, stack: AsyncExitStack) -> tuple[Store | None, str | None]:
    """Return a connection to ZooKeeper when its address is known, or why there is none. Without it the console has no tree."""
    if settings.connect is None:
        return None, None
    from zk.kazoo_adapter.kazoo_store import KazooStore
    from zk.store import StoreError

    store = KazooStore(settings.connect, security=settings.zookeeper_security)
    stack.push_async_callback(store.close)
    try:
        await store.start(_ZOOKEEPER_TIMEOUT_S)
    except (OSError, TimeoutError, StoreError) as problem:
        note(f"ZooKeeper at {settings.connect}: {problem}; its tree is not shown")
        return None, f"ZooKeeper at {settings.connect} did not answer when the console was started; start it again"
    return store, None
