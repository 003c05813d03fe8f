"""Reprocess and compact: a user's transform to Parquet and to a topic, snapshots with tombstones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafkalite.client import SyncConsumer, SyncProducer, TopicPartition
from kafkalite.local.cluster import LocalCluster
from spark_jobs.batch import layout
from spark_jobs.batch.failures import BadRequestError, JobError
from spark_jobs.batch.formats import Format, Formats
from spark_jobs.batch.ledger import PUBLISHING, Ledger
from spark_jobs.batch.topic_sink import ROW_HEADER, RUN_HEADER, transactional_prefix
from spark_jobs.jobs import compact, nightly, reprocess
from spark_jobs.jobs.compact import Compaction
from spark_jobs.jobs.nightly import Program
from spark_jobs.jobs.reprocess import Reprocessing
from tests.spark.conftest import TopicMaker
from tests.spark.nights import DAY, FOREVER, Sent, after, ledger, night_on, result, send, tree

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DELAYS = Formats(Format("string"), Format("json", "carrier string, delay int"))


def mean_delays(records: DataFrame) -> DataFrame:
    """The transform under test."""
    flights = records.where("decoded is not null").select("decoded.*", "date")
    return flights.groupBy("date", "carrier").agg(F.count("*").alias("flights"), F.avg("delay").alias("mean_delay"))


def no_data_frame(records: DataFrame) -> int:
    return records.count()


def broken(records: DataFrame) -> DataFrame:
    return records.select("no_such_column")


def here(function: str) -> str:
    return f"{__name__}:{function}"


def delays(carrier: str, *delays: int | None) -> list[bytes]:
    return [json.dumps({"carrier": carrier, "delay": delay}).encode() for delay in delays]


def read_topic(servers: str, topic: str) -> list[Any]:
    """All committed records of a topic with one partition."""
    place = TopicPartition(topic, 0)
    with SyncConsumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        end = consumer.end_offsets([place])[place]
        batches = list(consumer.read_range(place, 0, end))
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_day_is_reprocessed_to_parquet_and_to_a_topic(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    servers, topic, target = cluster.bootstrap_servers, make_topic(2, config=FOREVER), make_topic(1, config=FOREVER)
    values = [*delays("UA", 3, 5, None), *delays("AA", -1), b"{", None]
    send(servers, topic, [Sent(DAY, second, second % 2, b"k", value) for second, value in enumerate(values)])
    send(servers, topic, [Sent(after(1), 0, 0, b"k", *delays("UA", 999))])
    wanted = Reprocessing("delays", here("mean_delays"), True, target)
    with night_on(spark, servers, tmp_path) as night:
        entry = reprocess.main(night, topic, DAY, DELAYS, wanted)
    assert entry.counts == {"rows": 2, "dead_letters": 1}
    expected = [
        {"date": DAY, "carrier": "AA", "flights": 1, "mean_delay": -1.0},
        {"date": DAY, "carrier": "UA", "flights": 3, "mean_delay": 4.0},
    ]
    kind = layout.reprocessed_kind("delays")
    assert sorted(result(tmp_path, kind, topic, DAY), key=lambda row: row["carrier"]) == expected
    (dead,) = result(tmp_path, layout.dead_letters_of("delays"), topic, DAY)
    assert (dead["value"], dead["reason"][:15]) == (b"{", "value: not JSON")
    sent = read_topic(servers, target)
    assert sorted((json.loads(each["value"]) for each in sent), key=lambda row: row["carrier"]) == [
        {**row, "date": str(DAY)} for row in expected
    ]
    assert {header["key"] for each in sent for header in each["headers"]} == {RUN_HEADER, ROW_HEADER}

    before = tree(tmp_path), ledger(tmp_path)
    with night_on(spark, servers, tmp_path) as night:
        reprocess.main(night, topic, DAY, DELAYS, wanted)
    assert (tree(tmp_path), ledger(tmp_path)) == before
    assert read_topic(servers, target) == sent, "the same result is not sent twice"


def test_interrupted_sending_goes_on_where_it_was(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """The driver dies between two of the topic's commits, or between the last one and the ledger's; the next night, whatever it
    does, sends what is missing, and each record is there once."""
    servers, topic, target = cluster.bootstrap_servers, make_topic(1, config=FOREVER), make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(DAY, number, 0, b"%d" % number, b"v", [("own", b"h")]) for number in range(10)])
    wanted = Reprocessing("copy", f"{__name__}:unchanged", False, target)
    with night_on(spark, servers, tmp_path) as night:
        entry = reprocess.main(night, topic, DAY, Formats(), wanted)
        whole = read_topic(servers, target)
    assert len(whole) == 10
    assert not (tmp_path / layout.reprocessed_kind("copy")).exists(), "only the topic was asked for"
    assert whole[0]["key"] == b"0"
    assert [header["key"] for header in whole[0]["headers"]] == ["own", RUN_HEADER, ROW_HEADER]

    def dies(topic: str) -> list[str]:
        """While it publishes into that topic; what the next night tells."""
        with night_on(spark, servers, tmp_path) as night:
            died = replace(entry, state=PUBLISHING, sink_topic=topic, sink_start={0: 0})
            Ledger(night.storage, wanted.job).put_pending(died)
        told: list[str] = []
        with night_on(spark, servers, tmp_path, told=told):
            pass
        return told

    assert any("finishing what an earlier run had begun" in line for line in dies(target))
    assert read_topic(servers, target) == whole, "all was committed before the ledger was"

    partial = make_topic(1, config=FOREVER)
    run = next(header["value"].decode() for header in whole[0]["headers"] if header["key"] == RUN_HEADER)
    halves = [
        [
            (each["key"], each["value"], [(header["key"], header["value"]) for header in each["headers"]])
            for each in half
        ]
        for half in (whole[::2], whole[1::2])
    ]
    for number, half in enumerate(halves):
        with SyncProducer(bootstrap_servers=servers, transactional_id=f"{transactional_prefix(run)}-{number}") as task:
            task.init_transactions()
            task.begin_transaction()
            for key, value, headers in half:
                task.send(partial, value, key=key, headers=headers)
            if number == 0:
                task.commit_transaction()
            else:
                task.prepare_transaction()
    dies(partial)
    assert sorted(each["key"] for each in read_topic(servers, partial)) == sorted(each["key"] for each in whole)


def test_result_without_rows(spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path) -> None:
    """A transform that does not look at the records, on a day without any and on one with some."""
    servers, topic = cluster.bootstrap_servers, make_topic(1, config=FOREVER)
    send(servers, topic, [Sent(after(1), value=b"{")])
    for day in (DAY, after(1)):
        with night_on(spark, servers, tmp_path) as night:
            entry = reprocess.main(night, topic, day, DELAYS, Reprocessing("none", here("nothing")))
        assert entry.counts["rows"] == 0


def nothing(records: DataFrame) -> DataFrame:
    return records.limit(0)


def unchanged(records: DataFrame) -> DataFrame:
    return records.select("key", "value", "headers", "timestamp")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        ("no_data_frame", JobError, "returned int, not a DataFrame"),
        ("broken", JobError, r"the transform .*:broken failed: AnalysisException"),
        ("no_such", BadRequestError, "has no function no_such"),
    ],
)
def test_transforms_that_do_not_work(
    spark: Any,
    cluster: LocalCluster,
    make_topic: TopicMaker,
    tmp_path: Path,
    function: str,
    error: type[JobError],
    message: str,
) -> None:
    topic = make_topic(1)
    with night_on(spark, cluster.bootstrap_servers, tmp_path) as night, pytest.raises(error, match=message):
        reprocess.main(night, topic, DAY, Formats(), Reprocessing("x", here(function)))
    assert tree(tmp_path) == {}


def test_snapshot_has_the_latest_value_of_each_key(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    servers, topic = cluster.bootstrap_servers, make_topic(2, config=FOREVER)
    send(
        servers,
        topic,
        [
            Sent(DAY, 1, 0, b"a", b"a1"),
            Sent(after(-1), 0, 0, b"a", b"a2 with an older time"),
            Sent(DAY, 2, 0, b"gone", b"x"),
            Sent(DAY, 3, 0, b"gone", None),
            Sent(DAY, 4, 0, b"back", None),
            Sent(DAY, 5, 0, b"back", b"b"),
            Sent(DAY, 6, 0, None, b"no key"),
            Sent(DAY, 7, 0, b"moved", b"in the old partition"),
            Sent(DAY, 8, 1, b"moved", b"in the new partition"),
            Sent(after(1), 0, 0, b"a", b"tomorrow's"),
            Sent(after(1), 0, 0, b"later", b"tomorrow's"),
        ],
    )

    def snapshot(day: Any) -> dict[bytes, bytes]:
        return {row["key"]: row["value"] for row in result(tmp_path, layout.SNAPSHOTS, topic, day)}

    with night_on(spark, servers, tmp_path) as night:
        program = Program(Formats(), None, Compaction())
        nightly.main(night, program, [topic], DAY)
        compact.main(night, topic, after(1), Formats(), Compaction("timestamp"))
    assert snapshot(DAY) == {b"a": b"a2 with an older time", b"back": b"b", b"moved": b"in the new partition"}
    assert snapshot(after(1)) == {
        b"a": b"tomorrow's",
        b"back": b"b",
        b"moved": b"in the new partition",
        b"later": b"tomorrow's",
    }
    before = tree(tmp_path)
    send(servers, topic, [Sent(DAY, 9, 0, b"a", b"too late for the recorded run")])
    with night_on(spark, servers, tmp_path) as night:
        compact.main(night, topic, DAY, Formats(), Compaction())
    assert tree(tmp_path) == before
    with night_on(spark, servers, tmp_path, refresh=True) as night:
        compact.main(night, topic, DAY, Formats(), Compaction())
    assert snapshot(DAY)[b"a"] == b"too late for the recorded run"
