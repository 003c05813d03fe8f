"""Stores of some logs on a disk in memory, which tells in which logs a start has looked."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from kafkalite.storage.disk import Entry
from kafkalite.testing.simulation.memory_disk import MemoryDisk
from tests.unit.storage.logs import NOW_MS, all_bytes, append, batch, produced
from tests.unit.storage.stores import A0, A1, B0, TOPIC_ID, FixedClock, opened

ROOT = Path("/logs")
SUMMARIES = "/logs/kafkalite-logs"


class CountingDisk(MemoryDisk):
    """A disk on which all happened ten seconds ago, and which counts what is asked of each log's files."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.clock.now = NOW_MS - 10_007
        super().__init__(self.clock)
        self.asked: Counter[str] = Counter()

    def count(self, path: str) -> None:
        self.asked[path.split("/")[2]] += path.count("/") > 2 or path[-1].isdigit()

    def open(self, path, *, create=False):
        self.count(path)
        return super().open(path, create=create)

    def read(self, path):
        self.count(path)
        return super().read(path)

    def list(self, path: str) -> list[Entry]:
        if path != str(ROOT):
            self.count(path)
        return super().list(path)

    def asked_by_log(self) -> dict[str, int]:
        counts = {name: count for name, count in self.asked.items() if count}
        self.asked.clear()
        return counts


class KeepsAll:
    """A power failure that loses nothing, which nobody can know."""

    def randint(self, first: int, last: int, /) -> int:
        return last


def filled(disk: MemoryDisk):
    """A store of three logs: one with two segments, one with producers, one without records."""
    store = opened(ROOT, disk=disk)
    logs = [store.create(each, TOPIC_ID) for each in (A0, A1, B0)]
    for log in logs:
        log.assign_epoch(3)
    for number in range(5):
        append(logs[0], batch(2, timestamp=NOW_MS - number), epoch=3)
        append(logs[1], produced(7, number), epoch=3)
    logs[0].roll(NOW_MS)
    append(logs[0], batch(1), epoch=4)
    while store.make_files():
        pass
    for log in logs:
        log.set_high_watermark(log.log_end_offset)
    store.checkpoint_high_watermarks()
    return store


def facts_of(store):
    return {
        log.topic_partition: (
            log.log_start_offset,
            log.log_end_offset,
            log.high_watermark,
            log.last_stable_offset,
            log.recovery_point,
            [entry for entry in log.epochs.entries() if entry[1] < log.log_end_offset],
            log.topic_id,
            [(segment.base_offset, segment.sizes(), segment.largest_timestamp) for segment in log.segments],
            log.snapshots.offsets,
            {each.producer_id: (each.epoch, each.last_timestamp) for each in log.producers.producers.values()},
            all_bytes(log),
        )
        for log in sorted(store.all_logs(), key=lambda log: log.topic_partition)
    }


def summarize(store):
    asyncio.run(store.summarize_changed())
