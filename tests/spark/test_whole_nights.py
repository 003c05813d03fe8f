"""Nights publish what they planned, or nothing: folders with any name, files that vanish, records whose time nobody can show."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from deploy.docs.staging import ROOT
from kafkalite.client import SyncAdmin, SyncProducer
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout, records, topic_sink
from spark_jobs.batch.endings import SPARK_ERRORS, ending
from spark_jobs.batch.failures import DeadLettersError, Exit, MissingOutputError, MissingRecordsError
from spark_jobs.batch.formats import Format, Formats
from spark_jobs.batch.hadoop_storage import HadoopStorage
from spark_jobs.batch.ledger import PLANNED, Ledger
from spark_jobs.batch.storage import LocalStorage
from spark_jobs.jobs import archive, audit, backfill, compact, nightly, reprocess
from spark_jobs.jobs.compact import Compaction
from spark_jobs.jobs.nightly import Program
from spark_jobs.jobs.reprocess import Reprocessing
from spark_jobs.task_reading.task_records import TaskRecords
from tests.spark.conftest import TopicMaker
from tests.spark.nights import DAY, FOREVER, Sent, after, archived, night_on, places, result, send, tree, unix_ms
from tests.spark.sessions import SESSION, driver_environment
from tests.spark.test_results import read_topic
from tests.spark.test_source import read

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

RAW = Formats()
NAME = "my [x] {a,b} *?# %20 \\ é日 a:b 'q"
"""What URIs encode, what patterns mean, what a shell and Hadoop trip over."""


def values(records: DataFrame) -> DataFrame:
    """A transform."""
    return records.select("value", "partition")


def first_of_all(records: DataFrame) -> DataFrame:
    """A transform that does not look at all records."""
    return records.select("value", "partition").limit(1)


def all_twice(records: DataFrame) -> DataFrame:
    """A transform that uses all records twice."""
    return values(records).unionAll(values(records.where("offset >= 0")))


WANTED = Reprocessing("values", f"{__name__}:values")


def test_outputs_with_any_name(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Every job writes there and reads back; a folder that the name would mean as a pattern stays as it is."""
    servers, topic, sink = cluster.bootstrap_servers, make_topic(2, config=FOREVER), make_topic(1, config=FOREVER)
    output = tmp_path / NAME
    other = tmp_path / NAME.replace("[x]", "x").replace("{a,b}", "a").replace("*?", "00").replace("\\ ", " ")
    other.mkdir()
    send(servers, topic, [Sent(day, second, second % 2) for second in range(6) for day in (DAY, after(1))])
    wanted = Reprocessing("values [v] é", WANTED.function, to_topic=sink)
    program = Program(RAW, wanted, Compaction())
    for days in ([DAY, after(1)], [DAY]):
        with night_on(spark, servers, output) as night:
            assert night.storage.spark_path("").startswith("file:/")
            entries = backfill.main(night, program, [topic], days, 31, again=True)
            audit.main(night, [topic], days)
        assert [entry.counts.get("records", entry.counts.get("rows")) for entry in entries][: len(days)] == [6] * len(
            days
        )
    for day in (DAY, after(1)):
        assert len(places(archived(output, topic, day))) == 6
        assert len(result(output, layout.reprocessed_kind(wanted.name), topic, day)) == 6
    assert len(result(output, layout.SNAPSHOTS, topic, after(1))) == 1
    assert len(read_topic(servers, sink)) == 12
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([output.name, other.name]), "no other folder"
    assert not list(other.iterdir())
    assert tree(output)


def test_hadoop_outputs_with_any_name(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """As Spark takes them: a URI of Hadoop's is not decoded."""
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY), Sent(DAY, 1)])
    output = tmp_path / NAME
    with night_on(spark, servers, tmp_path / "local") as night:
        object.__setattr__(night, "storage", HadoopStorage(spark, f"file://{output}"))
        archive.main(night, topic, DAY, RAW)
        audit.main(night, [topic], [DAY])
    assert places(archived(output, topic, DAY)) == [(0, 0), (0, 1)]


class Elsewhere(LocalStorage):
    """As Spark was given URIs: it writes to a folder that nobody looks into."""

    def spark_path(self, path: str) -> str:
        return super().spark_path(path).replace("staging", "staging%20")


class Vanishing(LocalStorage):
    """One file of those that Spark has written is gone, as of a task whose commit was lost."""

    def entries(self, path: str) -> Any:
        found = super().entries(path)
        files = [each for each in found if each.name.endswith(".parquet")]
        if path.startswith(layout.STAGING) and files:
            super().remove(f"{path}/{files[-1].name}")
            found.remove(files[-1])
        return found


