"""A violation as a person reads it: the fewest operations that show it, the batches concerned on each replica, and what changed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final

from kafkalite.testing.history.events import Event, ReplicaBatch, ReplicaLog, StateChanged
from kafkalite.testing.history.facts import facts_of
from kafkalite.testing.history.judge import RULES, Verdict, Violation
from kafkalite.types import TopicPartition

_EXPLAINED: Final = 5
_TRACE_LINES: Final = 40
_AROUND: Final = 1
"""How many batches before and after the one concerned."""
_MOST_LOOKED_AT: Final = 5_000_000
"""Some seconds."""
_OFFSET_FIELDS: Final = frozenset({"offset", "high_watermark"})


def explain(events: Sequence[Event], verdict: Verdict) -> str:
    """Return the verdict, and its first violations with all that belongs to them."""
    first: dict[str, Violation] = {}
    for violation in verdict.violations:
        first.setdefault(violation.rule, violation)
    explained = [explain_one(events, violation) for violation in [*first.values()][:_EXPLAINED]]
    return "\n\n".join([str(verdict), *explained])


def explain_one(events: Sequence[Event], violation: Violation) -> str:
    """Return one violation of a history with its operations, batches and state changes."""
    operations = smallest(events, violation)
    began_ns = min((event.at_ns for event in events), default=0)
    lines = [str(violation), "  operations:"]
    lines += [f"    {_format_event(event, began_ns)}" for event in operations]
    if isinstance(violation.subject, TopicPartition):
        replicas = [
            each
            for each in events
            if isinstance(each, ReplicaLog) and TopicPartition(each.topic, each.partition) == violation.subject
        ]
        batches = [f"    {line}" for line in _batches(replicas, _offsets(operations))]
        lines += ["  batches:", *batches] if batches else []
    changes = list(_changes(events, violation.subject, max((each.at_ns for each in operations), default=0)))
    if changes:
        lines += ["  state changes:", *(f"    {_moment(each, began_ns)} {each.source} {each.text}" for each in changes)]
    return "\n".join(lines)


def smallest(events: Iterable[Event], violation: Violation) -> list[Event]:
    """Return the fewest events in which the rule finds the same violation: none of them can be left out. Large chunks are tried first.

    Of a history in which it depends on very many events, those that are left when `_MOST_LOOKED_AT` have been looked at.
    """
    kept: list[Event] = [event for event in events if not isinstance(event, StateChanged)]
    chunk = max(len(kept) // 2, 1)
    looked_at = 0
    while True:
        before = len(kept)
        position = 0
        while position < len(kept):
            if looked_at > _MOST_LOOKED_AT:
                return kept
            fewer = kept[:position] + kept[position + chunk :]
            looked_at += len(fewer)
            if _is_violated(fewer, violation):
                kept = fewer
            else:
                position += chunk
        if chunk == 1 and len(kept) == before:
            return kept
        chunk = max(chunk // 2, 1)


def _is_violated(events: list[Event], violation: Violation) -> bool:
    try:
        facts = facts_of(events)
    except ValueError:  # an end whose beginning was left out
        return False
    wanted = str(violation.subject), violation.text
    return any((str(subject), finding) == wanted for subject, finding in RULES[violation.rule](facts))


def _moment(event: Event, began_ns: int) -> str:
    return f"{(event.at_ns - began_ns) / 1e9:12.6f}"


def _format_event(event: Event, began_ns: int) -> str:
    """Return `    1.250000 send acknowledged flights-1 producer:7 offset 31`: the class in words, then its fields."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(event).__name__).lower()
    values = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "at_ns"}
    parts = [words]
    if "topic" in values:
        parts.append(f"{values.pop('topic')}-{values.pop('partition')}")
    if "producer" in values and "number" in values:
        parts.append(f"{values.pop('producer')}:{values.pop('number')}")
    if isinstance(event, ReplicaLog):
        values["batches"] = len(event.batches)
    if "asked_ns" in values:
        values["asked"] = f"{(values.pop('asked_ns') - began_ns) / 1e9:.6f}"
    parts += [f"{name.replace('_', ' ')} {value}" for name, value in values.items()]
    return f"{_moment(event, began_ns)} {', '.join(parts)}"


def _offsets(operations: Iterable[Event]) -> list[int]:
    """Return the offsets that these operations speak of."""
    found = {
        getattr(event, field.name) for event in operations for field in fields(event) if field.name in _OFFSET_FIELDS
    }
    return sorted(offset for offset in found if offset >= 0)


def _batches(replicas: Iterable[ReplicaLog], offsets: Sequence[int]) -> Iterator[str]:
    for replica in sorted(replicas, key=attrgetter("broker")):
        bases = [batch.base_offset for batch in replica.batches]
        near: dict[int, ReplicaBatch] = {}
        for offset in offsets:
            index = bisect_right(bases, offset) - 1
            for at in range(max(index - _AROUND, 0), min(index + _AROUND + 1, len(bases))):
                near[at] = replica.batches[at]
        shown = [
            f"{batch.base_offset} (epoch {batch.leader_epoch}, crc {batch.crc:08x})"
            for _, batch in sorted(near.items())
        ]
        if near:
            yield f"broker {replica.broker}: {', '.join(shown)}; {len(bases)} in all"


def _changes(events: Iterable[Event], subject: object, until_ns: int) -> list[StateChanged]:
    """Return the last lines before the violation that speak of its subject, or of the controller."""
    wanted = re.compile(rf"{re.escape(str(subject))}(?!\d)|controller")
    found = [
        each
        for each in events
        if isinstance(each, StateChanged) and each.at_ns <= until_ns and wanted.search(each.text)
    ]
    return found[-_TRACE_LINES:]
