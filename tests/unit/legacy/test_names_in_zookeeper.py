"""`kafka-configs --zookeeper` writes a user where brokers look for it, whatever its name."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.broker.settings.quota_znodes import entity_path
from kafkalite.broker.settings.quotas import QuotaEntity
from kafkalite.legacy.configs import options as tool
from kafkalite.legacy.configs import zookeeper
from zk import paths
from zk.memory.memory_store import MemoryStore, MemoryZooKeeper


class Options:
    """Those of one alteration."""

    def has(self, option: object) -> bool:
        return option is tool.ALTER


@pytest.mark.parametrize("user", ["alice", "a b", "50%", "st*r", "p+q~", "ünï", "CN=Bob,O=A/B", "<default>"])
def test_a_user_is_written_where_brokers_look_for_it(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        store = MemoryStore(MemoryZooKeeper())
        await store.start(10)
        monkeypatch.setattr(zookeeper, "added_configs", lambda options: {"SCRAM-SHA-256": "password=x"})
        monkeypatch.setattr(zookeeper, "deleted_configs", lambda options: [])
        await zookeeper._alter(Options(), store, "users", user)  # type: ignore[arg-type]
        assert await store.exists(paths.config(entity_path(QuotaEntity(user)))) is not None

    asyncio.run(scenario())
