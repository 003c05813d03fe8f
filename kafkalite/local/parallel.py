"""Several blocking calls in parallel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def run_at_once(calls: Iterable[Callable[[], Result]]) -> list[Result]:
    """Make every call in a thread of its own, wait for all of them, and return their results in order.

    Raises what the first of those that failed raised; the others are made to their end all the same. While the interpreter
    ends there are no new threads: then the calls are made one after the other.
    """
    waiting = list(calls)
    if not waiting:
        return []
    futures: list[Future[Result]] = []
    with ThreadPoolExecutor(len(waiting)) as threads, contextlib.suppress(RuntimeError):
        for call in waiting:
            futures.append(threads.submit(call))
    for call in waiting[len(futures) :]:
        futures.append(_call_all(call))
    return [future.result() for future in futures]


def _call_all(call: Callable[[], Result]) -> Future[Result]:
    future: Future[Result] = Future()
    try:
        future.set_result(call())
    except BaseException as problem:
        future.set_exception(problem)
    return future
