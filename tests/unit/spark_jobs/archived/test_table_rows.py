"""The rows of tables as digests: what tasks hand back adds up to what brokers say, and files that are lost are found by their names."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkalite.client import hash_record
from spark_jobs.archived import table_rows
from spark_jobs.archived.table_rows import TableArchive
from spark_jobs.batch import layout
from spark_jobs.batch.ledger import Entry, PartFile, Unit
from spark_jobs.batch.plan import RunPlan
from spark_jobs.batch.storage import LocalStorage

DAY = date(2013, 6, 15)
TABLE, DEAD = "archive/topic=flights", "dead_letters/topic=flights"
OWN = "date=2013-06-15/run=2013-06-15"


class ListedTables:
    """Tables by the URIs of their files."""

    def __init__(self, files: dict[str, list[str]]) -> None:
        self._files = files

    def exists(self, table: str) -> bool:
        return table in self._files

    def data_files(self, table: str) -> list[str]:
        return self._files[table]


def entry(*kinds: str) -> Entry:
    files = (PartFile("part-00000-000.parquet", 10, 3, "ab"),)
    units = tuple(Unit(layout.run_unit(kind, "flights", DAY, DAY), "", str(DAY), files, "one") for kind in kinds)
    return Entry("archive", RunPlan("flights", "id", DAY, {0: (0, 10)}, {0: 10}), "done", "one", units)


def find_problems(root: Path, files: dict[str, list[str]], *kinds: str) -> list[tuple[str, str]]:
    tables: Any = ListedTables(files)
    no_spark: Any = None
    return [tuple(each) for each in TableArchive(no_spark, LocalStorage(root), tables).find_problems(entry(*kinds))]


def test_the_hashes_of_rows_add_up_to_the_fingerprint_of_brokers() -> None:
    rows = [(0, 5, 7, b"k", b"v", [("h", b"1"), ("n", None)]), (0, 6, 8, None, b"", []), (3, 1 << 40, 9, b"", None, [])]
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.record_batch(
        {
            "partition": pa.array([row[0] for row in rows], pa.int32()),
            "offset": pa.array([row[1] for row in rows], pa.int64()),
            "timestamp": pa.array([row[2] * 1000 for row in rows], pa.timestamp("us", tz="Europe/Berlin")),
            "key": pa.array([row[3] for row in rows], pa.binary()),
            "value": pa.array([row[4] for row in rows], pa.binary()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in row[5]] or None for row in rows], headers),  # type: ignore[attr-defined]
        }
    )
    found = [row for batch in table_rows._hash_batches([table, table.slice(0, 0)]) for row in batch.to_pylist()]
    assert [(row["partition"], row["offset"]) for row in found] == [(0, 5), (0, 6), (3, 1 << 40)]
    hashes = [hash_record(*row[1:]) for row in rows]  # type: ignore[arg-type]
    assert [table_rows._join_lanes(row) for row in found] == hashes
    summed = {lane: sum(row[lane] for row in found) for lane in table_rows._LANES}
    assert table_rows._join_lanes(summed) == sum(hashes)


def test_a_row_without_a_timestamp_is_refused() -> None:
    columns = dict.fromkeys(("key", "value", "headers"), pa.nulls(1))
    times = pa.nulls(1, pa.timestamp("us", tz="UTC"))
    batch = pa.record_batch({"partition": [0], "offset": [1], "timestamp": times, **columns})
    with pytest.raises(ValueError, match="a row without a timestamp"):
        list(table_rows._hash_batches([batch]))


def test_a_table_that_is_gone(tmp_path: Path) -> None:
    assert find_problems(tmp_path, {TABLE: []}, layout.ARCHIVE, layout.DEAD_LETTERS) == [(DEAD, "the table is lost")]


def test_files_that_are_lost(tmp_path: Path) -> None:
    """Also in a table of which the run has noted nothing, and in a folder that URIs write otherwise; those of other runs do not count."""
    root = tmp_path / "a lake"
    storage = LocalStorage(root)
    storage.write(f"{TABLE}/{OWN}/here.parquet", b"")
    storage.write(f"{DEAD}/data/{OWN}/there.parquet", b"")
    uri = f"file://{tmp_path}/a%20lake"
    files = {
        TABLE: [f"{uri}/{TABLE}/{OWN}/{name}.parquet" for name in ("here", "gone")]
        + [f"{uri}/{TABLE}/date=2013-06-15/run=2013-06-16/gone.parquet"],
        DEAD: [f"file:{root}/{DEAD}/data/{OWN}/{name}.parquet" for name in ("there", "away")],
    }
    assert find_problems(root, files, layout.ARCHIVE) == [
        (f"{TABLE}/{OWN}/gone.parquet", "the file is lost"),
        (f"{DEAD}/data/{OWN}/away.parquet", "the file is lost"),
    ]
