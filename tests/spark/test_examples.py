"""The program of deploy/examples that runs in Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkalite.client import SyncConsumer, SyncProducer
from kafkalite.local.cluster import LocalCluster
from tests.examples import example
from tests.spark.conftest import TopicMaker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_stream_joined_with_a_table(
    spark: Any, cluster: LocalCluster, make_topic: TopicMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest row of each customer counts, and one that was removed is none."""
    program, servers = example("spark_join"), cluster.bootstrap_servers
    for name in ("CUSTOMERS", "PURCHASES", "JOINED"):
        monkeypatch.setattr(program, name, make_topic(2))

    def write(topic: str, rows: dict[str, object]) -> None:
        with SyncProducer(bootstrap_servers=servers, key_serializer="str", value_serializer="json") as producer:
            for key, row in rows.items():
                producer.send(topic, row, key=key)

    ann, bob = {"name": "Ann", "city": "Oslo"}, {"name": "Bob", "city": "Bonn"}
    write(program.CUSTOMERS, {"c1": ann, "c2": bob, "c3": bob})
    write(program.CUSTOMERS, {"c1": ann | {"city": "Rome"}, "c3": None})
    write(program.PURCHASES, {"c1": {"sum": 1.5}, "c2": {"sum": 2.5}, "c3": {"sum": 3.5}})
    program.join(spark, servers, str(tmp_path / "checkpoint"))
    with SyncConsumer(bootstrap_servers=servers) as consumer:
        consumer.assign([(program.JOINED, 0), (program.JOINED, 1)])
        consumer.seek_to_beginning()
        places = consumer.assignment()
        ends = consumer.end_offsets(places)
        found = []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=500).values():
                found += [(record.key.decode(), json.loads(record.value)) for record in records]
    assert sorted(found, key=str) == [
        ("c1", {"sum": 1.5, "customer": ann | {"city": "Rome"}}),
        ("c2", {"sum": 2.5, "customer": bob}),
        ("c3", {"sum": 3.5}),
    ]
