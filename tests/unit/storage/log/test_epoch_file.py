"""When leader-epoch-checkpoint is written, and that a start finds the epochs of all records without it (`epoch_file`)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import KafkaError
from kafkalite.storage.log.leader_epochs import LeaderEpochs
from kafkalite.storage.log_files import LEADER_EPOCH_CHECKPOINT
from tests.unit.storage.cleaner_settings import compact
from tests.unit.storage.logs import NOW_MS, FailingDisk, append, batch, new_log, reopened


class CountingDisk(FailingDisk):
    """Counts how often a leader-epoch-checkpoint is written."""

    def __init__(self):
        super().__init__()
        self.written = 0

    def replace(self, path, content, *, durable=True):
        self.written += path.endswith(LEADER_EPOCH_CHECKPOINT)
        super().replace(path, content, durable=durable)


def text_of(log):
    path = Path(log.directory) / LEADER_EPOCH_CHECKPOINT
    return path.read_text() if path.exists() else None


def follow(log, epoch, count=1):
    for _ in range(count):
        log.append_as_follower(batch(1, base_offset=log.log_end_offset, leader_epoch=epoch), now_ms=NOW_MS)


def test_an_election_wrote_a_file_for_each_log(tmp_path):
    """A broker died, and for thousands of logs a file was written before the first producer was served."""
    disk = CountingDisk()
    log = new_log(tmp_path, disk=disk)
    log.assign_epoch(0)
    append(log)
    log.flush()
    assert disk.written == 1
    for epoch in range(1, 5):
        log.assign_epoch(epoch)
    append(log, epoch=4)
    follow(log, 5)
    assert disk.written == 1
    log.flush()
    assert disk.written == 2 and text_of(log) == "0\n3\n0 0\n4 1\n5 2\n"


def test_a_stop_writes_no_epoch_without_records(tmp_path):
    disk = CountingDisk()
    log = new_log(tmp_path, disk=disk)
    append(log)
    log = reopened(log, clean=True)
    written = disk.written
    log.assign_epoch(7)
    log = reopened(log, clean=True)
    assert disk.written == written and log.epochs.entries() == [(0, 0)]


@pytest.mark.parametrize("with_files", [False, True])
def test_after_a_kill_the_batches_tell_the_epochs(tmp_path, with_files):
    log = new_log(tmp_path, with_files=with_files)
    for epoch in (1, 1, 3):
        log.assign_epoch(epoch)
        append(log, epoch=epoch)
    follow(log, 6)
    assert text_of(log) is None
    log = reopened(log, clean=False)
    assert log.epochs.entries() == [(1, 0), (3, 2), (6, 3)]
    append(log, epoch=6)
    assert text_of(log) is None


def test_the_recovery_point_does_not_pass_epochs_that_the_disk_had_no_room_for(tmp_path):
    disk = FailingDisk()
    log = new_log(tmp_path, TopicConfig(segment_bytes=200), disk)
    append(log, epoch=1)
    log.flush()
    for epoch in (2, 3):
        append(log, epoch=epoch)
        log.roll(NOW_MS)
    disk.room = 0
    work = log.flush_work()
    work.run()
    log.mark_flushed(work)
    assert log.recovery_point == 1 and text_of(log) == "0\n1\n1 0\n"
    disk.room = None
    log = reopened(log, clean=False)
    assert log.epochs.entries() == [(1, 0), (2, 1), (3, 2)]
    log.flush()
    assert log.recovery_point == 3


def test_an_epoch_that_was_truncated_did_not_come_back_beside_records_of_an_older_one(tmp_path):
    log = new_log(tmp_path)
    for epoch in (1, 1, 3):
        append(log, epoch=epoch)
    log.flush()
    log.truncate_to(2)
    follow(log, 1)
    log = reopened(log, clean=False)
    assert log.epochs.entries() == [(1, 0)]


def test_an_epoch_without_records_is_removed_before_records_of_an_older_one_are_written(tmp_path):
    disk = FailingDisk()
    log = new_log(tmp_path, disk=disk)
    append(log, batch(2), epoch=1)
    log = reopened(log, clean=True)
    (Path(log.directory) / LEADER_EPOCH_CHECKPOINT).write_text("0\n2\n1 0\n3 2\n")
    log = reopened(log, clean=True)
    disk.room = 20  # for the file, not for the batch
    with pytest.raises(KafkaError):
        follow(log, 1)
    assert text_of(log) == "0\n1\n1 0\n"


def test_a_compaction_removed_the_only_batches_that_told_of_an_epoch(tmp_path):
    log = new_log(tmp_path, TopicConfig(cleanup_policy=("compact",)))
    for epoch in (1, 2, 3):
        log.assign_epoch(epoch)
        append(log, epoch=epoch)  # the same key
    log.roll(NOW_MS)
    log.set_high_watermark(log.log_end_offset)
    compact(log)
    log = reopened(log, clean=False)
    assert log.epochs.entries() == [(1, 0), (2, 1), (3, 2)]


@pytest.mark.parametrize("seed", range(40))
def test_random_roles_and_kills(tmp_path, seed):
    """The epochs that a start finds are those of the records, whoever led, followed, truncated and flushed before."""
    rng = Random(seed)
    log = new_log(tmp_path, TopicConfig(segment_bytes=rng.choice([200, 1 << 20])), with_files=rng.random() < 0.5)
    records: list[int] = []
    """The epoch of each."""
    latest = 0
    for _ in range(25):
        chance = rng.random()
        if chance < 0.25:
            latest += rng.randrange(1, 3)
            log.assign_epoch(latest)
            for _ in range(rng.randrange(3)):
                append(log, epoch=latest)
                records.append(latest)
        elif chance < 0.6:
            kept = rng.randrange(max(0, len(records) - 3), len(records) + 1)
            log.truncate_to(kept)
            del records[kept:]
            for _ in range(rng.randrange(3)):
                epoch = rng.randrange(records[-1] if records else 0, latest + 1)
                follow(log, epoch)
                records.append(epoch)
            latest += 1
        elif chance < 0.75:
            log.flush()
        else:
            log = reopened(log, clean=rng.random() < 0.3)
        told = LeaderEpochs()
        for offset, epoch in enumerate(records):
            told.assign(epoch, offset)
        known = [each for each in log.epochs.entries() if each[1] < log.log_end_offset]
        assert known == told.entries() and log.log_end_offset == len(records)
