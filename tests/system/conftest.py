"""Clusters to be tormented: three brokers with sessions of two seconds, one cluster per module.

`pytest tests/system --apache` runs the same tests against Apache Kafka: that is how the tests themselves are checked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kafkalite.local.cluster import LocalCluster
from tests.system.scenario import PROPERTIES, Scenario

ClusterMaker: TypeAlias = Callable[..., LocalCluster]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Chance, the same for a test and a seed."""
    return random.Random(f"{request.config.getoption('--seed')}/{request.node.name}")


@pytest.fixture(scope="session")
def apache(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--apache"))


@pytest.fixture(scope="module")
def new_cluster(apache: bool, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """`with new_cluster(zookeepers=3, properties={...}) as cluster`: a cluster with the settings of these tests.

    Its logs and data stay in pytest's temporary directory for as long as that keeps them.
    """

    @contextmanager
    def make(*, zookeepers: int = 1, properties: dict[str, str] | None = None, **more: Any) -> Iterator[LocalCluster]:
        if apache:
            from tests.peers import apache_kafka

            more["command"] = apache_kafka.broker_command()
        settings = PROPERTIES | (properties or {})
        directory = tmp_path_factory.mktemp("cluster")
        with LocalCluster(
            brokers=3, zookeepers=zookeepers, properties=settings, directory=directory, **more
        ) as cluster:
            yield cluster
            for broker in cluster.brokers.values():
                broker.kill()  # nobody needs what they would hand over now

    return make


@pytest.fixture(scope="module")
def zookeepers() -> int:
    """How many ZooKeeper servers the module's cluster has; a module may say otherwise."""
    return 1


@pytest.fixture(scope="module")
def cluster(new_cluster: Callable[..., Any], zookeepers: int) -> Iterator[LocalCluster]:
    with new_cluster(zookeepers=zookeepers) as running:
        yield running


@pytest.fixture
def scenario(cluster: LocalCluster, apache: bool, tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(cluster, tmp_path, apache=apache)
    yield made
    made.close()