JOBS = ["archive", "reprocess", "compact"]


def run(night: Any, job: str, topic: str) -> Any:
    if job == "archive":
        return archive.main(night, topic, DAY, RAW)
    if job == "reprocess":
        return reprocess.main(night, topic, DAY, RAW, WANTED)
    return compact.main(night, topic, DAY, RAW, Compaction())


@pytest.mark.parametrize("kind", [Elsewhere, Vanishing])
@pytest.mark.parametrize("job", JOBS)
def test_output_that_is_not_there_is_no_done_night(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path, kind: type[LocalStorage], job: str
) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    send(servers, topic, [Sent(DAY, second, second % 2, b"k%d" % second) for second in range(6)])
    output = tmp_path / "out"
    with night_on(spark, servers, output) as night:
        group, storage = night.group(WANTED.job if job == "reprocess" else job), night.storage
        object.__setattr__(night, "storage", kind(output))
        with pytest.raises(
            MissingOutputError, match=r"6 rows were planned, \d are in .* nothing was published"
        ) as refused:
            run(night, job, topic)
        if job != "reprocess":
            assert f"{topic}-1: planned 3, found " in str(refused.value)
        ledger = Ledger(storage, WANTED.job if job == "reprocess" else job)
        (pending,) = ledger.all_pending(topic)
        assert pending.state == PLANNED and not ledger.all_done(topic)
    with SyncAdmin(bootstrap_servers=servers) as admin:
        assert not [each for each in admin.list_group_offsets(group) if each.topic == topic]
    assert not tree(output)
    with night_on(spark, servers, output) as night:
        entry = run(night, job, topic)
    assert sum(unit.rows for unit in entry.units) == 6, "the night that is repeated"


def drop_record(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch without the record at offset 2 of partition 1; sent to executors."""
    names = ("rangeEnd", "offset", "partition")
    rows = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    return batch.filter(pa.array([end is not None or (offset, partition) != (2, 1) for end, offset, partition in rows]))


def test_records_that_get_lost_on_the_way_are_no_done_night(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads other ranges than were planned, or does not hand on what it has read."""
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    send(servers, topic, [Sent(DAY, second, second % 2, b"k%d" % second) for second in range(6)])
    whole = records.read_tasks

    def shorter(spark: Any, reading: Any, topic: str, tasks: Any, columns: Any) -> TaskRecords:
        cut = [tuple(replace(each, end=each.end - each.partition) for each in task) for task in tasks]
        return whole(spark, reading, topic, cut, columns)

    def fewer(*arguments: Any) -> TaskRecords:
        return whole(*arguments).through(drop_record)

    for broken, problem in (
        (shorter, r"-1, offsets 0 to 2: 3 offsets were planned, 2 were read"),
        (fewer, r"-1, offsets 0 to 2: the log gave 3 records, 2 came to the job"),
    ):
        monkeypatch.setattr(records, "read_tasks", broken)
        monkeypatch.setattr(backfill, "read_tasks", broken)
        with night_on(spark, servers, tmp_path) as night:
            for job in JOBS:
                with pytest.raises(MissingRecordsError, match=topic + problem):
                    run(night, job, topic)
            with pytest.raises(MissingRecordsError, match=topic + problem):
                backfill.main(night, Program(RAW), [topic], [DAY, after(1)], 31, again=False)
    assert not tree(tmp_path)


def test_rows_that_were_not_sent_are_sent_by_the_next_night(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, topic, sink = cluster.bootstrap_servers, make_topic(2, config=FOREVER), make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY, second, second % 2, value=b"%d" % second) for second in range(6)])
    wanted = replace(WANTED, to_topic=sink)
    whole = topic_sink.read_parquet
    with monkeypatch.context() as patched, night_on(spark, servers, tmp_path) as night:
        patched.setattr(
            topic_sink, "read_parquet", lambda *given, **named: whole(*given, **named).where("partition = 0")
        )
        with pytest.raises(MissingRecordsError, match=rf"to {sink}: 6 rows were to be sent, Spark found 3"):
            reprocess.main(night, topic, DAY, RAW, wanted)
        assert not Ledger(night.storage, wanted.job).all_done(topic)
    assert len(read_topic(servers, sink)) == 3
    with night_on(spark, servers, tmp_path) as night:
        (entry,) = Ledger(night.storage, wanted.job).all_done(topic)
    assert entry.counts["rows"] == 6
    assert sorted(record["value"] for record in read_topic(servers, sink)) == [b"%d" % number for number in range(6)]


