"""Describes records that were deleted in the target and are still in the source. Pure.

A log start in the target that is behind the source's comes of DeleteRecords or of retention: no request tells which. So nothing is deleted
in the source without consent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkalite.cli.mirror.back.changes import Change, Kind
from kafkalite.types import TopicPartition

Starts = Mapping[TopicPartition, tuple[int, int]]
"""Where partitions begin in the source and, later, in the target."""

_SHOWN: Final = 20


def list_changes(starts: Starts) -> list[Change]:
    """Return the deletions that give the source the log starts of the target."""
    return [
        Change(Kind.RECORDS, place.topic, str(place.partition), f"from {ours}", f"from {theirs}")
        for place, (ours, theirs) in sorted(starts.items())
    ]


def describe(starts: Starts) -> str:
    """Return the partitions with their starts, at most 20 of them."""
    shown = [f"{place} before {theirs}" for place, (_, theirs) in sorted(starts.items())[:_SHOWN]]
    others = len(starts) - len(shown)
    return ", ".join(shown) + (f" and {others} others" if others else "")


def tell_kept(starts: Starts) -> list[str]:
    """Return a note about records that only the source has."""
    if not starts:
        return []
    why = "deleted in the target, by DeleteRecords or by retention there, and are still in the source"
    return [f"records of {describe(starts)} are {why}: --delete-records deletes them"]
