"""From staged files to the visible output, so that a crash at any point leaves the old day or the new one.

1. Spark writes into a folder of the attempt below `_staging`, which no reader looks into.
2. `gather` gives the files their final names, unit by unit, with a manifest; `check_unit` compares their rows with what tasks wrote.
   No file at all is no proof that there was nothing to write.
3. The ledger's pending file lists the units: from now on the run will be finished, by whoever comes.
4. `publish` puts each unit in the place of the one that was there, in one step, and takes away units of an earlier run of the same date
   that the new one does not have. A unit that holds already what it should is left alone, so repeating is harmless.
5. The ledger says done.

An object store renames no folder in one step. There files with other contents have other names, so the new ones are put beside the old
ones; then the manifest, one object, decides which of them count, and the others go. Readers of the folder alone see both meanwhile.

Before each step that changes the output, `guard` makes sure that the run still holds its lock.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

import mmh3

from spark_jobs.batch import layout
from spark_jobs.batch.failures import MissingOutputError, OutputError
from spark_jobs.batch.ledger import Entry, PartFile, Unit
from spark_jobs.batch.storage import Storage

Guard = Callable[[], None]
"""Raises LockLostError once the lock is gone."""

_SPARK_PART = re.compile(r"part-(\d+)-.*[-.]c(\d+)\..*parquet")
"""Spark's names: of the task, and of the file among those of the task."""
_MARK_DIGITS = 12


def gather(
    storage: Storage, attempt: str, written: str, path: str, day: date, pieces: Iterable[tuple[int, str]]
) -> Unit:
    """Return a unit of the files that Spark wrote.

    `pieces` are folders below `written` with their numbers; the unit will be at `path`.
    """
    return seal_unit(storage, attempt, gather_files(storage, attempt, written, path, day, pieces))


def gather_files(
    storage: Storage,
    attempt: str,
    written: str,
    path: str,
    day: date,
    pieces: Iterable[tuple[int, str]],
    first_task: int = 0,
) -> Unit:
    """Give files that Spark wrote their places and names among those of a unit, and return it with these files, still without identity.

    `first_task` is the number that the first task of the Spark job has among those of the run.
    """
    staged = f"{layout.attempt_folder(attempt)}/units/{path}"
    files = []
    for piece, folder in pieces:
        source = f"{written}/{folder}" if folder else written
        for each in storage.entries(source):
            if each.is_folder or not (match := _SPARK_PART.fullmatch(each.name)):
                continue
            rows = storage.parquet_rows(f"{source}/{each.name}")
            if not rows:
                continue
            digest = storage.digest(f"{source}/{each.name}") or ""
            mark = "" if storage.renames_folders else _mark(digest or attempt)
            name = layout.part_name(first_task + int(match[1]), piece + int(match[2]), mark)
            storage.move(f"{source}/{each.name}", f"{staged}/{name}")
            files.append(PartFile(name, each.size_bytes, rows, digest))
    files.sort(key=lambda file: file.name)
    return Unit(path, staged, str(day), tuple(files), "")


def seal_unit(storage: Storage, attempt: str, unit: Unit) -> Unit:
    """Return a unit that has all of its files with its identity, and write its manifest."""
    sealed = replace(unit, identity=_identity(unit.files, attempt))
    storage.write(f"{unit.staged}/{layout.MANIFEST}", _manifest(sealed))
    return sealed


def check_unit(storage: Storage, topic: str, path: str, unit: Unit | None, written: int | Mapping[int, int]) -> None:
    """MissingOutputError unless the unit that is for `path` has as many rows as tasks have written to it.

    `written` is by partition of the topic, where the unit's files have a column that says it; then the error names the partitions.
    """
    planned, found = (
        written if isinstance(written, int) else sum(written.values()),
        unit.rows if unit is not None else 0,
    )
    if planned == found:
        return
    where = ""
    if not isinstance(written, int):
        in_files = _rows_by_partition(storage, unit)
        differing = [each for each in sorted({*written, *in_files}) if written.get(each, 0) != in_files.get(each, 0)]
        each_differs = (f"{topic}-{p}: planned {written.get(p, 0)}, found {in_files.get(p, 0)}" for p in differing)
        where = f" ({'; '.join(each_differs)})"
    raise MissingOutputError(f"{path}: {planned} rows were planned, {found} are in the files that Spark left{where}")


