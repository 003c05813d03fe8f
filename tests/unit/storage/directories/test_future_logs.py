"""Copies of logs in other directories: they take the place of the current log whole, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.storage.disk import OsDisk
from tests.unit.storage.logs import FailingDisk, all_bytes, append, batch, produced
from tests.unit.storage.stores import A0, B0, TOPIC_ID, close, die, opened, store_at


def copy(store, topic_partition=A0):
    log, future = store.get(topic_partition), store.future.logs[topic_partition]
    records = log.read(future.log_end_offset, 1 << 20, upper_bound=log.log_end_offset, min_one_batch=True).records
    future.append_as_follower(records, now_ms=1)


def moving(tmp_path, disk=None, count=10):
    store = opened(tmp_path / "1", tmp_path / "2", disk=disk)
    log = store.create(A0, TOPIC_ID)
    log.assign_epoch(3)
    for number in range(count):
        append(log, produced(7, number), epoch=3)
    log.set_high_watermark(log.log_end_offset)
    target = next(each for each in store.directories if each is not log.log_directory)
    store.future.create(A0, target)
    return store, log, target


def test_a_complete_copy_takes_over_with_all_that_is_known(tmp_path):
    store, log, target = moving(tmp_path)
    copy(store)
    log.assign_epoch(5)  # an epoch without records, which the copy knows nothing of
    before = all_bytes(log)
    moved = store.future.promote(A0)
    assert store.get(A0) is moved and moved.log_directory is target and not store.future.logs
    assert all_bytes(moved) == before and moved.topic_id == TOPIC_ID
    assert moved.epochs.entries() == log.epochs.entries() and moved.high_watermark == 10
    assert append(moved, produced(7, 9), epoch=5).duplicate
    assert append(moved, produced(7, 10), epoch=5).first_offset == 10
    close(store)
    store = opened(tmp_path / "1", tmp_path / "2")
    assert store.get(A0).log_end_offset == 11 and store.get(A0).log_directory.path == target.path
    close(store)


def test_a_copy_that_lags_does_not_take_over(tmp_path):
    store, log, _ = moving(tmp_path)
    copy(store)
    append(log, produced(7, 10), epoch=3)
    with pytest.raises(Exception, match="has not caught up"):
        store.future.promote(A0)
    close(store)


@pytest.mark.parametrize("clean", [True, False])
def test_a_copy_is_there_again_after_a_restart(tmp_path, clean):
    store, log, _ = moving(tmp_path)
    copy(store)
    append(log, produced(7, 10), epoch=3)
    close(store) if clean else die(store)
    store = opened(tmp_path / "1", tmp_path / "2")
    assert store.future.logs[A0].log_end_offset == 10 and store.get(A0).log_end_offset == 11
    assert store.get(A0).future is store.future.logs[A0]
    copy(store)
    assert store.future.promote(A0).log_end_offset == 11
    close(store)


def test_what_is_cut_off_is_cut_off_in_the_copy_too(tmp_path):
    store, log, _ = moving(tmp_path)
    copy(store)
    log.truncate_to(4)
    assert store.future.logs[A0].log_end_offset == 4
    log.truncate_fully_and_start_at(20)
    assert store.future.logs[A0].log_end_offset <= 4
    close(store)


class StoppingDisk(OsDisk):
    """Renames work `left` times."""

    left = 1 << 60

    def rename(self, path, new_path):
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "the machine stopped")
        super().rename(path, new_path)


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_stop_at_any_moment_of_the_change_leaves_one_log_with_everything(tmp_path, renames):
    disk = StoppingDisk()
    store, log, _ = moving(tmp_path, disk)
    copy(store)
    before = all_bytes(log)
    disk.left = renames
    try:
        store.future.promote(A0)
    except KafkaError:
        assert renames < 2
    disk.left = 1 << 60
    die(store)
    store = opened(tmp_path / "1", tmp_path / "2")
    assert all_bytes(store.get(A0)) == before
    close(store)


def test_a_failing_directory_takes_its_copies_with_it_and_nothing_else(tmp_path):
    disk = FailingDisk()
    store, log, target = moving(tmp_path, disk)
    disk.broken = True
    with pytest.raises(KafkaError):
        store.future.logs[A0].append_as_follower(all_bytes_of(batch()), now_ms=1)
    disk.broken = False
    assert target.offline_reason and not store.future.logs and store.get(A0) is log and not store.is_offline(A0)
    append(log, produced(7, 10), epoch=3)
    close(store)


def all_bytes_of(records):
    return bytes(records)


def test_deleting_a_topic_ends_its_move(tmp_path):
    store, _, _ = moving(tmp_path)
    store.delete(A0)
    assert not store.future.logs and store.get(A0) is None
    asyncio.run(store.purge_deleted(1 << 60))
    assert not [path for part in ("1", "2") for path in (tmp_path / part).iterdir() if path.is_dir()]
    close(store)


def test_a_log_that_does_not_exist_yet_is_made_where_it_was_wanted(tmp_path):
    store = opened(tmp_path / "1", tmp_path / "2")
    store.preferred_directories[B0] = store.directory_at(str(tmp_path / "2"))
    assert store.create(B0).log_directory.path == str(tmp_path / "2")
    with pytest.raises(KafkaError) as refused:
        store.directory_at("/elsewhere")
    assert refused.value.code == ErrorCode.LOG_DIR_NOT_FOUND
    close(store)


def test_a_copy_without_a_current_log_waits_while_a_directory_is_missing(tmp_path):
    store, log, _ = moving(tmp_path)
    copy(store)
    path = log.log_directory.path
    die(store)

    class BrokenPart(OsDisk):
        def make_directory(self, made):
            if made == path:
                raise OSError(5, "broken")
            super().make_directory(made)

    store = store_at(tmp_path / "1", tmp_path / "2", disk=BrokenPart())
    asyncio.run(store.open())
    assert store.get(A0) is None and A0 in store.future.logs
    close(store)
