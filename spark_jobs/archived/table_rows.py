"""The rows that Delta Lake and Iceberg tables have of a run, hashed and added up where Spark's tasks read them.

What counts is what readers of a table see: the committed rows of its present state, whoever wrote them. A file of it that is lost makes the
table unreadable; then the others are read as the Parquet files that they are, so that the offsets of the lost one can be told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from spark_jobs.archived.folder_rows import COLUMNS, REASON, Place, Problem, hash_rows
from spark_jobs.batch import layout, proof
from spark_jobs.batch.endings import SPARK_ERRORS, spark_reason
from spark_jobs.batch.proof import Rows, Sum
from spark_jobs.batch.storage import read_parquet
from spark_jobs.tables.commits import is_in_table, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.batch.ledger import Entry
    from spark_jobs.batch.storage import Storage
    from spark_jobs.tables.table_format import TableFormat

_LANES: Final = ("lane_0", "lane_1", "lane_2", "lane_3")
_LANE_BITS: Final = 32
_LANE_BYTES: Final = len(_LANES) * _LANE_BITS // 8
_MODULUS: Final = 1 << 8 * _LANE_BYTES
_HASHED: Final = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        *(StructField(name, LongType()) for name in _LANES),
    ]
)


@dataclass(frozen=True, slots=True)
class _RunFiles:
    """The files that a table has of a run, as URIs, and those of them that are lost, by their paths in the output."""

    present: list[str]
    lost: list[str]


class TableArchive:
    """`Archive` of tables."""

    def __init__(self, spark: SparkSession, storage: Storage, tables: TableFormat) -> None:
        self._spark, self._storage, self._tables = spark, storage, tables

    def find_problems(self, entry: Entry) -> list[Problem]:
        found = []
        for table in self._list_tables(entry):
            if not self._tables.exists(table):
                found.append(Problem(table, "the table is lost"))
                continue
            found += [Problem(path, "the file is lost") for path in self._find_files(table, entry).lost]
        return found

    def add_up(self, entry: Entry) -> tuple[dict[Place, Sum], list[Problem]]:
        sums: dict[Place, Sum] = {}
        problems = []
        for table in self._list_tables(entry):
            if not self._tables.exists(table):
                continue
            try:
                for place, some in self._add_up_table(table, entry):
                    sums[place] = sums.get(place, Sum()) + some
            except SPARK_ERRORS as problem:
                problems.append(Problem(table, f"cannot be read: {spark_reason(str(problem))}"))
        return sums, problems

    def find_rows(self, entry: Entry, buckets: Collection[Place]) -> dict[Place, Rows]:
        rows = {place: Rows() for place in buckets}
        wanted = self._spark.createDataFrame(list(buckets), "partition int, bucket long")
        for table in self._list_tables(entry):
            if not self._tables.exists(table):
                continue
            try:
                hashed = self._hash_table(table, entry).join(F.broadcast(wanted), ["partition", "bucket"])
                for row in hashed.toLocalIterator():
                    rows[row["partition"], row["bucket"]].add(row["offset"], _join_lanes(row) % _MODULUS)
            except SPARK_ERRORS:
                continue  # told by `add_up`
        return rows

    def _list_tables(self, entry: Entry) -> list[str]:
        """Return the tables in which the run has rows, and the others in which somebody may have given it some."""
        topic = entry.plan.topic
        kinds = [f"{kind}/topic={topic}" for kind in (layout.ARCHIVE, layout.DEAD_LETTERS)]
        ours = {table_of(unit.path)[0] for unit in entry.units if is_in_table(unit)}
        return sorted(ours | {table for table in kinds if self._tables.exists(table)})

    def _add_up_table(self, table: str, entry: Entry) -> Iterator[tuple[Place, Sum]]:
        grouped = self._hash_table(table, entry).groupBy("partition", "bucket")
        found = grouped.agg(
            F.count(F.lit(1)).alias("records"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            *(F.sum(lane).alias(lane) for lane in _LANES),
        )
        for row in found.collect():
            some = Sum(row["records"], _join_lanes(row) % _MODULUS, row["first_offset"], row["last_offset"])
            yield (row["partition"], row["bucket"]), some

    def _hash_table(self, table: str, entry: Entry) -> DataFrame:
        """Return partition, offset, bucket and the lanes of the hash of each row of the run."""
        hashed = self._read(table, entry).mapInArrow(_hash_batches, _HASHED)
        size = proof.BUCKET_OFFSETS
        return hashed.withColumn("bucket", F.col("offset") - F.pmod("offset", F.lit(size)))

    def _read(self, table: str, entry: Entry) -> DataFrame:
        files = self._find_files(table, entry)
        if files.lost:
            schema = self._tables.read(table).schema
            read = [name for name in (*COLUMNS, REASON) if name in schema.names]
            some = read_parquet(self._spark, files.present, StructType([schema[name] for name in read]))
            empty = self._spark.createDataFrame([], StructType([schema[name] for name in read]))
            return some if files.present else empty
        rows = self._tables.read(table).where(F.col("run") == F.lit(str(entry.plan.date)).cast("date"))
        return rows.select(*(name for name in (*COLUMNS, REASON) if name in rows.columns))

    def _find_files(self, table: str, entry: Entry) -> _RunFiles:
        """Return the files of the run's partition. A table that somebody has partitioned otherwise has none by this name."""
        there: dict[str, set[str]] = {}
        found = _RunFiles([], [])
        for uri in self._tables.data_files(table):
            path = _relative_path(uri, table)
            folder, _, name = path.rpartition("/")
            if f"/run={entry.plan.date}/" not in path:
                continue
            if folder not in there:
                there[folder] = {each.name for each in self._storage.entries(folder)}
            if name in there[folder]:
                found.present.append(self._storage.spark_path(path))
            else:
                found.lost.append(path)
        return found


def _relative_path(uri: str, table: str) -> str:
    """Return the path below the output of a table's file, from its URI, which may be of another form than the output's."""
    return f"{table}/{unquote(uri).rpartition(f'/{table}/')[2]}"


def _hash_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = list(hash_rows(batch))
        digits = b"".join(hashed.to_bytes(_LANE_BYTES, "little") for _, _, hashed in rows)
        lanes = numpy.frombuffer(digits, "<u4").reshape(-1, len(_LANES)).astype(numpy.int64)
        places = [pa.array([row[0] for row in rows], pa.int32()), pa.array([row[1] for row in rows], pa.int64())]
        arrays = [*places, *(pa.array(lanes[:, number]) for number in range(len(_LANES)))]
        yield pa.record_batch(arrays, names=_HASHED.names)


def _join_lanes(row: Any) -> int:
    """Return the number whose lanes, or sums of lanes, a row has."""
    return reduce(lambda total, pair: total + (row[pair[1]] << _LANE_BITS * pair[0]), enumerate(_LANES), 0)
