"""The data source in a real Spark: batches read and written, errors told, brokers lost on the way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from deploy.docs.blocks import blocks_of
from deploy.docs.staging import ROOT
from kafkalite.client import SyncAdmin, SyncProducer, TopicPartition
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.spark.conftest import TopicMaker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NOW_MS = int(time.time() * 1000) - 60_000


def fill(cluster: LocalCluster, topic: str, count: int, partitions: int, size: int = 10) -> None:
    with SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            headers = [("n", b"%d" % number)] if number % 4 == 0 else None
            value = None if number % 10 == 9 else (b"%d" % number).rjust(size)
            key = b"k%d" % number if number % 3 else None
            producer.send(topic, value, key, number % partitions, NOW_MS + number, headers)


def read(spark: Any, cluster: LocalCluster, **options: str) -> Any:
    reader = spark.read.format("kafkalite").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**options).load()


def write(frame: Any, cluster: LocalCluster, topic: str, **options: str) -> None:
    writer = frame.write.format("kafkalite").mode("append").options(topic=topic, **options)
    writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).save()


def test_rows_come_back_as_they_were_written(spark: Any, cluster: LocalCluster, make_topic: TopicMaker) -> None:
    first, second = make_topic(), make_topic()
    fill(cluster, first, 300, 3)
    frame = read(spark, cluster, subscribe=first, includeHeaders="true", minPartitions="8")
    assert frame.rdd.getNumPartitions() > 3
    write(frame, cluster, second, includeTimestamp="true")
    back = read(spark, cluster, subscribe=second, includeHeaders="true")
    columns = ["key", "value", "partition", "timestamp", "headers"]
    rows = [tuple(row) for row in frame.select(columns).orderBy("timestamp").collect()]
    assert rows == [tuple(row) for row in back.select(columns).orderBy("timestamp").collect()]
    assert len(rows) == 300 and bytes(rows[1][0]) == b"k1" and rows[0][0] is None and rows[9][1] is None
    assert [(each.key, bytes(each.value)) for each in rows[4][4]] == [("n", b"4")] and rows[1][4] is None
    assert {row.topic for row in back.select("topic").distinct().collect()} == {second}


def test_the_page_about_the_source(spark: Any, cluster: LocalCluster, make_topic: TopicMaker) -> None:
    """The first block of spark_jobs/source.md as it stands, but for names and times."""
    source, target = make_topic(1), make_topic(1)
    fill(cluster, source, 5, 1)
    block, *_ = blocks_of((ROOT / "spark_jobs" / "source.md").read_text())
    program = block.text
    for shown, played in (
        ("localhost:9092", cluster.bootstrap_servers),
        ('"flights"', repr(source)),
        ("flights-of-june-15", target),
        ("1371254400000", str(NOW_MS + 1)),
        ("1371340800000", str(NOW_MS + 4)),
    ):
        assert shown in program
        program = program.replace(shown, played)
    exec(compile(program, "source.md", "exec"), {"spark": spark})
    assert read(spark, cluster, subscribe=target).count() == 3


def test_times_do_not_depend_on_the_time_zone_of_the_session(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 3, 1)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        rows = read(spark, cluster, subscribe=topic).selectExpr("unix_millis(timestamp) AS ms").orderBy("ms").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [row.ms for row in rows] == [NOW_MS, NOW_MS + 1, NOW_MS + 2]


def test_only_the_declared_columns_leave_the_executors(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 20, 1)
    reader = spark.read.format("kafkalite").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    frame = reader.option("subscribe", topic).schema("offset bigint, value binary").load()
    assert frame.columns == ["offset", "value"]
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(20))
    with pytest.raises(Exception, match=r"no column colour; its columns are key, value, topic"):
        reader.option("subscribe", topic).schema("colour string").load().count()
    with pytest.raises(Exception, match="column value is binary, not string; cast it in the query"):
        reader.option("subscribe", topic).schema("value string").load().count()


def test_sql(spark: Any, cluster: LocalCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(2)
    fill(cluster, topic, 30, 2)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW events USING kafkalite "
        f"OPTIONS (subscribe '{topic}', `kafka.bootstrap.servers` '{cluster.bootstrap_servers}')"
    )
    rows = spark.sql("SELECT partition, count(*) AS n FROM events WHERE offset >= 5 GROUP BY 1 ORDER BY 1").collect()
    assert [(row.partition, row.n) for row in rows] == [(0, 10), (1, 10)]


def test_filters_work_whether_they_are_pushed_down_or_not(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker
) -> None:
    topic = make_topic(2)
    fill(cluster, topic, 30, 2)
    for enabled in ("true", "false"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
        assert read(spark, cluster, subscribe=topic).where("partition = 1 AND offset < 4").count() == 4


def test_the_end_of_a_query_is_pinned_when_it_is_planned(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 10, 1)
    gate = Gate(tmp_path)
    frame = read(spark, cluster, subscribe=topic, minPartitions="4").mapInArrow(gate.hold, "offset bigint")
    with gate.opened_after(lambda: fill(cluster, topic, 10, 1)):
        assert frame.count() == 10


class Gate:
    """Holds the first batch of every task until something has happened. The tests' way to act in the middle of a query."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    @property
    def hold(self) -> Callable[[Iterator[Any]], Iterator[Any]]:
        """A function for `mapInArrow` that passes on the offsets."""
        folder = self.folder

        def hold(batches: Iterator[Any]) -> Iterator[Any]:
            import pathlib
            import time

            for batch in batches:
                pathlib.Path(folder, "begun").touch()
                deadline = time.monotonic() + 60
                while not pathlib.Path(folder, "open").exists() and time.monotonic() < deadline:
                    time.sleep(0.05)
                yield batch.select(["offset"])

        return hold

    def opened_after(self, happening: Callable[[], None]) -> _Happening:
        return _Happening(Path(self.folder), happening)


