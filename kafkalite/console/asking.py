"""Asks several servers the same, one after the other, where each may hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from kafkalite.client.errors import ClientError
from kafkalite.lifecycle import end_tasks

Answer = TypeVar("Answer")


async def ask_in_turn(
    calls: Sequence[Callable[[], Coroutine[Any, Any, Answer]]],
    suits: Callable[[Answer], bool],
    next_after_s: float,
    deadline_s: float,
) -> tuple[Answer | None, list[str]]:
    """Return the first answer that suits, else the last one, and why others failed. The next call begins when the ones before have failed
    or take longer than `next_after_s`; those that are not needed any more are cancelled.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    waiting, pending = list(calls), list[asyncio.Task[Answer]]()
    found: Answer | None = None
    problems: list[str] = []
    try:
        while (waiting or pending) and (left_s := end_s - loop.time()) > 0:
            if waiting:
                pending.append(loop.create_task(waiting.pop(0)()))
                left_s = min(next_after_s, left_s) if waiting else left_s
            await asyncio.wait(pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            done, pending = [each for each in pending if each.done()], [each for each in pending if not each.done()]
            for each in done:
                try:
                    answer = each.result()
                except (OSError, ClientError) as problem:
                    problems.append(str(problem) or type(problem).__name__)
                    continue
                if suits(answer):
                    return answer, problems
                found = answer
        return found, problems
    finally:
        await end_tasks(pending)
