"""A cluster in containers keeps the contract of clusters for tests, as local ones do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalite.testing.containers.cluster import KafkaliteCluster
from tests.contract.cluster_contract import PROPERTIES, RACKS, ClusterContract


class TestKafkaliteCluster(ClusterContract):
    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, image: str) -> Iterator[KafkaliteCluster]:
        with KafkaliteCluster(brokers=3, properties=PROPERTIES, racks=RACKS, image=image) as running:
            yield running
