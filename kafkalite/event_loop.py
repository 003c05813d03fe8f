"""The event loop of brokers and of long commands: uvloop where the extra `server` is installed, else asyncio's, which serves less."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")


def has_uvloop() -> bool:
    """True if uvloop is installed."""
    return find_spec("uvloop") is not None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own, as `asyncio.run` does, and return its result."""
    if not has_uvloop():
        return asyncio.run(coroutine)
    import uvloop

    return uvloop.run(coroutine)
