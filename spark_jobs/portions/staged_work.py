"""What an attempt has read so far, in its staging folder: portions with their files and their counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any, Final

from spark_jobs.batch import layout
from spark_jobs.batch.ledger import PartFile, Unit
from spark_jobs.batch.storage import Storage
from spark_jobs.batch.tally import Tally
from spark_jobs.observation.record_facts import RecordFacts

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StagedPortion:
    """What a portion has done: what its tasks have counted, and its files as units of the dates of their runs (without identities)."""

    counts: Tally
    units: tuple[tuple[date, Unit], ...]

    def encode(self) -> bytes:
        units = [[str(run), asdict(unit)] for run, unit in self.units]
        return json.dumps({"counts": _tally_to_json(self.counts), "units": units}).encode()

    def file_sizes(self) -> dict[str, int]:
        """Return the bytes of the files, by their paths."""
        return {f"{unit.staged}/{file.name}": file.bytes for _, unit in self.units for file in unit.files}

    @classmethod
    def decode(cls, data: bytes) -> StagedPortion:
        """ValueError, KeyError or TypeError for something else."""
        document = json.loads(data)
        units = tuple((date.fromisoformat(run), Unit.from_json(unit)) for run, unit in document["units"])
        return cls(_tally_from_json(document["counts"]), units)


class StagedWork:
    """The portions of one attempt in its staging folder."""

    def __init__(self, storage: Storage, attempt: str, size: int) -> None:
        self._storage = storage
        self.attempt = attempt
        self.size = size
        """Tasks of a portion."""

    @classmethod
    def begin(cls, storage: Storage, attempt: str, size: int, signature: str) -> StagedWork:
        """Record a new attempt, whose plans the ledger has."""
        work = {"version": _VERSION, "signature": signature, "tasks_per_portion": size}
        storage.write(_work_file(attempt), json.dumps(work).encode())
        return cls(storage, attempt, size)

    @classmethod
    def find(cls, storage: Storage, attempt: str | None, signature: str) -> StagedWork | None:
        """Return an attempt that was interrupted, if it does what the signature says; what it has not recorded is removed."""
        data = None if attempt is None else storage.read(_work_file(attempt))
        if attempt is None or data is None:
            return None
        try:
            work = json.loads(data)
            if work["version"] != _VERSION or work["signature"] != signature:
                return None
            found = cls(storage, attempt, int(work["tasks_per_portion"]))
        except (ValueError, KeyError, TypeError):
            return None
        found._forget_incomplete()
        return found

    def read(self, number: int) -> StagedPortion | None:
        """Return what a portion has done; None unless it is recorded."""
        data = self._storage.read(self._record_file(number))
        if data is None:
            return None
        try:
            return StagedPortion.decode(data)
        except (ValueError, KeyError, TypeError):
            return None

    def record(self, number: int, staged: StagedPortion) -> None:
        """Write the record of a portion whose files are all there."""
        self._storage.write(self._record_file(number), staged.encode())

    def _record_file(self, number: int) -> str:
        return f"{_records_folder(self.attempt)}/{number:05d}.json"

    def _forget_incomplete(self) -> None:
        """Remove records whose files are not all there, and files without a record."""
        present = _sizes_below(self._storage, f"{layout.attempt_folder(self.attempt)}/units")
        recorded: set[str] = set()
        for each in self._storage.entries(_records_folder(self.attempt)):
            name = each.name.removesuffix(".json")
            staged = self.read(int(name)) if name.isdigit() and not each.is_folder else None
            files = {} if staged is None else staged.file_sizes()
            if all(present.get(path) == size for path, size in files.items()):
                recorded |= files.keys()
            else:
                self._storage.remove(f"{_records_folder(self.attempt)}/{each.name}")
        for path in present.keys() - recorded:
            self._storage.remove(path)


def is_staged(storage: Storage, attempt: str) -> bool:
    """True if an attempt has begun to read in portions, so that the next run may go on with it."""
    return storage.read(_work_file(attempt)) is not None


def join_units(staged: Iterable[StagedPortion]) -> list[tuple[date, Unit]]:
    """Return the units of all portions with their files in order, each with the date of its run; they have no identities yet."""
    found: dict[str, tuple[date, Unit, list[PartFile]]] = {}
    for portion in staged:
        for run, unit in portion.units:
            found.setdefault(unit.path, (run, unit, []))[2].extend(unit.files)
    return [
        (run, Unit(unit.path, unit.staged, unit.date, tuple(sorted(files, key=lambda each: each.name)), ""))
        for _, (run, unit, files) in sorted(found.items())
    ]


def _work_file(attempt: str) -> str:
    return f"{layout.attempt_folder(attempt)}/work.json"


def _records_folder(attempt: str) -> str:
    return f"{layout.attempt_folder(attempt)}/portions"


def _sizes_below(storage: Storage, folder: str) -> dict[str, int]:
    """Return the bytes of all files below a folder, by their paths."""
    found: dict[str, int] = {}
    for each in storage.entries(folder):
        path = f"{folder}/{each.name}"
        found |= _sizes_below(storage, path) if each.is_folder else {path: each.size_bytes}
    return found


def _tally_to_json(tally: Tally) -> dict[str, Any]:
    return {
        "offsets": tally.offsets,
        "given": tally.given,
        "read": tally.read,
        "rows": [[dead, str(day), str(run), p, rows] for (dead, day, run, p), rows in tally.rows.items()],
        "hours": [[str(run), hour_ms, p, rows] for (run, hour_ms, p), rows in tally.facts.hours.items()],
        "lateness": [[str(run), number, rows] for (run, number), rows in tally.facts.lateness.items()],
        "lateness_ms": {str(run): sum_ms for run, sum_ms in tally.facts.lateness_ms.items()},
        "latest_ms": {str(run): latest_ms for run, latest_ms in tally.facts.latest_ms.items()},
        "reasons": [[str(run), reason, rows] for (run, reason), rows in tally.facts.reasons.items()],
    }


def _tally_from_json(document: Mapping[str, Any]) -> Tally:
    day = date.fromisoformat
    offsets, given, read = (
        Counter({int(p): int(count) for p, count in document[name].items()}) for name in ("offsets", "given", "read")
    )
    facts = RecordFacts(
        hours=Counter({(day(run), int(hour), int(p)): int(rows) for run, hour, p, rows in document["hours"]}),
        lateness=Counter({(day(run), int(number)): int(rows) for run, number, rows in document["lateness"]}),
        lateness_ms=Counter({day(run): int(sum_ms) for run, sum_ms in document["lateness_ms"].items()}),
        latest_ms={day(run): int(latest) for run, latest in document["latest_ms"].items()},
        reasons=Counter({(day(run), str(reason)): int(rows) for run, reason, rows in document["reasons"]}),
    )
    rows: Counter[Any] = Counter(
        {(bool(dead), day(date_), day(run), int(p)): int(count) for dead, date_, run, p, count in document["rows"]}
    )
    return Tally(offsets, given, read, rows, facts=facts)
