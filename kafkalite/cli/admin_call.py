"""How commands ask a cluster something with the admin client."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.cli.calls import admin_options, run

if TYPE_CHECKING:
    from kafkalite.client import Admin

Result = TypeVar("Result")


def ask_cluster(
    bootstrap_server: str, timeout: float, question: Callable[[Admin], Coroutine[Any, Any, Result]]
) -> Result:
    """What `question` finds out with an admin client that is connected; an error ends the command, see `calls.run`."""

    async def call() -> Result:
        from kafkalite.client import Admin

        async with Admin(**admin_options(bootstrap_server, timeout)) as admin:
            return await question(admin)

    return run(call())
