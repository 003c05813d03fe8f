"""Names of partitions on command lines: `topic-3` for one, `topic` or `topic:0,2` for all or some of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from kafkalite.administration.group_offsets import partitions_of
from kafkalite.cli.output import Exit, fail
from kafkalite.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.client import TopicDescription

Topics = dict[str, frozenset[int] | None]
"""Topics with the selected partitions, None for all."""


def parse_partition(text: str) -> TopicPartition:
    """Return the partition "topic-3". Raises BadParameter."""
    topic, dash, number = text.rpartition("-")
    if not topic or not dash or not number.isdecimal():
        raise click.BadParameter(f"{text!r} is not like topic-3")
    return TopicPartition(topic, int(number))


def parse_brokers(text: str, separator: str = ",") -> tuple[int, ...]:
    """Return the broker ids of "101,102". Raises BadParameter."""
    try:
        return tuple(int(each) for each in text.split(separator))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of broker ids") from None


def parse_topics(texts: Iterable[str], hint: str) -> Topics:
    """Return the topics of "t" or "t:0,2", in the form of Kafka's tools. Raises BadParameter, which names the option or argument `hint`."""
    found: Topics = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        parts = numbers.split(",") if colon else []
        if not name or not all(each.isdecimal() for each in parts):
            raise click.BadParameter(f"{text!r} is not like greetings or greetings:0,2", param_hint=hint)
        if name in found:
            raise click.BadParameter(f"{name} is named twice", param_hint=hint)
        found[name] = frozenset(map(int, parts)) if colon else None
    return found


def is_selected(partition: TopicPartition, selected: Topics) -> bool:
    numbers = selected.get(partition.topic, frozenset())
    return numbers is None or partition.partition in numbers


def selected_partitions(described: Iterable[TopicDescription], selected: Topics) -> list[TopicPartition]:
    """Return the selected partitions of topics, also those named by number that do not exist."""
    found = []
    for topic in described:
        numbers = selected[topic.name]
        found += [
            TopicPartition(topic.name, number)
            for number in (sorted(numbers) if numbers is not None else [each.partition for each in topic.partitions])
        ]
    return found


def require_partitions(wanted: Iterable[TopicPartition], described: Sequence[TopicDescription]) -> None:
    """End the command when a partition is not among those of `described` topics."""
    missing = sorted(set(wanted) - set(partitions_of(described)))
    if missing:
        fail(f"there is no partition {', '.join(map(str, missing))}", Exit.NOT_FOUND)
