"""What happened in a simulation, in order: lines that a person reads, and a digest by which two runs are the same or are not.

The digest covers more than the lines: every byte that went over the network or to a disk goes in with its moment, so that two runs with
one digest did the same things at the same times.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from kafkalite.testing.simulation.virtual_time import VirtualTime

_HASHED_TOGETHER: Final = 512
"""So many pieces go into the digest in one call, which costs as much as a piece."""


class TraceLine(NamedTuple):
    """One change of state; `source` is the name of a process, or of what it runs on."""

    at_s: float
    source: str
    text: str

    def __str__(self) -> str:
        return f"{self.at_s:12.6f} {self.source:12} {self.text}"


class Trace:
    """The ordered events of one simulation run: lines for people, and a digest of everything."""

    def __init__(self, time: VirtualTime) -> None:
        self.lines: list[TraceLine] = []
        self.shows_all = False
        self.is_over = False
        """Set when the run has ended: in which order what is left of it is taken apart says nothing about it."""
        self._time = time
        self._hash = hashlib.blake2b(digest_size=16)
        self._unhashed: list[str] = []

    def add(self, source: str, text: str) -> None:
        """Add a line, which counts for the digest too."""
        if self.is_over:
            return
        line = TraceLine(self._time.now_s, source, text)
        self.lines.append(line)
        self._unhashed.append(f"{line.at_s!r} {source} {text}\n")

    def count(self, what: str) -> None:
        """Count something that only the digest shows, or the lines of a trace that `shows_all`."""
        if self.is_over:
            return
        self._unhashed.append(f"{self._time.now_s!r} {what}\n")
        if len(self._unhashed) >= _HASHED_TOGETHER:
            self._hash_all()
        if self.shows_all:
            self.lines.append(TraceLine(self._time.now_s, "", what))

    @property
    def digest(self) -> str:
        """The digest of everything so far."""
        self._hash_all()
        return self._hash.hexdigest()

    def _hash_all(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))
