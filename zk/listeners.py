"""Calls of listeners: an error in one is reported to the event loop's exception handler, and the others are called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def report(message: str, problem: BaseException) -> None:
    """Call the loop's exception handler with an unexpected error; `message` says what failed."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": problem})


def notify(callbacks: Iterable[Callable[[T], object]], argument: T) -> None:
    """Call each of `callbacks`, as they were at the start, with `argument`."""
    for callback in list(callbacks):
        try:
            callback(argument)
        except Exception as problem:
            report(f"a listener failed on {argument}", problem)
