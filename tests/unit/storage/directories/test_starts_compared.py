"""Starts with and without summaries find the same logs, whatever happened before."""

from __future__ import annotations

import asyncio
import copy
from functools import partial
from random import Random

import pytest

from tests.unit.storage.logs import NOW_MS, all_bytes
from tests.unit.storage.random_changes import CHANGES, NAMES
from tests.unit.storage.stores import TOPIC_ID, close, die, store_at
from tests.unit.storage.summarized_stores import ROOT, SUMMARIES, CountingDisk, filled, summarize


def same(store):
    """What is the same of a log that is read and of one that is not."""
    return {
        log.topic_partition: (
            log.log_start_offset,
            log.log_end_offset,
            log.high_watermark,
            log.recovery_point,
            [entry for entry in log.epochs.entries() if entry[1] < log.log_end_offset],
            log.topic_id,
            [(segment.base_offset, segment.size, segment.largest_timestamp) for segment in log.segments],
            {each.producer_id: (each.epoch, each.last_sequence) for each in log.producers.producers.values()},
            all_bytes(log),
        )
        for log in sorted(store.all_logs(), key=lambda log: log.topic_partition)
    }


@pytest.mark.parametrize("seed", range(25))
def test_logs_are_the_same_whether_they_are_read_or_not(seed):
    """Changes, kills, clean stops and power failures, many of them in one moment; each start is compared with one without summaries."""
    random, disk = Random(seed), CountingDisk()
    disk.clock.now = NOW_MS + 1
    store = filled(disk)
    believed = 0
    for _ in range(12):
        for _ in range(random.randint(0, 6)):
            log = store.create(random.choice(NAMES), TOPIC_ID)
            random.choice(CHANGES)(store, log, random)
            disk.clock.now += random.choice((0, 0, 1, 5, 300))
            store.clock.now = disk.clock.now
            if not random.randint(0, 3):
                summarize(store)
        end = random.choice((die, die, close, "power"))
        if end == "power":
            die(store)
            disk.lose_power(random)
        else:
            end(store)
        other = copy.deepcopy(disk)
        other.remove(SUMMARIES)
        disk.asked_by_log()
        settings = partial(opened_at, disk.clock.now)
        store = settings(disk)
        believed += len(store.all_logs()) - len(disk.asked_by_log())
        assert same(store) == same(settings(other)), end
    assert believed or seed


def opened_at(now_ms, disk):
    store = store_at(ROOT, disk=disk)
    store.clock.now = now_ms
    asyncio.run(store.open())
    return store
