"""Walks over all logs of a broker hold the event loop for a portion, and a log of which nothing goes stays as it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.storage.checkpoints import HIGH_WATERMARK
from kafkalite.types import TopicPartition
from tests.unit.broker.loop_turns import measured_turns
from tests.unit.storage.logs import DAY_MS, NOW_MS, append, produced
from tests.unit.storage.stores import A0, A1, TOPIC_ID, opened
from tests.unit.storage.summarized_stores import ROOT, CountingDisk

LOGS = 1500


def store_of(count):
    store = opened(ROOT, disk=CountingDisk())
    for number in range(count):
        store.create(TopicPartition("t", number), TOPIC_ID)
    return store


def change_all(store):
    for log in store.all_logs():
        log.note_change()


@pytest.mark.parametrize(
    "walk",
    [
        lambda store: store.delete_old_segments(NOW_MS),
        lambda store: store.expire_producers(NOW_MS),
        lambda store: store.flush_sealed(),
        lambda store: store.flush_overdue(NOW_MS),
        lambda store: store.purge_deleted(NOW_MS),
        lambda store: store.summarize_changed(),
        lambda store: store.save_checkpoint(HIGH_WATERMARK),
        lambda store: store.close(),
    ],
)
def test_a_walk_holds_the_loop_for_a_portion(walk):
    longest = []
    for count in (LOGS // 2, LOGS):
        store = store_of(count)

        async def measure(store):
            change_all(store)
            with measured_turns() as turns:
                await walk(store)
            return turns.longest

        longest.append(asyncio.run(measure(store)))
    assert longest[1] < 1.3 * longest[0], longest


def test_retention_leaves_a_log_unnoted_that_keeps_its_segments():
    store = store_of(0)
    kept, old = store.create(A0, TOPIC_ID), store.create(A1, TOPIC_ID, TopicConfig(retention_ms=DAY_MS))
    for log in (kept, old):
        append(log, produced(timestamp=NOW_MS))
        log.set_high_watermark(1)
    kept.config = replace(kept.config, retention_ms=10 * DAY_MS)
    store.upkeep.look_at_changed()
    assert asyncio.run(store.delete_old_segments(NOW_MS + 2 * DAY_MS)) == 1
    assert old.is_noted and old.log_start_offset == 1
    assert not kept.is_noted and kept.log_start_offset == 0
