"""A clean stop: what is synced, and when the marker of a clean stop is left."""

from __future__ import annotations

import errno
import os
import threading

from kafkalite.storage.disk import OsDisk
from kafkalite.types import TopicPartition
from tests.unit.storage.logs import FailingDisk, append, batch
from tests.unit.storage.stores import A0, A1, B0, TOPIC_ID, close, opened


def test_a_full_disk_at_the_end_leaves_no_marker_of_a_clean_stop(tmp_path):
    disk = FailingDisk()
    store = opened(tmp_path, disk=disk)
    append(store.create(A0, TOPIC_ID), batch(3))
    disk.room = 0
    close(store)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    disk.room = None
    assert opened(tmp_path).get(A0).log_end_offset == 3


def test_one_log_that_cannot_be_closed_keeps_the_marker_away(tmp_path):
    disk = FailingDisk()
    store = opened(tmp_path, disk=disk)
    append(store.create(A0, TOPIC_ID), batch(3))
    store.create(A1, TOPIC_ID)
    disk.room = 5  # for the checkpoints of the directory, not for the snapshot and index of a-0
    disk.check = lambda path, size, check=disk.check: check(path, size if "a-0" in path else 0)
    close(store)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "replication-offset-checkpoint").exists()


class SyncingDisk(OsDisk):
    """Notes the files that are synced; with `met` a sync ends when another one has begun meanwhile."""

    def __init__(self):
        super().__init__()
        self.synced, self.under_way, self.met = [], 0, None

    def sync(self, path):
        self.synced.append(path)
        if self.met is not None:
            self.under_way += 1
            if self.under_way > 1:
                self.met.set()
            assert self.met.wait(30)


def test_logs_are_synced_together_at_a_stop_and_only_what_is_not_on_the_medium(tmp_path):
    disk = SyncingDisk()
    store = opened(tmp_path, disk=disk)
    for index in range(4):
        append(store.create(TopicPartition("a", index), TOPIC_ID), batch(1))
    close(store)
    store = opened(tmp_path, disk=disk)
    for log in store.all_logs():
        log.assign_epoch(3)
    for index in (0, 1):
        append(store.get(TopicPartition("a", index)), batch(2), epoch=3)
    disk.synced.clear()
    disk.met = threading.Event()
    close(store)
    assert store.left_to_close == 0
    synced = [sorted(os.path.basename(path) for path in disk.synced if f"a-{index}" in path) for index in range(4)]
    assert synced[2:] == [[], []], "the next start forgets an epoch without records"
    for each in synced[:2]:
        assert {"00000000000000000000.log", "00000000000000000003.snapshot", "leader-epoch-checkpoint"} < set(each)


def test_a_thousand_empty_logs_were_synced_at_a_stop(tmp_path):
    """Three files each, of which a controller tells everything again."""
    disk = SyncingDisk()
    store = opened(tmp_path, disk=disk)
    for each in (A0, A1):
        store.create(each, TOPIC_ID).assign_epoch(3)
    while store.make_files():
        pass
    close(store)
    assert not [path for path in disk.synced if "a-" in path]
    assert not list(tmp_path.glob("a-*/*.snapshot")), "nor does Apache Kafka write one at offset 0"
    store = opened(tmp_path, disk=disk)
    assert store.lost_nothing and store.get(A0).topic_id == TOPIC_ID


def test_a_log_that_was_cut_to_nothing_is_synced(tmp_path):
    disk = SyncingDisk()
    store = opened(tmp_path, disk=disk)
    append(store.create(A0, TOPIC_ID), batch(3))
    store.get(A0).truncate_to(0)
    close(store)
    assert [path for path in disk.synced if path.endswith("a-0")]


def test_who_was_not_left_in_good_order_may_have_lost_something(tmp_path):
    store = opened(tmp_path)
    assert not store.lost_nothing, "it may be another disk than yesterday's"
    append(store.create(A0, TOPIC_ID), batch(3))
    for directory in store.directories:
        directory.close()
    assert not opened(tmp_path).lost_nothing


def test_a_log_that_cannot_be_synced_keeps_the_marker_away(tmp_path):
    class Broken(OsDisk):
        def sync(self, path):
            if path.endswith("a-1"):
                raise OSError(errno.EIO, "broken", path)

    store = opened(tmp_path, disk=Broken())
    for each in (A0, A1, B0):
        append(store.create(each, TOPIC_ID), batch(3))
    close(store)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert store.left_to_close == 0
