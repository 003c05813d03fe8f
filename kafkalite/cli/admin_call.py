"""Requests of commands through the admin client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.cli.calls import admin_options, given_timeout_s, run
from kafkalite.cli.progress import patience
from kafkalite.cli.topic_suggestions import suggesting

if TYPE_CHECKING:
    from kafkalite.client import Admin

Result = TypeVar("Result")


def ask_cluster(question: Callable[[Admin], Coroutine[Any, Any, Result]]) -> Result:
    """Return the result of `question`, which gets a connected admin client. An error ends the command, as in `calls.run`."""

    async def call(options: dict[str, Any]) -> Result:
        from contextlib import AsyncExitStack

        from kafkalite.client import Admin

        async with AsyncExitStack() as connected:
            with patience(f"waiting for the cluster, up to {given_timeout_s():g} s (--timeout)"):
                admin = await connected.enter_async_context(Admin(**options))
            return await question(admin)

    options = admin_options()
    return run(suggesting(call(options), options))