def _rows_by_partition(storage: Storage, unit: Unit | None) -> Counter[int]:
    from pyarrow import parquet  # type: ignore[import-untyped]

    found: Counter[int] = Counter()
    for file in unit.files if unit is not None else ():
        data = storage.read(f"{unit.staged}/{file.name}") if unit is not None else None
        table = parquet.ParquetFile(io.BytesIO(data or b"")).read(["partition"])
        found.update(table.column("partition").to_pylist())
    return found


def publish(storage: Storage, entry: Entry, replaced: Entry | None, guard: Guard) -> None:
    """Make the units of `entry` visible; `replaced` is the finished run of the same date, if there is one."""
    for unit in entry.units:
        if _identity_at(storage, unit.path) != unit.identity:
            if _identity_at(storage, unit.staged) != unit.identity:
                raise OutputError(
                    f"{unit.path} was to be published from {unit.staged}, where it is not any more: "
                    f"remove the pending file of {entry.plan.date} from the ledger and run the date again"
                )
            if storage.renames_folders:
                guard()
                storage.replace(unit.staged, unit.path)
            else:
                _put_files(storage, unit, guard)
        if not storage.renames_folders:
            _remove_others(storage, unit, guard)
    kept = {unit.path for unit in entry.units}
    for unit in replaced.units if replaced is not None else ():
        if unit.path not in kept:
            guard()
            storage.remove(unit.path)


def _put_files(storage: Storage, unit: Unit, guard: Guard) -> None:
    """Put files beside those that are there, and then the manifest, which says that these ones count."""
    there = {each.name: each.size_bytes for each in storage.entries(unit.path)}
    for file in unit.files:
        if there.get(file.name) != file.bytes:  # else moved before a crash, or an earlier run's with the same contents
            guard()
            storage.move(f"{unit.staged}/{file.name}", f"{unit.path}/{file.name}")
    guard()
    storage.write(f"{unit.path}/{layout.MANIFEST}", _manifest(unit))


def _remove_others(storage: Storage, unit: Unit, guard: Guard) -> None:
    """Remove what a unit's folder has beside the unit's own files."""
    own = {layout.MANIFEST, *(file.name for file in unit.files)}
    for each in storage.entries(unit.path):
        if each.name not in own:
            guard()
            storage.remove(f"{unit.path}/{each.name}")


def clear_staging(storage: Storage, kept: Collection[str] = ()) -> None:
    """Remove what attempts have staged and did not publish, but for those `kept`. Only for whoever holds the lock, when nothing is being
    published.
    """
    found = [each.name for each in storage.entries(layout.STAGING)]
    if not any(name in kept for name in found):
        storage.remove(layout.STAGING)
        return
    for name in found:
        if name not in kept:
            storage.remove(f"{layout.STAGING}/{name}")


def _identity(files: Sequence[PartFile], attempt: str) -> str:
    if not all(file.digest for file in files):
        return attempt
    text = "\n".join(f"{file.name} {file.bytes} {file.digest}" for file in files)
    return mmh3.mmh3_x64_128_digest(text.encode()).hex()


def _mark(text: str) -> str:
    return mmh3.mmh3_x64_128_digest(text.encode()).hex()[:_MARK_DIGITS]


def _manifest(unit: Unit) -> bytes:
    files = [{"name": file.name, "rows": file.rows, "bytes": file.bytes} for file in unit.files]
    return json.dumps({"identity": unit.identity, "rows": unit.rows, "files": files}, indent=1).encode()


def _identity_at(storage: Storage, path: str) -> str | None:
    data = storage.read(f"{path}/{layout.MANIFEST}")
    if data is None:
        return None
    try:
        found = json.loads(data)["identity"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found)
