"""Requests of commands through the admin client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.cli.calls import admin_options, given_timeout_s, run
from kafkalite.cli.progress import patience
from kafkalite.cli.topic_suggestions import suggesting

if TYPE_CHECKING:
    from kafkalite.client import Admin
    from kafkalite.client.admin.topics import TopicAdmin

Asked = TypeVar("Asked")
Result = TypeVar("Result")


def ask_cluster(question: Callable[[Admin], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of `question`, which gets a connected admin client. An error ends the command, as in `calls.run`."""
    return _ask(_open_admin, question)


def ask_topics(question: Callable[[TopicAdmin], Coroutine[Any, Any, Result]]) -> Result:
    """Do as `ask_cluster` does, for a question to the part of the admin client that knows topics, so that no other is imported."""
    return _ask(_open_topic_admin, question)


def _ask(
    open_client: Callable[[dict[str, Any]], AbstractAsyncContextManager[Asked]],
    question: Callable[[Asked], Coroutine[Any, Any, Result]],
) -> Result:
    async def call(options: dict[str, Any]) -> Result:
        async with AsyncExitStack() as connected:
            with patience(f"waiting for the cluster, up to {given_timeout_s():g} s (--timeout)"):
                client = await connected.enter_async_context(open_client(options))
            return await question(client)

    options = admin_options()
    return run(suggesting(call(options), options))


def _open_admin(options: dict[str, Any]) -> Admin:
    from kafkalite.client import Admin

    return Admin(**options)


@asynccontextmanager
async def _open_topic_admin(options: dict[str, Any]) -> AsyncIterator[TopicAdmin]:
    from kafkalite.client.admin.options import AdminOptions
    from kafkalite.client.admin.topics import TopicAdmin
    from kafkalite.client.cluster.client import ClusterClient

    chosen = AdminOptions(**options)
    cluster = ClusterClient(chosen)
    try:
        await cluster.connect()
        yield TopicAdmin(cluster, chosen.request_timeout_ms, chosen.default_api_timeout_ms)
    finally:
        await cluster.close()
