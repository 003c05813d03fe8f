"""Consent of `produce` for a topic that does not exist: most of these are mistyped, and brokers would create them silently."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kafkalite.cli.output import Exit, fail, note

if TYPE_CHECKING:
    from kafkalite.client import Admin


async def prepare_topic(admin: Admin, topic: str, creates: bool) -> bool:
    """Return True if there is no such topic yet, and the first record is to make it.

    With `creates` it is made here. Without, a name that is like that of another topic is asked for at a terminal, and otherwise ends the
    command. What cannot be found out is left to the producer.
    """
    if await _may_exist(admin, topic):
        return False
    if creates:
        await _create(admin, topic)
        note(f"created topic {topic}")
        return False
    from kafkalite.suggestions import nearest

    meant = nearest(topic, [each.name for each in await admin.describe_topics()])
    if meant is None:
        return True
    if await _is_known_somewhere(admin, topic):
        return False
    _ask(topic, meant)
    return True


async def _may_exist(admin: Admin, topic: str) -> bool:
    from kafkalite.client.errors import ClientError
    from kafkalite.errors import ErrorCode

    try:
        await admin.describe_topics([topic])
    except ClientError as problem:
        failures = getattr(problem, "failures", {topic: problem})
        return any(each.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in failures.values())
    return True


async def _is_known_somewhere(admin: Admin, topic: str) -> bool:
    """True if any broker knows the topic: one that was just made is told to one broker after the other."""
    brokers = (await admin.describe_cluster()).brokers
    return any([topic in await admin.describe_topics_at(broker.id, [topic]) for broker in brokers])


async def _create(admin: Admin, topic: str) -> None:
    from kafkalite.client import NewTopic
    from kafkalite.client.errors import AdminError
    from kafkalite.errors import ErrorCode

    try:
        await admin.create_topics([NewTopic(topic)])
    except AdminError as problem:
        if any(each.code is not ErrorCode.TOPIC_ALREADY_EXISTS for each in problem.failures.values()):
            raise


def _ask(topic: str, meant: str) -> None:
    """Ask at a terminal, and end the command without a yes."""
    if not _is_at_terminal():
        fail(f"topic {topic}: there is none; did you mean {meant}? --create makes {topic}", Exit.NOT_FOUND)
    if not click.confirm(f"There is no topic {topic}; did you mean {meant}? Make {topic} all the same?", err=True):
        fail(f"topic {topic}: there is none, and nothing was written", Exit.NOT_FOUND)


def _is_at_terminal() -> bool:
    return sys.stdin.isatty()
