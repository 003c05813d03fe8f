"""Calling other people's callbacks: one that fails is reported and keeps nobody else from being called.

What is unexpected goes to the exception handler of the event loop, whose owner decides what becomes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def report(message: str, problem: BaseException) -> None:
    """Hand an error that nobody expected to the loop's exception handler; `message` says what failed."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": problem})


def notify(callbacks: Iterable[Callable[[T], object]], argument: T) -> None:
    """Call each of `callbacks`, as they were at the start, with `argument`."""
    for callback in list(callbacks):
        try:
            callback(argument)
        except Exception as problem:
            report(f"a listener failed on {argument}", problem)
