"""The rows that an archive has of a run, each hashed as brokers hash a record: what `verify` compares with the ledger's digests.

All rows that lie in the folders of a run count, also those in files that it did not write.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple, Protocol

import pyarrow  # type: ignore[import-untyped]
from pyarrow import ArrowException, parquet

from kafkalite.client import hash_record
from spark_jobs.batch.ledger import Entry, Unit
from spark_jobs.batch.proof import Rows, Sum, bucket_of
from spark_jobs.batch.storage import Storage

COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
"""What is hashed of a row."""

REASON: Final = "reason"
"""The column of dead letters that has the timestamps that Spark cannot show."""

_MICROSECONDS: Final = pyarrow.timestamp("us", tz="UTC")
_UNDATED: Final = re.compile(r"timestamp: (-?\d+) ms ")
_ROWS_AT_ONCE: Final = 10_000

Place = tuple[int, int]
"""Partition and start of a bucket."""


class Problem(NamedTuple):
    """Something of a run that is lost, changed, none of the run's or cannot be read; `place` is a file or a table."""

    place: str
    text: str


class Archive(Protocol):
    """What an output has of runs."""

    def find_problems(self, entry: Entry) -> list[Problem]:
        """Return what of a run is lost, changed, or not of the run."""

    def add_up(self, entry: Entry) -> tuple[dict[Place, Sum], list[Problem]]:
        """Return the sums of a run's rows by bucket, and what cannot be read; its rows are left out."""

    def find_rows(self, entry: Entry, buckets: Collection[Place]) -> dict[Place, Rows]:
        """Return the rows of buckets, as far as they can be read."""


class FolderArchive:
    """`Archive` of folders with Parquet files, read one by one without Spark."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def find_problems(self, entry: Entry) -> list[Problem]:
        return list(_check_files(self._storage, entry))

    def add_up(self, entry: Entry) -> tuple[dict[Place, Sum], list[Problem]]:
        sums: dict[Place, Sum] = {}

        def add(partition: int, offset: int, hashed: int) -> None:
            place = bucket_of(partition, offset)
            sums[place] = sums.get(place, Sum()) + Sum(1, hashed, offset, offset)

        return sums, self._read_rows(entry, add)

    def find_rows(self, entry: Entry, buckets: Collection[Place]) -> dict[Place, Rows]:
        rows = {place: Rows() for place in buckets}

        def add(partition: int, offset: int, hashed: int) -> None:
            if (place := bucket_of(partition, offset)) in rows:
                rows[place].add(offset, hashed)

        self._read_rows(entry, add)  # what cannot be read, `add_up` has told
        return rows

    def _read_rows(self, entry: Entry, add: Callable[[int, int, int], None]) -> list[Problem]:
        """Hand over partition, offset and hash of each row in the folders of a run; return what cannot be read."""
        problems = []
        for unit in entry.units:
            for path in _list_files(self._storage, unit):
                try:
                    file = parquet.ParquetFile(
                        io.BytesIO(self._storage.read(path) or b""), coerce_int96_timestamp_unit="us"
                    )
                    columns = [*COLUMNS, *([REASON] if REASON in file.schema_arrow.names else [])]
                    for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
                        for row in hash_rows(batch):
                            add(*row)
                except (ArrowException, OSError, KeyError, ValueError) as problem:
                    problems.append(Problem(path, f"cannot be read: {str(problem).splitlines()[0]}"))
        return problems


def hash_rows(batch: Any) -> Iterator[tuple[int, int, int]]:
    """Yield partition, offset and hash of the rows of an Arrow batch that has COLUMNS, and perhaps REASON. ValueError, KeyError."""
    times = batch.column("timestamp").cast(_MICROSECONDS).cast("int64").to_pylist()
    columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value", "headers")]
    reasons = batch.column(REASON).to_pylist() if REASON in batch.schema.names else [None] * len(times)
    for time_us, reason, partition, offset, key, value, headers in zip(times, reasons, *columns, strict=True):
        time_ms = _undated_ms(reason) if time_us is None else time_us // 1000
        listed = [(each["key"], each["value"]) for each in headers or ()]
        yield partition, offset, hash_record(offset, time_ms, key, value, listed)


def _undated_ms(reason: str | None) -> int:
    """Return the timestamp that Spark cannot show, from the reason why its record is a dead letter. ValueError."""
    if found := _UNDATED.match(reason or ""):
        return int(found[1])
    raise ValueError("a row without a timestamp, and without a reason that has it")


def _check_files(storage: Storage, entry: Entry) -> Iterator[Problem]:
    """Yield the files that are lost, changed, or not of the run, with what is wrong."""
    for unit in entry.units:
        there = {each.name: each for each in storage.entries(unit.path) if not each.is_folder}
        for file in unit.files:
            path, found = f"{unit.path}/{file.name}", there.pop(file.name, None)
            if found is None:
                yield Problem(path, f"the file is lost, with {file.rows} records")
            elif found.size_bytes != file.bytes or _is_changed(storage, path, file.digest):
                yield Problem(path, "the file is not as the run wrote it")
        for name in there:
            if not name.startswith(("_", ".")):
                yield Problem(f"{unit.path}/{name}", "the file is none of the run's")


def _is_changed(storage: Storage, path: str, digest: str) -> bool:
    """True if a file has another digest than its run wrote. Object stores give equal contents that they copy another one."""
    return bool(digest) and storage.renames_folders and storage.digest(path) not in (digest, None)


def _list_files(storage: Storage, unit: Unit) -> list[str]:
    return [
        f"{unit.path}/{each.name}"
        for each in storage.entries(unit.path)
        if not each.is_folder and not each.name.startswith(("_", "."))
    ]
