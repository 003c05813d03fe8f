"""Connections of commands to ZooKeeper: the option that locates it, and exit codes for its errors."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalite.cli.calls import context_option, given_on_command_line
from kafkalite.cli.output import Exit, fail

if TYPE_CHECKING:
    from zk.security.store_security import StoreSecurity
    from zk.session import Session
    from zk.size_limits import SizeLimits

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_CONNECT_TIMEOUT_S = 10.0
_DEFAULT_CONNECT = "localhost:2181"


def zookeeper_option(function: Decorated) -> Decorated:
    """Add the options `--zookeeper`, passed as `zookeeper`, and `--context`; `context.settings` has their precedence."""
    function = click.option(
        "-z",
        "--zookeeper",
        default="",
        callback=_resolve_connect,
        metavar="HOST:PORT,.../CHROOT",
        help=f"ZooKeeper's servers.  [default: KAFKALITE_ZOOKEEPER, the context's, or {_DEFAULT_CONNECT}]",
    )(function)
    return context_option(function)


def _resolve_connect(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the connect string where the option does not give it."""
    if ctx.resilient_parsing:
        return value
    return named_zookeeper(value) or _DEFAULT_CONNECT


def named_zookeeper(value: str) -> str | None:
    """Return the connect string by an option, the environment or a context; None without one."""
    if value:
        return value
    from kafkalite.cli.context.settings import ZOOKEEPER_CONNECT

    return _settings([ZOOKEEPER_CONNECT]).get(ZOOKEEPER_CONNECT)


def _settings(keys: Collection[str]) -> dict[str, str]:
    """Return the settings of command line, context and environment. Invalid ones end the command."""
    from kafkalite.cli.context.file import ContextError
    from kafkalite.cli.context.settings import gather, working_directory
    from kafkalite.config.keys import ConfigError

    try:
        found = gather(given_on_command_line(), os.environ, working_directory(), keys)
    except (ConfigError, ContextError) as problem:
        fail(str(problem), Exit.USAGE)
    return {key: setting.value for key, setting in found.items()}


def zookeeper_security() -> StoreSecurity:
    """Return the security by context and environment. Invalid settings end the command."""
    from kafkalite.cli.context.settings import zookeeper_setting_names
    from kafkalite.config.keys import ConfigError
    from kafkalite.zookeeper_connection import security_of_texts

    try:
        return security_of_texts(_settings(zookeeper_setting_names()))
    except ConfigError as problem:
        fail(str(problem), Exit.USAGE)


def zookeeper_limits() -> SizeLimits:
    """Return the limits of znodes and lists by context and environment. Invalid settings end the command."""
    from kafkalite.cli.context.settings import zookeeper_setting_names
    from kafkalite.config.keys import InvalidValue
    from kafkalite.config.zookeeper_keys import jute_maxbuffer, zookeeper_settings
    from zk.size_limits import SizeLimits

    try:
        settings = zookeeper_settings(_settings(zookeeper_setting_names()))
    except InvalidValue as problem:
        fail(str(problem), Exit.USAGE)
    return SizeLimits.of(jute_maxbuffer(settings.kafkalite_zookeeper_jute_maxbuffer))


def with_session(connect: str, use: Callable[[Session], Awaitable[None]]) -> None:
    """Run `use` with a connected session; errors end the command."""
    import asyncio

    from zk.kazoo_adapter.kazoo_store import KazooStore
    from zk.session import Session
    from zk.store import NoNodeError, StoreError

    security = zookeeper_security()

    async def call() -> None:
        store = KazooStore(connect, security=security)
        session = Session(store)
        try:
            await store.start(_CONNECT_TIMEOUT_S)
            await use(session)
        finally:
            await store.close()

    try:
        asyncio.run(call())
    except NoNodeError as problem:
        fail(f"no znode {problem.path}", Exit.NOT_FOUND)
    except ValueError as problem:
        fail(str(problem), Exit.USAGE)
    except (OSError, TimeoutError, StoreError) as problem:
        fail(f"ZooKeeper at {connect}: {problem}", Exit.UNREACHABLE)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
