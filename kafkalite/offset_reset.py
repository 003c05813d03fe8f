"""Resets of a group's offsets: the arithmetic of `kafkalite group reset-offsets` and `kafka-consumer-groups --reset-offsets`.

Pure: the offsets that a partition has, and what the cluster answered for a time, come in as arguments. Named tuples, because frozen
dataclasses cost a millisecond each at the start of a command; kinds of targets are distinguished by class, never by equality.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkalite.types import TopicPartition


class Named(NamedTuple):
    """The "earliest" or "latest" offset of each partition."""

    name: str


class FromTime(NamedTuple):
    """The first record at or after a time (ms since 1970 UTC); the end of the log without such a record."""

    timestamp_ms: int


class Shift(NamedTuple):
    """So many records forward from the committed offset; back if negative."""

    by: int


class ToOffset(NamedTuple):
    """The same offset in each partition."""

    offset: int


class Listed(NamedTuple):
    """An offset for each partition."""

    offsets: Mapping[TopicPartition, int]


Target = Named | FromTime | Shift | ToOffset | Listed


class Bounds(NamedTuple):
    """The offsets of a partition's first record, and of the next one."""

    earliest: int
    latest: int

    def nearest(self, offset: int) -> int:
        """Return `offset` where it is within the bounds, else the nearest bound."""
        return min(max(offset, self.earliest), self.latest)


def wanted_offset(target: Target, partition: TopicPartition, current: int | None) -> int | None:
    """Return the offset that `target` names, not limited to the bounds; None for targets that only the cluster knows.

    `current` is the committed offset, None for nothing. Raises ValueError for a shift without a committed offset.
    """
    match target:
        case Shift(by=by):
            if current is None:
                raise ValueError(f"nothing is committed for {partition}, so there is nothing to shift")
            return current + by
        case ToOffset(offset=offset):
            return offset
        case Listed(offsets=offsets):
            return offsets[partition]
        case Named() | FromTime():
            return None


def new_offset(
    target: Target, partition: TopicPartition, current: int | None, bounds: Bounds, at_time: int | None
) -> int:
    """Return the new offset of a partition, within `bounds`; `at_time` is the cluster's answer for a FromTime.

    Raises ValueError for a shift without a committed offset.
    """
    wanted = wanted_offset(target, partition, current)
    if wanted is not None:
        return bounds.nearest(wanted)
    if isinstance(target, FromTime) and at_time is not None:
        return at_time
    return bounds.earliest if isinstance(target, Named) and target.name == "earliest" else bounds.latest
