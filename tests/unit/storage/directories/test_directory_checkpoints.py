"""Checkpoints say what walks over all logs would find, and cost what has changed, not what is there."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from kafkalite.errors import KafkaError
from kafkalite.portions import in_one_go
from kafkalite.storage import checkpoints
from kafkalite.storage.directories.directory_checkpoints import CHECKPOINTS, DirectoryCheckpoints
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.types import TopicPartition
from tests.unit.storage.logs import all_bytes
from tests.unit.storage.random_changes import CHANGES, NAMES
from tests.unit.storage.stores import A0, TOPIC_ID, die, opened
from tests.unit.storage.summarized_stores import CountingDisk

PATHS = [Path("/logs/1"), Path("/logs/2")]
NAMES_OF_CHECKPOINTS = [each.name for each in CHECKPOINTS]


def compact(store, log, random):
    """Note a pass of the cleaner, as `LogCleaner` does."""
    log.first_dirty_offset = random.randint(log.log_start_offset, log.log_end_offset)
    log.note_change()


def follow(store, log, random):
    log.set_high_watermark(random.randint(0, log.log_end_offset))


def delete(store, log, random):
    store.delete(log.topic_partition)


def move(store, log, random):
    """Begin to move a log, give the move up, or end it."""
    copy = store.future.logs.get(log.topic_partition)
    if copy is None:
        store.future.create(log.topic_partition, next(d for d in store.directories if d is not log.log_directory))
    elif not random.randint(0, 3):
        store.future.remove(log.topic_partition)
    elif log.log_end_offset == log.log_start_offset:
        copy.truncate_fully_and_start_at(log.log_end_offset)
        store.future.promote(log.topic_partition)
    else:
        copy.truncate_fully_and_start_at(log.segments.first_base_offset)
        copy.append_as_follower(all_bytes(log), now_ms=store.clock.now_ms())
        store.future.promote(log.topic_partition)


def fail(store, log, random):
    log.log_directory.disk.full = True


def lose(store, log, random):
    """Let checkpoints vanish."""
    for directory in store.directories:
        path = directory.file(random.choice(NAMES_OF_CHECKPOINTS))
        if directory.disk.exists(path):
            directory.disk.remove(path)


def found_by_a_walk(store, directory, offset_of):
    found = {}
    for log in (*store.all_logs(), *store.future.logs.values()):
        if log.log_directory is directory and (offset := offset_of(log)) is not None:
            found[log.topic_partition] = offset
    return found


@pytest.mark.parametrize("seed", range(15))
def test_checkpoints_say_what_walks_over_all_logs_find(seed):
    random, disk = Random(seed), CountingDisk()
    store = opened(*PATHS, disk=disk)
    changes = (*CHANGES, compact, follow, follow, delete, move, move, move, fail, lose)
    writes = (
        store.checkpoint_recovery_points,
        store.checkpoint_log_start_offsets,
        store.checkpoint_high_watermarks,
        lambda: store.checkpoint_first_dirty_offsets(store.directories),
    )
    for _ in range(80):
        for _ in range(random.choice((0, 1, 3, 6))):
            name = random.choice(NAMES)
            log = store.get(name) or store.create(name, TOPIC_ID)
            change = random.choice(changes)
            if change is not move:
                disk.full = disk.full and change is not fail
            try:
                change(store, log, random)
            except KafkaError:
                assert disk.full
            for write in writes if disk.full else ():
                write()
            disk.full = False
        for (checkpoint, offset_of), write in zip(CHECKPOINTS, writes, strict=True):
            write()
            for directory in store.directories:
                assert directory.read_offsets(checkpoint) == found_by_a_walk(store, directory, offset_of), checkpoint
    assert not store.offline_directories


def test_log_starts_and_deletions_are_noted_in_directories_that_hold_other_logs(tmp_path):
    store = opened(tmp_path)
    for name in NAMES:
        store.create(name, TOPIC_ID)
    store.checkpoint_high_watermarks()
    store.delete(A0)
    store.checkpoint_deletions()
    die(store)
    directory = store.directories[0]
    assert set(directory.read_offsets(checkpoints.HIGH_WATERMARK)) == {*NAMES} - {A0}
    assert set(directory.read_offsets(checkpoints.RECOVERY_POINT)) == {*NAMES} - {A0}


def test_a_deletion_is_noted_where_the_log_lay_before_it_was_moved(tmp_path):
    """Recreated there and killed, its successor would begin where it began: what was acknowledged before would be lost."""
    store = opened(tmp_path / "1", tmp_path / "2")
    log = store.create(A0, TOPIC_ID)
    log.truncate_fully_and_start_at(7)
    log.delete_records(7)
    for write in (store.checkpoint_log_start_offsets, store.checkpoint_recovery_points):
        write()
    former = log.log_directory
    assert former.read_offsets(checkpoints.RECOVERY_POINT) == {A0: 7}
    copy = store.future.create(A0, next(each for each in store.directories if each is not former))
    copy.truncate_fully_and_start_at(7)
    store.future.promote(A0)
    store.delete(A0)
    store.checkpoint_deletions()
    die(store)
    for directory in store.directories:
        assert all(not directory.read_offsets(each.name) for each in CHECKPOINTS)


@pytest.fixture
def make_many(tmp_path):
    """Makes checkpoints of so many logs that are only offsets, all written."""

    def make(count):
        logs = {
            TopicPartition(f"topic-{number // 10}", number % 10): SimpleNamespace(
                topic_partition=TopicPartition(f"topic-{number // 10}", number % 10),
                checkpoint_block=None,
                recovery_point=number,
                high_watermark=number,
                flush_state=SimpleNamespace(limit_high_watermark=lambda offset: offset),
                log_start_offset=0,
                first_dirty_offset=None,
                segments=SimpleNamespace(first_base_offset=0),
            )
            for number in range(count)
        }
        kept = DirectoryCheckpoints(LogDirectory(OsDisk(), str(tmp_path), 10))
        for log in logs.values():
            kept.note_changed(log, is_here=True)
        for name in NAMES_OF_CHECKPOINTS:
            kept.write(name)
        return kept, logs

    return make


@contextmanager
def counted_calls():
    """The calls of the block, one item for each; finalizers of what other tests left are none of its calls."""
    calls = []
    gc.disable()
    sys.setprofile(lambda *_: calls.append(None))
    try:
        yield calls
    finally:
        sys.setprofile(None)
        gc.enable()


def test_a_checkpoint_of_many_logs_costs_what_has_changed(make_many, tmp_path):
    costs = []
    for count in (100, 20_000):
        kept, logs = make_many(count)
        with counted_calls() as idle:
            for name in NAMES_OF_CHECKPOINTS:
                kept.write(name)
        changed = TopicPartition("topic-3", 7)
        logs[changed].high_watermark = 99_999
        kept.note_changed(logs[changed], is_here=True)
        with counted_calls() as busy:
            kept.write(checkpoints.HIGH_WATERMARK)
        costs.append((len(idle), len(busy)))
        directory = LogDirectory(OsDisk(), str(tmp_path), 10)
        expected = {each: log.high_watermark for each, log in logs.items()}
        assert directory.read_offsets(checkpoints.HIGH_WATERMARK) == expected
    assert costs[0] == costs[1] and costs[1][1] < 500, costs


def test_lines_are_made_in_short_units_and_none_is_lost_between_them(make_many, tmp_path):
    kept, logs = make_many(2000)
    for log in logs.values():
        log.high_watermark += 1
        kept.note_changed(log, is_here=True)
    work, calls = kept.refresh(checkpoints.HIGH_WATERMARK), []
    for number in range(20):
        with counted_calls() as unit:
            next(work)
        calls.append(len(unit))
        changed = TopicPartition("topic-0", number % 10)
        logs[changed].high_watermark += 1000
        kept.note_changed(logs[changed], is_here=True)
    assert max(calls) < 500
    kept.write(checkpoints.HIGH_WATERMARK)
    in_one_go(work)
    expected = {each: log.high_watermark for each, log in logs.items()}
    directory = LogDirectory(OsDisk(), str(tmp_path), 10)
    assert directory.read_offsets(checkpoints.HIGH_WATERMARK) == expected


def test_the_lines_of_logs_that_come_and_go_take_no_more_memory(make_many):
    kept, logs = make_many(1000)
    blocks = len(kept._texts[checkpoints.HIGH_WATERMARK].lines)
    for number in range(3000):
        former = logs.pop(next(iter(logs)))
        kept.note_changed(former, is_here=False)
        name = TopicPartition("new", number)
        new = logs[name] = SimpleNamespace(**vars(former) | {"topic_partition": name})
        kept.note_changed(new, is_here=True)
        assert former.checkpoint_block is None
    for name in NAMES_OF_CHECKPOINTS:
        kept.write(name)
    assert len(kept._texts[checkpoints.HIGH_WATERMARK].lines) <= blocks + 1
    assert not any(kept._stale)
