"""The journal of a migration beside its plan: JSON lines, each on disk before what follows it happens."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType

from kafkalite.cli.migrate.evidence import sync_directory
from kafkalite.cli.migrate.sequence import Act, Entry, Replacement, parse_target


class JournalError(Exception):
    """Raised for a journal that cannot be used; the message says why."""


def journal_path(plan: Path) -> Path:
    """Return the journal of the plan in this file."""
    return plan.with_name(plan.name + ".journal")


def evidence_path(plan: Path) -> Path:
    """Return the directory of the evidence of the plan in this file, unless another one is given."""
    return plan.with_name(plan.name + ".evidence")


def read_journal(path: Path) -> list[Entry]:
    """Return the entries of a journal, none of one that is not there. A last line that was cut off says nothing. Raises JournalError."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    try:
        return [_entry_of(line) for line in lines]
    except (ValueError, KeyError, TypeError) as failed:
        raise JournalError(f"{path} is no journal of a migration: {failed}") from None


def _entry_of(line: bytes) -> Entry:
    found = json.loads(line)
    replacement = Replacement(int(found["number"]), int(found["broker"]), parse_target(found["to"]))
    return Entry(replacement, Act(found["act"]), found["done"] is True)


class Journal:
    """A journal to write to, by one process at a time."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        sync_directory(path.parent)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise JournalError(f"another `kafkalite migrate` is at work with {path}") from None
        whole = path.read_bytes().rpartition(b"\n")
        self._file.truncate(len(whole[0]) + len(whole[1]))
        self.entries = read_journal(path)

    def write(self, entry: Entry) -> None:
        """Append an entry; it outlives this process and the machine."""
        each = entry.replacement
        line = {
            "number": each.number,
            "broker": each.broker,
            "to": each.target,
            "act": entry.act,
            "done": entry.is_done,
        }
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.entries.append(entry)

    def close(self) -> None:
        """Let another process write to it."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
