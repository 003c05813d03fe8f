"""Consent of `produce` for a topic that does not exist: many of these are mistyped, and brokers would create them silently."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kafkalite.cli.output import Exit, fail, note

if TYPE_CHECKING:
    from kafkalite.client.admin.topics import TopicAdmin


async def prepare_topic(admin: TopicAdmin, topic: str, creates: bool) -> None:
    """Create a topic that does not exist, with `creates` or after a yes at a terminal; without them the command ends, naming a similar
    topic. What cannot be found out is left to the producer.
    """
    if await _may_exist(admin, topic):
        return
    if not creates:
        from kafkalite.suggestions import nearest

        meant = nearest(topic, [each.name for each in await admin.describe_topics()])
        if await _is_known_somewhere(admin, topic):
            return
        _ask(topic, meant)
    await _create(admin, topic)
    note(f"created topic {topic}")


async def _may_exist(admin: TopicAdmin, topic: str) -> bool:
    from kafkalite.client.errors import ClientError
    from kafkalite.errors import ErrorCode

    try:
        await admin.describe_topics([topic])
    except ClientError as problem:
        failures = getattr(problem, "failures", {topic: problem})
        return any(each.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in failures.values())
    return True


async def _is_known_somewhere(admin: TopicAdmin, topic: str) -> bool:
    """True if any broker knows the topic: one that was just made is told to one broker after the other."""
    brokers = (await admin.describe_cluster()).brokers
    return any([topic in await admin.describe_topics_at(broker.id, [topic]) for broker in brokers])


async def _create(admin: TopicAdmin, topic: str) -> None:
    from kafkalite.client import NewTopic
    from kafkalite.client.errors import AdminError
    from kafkalite.errors import ErrorCode

    try:
        await admin.create_topics([NewTopic(topic)])
    except AdminError as problem:
        if any(each.code is not ErrorCode.TOPIC_ALREADY_EXISTS for each in problem.failures.values()):
            raise


def _ask(topic: str, meant: str | None) -> None:
    """Ask at a terminal, and end the command without a yes."""
    alike = "" if meant is None else f"; did you mean {meant}?"
    if not _is_at_terminal():
        fail(f"topic {topic}: there is none{alike or ';'} --create makes {topic}", Exit.NOT_FOUND)
    question = (
        f"There is no topic {topic}. Make it?"
        if meant is None
        else f"There is no topic {topic}{alike} Make {topic} all the same?"
    )
    if not click.confirm(question, err=True):
        fail(f"topic {topic}: there is none, and nothing was written", Exit.NOT_FOUND)


def _is_at_terminal() -> bool:
    return sys.stdin.isatty()
