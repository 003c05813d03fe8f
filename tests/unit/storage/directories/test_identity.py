"""Directories belong to one broker of one cluster."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.storage.directories.identity import claim_directories, read_identity
from kafkalite.storage.meta_properties import WrongDirectory
from tests.unit.storage.stores import close, opened, store_at


def test_identity(tmp_path):
    store = opened(tmp_path / "x", tmp_path / "y")
    assert read_identity(store.directories) == (None, None)
    claim_directories(store.directories, 5, "cluster")
    assert "broker.id=5\ncluster.id=cluster\nversion=0\n" in (tmp_path / "y" / "meta.properties").read_text()
    claim_directories(store.directories, 5, "cluster")
    for broker_id, cluster_id, hint in ((6, "cluster", "broker.id"), (5, "other", "zookeeper.connect")):
        with pytest.raises(WrongDirectory, match=hint):
            claim_directories(store.directories, broker_id, cluster_id)
    close(store)
    (tmp_path / "y" / "meta.properties").write_text("version=0\nbroker.id=9\ncluster.id=cluster\n")
    with pytest.raises(WrongDirectory, match="5 and 9"):
        read_identity(store_at(tmp_path / "x", tmp_path / "y").directories)


def test_identity_is_known_before_any_log_is_opened(tmp_path):
    store = opened(tmp_path)
    claim_directories(store.directories, 5, "cluster")
    close(store)
    store = store_at(tmp_path)
    store.acquire()
    with pytest.raises(WrongDirectory):
        claim_directories(store.directories, 6, "cluster")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    asyncio.run(store.open())
    close(store)
