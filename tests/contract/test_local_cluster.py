"""A cluster of local processes keeps the contract of clusters for tests."""

from __future__ import annotations

import doctest
from collections.abc import Iterator

import pytest

from kafkalite.local import cluster as local_cluster
from kafkalite.local.cluster import LocalCluster
from tests.contract.cluster_contract import PROPERTIES, RACKS, ClusterContract


@pytest.mark.usefixtures("java")
class TestLocalCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, java: str) -> Iterator[LocalCluster]:
        with LocalCluster(brokers=3, properties=PROPERTIES, racks=RACKS, partitionable=True) as running:
            yield running


def test_a_cluster_without_proxies_says_how_to_get_them() -> None:
    with pytest.raises(RuntimeError, match="partitionable=True"):
        LocalCluster(brokers=1).partition(1, "zk1")


@pytest.mark.usefixtures("java")
def test_examples() -> None:
    found = doctest.testmod(local_cluster)
    assert found.attempted > 1 and found.failed == 0
