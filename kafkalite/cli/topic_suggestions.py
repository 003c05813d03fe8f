"""Suggestions behind an error about a topic that does not exist."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.suggestions import did_you_mean

if TYPE_CHECKING:
    from kafkalite.client.errors import ClientError

Result = TypeVar("Result")

_PATIENCE_MS = 2000
"""The command has failed already; the hint must not take long."""


async def suggesting(call: Coroutine[Any, Any, Result], options: dict[str, Any]) -> Result:
    """Return the result of `call`. An error that names an unknown topic gets a note with the most similar one.

    `options` are those of an `Admin` for the cluster, which is asked for its topics only then.
    """
    from kafkalite.client.errors import AdminError, ClientError

    try:
        return await call
    except ClientError as problem:
        failures = problem.failures.values() if isinstance(problem, AdminError) else [problem]
        unknown = [each for each in failures if _is_about_a_topic(each)]
        if unknown:
            known = await _topics(options)
            for each in unknown:
                if hint := _hint(str(each), known):
                    each.add_note(hint)
        raise


def _is_about_a_topic(problem: ClientError) -> bool:
    from kafkalite.errors import ErrorCode

    return problem.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _hint(message: str, known: Iterable[str]) -> str:
    """Return the note for the first name in a message that is similar to a topic's name and is not a topic."""
    names = set(known)
    words = [word for word in re.findall(r"[\w.-]+", message.partition(": ")[0]) if word not in names]
    return next((hint for word in words if (hint := did_you_mean(word, names))), "")


async def _topics(options: dict[str, Any]) -> list[str]:
    """Return the topics, none where they cannot be listed."""
    from kafkalite.client import Admin
    from kafkalite.client.errors import ClientError

    bounds = {"request_timeout_ms": _PATIENCE_MS, "default_api_timeout_ms": _PATIENCE_MS}
    try:
        async with Admin(**options | bounds) as admin:
            return [each.name for each in await admin.describe_topics()]
    except (ClientError, OSError):
        return []
