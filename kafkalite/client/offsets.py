"""Offsets with what belongs to them, as consumers and administrators get and give them: frozen, with `.to_dict()`."""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.client.plain_values import PlainValues, with_known_fields


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp(PlainValues):
    """The answer to a search by time: the first offset whose timestamp (ms) is at or after the one asked for."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


@with_known_fields
@dataclass(frozen=True, slots=True)
class OffsetAndMetadata(PlainValues):
    """A committed position: the offset of the next record to read, and a note of the program's. The leader epoch is -1 when unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
