"""What a record costs beside many partitions and beside few: `python -m tests.bench.scale_pairs`.

Two clusters of three brokers live side by side, one with few idle partitions and one with many. Once both are at rest, a producer and a
consumer of one more partition load them in turn: in each round few, many, many, few, so that neither what the machine does meanwhile nor
what the cluster before leaves to do falls on one of them. Told is the median over the rounds of the cost beside many, divided by the cost
beside few in the same round. What the brokers use at rest is measured before, and is no part of what a record costs.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from kafkalite.local.broker_process import BROKER_COMMAND, wait_until
from kafkalite.local.cluster_facts import ClusterFacts
from tests.bench.failover import LOGS, OURS
from tests.bench.failover_rounds import PROPERTIES, failover_cluster
from tests.bench.idle_topics import SET_UP_TIMEOUT_S
from tests.bench.machine import file_system, machine, ours
from tests.bench.scale import ONE_OFFSETS_PARTITION, ZOOKEEPER_HEAP
from tests.bench.scale_rounds import Scale
from zk.servers.class_data import FLAGS as JVM_FLAGS

REST_PERCENT: Final = 4.0
"""Of one processor, for three brokers: less is rest. What creation leaves to do takes more."""
REST_S: Final = 65.0
"""For so long: logs are summarized once a minute (log.flush.offset.checkpoint.interval.ms)."""

_WARM_UP_S: Final = 2.0
Load = Mapping[str, float]
"""Figures of `Scale.load`, by name."""


def ratios(rounds: Sequence[tuple[Load, Load]]) -> dict[str, list[float]]:
    """Return, by figure, what it was beside many partitions divided by what it was beside few, for each round (few, many)."""
    return {name: [many[name] / few[name] for few, many in rounds] for name in rounds[0][0]}


def mean(one: Load, other: Load) -> Load:
    """Return the mean of each figure of two loads."""
    return {name: (one[name] + other[name]) / 2 for name in one}


@contextmanager
def idle_cluster(partitions: int, factor: int) -> Iterator[Scale]:
    """A cluster with idle partitions."""
    logs = LOGS / f"pairs-{partitions}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}-logs"
    with (
        failover_cluster(BROKER_COMMAND, ONE_OFFSETS_PARTITION, 1, logs=logs) as cluster,
        ClusterFacts(cluster.zookeeper_connect) as facts,
    ):
        scale = Scale(cluster, facts, partitions, factor)
        click.echo(f"{partitions:,} partitions made in {scale.create().seconds:.1f} s")
        yield scale


def wait_for_rest(few: Scale, many: Scale) -> tuple[float, float]:
    """Wait until all brokers have done what the creation left to do; return what those of each cluster use in the same stretch of rest, in
    percent of one processor.
    """
    percents = (100.0, 100.0)

    def is_at_rest() -> bool:
        nonlocal percents
        before, began_s = (few.worked_s(), many.worked_s()), time.monotonic()
        time.sleep(REST_S)  # measured is a stretch of time: there is no condition to wait for
        passed_s = time.monotonic() - began_s
        percents = (100 * (few.worked_s() - before[0]) / passed_s, 100 * (many.worked_s() - before[1]) / passed_s)
        return max(percents) < REST_PERCENT

    wait_until(is_at_rest, "brokers at rest", SET_UP_TIMEOUT_S)
    click.echo("at rest the brokers use {:.2f} and {:.2f} % of a processor".format(*percents))
    return percents


@click.command(help=__doc__)
@click.option("--partitions", default=100_000, show_default=True, help="Idle partitions of the cluster with many.")
@click.option("--beside", default=100, show_default=True, help="Idle partitions of the cluster with few.")
@click.option("--factor", default=3, show_default=True, help="Replicas of each.")
@click.option("--rounds", default=8, show_default=True)
@click.option("--seconds", default=5.0, show_default=True, help="Of the producer, four times in each round.")
@click.option("--output", type=click.Path(path_type=Path), help="Write what was measured there, as JSON.")
def main(partitions: int, beside: int, factor: int, rounds: int, seconds: float, output: Path | None) -> None:
    os.environ.setdefault(JVM_FLAGS, ZOOKEEPER_HEAP)
    loads = [os.getloadavg()[0]]
    measured: list[tuple[Load, Load]] = []
    with idle_cluster(beside, factor) as few, idle_cluster(partitions, factor) as many:
        for each in (few, many):
            each.load(_WARM_UP_S)
        few_rest, many_rest = wait_for_rest(few, many)
        for number in range(rounds):
            first = few.load(seconds, few_rest), many.load(seconds, many_rest)
            again = many.load(seconds, many_rest), few.load(seconds, few_rest)
            measured.append((mean(first[0], again[1]), mean(first[1], again[0])))
            told = ", ".join(f"{name} {values[-1]:.2f}" for name, values in ratios(measured).items())
            click.echo(f"round {number + 1}: {told}")
    for name, values in ratios(measured).items():
        click.echo(f"{name}: {statistics.median(values):.3f} ({min(values):.2f} to {max(values):.2f})")
    loads.append(os.getloadavg()[0])
    if output is not None:
        content = {
            "at": datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"),
            "command": " ".join(["python -m tests.bench.scale_pairs", *map(shlex.quote, sys.argv[1:])]),
            "machine": machine() | {"niceness": os.nice(0)},
            "sides": {OURS: ours()},
            "file system": file_system(),
            "properties": PROPERTIES | ONE_OFFSETS_PARTITION,
            "properties of ours": {},
            "measured": [
                {"side": OURS, "partitions": size, "factor": factor, "stand-ins": 0, "load": loads}
                for size in (beside, partitions)
            ],
            "pairs": ratios(measured),
        }
        output.write_text(json.dumps(content, indent=2) + "\n")
        click.echo(f"written to {output}")


if __name__ == "__main__":
    main()
