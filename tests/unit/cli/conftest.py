"""A scripted cluster that commands find as if it were at KAFKALITE_BOOTSTRAP_SERVERS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalite.client.cluster_client import ClusterClient
from tests.unit.client.fake_broker import FakeCluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    found = FakeCluster({"t": 2})
    monkeypatch.setattr(ClusterClient, "_open", lambda _, host, port: found.open(host, port))
    monkeypatch.setenv("KAFKALITE_BOOTSTRAP_SERVERS", "fake:9001")
    yield found
