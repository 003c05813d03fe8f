"""Cells about what observing costs: processor time of the broker, which a busy machine disturbs less than rates."""

from __future__ import annotations

import time
import urllib.request
from typing import Final

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalite.local.cluster import LocalCluster
from tests.bench.cells import Target, cell, new_topic
from tests.bench.clusters import cpu_s

REQUESTS: Final = 8000
SCRAPES: Final = 20
TOPICS: Final = 100
PARTITIONS_OF_EACH: Final = 20


@cell("processor time for a produce request of one record", "µs")
def small_requests(target: Target) -> float:
    """Counting is part of it: `--against` a broker of another commit shows what a change of it costs."""
    broker, topic = target.cluster.broker(1), new_topic(target)
    settings = {"bootstrap.servers": target.servers, "linger.ms": 0, "batch.num.messages": 1, "acks": "1"}
    producer = confluent_kafka.Producer(settings)
    producer.produce(topic, b"v" * 100)
    producer.flush(60)
    before_s = cpu_s(broker)
    for _ in range(REQUESTS):
        producer.produce(topic, b"v" * 100)
    if left := producer.flush(60):
        raise TimeoutError(f"{left} records were not acknowledged")
    return (cpu_s(broker) - before_s) / REQUESTS * 1e6


@cell(f"processor time for a scrape of {TOPICS * PARTITIONS_OF_EACH} partitions", "ms")
def scrape(target: Target) -> float:
    with LocalCluster(brokers=1, http=True, command=target.command) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = [NewTopic(f"topic-{number}", PARTITIONS_OF_EACH, 1) for number in range(TOPICS)]
        for made in admin.create_topics(topics, operation_timeout=60, request_timeout=60).values():
            made.result(90)
        broker = cluster.broker(1)
        before_s = cpu_s(broker)
        for _ in range(SCRAPES):
            with urllib.request.urlopen(f"{broker.http_url}metrics", timeout=60) as answer:
                answer.read()
        return (cpu_s(broker) - before_s) / SCRAPES * 1e3


@cell("memory of a broker with metrics, after a scrape", "MB")
def memory(target: Target) -> float:
    with LocalCluster(brokers=1, http=True, command=target.command) as cluster:
        broker = cluster.broker(1)
        with urllib.request.urlopen(f"{broker.http_url}metrics", timeout=60) as answer:
            answer.read()
        time.sleep(1.0)  # measured is a broker at rest: there is no condition to wait for
        return broker.resident_bytes() / 1e6
