"""Jobs that logs leave to their store: what is done is what a walk over all logs would do, and idle logs cost nothing."""

from __future__ import annotations

import asyncio
import inspect
import re
from dataclasses import replace
from random import Random

import pytest

from kafkalite.errors import KafkaError
from kafkalite.storage import checkpoints
from kafkalite.storage.cleaning.compaction import dirty_part
from kafkalite.storage.directories.log_summaries import LogSummaries, fingerprint_of
from kafkalite.storage.directories.log_upkeep import LogUpkeep
from kafkalite.storage.log.partition_log import PartitionLog
from tests.unit.storage.logs import NOW_MS, append, batch
from tests.unit.storage.random_changes import CHANGES, NAMES
from tests.unit.storage.stores import A0, A1, B0, TOPIC_ID, close, die, opened
from tests.unit.storage.summarized_stores import ROOT, CountingDisk, filled, summarize


class FullWalk:
    """What walks over all logs of a store find to do, which the jobs of the store are compared with."""

    def __init__(self, store, monkeypatch):
        self.store = store
        self.unflushed_since = {}
        self.truncated = {}
        """Logs that lost records beyond their high watermark and were not flushed since."""
        self.changed = {}
        self.flushed, self.summarized = [], []
        mark_flushed, add, look = PartitionLog.mark_flushed, LogSummaries.add, LogUpkeep.look_at_changed
        truncate_to = PartitionLog.truncate_to

        def note_truncation(log, offset):
            if offset < log.log_end_offset:
                self.truncated[log] = None
            truncate_to(log, offset)

        def note_flush(log, work):
            self.flushed.append(log)
            self.unflushed_since.pop(log, None)
            self.truncated.pop(log, None)
            mark_flushed(log, work)

        def note_summaries(summaries, logs):
            self.summarized += logs
            add(summaries, logs)

        def look_too(upkeep):
            look(upkeep)
            self.overdue(store.clock.now)

        monkeypatch.setattr(LogUpkeep, "look_at_changed", look_too)
        monkeypatch.setattr(PartitionLog, "mark_flushed", note_flush)
        monkeypatch.setattr(PartitionLog, "truncate_to", note_truncation)
        monkeypatch.setattr(LogSummaries, "add", note_summaries)
        self.overdue(store.clock.now)  # the checkpoints of `filled` have looked

    def sealed(self):
        return [log for log in self.store.all_logs() if log.recovery_point < log.segments[-1].base_offset]

    def overdue(self, now_ms):
        found = []
        for log in self.store.all_logs():
            if log in self.truncated:
                found.append(log)
            elif log.recovery_point >= log.log_end_offset:
                self.unflushed_since.pop(log, None)
            elif now_ms - self.unflushed_since.setdefault(log, now_ms) >= log.config.flush_ms:
                found.append(log)
        return found

    def dirty(self):
        parts = {
            log: dirty_part(
                list(log.segments),
                config=log.config,
                first_dirty_offset=log.first_dirty_offset,
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                last_stable_offset=log.log_end_offset,
                now_ms=self.store.clock.now,
            )
            for log in self.store.all_logs()
            if log.config.compacts
        }
        return {log for log, part in parts.items() if part.dirty_bytes}

    def left_alone(self):
        before, self.changed = self.changed, {}
        found = []
        for log in self.store.all_logs():
            fingerprint = fingerprint_of(log)
            if log.has_files and fingerprint != log.summarized_as:
                self.changed[log] = fingerprint  # to be tried again, should it fail
                if before.get(log) == fingerprint:
                    found.append(log)
        return found

    def removable(self, now_ms):
        return [log for log in self.store.all_logs() if (log.local.removal_due_ms or now_ms + 1) <= now_ms]


def change_settings(store, log, random):
    log.config = replace(
        log.config,
        flush_ms=random.choice((0, 100, 1500, (1 << 63) - 1)),
        file_delete_delay_ms=random.choice((0, 700)),
        cleanup_policy=random.choice((("delete",), ("compact",), ("compact", "delete"))),
    )


def compact(store, log, random):
    """Note a pass of the cleaner, as `LogCleaner` does."""
    log.first_dirty_offset = random.choice((log.log_start_offset, log.segments.active.base_offset))
    log.note_change()


def fill(store, log, random):
    log.log_directory.disk.full = not random.randint(0, 3)


def by_name(logs):
    return sorted(log.topic_partition for log in logs)


@pytest.mark.parametrize("seed", range(25))
def test_jobs_do_what_walks_over_all_logs_find(seed, monkeypatch):
    random, disk = Random(seed), CountingDisk()
    disk.clock.now = NOW_MS + 1
    store = filled(disk)
    walk = FullWalk(store, monkeypatch)
    done = 0
    for _ in range(60):
        for _ in range(random.choice((0, 0, 1, 3))):
            try:
                name = random.choice(NAMES)
                log = store.get(name) or store.create(name, TOPIC_ID)
                random.choice((*CHANGES, change_settings, change_settings, compact, fill))(store, log, random)
            except KafkaError:
                assert disk.full
        store.clock.now = disk.clock.now = disk.clock.now + random.choice((10, 400, 1000))
        now = store.clock.now
        walk.flushed.clear()
        expected = walk.sealed()
        asyncio.run(store.flush_sealed())
        assert by_name(walk.flushed) == by_name(expected)
        done += len(expected)
        walk.flushed.clear()
        expected = walk.overdue(now)
        asyncio.run(store.flush_overdue(now))
        assert by_name(walk.flushed) == by_name(expected)
        done += len(expected)
        done += len(walk.removable(now))
        walk.overdue(now)  # each job looks at what has changed
        asyncio.run(store.purge_deleted(now))
        assert not walk.removable(now)
        found, wanted = store.upkeep.find_dirty(), walk.dirty()
        assert wanted <= set(found)
        assert all(log.config.compacts and len(log.segments) > 1 for log in found)
        done += len(wanted)
        if not random.randint(0, 3):
            walk.summarized.clear()
            expected = walk.left_alone()
            summarize(store)
            assert by_name(walk.summarized) == by_name(expected)
            done += len(expected)
    assert done


def test_logs_are_entered_again_after_a_start():
    disk = CountingDisk()
    store = filled(disk)
    store.get(A0).config = replace(store.get(A0).config, flush_ms=1000)
    assert store.get(A0).recovery_point < store.get(A0).segments[-1].base_offset
    die(store)
    store = opened(ROOT, disk=disk)
    log = store.get(A0)
    asyncio.run(store.flush_sealed())
    assert log.recovery_point == log.log_end_offset
    close(store)


def test_idle_logs_cost_nothing(monkeypatch):
    disk = CountingDisk()
    die(filled(disk))
    store = opened(ROOT, disk=disk)
    append(store.get(A1), batch(), epoch=3)
    seen = []

    def look(log):
        seen.append(log.topic_partition)
        return 0

    def work():
        for _ in range(3):
            store.clock.now = disk.clock.now = disk.clock.now + 1000
            asyncio.run(store.flush_sealed())
            asyncio.run(store.flush_overdue(store.clock.now))
            asyncio.run(store.purge_deleted(store.clock.now))
            summarize(store)

    work()
    disk.asked_by_log()
    monkeypatch.setattr(PartitionLog, "recovery_point", property(look))
    monkeypatch.setattr(PartitionLog, "flush_due_ms", lambda log, now_ms: look(log))
    monkeypatch.setattr("kafkalite.storage.directories.directory_summaries.fingerprint_of", look)
    work()
    assert not seen and not disk.asked_by_log()
    store.get(B0).assign_epoch(9)
    work()
    assert set(seen) == {B0}


def fail(log):
    with pytest.raises(KafkaError):
        log.delete_records(100)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: append(log),
        lambda log: setattr(log, "config", log.config),
        lambda log: log.mark_flushed(log.work),
        lambda log: log.flush_work(),
        lambda log: log.truncate_to(1),
        fail,
    ],
)
def test_what_changes_a_log_notes_it(change):
    store = filled(CountingDisk())
    log = store.get(A0)
    log.work = log.flush_work()
    while log.log_directory.take_changed():
        pass
    assert not log.is_noted
    change(log)
    assert log.is_noted and log.log_directory.take_changed() is log and not log.is_noted


def test_summaries_that_were_not_written_for_lack_of_room_are_tried_again():
    disk = CountingDisk()
    die(filled(disk))
    store = opened(ROOT, disk=disk)
    disk.clock.now += 1000
    append(store.get(A0), batch(), epoch=4)
    summarize(store)
    disk.full = True
    disk.clock.now += 1000
    for _ in range(3):
        summarize(store)
    disk.full = False
    summarize(store)
    die(store)
    disk.asked_by_log()
    opened(ROOT, disk=disk)
    assert not disk.asked_by_log()


def test_a_log_is_summarized_once_its_former_files_are_gone():
    disk = CountingDisk()
    die(filled(disk))
    store = opened(ROOT, disk=disk)
    log = store.get(A0)
    log.delete_records(10)
    log.set_high_watermark(11)
    assert log.delete_old_segments(NOW_MS) == 1
    store.checkpoint_log_start_offsets()
    for _ in range(3):
        disk.clock.now += 1000
        summarize(store)
    asyncio.run(store.purge_deleted(NOW_MS + log.config.file_delete_delay_ms))
    for _ in range(2):
        disk.clock.now += 1000
        summarize(store)
    die(store)
    disk.asked_by_log()
    assert opened(ROOT, disk=disk).get(A0).log_start_offset == 10
    assert not disk.asked_by_log()


def test_only_methods_that_read_leave_a_log_unnoted():
    source = inspect.getsource(PartitionLog)
    assert re.findall(r"@uses_disk\n    def (\w+)", source) == ["read", "aborted_transactions"]
    assert len(re.findall(r"@changes_disk\n", source)) > 15


def test_a_checkpoint_that_says_the_same_is_not_written_again(monkeypatch):
    disk = CountingDisk()
    store = filled(disk)
    written = []
    write = checkpoints.write_lines

    def note(disk, path, lines, *, durable=True):
        written.append(path.rpartition("/")[2])
        write(disk, path, lines, durable=durable)

    monkeypatch.setattr(checkpoints, "write_lines", note)

    def checkpoint():
        written.clear()
        store.checkpoint_recovery_points()
        store.checkpoint_log_start_offsets()
        store.checkpoint_high_watermarks()
        return written

    checkpoint()
    assert not checkpoint()
    store.get(A0).set_high_watermark(3)
    assert checkpoint() == [checkpoints.HIGH_WATERMARK] and not checkpoint()
    store.get(A0).delete_records(2)
    store.note_log_starts([store.get(A0)])
    assert checkpoint() == [checkpoints.RECOVERY_POINT, checkpoints.LOG_START], "for the medium, too"
    disk.remove(f"/logs/{checkpoints.RECOVERY_POINT}")
    assert checkpoint() == [checkpoints.RECOVERY_POINT]
    disk.full = True
    store.get(A0).flush()
    checkpoint()
    disk.full = False
    assert checkpoint() == [checkpoints.RECOVERY_POINT] and not checkpoint()
