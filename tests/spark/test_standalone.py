"""The data source on a standalone cluster: driver, master and workers are processes of their own, and executors die."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread

import pytest

import spark_jobs
from kafkalite.client import SyncConsumer, TopicPartition
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.testing.spark_cluster import SparkCluster
from tests.spark.conftest import TopicMaker, run_driver
from tests.spark.test_source import fill

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def values_of(cluster: LocalCluster, topic: str, partitions: int) -> list[bytes | None]:
    with SyncConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, number) for number in range(partitions)])
        return [
            value
            for each, end in ends.items()
            for batch in consumer.read_range(each, 0, end, columns=["value"])
            for value in batch.column("value").to_pylist()
        ]


def test_an_executor_is_killed_while_a_topic_is_copied(
    standalone: SparkCluster, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(2)
    fill(cluster, source, 2000, 2)

    def kill_one() -> None:
        try:
            wait_until((tmp_path / "begun").exists, "a task that has begun", 300)
            standalone.kill_executor(standalone.executor_pids()[0])
        finally:
            (tmp_path / "open").touch()

    killer = Thread(target=kill_one)
    killer.start()
    try:
        printed = run_driver(
            Path(__file__).with_name("copy_topic.py"),
            cluster.bootstrap_servers,
            source,
            target,
            str(tmp_path),
            master=standalone.url,
            timeout_s=400,
            **{"spark.submit.pyFiles": str(spark_jobs.DISCOVERY)},
        )
    finally:
        (tmp_path / "begun").touch()
        killer.join()
    assert json.loads(printed.splitlines()[-1]) == {"rows": 2000, "tasks": 10}
    sent, copied = values_of(cluster, source, 2), values_of(cluster, target, 2)
    assert set(copied) == set(sent), "every row arrived, and no other"
    assert len(copied) >= len(sent) == 2000
