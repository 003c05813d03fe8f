"""Run in Spark 4.0.0 (`spark_connector.run_program`): the same nights into Delta Lake and Iceberg tables, in one session.

1. The first night, from the topic; its audit.
2. The second one, with late records of the first day. Its driver "dies" between the tables' commits and the ledger's entry; the next one
   finds the night unfinished.
3. The second night again, with other rows, and a field more in `decoded`.
4. A night whose columns do not fit the table.
5. Maintenance: what it would do, and what it does.
6. The first night is proven by the digests that it noted; then with a row left out, one doubled and one changed, and with a file lost. The
   table is as before in the end.

From the second night on, rows are staged as the archive's job leaves them, since reading a topic is the same for all formats. The answer
has for each format what was seen on the way.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyarrow import parquet
from pyspark.sql import Row, SparkSession

from spark_jobs.archived.table_rows import TableArchive
from spark_jobs.batch import layout
from spark_jobs.batch.cluster_log import ClusterLog
from spark_jobs.batch.failures import BadRequestError, OutputError
from spark_jobs.batch.formats import Format, Formats
from spark_jobs.batch.ledger import Ledger, Unit
from spark_jobs.batch.night import Night, clear_left, finish, new_attempt, now_ms, record_plans, recover, staging
from spark_jobs.batch.plan import RunPlan
from spark_jobs.batch.publication import gather
from spark_jobs.batch.records import Reading
from spark_jobs.batch.signatures import load_checker, load_signer
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.jobs import archive, audit, maintain, verify
from spark_jobs.tables.commits import Commit, Identity
from spark_jobs.tables.output_tables import open_tables
from spark_jobs.tables.packages import DELTA, ICEBERG, NEEDS, session_settings
from spark_jobs.tables.session import check_classes
from spark_jobs.tables.table_format import TableFormat
from tests.spark.program_sessions import jar_settings, start_session

FIELDS = "a int"
NARROW = pa.struct([("a", pa.int32())])
WIDE = pa.struct([("a", pa.int32()), ("b", pa.string())])
OTHER = pa.struct([("a", pa.string())])


class DriverDied(BaseException):
    """In place of the end of the process: nothing of the night goes on."""


def session(jars: str, scratch: Path) -> SparkSession:
    settings = jar_settings(jars, scratch) | {
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.adaptive.enabled": "false",
    }
    for table_format in (DELTA, ICEBERG):
        settings = session_settings(table_format, "4.0.0", settings)
    return start_session(settings)


class Nights:
    """Nights of one topic into one output."""

    def __init__(self, spark: SparkSession, asked: dict[str, Any], table_format: str) -> None:
        self.spark, self.topic = spark, asked["topic"]
        self.storage = LocalStorage(Path(asked["output"]) / table_format)
        self.tables: TableFormat = open_tables(table_format, spark, self.storage)
        self._root = Path(asked["output"]) / table_format
        self._settings = {"bootstrap.servers": asked["servers"]}
        self.told: list[str] = []
        self.ledger = Ledger(self.storage, archive.JOB)
        key = Ed25519PrivateKey.generate()
        self.key = Path(asked["output"]).parent / f"{table_format}.key"
        self.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    @contextmanager
    def night(self) -> Iterator[Night]:
        with ClusterLog(self._settings) as log:
            night = Night(
                self.spark,
                log,
                self.storage,
                Reading(self._settings, rows_per_task=11),  # so the first night has several files
                lambda: None,
                self.told.append,
                group_prefix=f"{self.tables.name}-",
                sign=load_signer(self.key),
                tables=self.tables,
            )
            recover(night)
            yield night
            clear_left(self.storage)

    def run_staged(self, run: date, rows: Sequence[tuple[date, int, Any]], kind: pa.DataType) -> None:
        """Publish rows (date, offset, decoded) as the run of a date."""
        with self.night() as night:
            attempt = new_attempt(archive.JOB, self.topic, run)
            plan = RunPlan(self.topic, "", run, {0: (0, 1)}, {0: 1})
            (entry,) = record_plans(self.ledger, [plan], attempt)
            units = [self._stage(attempt, run, day, rows, kind) for day in sorted({day for day, _, _ in rows})]
            finish(night, self.ledger, entry, units, {"records": len(rows), "late": 0, "dead_letters": 0})

    def _stage(
        self, attempt: str, run: date, day: date, rows: Sequence[tuple[date, int, Any]], kind: pa.DataType
    ) -> Unit:
        ours = [row for row in rows if row[0] == day]
        offsets = pa.array([offset for _, offset, _ in ours], pa.int64())
        decoded = pa.array([value for _, _, value in ours], kind)
        partitions = pa.array([0] * len(ours), pa.int32())
        written = staging(attempt, layout.ARCHIVE)
        folder = self._root / written / str(day)
        folder.mkdir(parents=True)
        table = pa.table({"partition": partitions, "offset": offsets, "decoded": decoded})
        parquet.write_table(table, folder / "part-00000-x.c000.zstd.parquet")
        unit = layout.run_unit(layout.ARCHIVE, self.topic, day, run)
        return gather(self.storage, attempt, written, unit, day, [(0, str(day))])

    def verify(self, day: date, *, with_log: bool = True) -> list[list[str]]:
        """The findings about a day, each its place and its problem."""
        archived = TableArchive(self.spark, self.storage, self.tables)
        with ClusterLog(self._settings) as log:
            asked = (self.storage, log if with_log else None, [self.topic], [day], load_checker(self.key), archived)
            (found,) = verify.main(*asked)
        return [[each.place, each.problem] for each in found.findings]

    def replace_rows(self, run: date, rows: Sequence[Row]) -> None:
        """Commit these rows of the archive in the place of those of a run, as nobody should."""
        table = f"{layout.ARCHIVE}/topic={self.topic}"
        identity = Identity("nobody's", self.topic, str(run), f"{len(rows)} rows")
        commit = Commit(table, ("date", "run"), "run", str(run), (), identity)
        self.tables.replace(commit, self.spark.createDataFrame(list(rows), self.tables.read(table).schema).coalesce(1))

    def rows(self, run: date) -> list[Row]:
        found = self.tables.read(f"{layout.ARCHIVE}/topic={self.topic}").where(f"run = DATE'{run}'")
        return found.orderBy("partition", "offset").collect()

    def commits(self) -> list[str]:
        """The dates of the runs in the history of the archive's table, the oldest first."""
        table = f"{layout.ARCHIVE}/topic={self.topic}"
        if self.tables.name == DELTA:
            rows = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.storage.spark_path(table)}`").orderBy("version")
            return [json.loads(row["userMetadata"] or "{}").get("kafkalite.date", "") for row in rows.collect()]
        snapshots = self.spark.table(f"{self.tables._name(table)}.snapshots")  # type: ignore[attr-defined]
        return [row["summary"].get("kafkalite.date", "") for row in snapshots.orderBy("committed_at").collect()]


def nights(spark: SparkSession, asked: dict[str, Any], table_format: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    on = Nights(spark, asked, table_format)
    first, second = map(date.fromisoformat, asked["days"])
    with on.night() as night:
        archive.main(night, on.topic, first, Formats(value=Format("json", FIELDS)))
        (report,) = audit.audit_topic(night, on.topic, [first])
    found["differences"] = [each.problem for each in report.differences]
    found["audited"] = sum(facts.records for facts in report.archive.values())
    with mock.patch.object(Ledger, "finish", side_effect=DriverDied):
        try:
            on.run_staged(second, [(first, 1000, {"a": 1}), (second, 1001, {"a": 2})], NARROW)
        except DriverDied:
            found["states after death"] = [entry.state for entry in on.ledger.all_pending(on.topic)]
    found["commits after death"] = on.commits()
    with on.night():
        found["told"] = list(on.told)
    found["done"] = [str(entry.plan.date) for entry in on.ledger.all_done(on.topic)]
    found["commits after recovery"] = on.commits()
    on.run_staged(second, [(second, 1002, {"a": 3, "b": "three"}), (second, 1001, {"a": 2, "b": "two"})], WIDE)
    found["commits after rerun"] = on.commits()
    try:
        on.run_staged(second, [(second, 1003, {"a": "four"})], OTHER)
    except OutputError as problem:
        found["refused"] = str(problem)
    found["states after refusal"] = [entry.state for entry in on.ledger.all_pending(on.topic)]
    with on.night():  # goes on as if nothing had been
        found["commits after refusal"] = on.commits()
    now = now_ms()
    for dry_run in (True, False):
        wanted = maintain.Maintenance(True, 512 << 20, True, now, now, dry_run)
        found[f"maintenance, dry_run={dry_run}"] = maintain.main(on.storage, on.tables, wanted, lambda: None)
    return found | proofs(on, first)


def proofs(on: Nights, day: date) -> dict[str, Any]:
    """What `verify` finds of a night in each state of the tables, and the offsets that are in the file that is lost."""
    found: dict[str, Any] = {"proof": on.verify(day), "proof by the ledger": on.verify(day, with_log=False)}
    rows = on.rows(day)
    left_out, doubled, changed = rows[1], rows[2], rows[3]
    other = Row(**{**changed.asDict(), "value": b"other"})
    on.replace_rows(day, [each for each in rows if each not in (left_out, changed)] + [doubled, other])
    found["faults"] = [[row["partition"], row["offset"]] for row in (left_out, doubled, changed)]
    found["proof of faults"] = on.verify(day)
    on.replace_rows(day, rows)
    files = on.tables.data_files(f"{layout.DEAD_LETTERS}/topic={on.topic}")
    (lost,) = [Path(unquote(urlsplit(each).path)) for each in files]
    found["lost"] = parquet.read_table(lost, columns=["partition", "offset"]).to_pylist()
    aside = lost.rename(lost.with_suffix(".aside"))
    found["proof of the lost file"] = on.verify(day)
    aside.rename(lost)
    found["proof in the end"] = on.verify(day)
    return found


def missing_classes(spark: SparkSession) -> str:
    """What is said of a Spark without the classes; those of both formats are there."""
    for table_format in (DELTA, ICEBERG):
        check_classes(spark, table_format, {})
    none = replace(NEEDS[DELTA], proof="no.such.Class")
    with mock.patch.dict(NEEDS, {DELTA: none}):  # type: ignore[arg-type]
        try:
            check_classes(spark, DELTA, {})
        except BadRequestError as problem:
            return str(problem)
    return ""


def main(question: Path, answer: Path) -> None:
    asked = json.loads(question.read_text())
    spark = session(asked["jars"], question.parent)
    found: dict[str, Any] = {name: nights(spark, asked, name) for name in (DELTA, ICEBERG)}
    found["missing"] = missing_classes(spark)
    answer.write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
