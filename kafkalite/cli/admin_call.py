"""How commands ask a cluster something with the admin client."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.cli.calls import admin_options, run
from kafkalite.cli.output import note
from kafkalite.cli.topic_suggestions import suggesting

if TYPE_CHECKING:
    from kafkalite.client import Admin

Result = TypeVar("Result")

_PATIENCE_S = 2.0


def ask_cluster(
    bootstrap_server: str, timeout: float, question: Callable[[Admin], Coroutine[Any, Any, Result]]
) -> Result:
    """What `question` finds out with an admin client that is connected; an error ends the command, see `calls.run`."""

    async def call(options: dict[str, Any]) -> Result:
        import asyncio

        from kafkalite.client import Admin

        patience = asyncio.get_running_loop().call_later(_PATIENCE_S, _tell_of_waiting, timeout)
        try:
            async with Admin(**options) as admin:
                patience.cancel()  # what follows shows its own progress
                return await question(admin)
        finally:
            patience.cancel()

    options = admin_options(bootstrap_server, timeout)
    return run(suggesting(call(options), options))


def _tell_of_waiting(timeout_s: float) -> None:
    """To a person; scripts know how long they wait."""
    if sys.stderr.isatty():
        note(f"waiting for the cluster, up to {timeout_s:g} s (--timeout) ...")
