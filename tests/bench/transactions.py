"""Cells about transactions: records a second, what a commit takes, and what the brokers spend on one; three brokers, factor 3.

A producer of librdkafka's commits after each 100 ms of records, or after each 10 records. The first cell of such a rhythm that is asked for
measures all; each value is given once, so that every round measures again.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final, NamedTuple

import confluent_kafka

from tests.bench.cells import Target, cell
from tests.bench.clusters import cluster_of_three, cpu_s, create

_PARTITIONS: Final = 3
_VALUE: Final = bytes(100)
_TIMEOUT_S: Final = 60
_WARM_UP: Final = 20
"""Commits that do not count: producer ids, partitions of `__transaction_state`, and Java's compiler."""


class Rhythm(NamedTuple):
    """When the producer commits: after so many records, or when so much time has passed."""

    name: str
    records: int | None = None
    seconds: float = 0.0


EVERY_100_MS: Final = Rhythm("each 100 ms", seconds=0.1)
EVERY_10_RECORDS: Final = Rhythm("each 10 records", records=10)
_measured: dict[tuple[tuple[str, ...], str], dict[str, float]] = {}


def one_transaction(producer: confluent_kafka.Producer, topic: str, rhythm: Rhythm) -> tuple[int, float]:
    """How many records, and how many seconds the commit took."""
    producer.begin_transaction()
    began, count = time.perf_counter(), 0
    while count < rhythm.records if rhythm.records else time.perf_counter() - began < rhythm.seconds:
        try:
            producer.produce(topic, _VALUE, partition=count % _PARTITIONS)
            count += 1
        except BufferError:
            producer.poll(0.001)
    asked = time.perf_counter()
    producer.commit_transaction(_TIMEOUT_S)
    return count, time.perf_counter() - asked


def measured(target: Target, rhythm: Rhythm) -> dict[str, float]:
    with cluster_of_three(target) as (cluster, facts):
        create(cluster, facts, "copies", _PARTITIONS)
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "bench", "linger.ms": 5}
        producer = confluent_kafka.Producer(settings)
        producer.init_transactions(_TIMEOUT_S)
        for _ in range(_WARM_UP):
            one_transaction(producer, "copies", rhythm)
        before_s = sum(map(cpu_s, cluster.brokers.values()))
        began, records, commits_ms = time.perf_counter(), 0, list[float]()
        while time.perf_counter() - began < target.seconds or len(commits_ms) < _WARM_UP:
            count, took_s = one_transaction(producer, "copies", rhythm)
            records += count
            commits_ms.append(took_s * 1000)
        seconds = time.perf_counter() - began
        used_s = sum(map(cpu_s, cluster.brokers.values())) - before_s
    commits_ms.sort()
    return {
        "rate": records / seconds,
        "p50": commits_ms[len(commits_ms) // 2],
        "p99": commits_ms[len(commits_ms) * 99 // 100],
        "cpu": used_s * 1000 / len(commits_ms),
    }


def of_rhythm(target: Target, rhythm: Rhythm, what: str) -> float:
    key = target.command, rhythm.name
    if what not in _measured.get(key, {}):
        _measured[key] = measured(target, rhythm)
    return _measured[key].pop(what)


def register() -> None:
    for rhythm in (EVERY_100_MS, EVERY_10_RECORDS):
        for what, name, unit in (
            ("rate", "records in transactions", "1/s"),
            ("p50", "a commit, p50", "ms"),
            ("p99", "a commit, p99", "ms"),
            ("cpu", "processor time of three brokers for a transaction", "ms"),
        ):
            measure = partial(of_rhythm, rhythm=rhythm, what=what)
            cell(f"{name}, {rhythm.name}", unit, higher_is_better=what == "rate")(measure)


register()
