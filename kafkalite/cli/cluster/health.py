"""The table of `kafkalite cluster health`, and its wait for a healthy cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any

from kafkalite.administration.cluster_health import CHECKS, Verdict
from kafkalite.cli.progress import Progress

COLUMNS = ("check", "healthy", "count", "what")
_POLL_S = 0.2


async def wait_until_healthy(
    looking: Callable[[], Coroutine[Any, Any, list[Verdict]]], timeout_s: float
) -> list[Verdict]:
    """Check until all is well or the time is up, and return the last verdicts. Raises the last error when nobody answered."""
    from kafkalite.client.errors import ClientError

    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    with Progress("healthy checks", len(CHECKS)) if timeout_s else nullcontext() as progress:
        while True:
            try:
                verdicts = await looking()
                if progress is not None:
                    progress.update(sum(each.healthy for each in verdicts))
                if all(each.healthy for each in verdicts) or loop.time() >= deadline_s:
                    return verdicts
            except ClientError:
                if loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(_POLL_S)


def table_row(verdict: Verdict, shown: int = 5) -> dict[str, Any]:
    """Return a row for people, with the first problems in words."""
    more = len(verdict.problems) - shown
    what = [*verdict.problems[:shown], f"and {more} more"] if more > 0 else list(verdict.problems)
    return {**verdict.to_dict(), "what": ", ".join(what) or None}
