"""Log stores for tests: with settings and a clock of their own, opened and closed in one line, or left as a killed broker leaves them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kafkalite.config.live import Live
from kafkalite.config.topic import INT_MAX, TopicConfig
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.storage.disk import Disk, OsDisk
from kafkalite.types import TopicPartition
from tests.unit.storage.logs import DAY_MS, NOW_MS

TOPIC_ID = bytes(range(16))
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@dataclass
class StorageSettings:
    """The settings of a broker that storage reads."""

    log_dirs: Sequence[str]
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    producer_id_expiration_ms: int = DAY_MS
    num_recovery_threads_per_data_dir: int = 1
    log_deletion_max_segments_per_run: int = INT_MAX


class FixedClock:
    """A clock that stands unless a test moves it."""

    def __init__(self) -> None:
        self.now = NOW_MS

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> float:
        return float(self.now)


def store_at(*paths: Path, disk: Disk | None = None, defaults: TopicConfig | None = None, threads: int = 1) -> LogStore:
    settings = StorageSettings([str(path) for path in paths], defaults or TopicConfig())
    settings.num_recovery_threads_per_data_dir = threads
    return LogStore(Live(settings), disk or OsDisk(), FixedClock(), Random(3))


def opened(*paths: Path, disk: Disk | None = None, defaults: TopicConfig | None = None, threads: int = 1) -> LogStore:
    store = store_at(*paths, disk=disk, defaults=defaults, threads=threads)
    asyncio.run(store.open())
    return store


def close(store: LogStore) -> None:
    asyncio.run(store.close())


def die(store: LogStore) -> None:
    """Leave the store as kill -9 does: locks are released, nothing is written."""
    for directory in store.directories:
        directory.close()