def test_what_the_log_itself_does_not_have_is_not_missed(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Markers and aborted records have offsets too; a transform need not look at all records."""
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    with SyncProducer(bootstrap_servers=servers, transactional_id=f"of-{topic}") as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            for second in range(3):
                producer.send(topic, b"%d" % number, b"k", partition=0, timestamp_ms=unix_ms(DAY, second))
            if number % 2:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    wanted = Reprocessing("first", f"{__name__}:first_of_all")
    with night_on(spark, servers, tmp_path, rows_per_task=4) as night:
        entries = nightly.main(night, Program(RAW, wanted, Compaction()), [topic], DAY)
        twice = reprocess.main(night, topic, DAY, RAW, Reprocessing("twice", f"{__name__}:all_twice"))
    assert twice.counts == {"rows": 12, "dead_letters": 0}
    assert [entry.counts for entry in entries] == [
        {"records": 6, "late": 0, "dead_letters": 0},
        {"rows": 1, "dead_letters": 0},
        {"rows": 1, "dead_letters": 0},
    ]


ODD = [
    2**63 - 1,
    unix_ms(DAY) * 1000,
    unix_ms(DAY) * 10**6,
    253_402_300_800_000,
    -62_135_596_800_001,
    -(2**63),
]
SHOWN = [0, -5, -1, 253_402_300_799_999, -62_135_596_800_000]


def send_at(servers: str, topic: str, times_ms: list[int], partition: int = 0) -> None:
    """A batch for each record: times in a batch are differences of 64 bits."""
    with SyncProducer(bootstrap_servers=servers) as producer:
        for number, time_ms in enumerate(times_ms):
            producer.send(topic, b"%d" % time_ms, b"k%d" % number, partition, time_ms)
            producer.flush()


def test_the_source_reads_every_timestamp(spark: Any, cluster: LocalCluster, make_topic: TopicMaker) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    times_ms = [unix_ms(DAY), *ODD, *SHOWN]
    send_at(servers, topic, times_ms)
    frame = read(spark, cluster, subscribe=topic)
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    found = frame.selectExpr("offset", "unix_millis(timestamp) AS ms").orderBy("offset").collect()
    assert [row.ms for row in found] == [None if each in ODD else each for each in times_ms]
    declared = spark.read.format("kafkalite").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    rows = declared.schema("offset bigint, timestampMs bigint").load().orderBy("offset").collect()
    assert [row.timestampMs for row in rows] == times_ms


def test_records_that_are_on_no_date_are_dead_letters_of_one_night(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Those that came before the first night's records are of the days before; each other one is told of by one night."""
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    good, odd = unix_ms(DAY), [*ODD, -1]
    send_at(servers, topic, [good, *odd, good + 1])
    with night_on(spark, servers, tmp_path) as night:
        with pytest.raises(DeadLettersError, match=rf"archive of {topic} 7\b"):
            nightly.main(night, Program(RAW), [topic], DAY)
        assert len(archived(tmp_path, topic, DAY)) == 2
    dead = archived(tmp_path, topic, DAY, layout.DEAD_LETTERS)
    assert places(dead) == [(0, offset) for offset in range(1, 8)]
    for row, time_ms in zip(dead, odd, strict=True):
        assert str(time_ms) in row["reason"] and row["reason"].startswith("timestamp: ")
    send_at(servers, topic, [-1, unix_ms(after(1)), 2**62])
    before = tree(tmp_path)
    with night_on(spark, servers, tmp_path) as night:
        assert archive.main(night, topic, DAY, RAW).counts == {"records": 2, "late": 0, "dead_letters": 7}
        assert tree(tmp_path) == before, "a run that is repeated"
        assert archive.main(night, topic, after(1), RAW).counts == {"records": 1, "late": 0, "dead_letters": 2}
        assert archive.main(night, topic, after(-1), RAW).counts == {"records": 0, "late": 0, "dead_letters": 0}
        audit.main(night, [topic], [after(-1), DAY, after(1)])
    assert places(archived(tmp_path, topic, after(1), layout.DEAD_LETTERS)) == [(0, 9), (0, 11)]
    with night_on(spark, servers, tmp_path / "many") as night:
        program = Program(RAW, WANTED, Compaction(), dead_letters_allowed=100)
        entries = backfill.main(night, program, [topic], [DAY, after(1), after(2)], 1, again=False)
    found: dict[str, list[int]] = {}
    for entry in entries:
        found.setdefault(entry.job, []).append(entry.counts["dead_letters"])
    assert {job: sum(letters) for job, letters in found.items()} == {"archive": 9, WANTED.job: 9, "compact": 7}
    snapshot = result(tmp_path / "many", layout.SNAPSHOTS, topic, after(2))
    assert sorted(row["key"] for row in snapshot) == [b"k0", b"k1", b"k7", b"k8"]


class BadRow(Exception):
    """What a user raises: no name of an error, and no module of Python's."""


def picky(records: DataFrame) -> DataFrame:
    """A transform that fails in the tasks."""

    def check(batches: Any) -> Any:
        for _ in batches:
            raise BadRow("row 7 has no carrier")
        yield from ()

    return records.select("value").mapInArrow(check, "value binary")


def test_the_reason_of_a_failed_night_is_told(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY)])
    with night_on(spark, servers, tmp_path) as night, pytest.raises(SPARK_ERRORS) as failed:
        reprocess.main(night, topic, DAY, RAW, Reprocessing("picky", f"{__name__}:picky"))
    code, text = ending(failed.value)
    assert code == Exit.FAILED
    assert text.startswith("Spark gave up: ") and text.endswith("BadRow: row 7 has no carrier")


