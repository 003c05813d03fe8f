"""Progress of a command that waits, on stderr: a bar on a terminal, elsewhere a line for each step.

The lines are for people, and appear once the command has taken two seconds. With results as JSON (`-o json` or `jsonl`) each step is
printed as a JSON object.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import click

from kafkalite.cli.output import Exit, fail, note

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_POLL_S = 0.1
_PATIENCE_S = 2.0


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Tell a person at a terminal what is waited for, once that has taken two seconds."""
    if not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(_PATIENCE_S, note, [f"{what} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def wants_json() -> bool:
    """True if the running command was asked for its results as JSON; then what programs may follow is JSON too."""
    context = click.get_current_context(silent=True)
    return context is not None and context.params.get("output") in ("json", "jsonl")


class Progress:
    """Used as `with Progress("moving replicas", total) as progress`; `update` sets the number of finished steps."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._done: int | None = None
        self._bar: Bar | None = None
        self._task: Any = None
        self._as_json = wants_json()
        self._begun_s = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int) -> None:
        """Set the number of finished steps; a change is shown."""
        if done == self._done:
            return
        self._done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
        elif self._as_json:
            import json

            note(json.dumps({"event": "progress", "what": self._what, "done": done, "total": self._total}))
        elif time.monotonic() >= self._begun_s + _PATIENCE_S:
            note(f"{self._what}: {done} of {self._total}")


async def wait_until_done(
    what: str,
    items: Collection[str],
    left: Callable[[], Awaitable[Collection[str]]],
    timeout_s: float,
    code: Exit = Exit.UNREACHABLE,
) -> None:
    """Wait until `left` names none of the items any more, and show the progress. Ends the command when the time is up."""
    import asyncio

    missing = items
    try:
        with Progress(what, len(items)) as progress:
            async with asyncio.timeout(timeout_s):
                while missing := await left():
                    progress.update(len(items) - len(missing))
                    await asyncio.sleep(_POLL_S)
            progress.update(len(items))
    except TimeoutError:
        named = ", ".join(missing)
        fail(f"{what}: {len(missing)} of {len(items)} left after {timeout_s:g} s: {named}", code)
