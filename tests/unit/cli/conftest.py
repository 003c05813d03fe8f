"""A scripted cluster that commands find as if it were at KAFKALITE_BOOTSTRAP_SERVERS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalite.client.cluster.client import ClusterClient
from tests.unit.client.fake_broker import FakeCluster


@pytest.fixture(autouse=True)
def own_contexts(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's contexts file would be: nowhere near the one of whoever runs the tests."""
    path = tmp_path_factory.mktemp("contexts") / "config.toml"
    monkeypatch.setenv("KAFKALITE_CONFIG", str(path))
    monkeypatch.delenv("KAFKALITE_CONTEXT", raising=False)
    return path


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    found = FakeCluster({"t": 2})
    monkeypatch.setattr(ClusterClient, "_open", lambda _, host, port: found.open(host, port))
    monkeypatch.setenv("KAFKALITE_BOOTSTRAP_SERVERS", "fake:9001")
    yield found