def test_a_program_of_its_own_in_a_locale_without_letters(
    cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """As cron starts it, in a folder with any name; Java takes names of files from the locale."""
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY), Sent(DAY, 1)])
    folder = tmp_path / NAME
    folder.mkdir()
    command = [sys.executable, "-m", "spark_jobs", "nightly", "--topic", topic, "--output", "out é", "--no-lock"]
    command += ["-b", servers, "--date", str(DAY), "--master", "local[1]", "-o", "json", "--metrics-file", "night.prom"]
    command += ["--lineage", "events.jsonl", "--on-success", "cat >run.json"]
    command += [word for name, text in SESSION.items() for word in ("--conf", f"{name}={text}")]
    environment = {name: text for name, text in driver_environment().items() if not name.startswith("LC_")}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "LANG": "C", "LC_ALL": "C", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout)[0]["records"] == 2
    assert places(archived(folder / "out é", topic, DAY)) == [(0, 0), (0, 1)]
    page = (folder / "out é" / layout.page_file(DAY)).read_text()
    assert f"<h2>{topic}</h2>" in page and "2 records, the topic is archived; log and archive agree." in page
    metrics = (folder / "night.prom").read_text()
    assert f'step="archive",topic="{topic}"}} 2\n' in metrics and "last_success_timestamp_seconds{" in metrics
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    names = [f"archive.{topic}"] * 2 + [f"audit.{topic}"] * 2
    assert [(each["eventType"], each["job"]["name"]) for each in events] == list(
        zip(["START", "COMPLETE"] * 2, names, strict=True)
    )
    (output,) = events[1]["outputs"]
    assert output["name"] == f"{folder}/out é/archive/topic={topic}"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert [each["name"] for each in output["facets"]["schema"]["fields"]] == list(records.RECORD_COLUMNS)
    run = json.loads((folder / "run.json").read_text())
    assert (run["result"], run["dates"], run["report"]) == (
        "done",
        [str(DAY)],
        f"{LocalStorage(folder / 'out é').uri}/_report/{DAY}.html",
    )
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_dates_before_1970(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """Brokers answer UNSUPPORTED_VERSION when they are asked for a negative time."""
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    send_at(servers, topic, [unix_ms(DAY), -5, -(86_400_000 * 365)])
    eve = date(1969, 12, 31)
    with night_on(spark, servers, tmp_path) as night:
        assert archive.main(night, topic, eve, RAW).counts == {"records": 1, "late": 0, "dead_letters": 0}
        audit.main(night, [topic], [eve])
    assert places(archived(tmp_path, topic, eve)) == [(0, 1)]


def test_snapshots_have_both_kinds_of_dead_letters(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Values that are no objects, and times that are on no date, in several partitions and tasks."""
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    send(servers, topic, [Sent(DAY, 0, partition, b"good", b'{"carrier": "UA"}') for partition in range(2)])
    for partition in range(2):
        send_at(servers, topic, [unix_ms(DAY), 2**62, unix_ms(DAY), 2**62], partition)
    formats = Formats(value=Format("json", "carrier string"))
    with night_on(spark, servers, tmp_path, rows_per_task=2) as night:
        entry = compact.main(night, topic, DAY, formats, Compaction())
    assert entry.counts == {"rows": 1, "dead_letters": 4 + 2}, "a key's value is that of one of its partitions"
    dead = result(tmp_path, layout.dead_letters_of(layout.SNAPSHOTS), topic, DAY)
    assert sorted(row["reason"].partition(":")[0] for row in dead) == ["timestamp"] * 4 + ["value"] * 2