class _Happening:
    def __init__(self, folder: Path, happening: Callable[[], None]) -> None:
        self._folder, self._happening = folder, happening
        self._problem: BaseException | None = None
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        try:
            wait_until((self._folder / "begun").exists, "a task that has begun", 90)
            self._happening()
        except BaseException as problem:
            self._problem = problem
        finally:
            (self._folder / "open").touch()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        (self._folder / "begun").touch()
        self._thread.join()
        if self._problem is not None:
            raise self._problem


def test_a_broker_is_killed_while_its_records_are_read(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(4, replication_factor=2)
    fill(cluster, topic, 40_000, 4, size=200)
    gate = Gate(tmp_path)
    frame = read(spark, cluster, subscribe=topic, maxRecordsPerPartition="2500").mapInArrow(gate.hold, "offset bigint")
    try:
        with gate.opened_after(lambda: cluster.kill(2)):
            found = frame.groupBy("offset").count().orderBy("offset").collect()
    finally:
        cluster.start_broker(2)
    assert [tuple(row) for row in found] == [(offset, 4) for offset in range(10_000)]


def test_lost_records_are_an_error_or_are_skipped(spark: Any, cluster: LocalCluster, make_topic: TopicMaker) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 100, 1)
    with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 60})
    start = {"startingOffsets": json.dumps({topic: {"0": 10}})}
    with pytest.raises(
        Exception, match=rf"KAFKA_DATA_LOSS.*Could not read records in offset \[10, 60\) for topic partition {topic}-0"
    ):
        read(spark, cluster, subscribe=topic, **start).count()
    for more in ({}, {"maxRecordsPerPartition": "7"}):
        frame = read(spark, cluster, subscribe=topic, failOnDataLoss="false", **start, **more)
        assert [row.offset for row in frame.select("offset").orderBy("offset").collect()] == list(range(60, 100))


def test_brokers_that_are_not_there_are_named(spark: Any, cluster: LocalCluster) -> None:
    reader = spark.read.format("kafkalite").option("subscribe", "t").option("fetchOffset.retryIntervalMs", "1")
    with pytest.raises(Exception, match=r"no broker can be reached.*127\.0\.0\.1:1"):
        reader.option("kafka.bootstrap.servers", "127.0.0.1:1").load().count()


@pytest.mark.parametrize(
    "sql, options, message",
    [
        ("SELECT 'v' AS value", {"topic": "absent", "kafka.max.block.ms": "500"}, "topic absent"),
        ("SELECT repeat('x', 2000000) AS value", {}, r"larger than max_request_size \(1048576\)"),
        ("SELECT 'v' AS value, 99 AS partition", {"kafka.max.block.ms": "500"}, "has partitions 0 to 0, not 99"),
        ("SELECT 'v' AS value", {"includeTimestamp": "true"}, "includeTimestamp needs an attribute 'timestamp'"),
        ("SELECT 'v' AS value", {"kafka.acks": "some"}, "acks is 'some'"),
    ],
)
def test_a_write_that_fails_says_why(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, sql: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        write(spark.sql(sql), cluster, **{"topic": make_topic(1), **options})


def test_topics_are_only_appended_to(spark: Any, cluster: LocalCluster, make_topic: TopicMaker) -> None:
    writer = spark.sql("SELECT 'v' AS value").write.format("kafkalite").option("topic", make_topic(1))
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    with pytest.raises(Exception, match="Save mode overwrite not allowed for Kafka"):
        writer.mode("overwrite").save()
