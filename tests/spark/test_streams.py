"""Streams in a real Spark: what a checkpoint promises is kept over restarts and deaths of brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from tests.spark.conftest import TopicMaker
from tests.spark.test_source import fill, read

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Query:
    """A stream from one topic whose batches are kept in memory, to be run again and again over one checkpoint."""

    def __init__(self, spark: Any, cluster: LocalCluster, checkpoint: Path, **options: str) -> None:
        self._spark, self._cluster, self.checkpoint, self._options = spark, cluster, checkpoint, options
        self.batches: list[list[tuple[int, int]]] = []

    def start(self, seen: Callable[[], None] = lambda: None, **trigger: Any) -> Any:
        def keep(frame: Any, number: int) -> None:
            self.batches.append(
                sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())
            )
            seen()

        reader = self._spark.readStream.format("kafkalite").options(**self._options)
        frame = reader.option("kafka.bootstrap.servers", self._cluster.bootstrap_servers).load()
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger).start()

    def run(self) -> list[list[tuple[int, int]]]:
        """The batches of one run with Trigger.AvailableNow."""
        before = len(self.batches)
        query = self.start(availableNow=True)
        assert query.awaitTermination(300), query.lastProgress
        assert query.exception() is None
        return self.batches[before:]

    def offsets(self) -> list[dict[str, dict[str, int]]]:
        """Where the batches end, from the checkpoint."""
        files = sorted(
            (int(each.name), each) for each in (self.checkpoint / "offsets").iterdir() if each.name.isdigit()
        )
        return [json.loads(path.read_text().splitlines()[2]) for _, path in files]


def pairs(partitions: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(partitions) for offset in range(start, end)]


def test_available_now_reads_in_portions_and_goes_on_where_it_was(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(2)
    fill(cluster, topic, 100, 2)
    query = Query(
        spark, cluster, tmp_path / "c", subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="40"
    )
    batches = query.run()
    assert [len(each) for each in batches] == [40, 40, 20]
    assert sorted(chain.from_iterable(batches)) == pairs(2, 0, 50)
    assert query.offsets() == [{topic: {"0": 20, "1": 20}}, {topic: {"0": 40, "1": 40}}, {topic: {"0": 50, "1": 50}}]
    assert query.run() == []
    fill(cluster, topic, 10, 2)
    assert query.run() == [pairs(2, 50, 55)]


def test_a_new_query_begins_at_the_end(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 5, 1)
    query = Query(spark, cluster, tmp_path / "c", subscribe=topic)
    assert list(chain.from_iterable(query.run())) == []
    fill(cluster, topic, 3, 1)
    assert query.run() == [pairs(1, 5, 8)]


def test_partitions_that_are_added_are_read_from_their_beginning(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 5, 1)
    query = Query(spark, cluster, tmp_path / "c", subscribe=topic, startingOffsets="earliest")
    assert query.run() == [pairs(1, 0, 5)]
    with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions({topic: 2})
    fill(cluster, topic, 8, 2)
    assert query.run() == [[*((0, offset) for offset in range(5, 9)), *((1, offset) for offset in range(4))]]


def test_a_topic_that_was_made_anew_is_data_loss(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 50, 1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "1"}
    query = Query(spark, cluster, tmp_path / "c", **options)
    query.run()
    with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), "deletion", 30)
        admin.create_topics([NewTopic(topic, 1, 1)])
    fill(cluster, topic, 10, 1)
    running = query.start(availableNow=True)
    with pytest.raises(Exception, match=rf"Partition {topic}-0 offset was changed from 50 to 10"):
        running.awaitTermination(120)
    tolerant = Query(spark, cluster, tmp_path / "c", **options, failOnDataLoss="false")
    assert list(chain.from_iterable(tolerant.run())) == [], "nothing of what lies before the checkpoint's offset"


def test_a_stream_to_another_topic_survives_the_death_of_a_broker(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic(2, replication_factor=2), make_topic(2, replication_factor=2)
    fill(cluster, source, 2000, 2)
    reader = spark.readStream.format("kafkalite").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    reader = reader.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="250")
    writer = reader.load().select("key", "value", "partition").writeStream.format("kafkalite").option("topic", target)
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(processingTime="0 seconds").start()
    try:
        wait_until(lambda: bool(query.recentProgress) or not query.isActive, "a first batch", 90)
        cluster.kill(2)
        fill(cluster, source, 400, 2)
        query.processAllAvailable()
    finally:
        query.stop()
        cluster.start_broker(2)
    sent = read(spark, cluster, subscribe=source).select("key", "value")
    found = read(spark, cluster, subscribe=target).select("key", "value")
    assert sent.count() == 2400
    assert sent.exceptAll(found).count() == 0, "every row is there; some may be there twice"
    assert found.distinct().exceptAll(sent.distinct()).count() == 0


def test_a_stream_in_transactions_is_written_once_however_it_dies(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """Its task is killed amid a batch; then the driver, after the commit and before Spark has written down that the batch is done."""
    source, target = make_topic(2), make_topic(2)
    fill(cluster, source, 60, 2)
    settings = {"kafka.bootstrap.servers": cluster.bootstrap_servers}

    def run() -> None:
        reader = spark.readStream.format("kafkalite").options(**settings, subscribe=source)
        frame = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="20").load()
        rows = frame.select("key", "value", "partition").coalesce(1)
        writer = rows.mapInArrow(killed_once(str(tmp_path / "killed")), rows.schema).writeStream.format("kafkalite")
        writer = writer.options(**settings, **{"topic": target, "transactional.id.prefix": "stream"})
        query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        query.awaitTermination(120)

    run()
    assert (tmp_path / "killed").exists(), "Spark has run the task again"
    done = sorted((tmp_path / "c" / "commits").glob("[0-9]*"))
    assert len(done) == 3
    for each in (tmp_path / "c" / "commits").glob(f"*{done[-1].name}*"):
        each.unlink()
    run()
    committed = read(spark, cluster, subscribe=target, **{"kafka.isolation.level": "read_committed"})
    sent = read(spark, cluster, subscribe=source).select("key", "value")
    found = committed.select("key", "value")
    assert found.count() == 60 and sent.exceptAll(found).count() == 0
    assert read(spark, cluster, subscribe=target).count() >= 80, "what was written again was aborted"


def killed_once(mark: str) -> Any:
    """A step that kills its process behind the first rows, if nobody did so before."""

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import pathlib

        for batch in batches:
            yield batch
            if not pathlib.Path(mark).exists():
                pathlib.Path(mark).touch()
                os._exit(1)

    return step


def test_progress_tells_how_far_behind_the_query_is(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic(1)
    fill(cluster, topic, 30, 1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    query = Query(spark, cluster, tmp_path / "c", **options).start(availableNow=True)
    assert query.awaitTermination(120)
    sources = [progress["sources"][0] for progress in query.recentProgress if progress["numInputRows"]]
    assert [
        json.loads(each["endOffset"]) if isinstance(each["endOffset"], str) else each["endOffset"] for each in sources
    ] == [
        {topic: {"0": 20}},
        {topic: {"0": 30}},
    ]
    latest = sources[0]["latestOffset"]
    assert (json.loads(latest) if isinstance(latest, str) else latest) == {topic: {"0": 30}}


def test_streams_have_no_end_option(spark: Any, cluster: LocalCluster, tmp_path: Path) -> None:
    query = Query(spark, cluster, tmp_path / "c", subscribe="t", endingOffsets="latest")
    with pytest.raises(Exception, match="ending offset not valid in streaming queries"):
        query.start(availableNow=True).awaitTermination(60)
