"""The controller hears of failed log directories, also when ZooKeeper is away at first."""

from __future__ import annotations

from typing import Any, cast

from kafkalite.broker.replication.directory_failures import DirectoryFailures
from kafkalite.broker.replication.replicas import Replicas
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from zk import paths
from zk.store import SessionExpiredError, Store


class _Replicas:
    def __init__(self) -> None:
        self.failed: list[TopicPartition] = []

    def drop_offline_partitions(self) -> list[TopicPartition]:
        dropped, self.failed = self.failed, []
        return dropped


class _Store:
    """Refuses as often as it is told to."""

    def __init__(self) -> None:
        self.refusals = 0
        self.created: list[str] = []

    async def create(self, path: str, data: bytes, *, sequence: bool) -> None:
        if self.refusals:
            self.refusals -= 1
            raise SessionExpiredError(path)
        assert sequence and b'"broker":7' in data
        self.created.append(path)


def test_a_notification_that_zookeeper_refused_is_repeated_until_it_is_there() -> None:
    async def scenario() -> None:
        replicas, store = _Replicas(), _Store()
        failures = DirectoryFailures(7, cast(Replicas, replicas), cast(Store, store))
        await failures.notice()
        assert store.created == []
        replicas.failed.append(TopicPartition("t", 0))
        store.refusals = 2
        for _ in range(5):
            await failures.notice()
        assert store.created == [paths.LOG_DIR_EVENT_PREFIX]

    virtual_time.run(cast(Any, scenario()))
