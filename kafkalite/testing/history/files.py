"""Histories on disk: a row of msgpack values, first the header `["kafkalite-history", version]`, then an array for each event.

An event is `[name of its class, field, ...]`. `HistoryFile` appends while things happen, so that whoever dies leaves what had happened;
`read_history` gives the events of such a file, also when its end was cut off. Older versions lack events, and are read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from kafkalite.testing.history.events import Event, ReplicaBatch, ReplicaLog

FORMAT: Final = "kafkalite-history"
VERSION: Final = 3
_READABLE: Final = (1, 2, VERSION)
_KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in Event.__args__}
_FIELDS: Final = {name: tuple(field.name for field in fields(kind)) for name, kind in _KINDS.items()}


class HistoryFile:
    """A file under construction, over one that is there. What was added is with the operating system when `add` returns. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packer = msgpack.Packer()
        self._file = path.open("wb", buffering=0)
        self._file.write(self._packer.pack([FORMAT, VERSION]))

    def add(self, *events: Event) -> None:
        """Append events, with one write."""
        self._file.write(b"".join(map(self._pack_event, events)))

    def close(self) -> None:
        self._file.close()

    def _pack_event(self, event: Event) -> bytes:
        name = type(event).__name__
        packed: bytes = self._packer.pack([name, *(getattr(event, field) for field in _FIELDS[name])])
        return packed


def write_history(path: Path, events: Iterable[Event]) -> None:
    """Write a whole history, over a file that is there. Raises OSError."""
    with closing(HistoryFile(path)) as file:
        file.add(*events)


def read_history(path: Path) -> list[Event]:
    """Return the events of a file; an unfinished last one is left out. Raises ValueError when it is no history, OSError."""
    with path.open("rb") as file:
        rows = iter(msgpack.Unpacker(file, use_list=False))
        try:
            header = next(rows, None)
            if header not in [(FORMAT, version) for version in _READABLE]:
                raise ValueError(f"{path} is no history: it begins with {header!r}")
            return [_event(row, path) for row in rows]
        except (msgpack.UnpackException, TypeError) as problem:
            raise ValueError(f"{path} is no history: {problem}") from problem


def _event(row: Sequence[Any], path: Path) -> Event:
    kind = _KINDS.get(row[0])
    if kind is None:
        raise ValueError(f"{path} holds an event {row[0]!r} that is not known")
    if kind is ReplicaLog:
        row = (*row[:-1], tuple(ReplicaBatch(*batch) for batch in row[-1]))
    event: Event = kind(*row[1:])
    return event
