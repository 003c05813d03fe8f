"""How commands reach ZooKeeper: the option that says where it is, and what its errors become."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalite.cli.output import Exit, fail

if TYPE_CHECKING:
    from zk.session import Session

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_CONNECT_TIMEOUT_S = 10.0


def zookeeper_option(function: Decorated) -> Decorated:
    """The option `--zookeeper`, passed as `zookeeper`."""
    return click.option(
        "-z",
        "--zookeeper",
        envvar="KAFKALITE_ZOOKEEPER",
        default="localhost:2181",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,.../CHROOT",
        help="ZooKeeper's servers.",
    )(function)


def with_session(connect: str, use: Callable[[Session], Awaitable[None]]) -> None:
    """Run `use` with a connected session; errors end the command."""
    from zk.kazoo_store import KazooStore
    from zk.session import Session
    from zk.store import NoNodeError, StoreError

    async def call() -> None:
        store = KazooStore(connect)
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
    except (OSError, TimeoutError, StoreError) as problem:
        fail(f"ZooKeeper at {connect}: {problem}", Exit.UNREACHABLE)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
