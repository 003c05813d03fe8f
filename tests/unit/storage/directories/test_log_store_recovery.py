"""What the logs of a broker are opened with after a crash: threads, recovery points, epochs."""

from __future__ import annotations

import asyncio

from kafkalite.config.topic import TopicConfig
from kafkalite.storage.disk import OsDisk
from kafkalite.types import TopicPartition
from tests.unit.storage.logs import NOW_MS, append, batch
from tests.unit.storage.stores import A0, TOPIC_ID, close, die, opened, store_at


def test_many_logs_are_recovered_by_several_threads_with_a_word_about_it(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("kafkalite.storage.directories.log_opening._PROGRESS_S", 0.0)
    caplog.set_level("INFO")
    store = opened(tmp_path)
    for number in range(40):
        log = store.create(TopicPartition("many", number))
        for _ in range(5):
            append(log)
    die(store)
    store = store_at(tmp_path, threads=4)
    asyncio.run(store.open())
    assert {log.log_end_offset for log in store.all_logs()} == {5} and len(store.all_logs()) == 40
    assert "of 40 done" in caplog.text
    append(store.get(TopicPartition("many", 7)))
    close(store)


def test_only_what_lies_behind_the_recovery_point_is_read_after_a_crash(tmp_path):
    reads = []

    class WatchedFile:
        def __init__(self, file, path):
            self.file, self.path = file, path
            self.write_at, self.truncate, self.size, self.close = file.write_at, file.truncate, file.size, file.close

        def read_at(self, position, size):
            reads.append((self.path, size))
            return self.file.read_at(position, size)

    class WatchedDisk(OsDisk):
        def open(self, path, *, create=False):
            file = super().open(path, create=create)
            if path.endswith(".log"):
                return WatchedFile(file, path)
            return file

    store = opened(tmp_path, disk=WatchedDisk(), defaults=TopicConfig(segment_bytes=1 << 14))
    log = store.create(A0)
    for _ in range(2000):
        append(log)
    asyncio.run(store.flush_sealed())
    store.checkpoint_recovery_points()
    segments = len(log.segments)
    die(store)
    reads.clear()
    store = opened(tmp_path, disk=WatchedDisk(), defaults=TopicConfig(segment_bytes=1 << 14))
    log = store.get(A0)
    assert log.log_end_offset == 2000 and len(log.segments) == segments > 8
    assert {path for path, _ in reads} == {log.segments[-1].path}
    close(store)


def test_a_start_wrote_the_epochs_of_each_log_without_records_twice(tmp_path):
    """Once without the last epoch, in which nothing was written, and once with it, when the same leader led on."""
    store = opened(tmp_path)
    log = store.create(A0, TOPIC_ID)
    log.assign_epoch(3)
    assert store.make_files()
    close(store)
    checkpoint = tmp_path / "a-0" / "leader-epoch-checkpoint"
    content, written = checkpoint.read_text(), checkpoint.stat().st_ino
    store = opened(tmp_path)
    log = store.get(A0)
    assert log.latest_epoch is None
    log.assign_epoch(3)
    assert log.latest_epoch == 3 and checkpoint.stat().st_ino == written
    close(store)
    assert checkpoint.read_text() == content


def test_an_epoch_without_records_does_not_stay_beside_records_of_an_older_one(tmp_path):
    store = opened(tmp_path)
    log = store.create(A0, TOPIC_ID)
    append(log, batch(2), epoch=1)
    log.assign_epoch(3)
    close(store)
    store = opened(tmp_path)
    store.get(A0).append_as_follower(batch(1, base_offset=2, leader_epoch=1), now_ms=NOW_MS)
    checkpoint = tmp_path / "a-0" / "leader-epoch-checkpoint"
    assert checkpoint.read_text() == "0\n1\n1 0\n"
