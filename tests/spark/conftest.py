"""Spark for the tests of this folder: one local session, and a standalone cluster for programs of their own.

A process has one Spark session, so what runs on the standalone cluster is started as a driver program (`run_driver`).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kafkalite.client import NewTopic, SyncAdmin
from kafkalite.local.broker_process import wait_until
from kafkalite.local.cluster import LocalCluster
from kafkalite.local.readiness import Reachable
from kafkalite.net.connection import Connection
from kafkalite.protocol import messages
from kafkalite.protocol.apis import ApiKey
from kafkalite.testing.spark_cluster import SparkCluster
from tests.spark.sessions import SESSION, driver_environment, python_environment

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Others lead soon after a broker was killed, and it comes back soon.
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "20000",
}

EXECUTOR = {"spark.executor.cores": "1", "spark.executor.memory": "768m"}

TopicMaker: TypeAlias = Callable[..., str]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on `local[2]` that knows the format kafkalite; four failures of a task fail its query, as on a cluster."""
    from pyspark.sql import SparkSession

    import spark_jobs

    os.environ.update(python_environment())
    scratch = tmp_path_factory.mktemp("spark-local")
    settings = SESSION | {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    builder = SparkSession.builder.master("local[2,4]")
    for name, text in settings.items():
        builder = builder.config(name, text)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    spark_jobs.register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and a worker with room for two executors of one core (`EXECUTOR`), as processes."""
    directory = tmp_path_factory.mktemp("spark-standalone")
    options = SESSION["spark.executor.extraJavaOptions"]
    with SparkCluster(directory, workers=1, worker_cores=2, worker_memory_mb=2048, java_options=options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Two brokers, so that one can die; each test has topics of its own, and starts again what it killed."""
    with LocalCluster(brokers=2, properties=PROPERTIES) as running:
        yield running


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def make_topic(cluster: LocalCluster) -> TopicMaker:
    """`make_topic(partitions=3, replication_factor=2, config={...})`: the name of a new topic."""

    def make(partitions: int = 3, replication_factor: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        with SyncAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, partitions, replication_factor, topic_configs=config or {})])
        for broker in cluster.brokers.values():
            wait_until(lambda broker=broker: asyncio.run(leads(broker, name, partitions)), f"{name} at {broker.id}", 60)  # type: ignore[misc]
        return name

    return make


async def leads(broker: Reachable, topic: str, partitions: int) -> bool:
    """Does this broker know of the topic, and of leaders of all of its partitions? Each hears of it by itself."""
    m = messages.metadata_request
    connection = await Connection.open(broker.host, broker.port, client_id="test", timeout_s=30)
    try:
        await connection.negotiate()
        request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=topic)])
        (found,) = (await connection.request(request, connection.version_of(ApiKey.METADATA))).topics
    finally:
        connection.close()
    return len(found.partitions) == partitions and all(each.leader_id >= 0 for each in found.partitions)


def run_driver(program: Path, *arguments: str, master: str, timeout_s: float = 150, **settings: str) -> str:
    """What a driver program prints to stdout when `spark-submit` runs it on `master`. AssertionError, with its output, when it fails."""
    chosen = SESSION | EXECUTOR | settings
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", master]
    command += [word for name, text in chosen.items() for word in ("--conf", f"{name}={text}")]
    done = subprocess.run(
        [*command, str(program), *arguments],
        env=driver_environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{program.name} failed:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout
