"""Offsets with what belongs to them, as consumers and administrators get and give them: frozen, with `.to_dict()`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """The answer to a search by time: the first offset whose timestamp (ms) is at or after the one asked for."""

    offset: int
    timestamp: int
    leader_epoch: int = -1

    def to_dict(self) -> dict[str, Any]:
        """As plain values under the names of the fields, for JSON and tables."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed position: the offset of the next record to read, and a note of the program's. The leader epoch is -1 when unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1

    def to_dict(self) -> dict[str, Any]:
        """As plain values under the names of the fields, for JSON and tables."""
        return dataclasses.asdict(self)
