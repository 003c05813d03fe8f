"""One log on a disk that is full or broken, and what of it outlives the machine."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from kafkalite.config.topic import TopicConfig
from kafkalite.errors import ErrorCode, InvariantBroken, KafkaError
from kafkalite.protocol.record_batches.records import (
    TRANSACTIONAL,
)
from kafkalite.storage.disk import OsDisk
from kafkalite.testing.simulation.memory_disk import MemoryDisk
from tests.unit.storage.log.test_partition_log import end_transaction, refusal
from tests.unit.storage.logs import (
    NOW_MS,
    FailingDisk,
    all_bytes,
    append,
    batch,
    check_files,
    headers_of,
    new_log,
    produced,
    reopened,
)
from tests.unit.storage.stores import FixedClock

# A full disk, a broken disk


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_no_more_files_refuse_what_needs_one_and_the_directory_stays(tmp_path, error):
    """Three hundred connections of strangers took all the files of a broker, and its directory was given up for that."""
    disk = FailingDisk()
    log = new_log(tmp_path, TopicConfig(segment_bytes=250), disk)
    append(log, produced(7, 0), epoch=1)
    before = all_bytes(log)
    disk.no_files = error
    with pytest.raises(KafkaError) as problem:
        log.roll(NOW_MS)
    assert problem.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.log_directory.offline_reason is None
    disk.no_files = None
    assert all_bytes(log) == before
    for sequence in range(1, 5):
        append(log, produced(7, sequence), epoch=1)
    check_files(log)
    log = reopened(log, clean=False)
    assert log.log_end_offset == 5


@pytest.mark.parametrize("room", [0, 1, 60, 76, 80, 90, 100])
def test_a_full_disk_refuses_appends_and_nothing_else(tmp_path, room):
    disk = FailingDisk()
    log = new_log(tmp_path, TopicConfig(index_interval_bytes=0, segment_bytes=250), disk)
    append(log, produced(7, 0), epoch=1)
    append(log, produced(7, 1), epoch=1)
    before, producers = all_bytes(log), log.producers.producers[7].last_sequence
    disk.room = room
    failures = 0
    for _ in range(4):
        try:
            append(log, produced(7, producers + 1), epoch=2)
            producers += 1
            before = all_bytes(log)
        except KafkaError as problem:
            assert problem.code == ErrorCode.KAFKA_STORAGE_ERROR
            failures += 1
        assert all_bytes(log) == before and log.producers.producers[7].last_sequence == producers
        check_files(log)
    assert failures and log.log_directory.offline_reason is None
    disk.room = None
    for sequence in range(producers + 1, producers + 5):
        append(log, produced(7, sequence), epoch=2)
    check_files(log)
    for clean in (False, True):
        log = reopened(log, clean=clean)
        assert log.log_end_offset == producers + 5 and log.latest_epoch == 2


def test_a_full_disk_takes_back_an_aborted_transaction(tmp_path):
    disk = FailingDisk()
    log = new_log(tmp_path, disk=disk)
    append(log, produced(7, 0, attributes=TRANSACTIONAL))
    disk.room = 80
    assert refusal(end_transaction, log, commit=False) == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.producers.open_transactions == {7: 0} and log.log_end_offset == 1
    disk.room = None
    end_transaction(log, commit=False)
    assert len(log.aborted_transactions(0, 2)) == 1
    check_files(log)


def test_a_failed_append_leaves_no_epoch_behind_the_log_end(tmp_path):
    """A follower that asked where epoch 1 ends would be told of records that there are not."""
    leader = new_log(tmp_path / "leader")
    for epoch in (1, 1, 2, 3):
        append(leader, epoch=epoch)
    disk = FailingDisk()
    follower = new_log(tmp_path / "follower", disk=disk)
    disk.room = 0
    assert refusal(follower.append_as_follower, all_bytes(leader), now_ms=NOW_MS) == ErrorCode.KAFKA_STORAGE_ERROR
    assert follower.epochs.entries() == [] and follower.end_offset_for_epoch(2) == (-1, -1)
    disk.room = None
    follower.append_as_follower(all_bytes(leader), now_ms=NOW_MS)
    assert follower.epochs.entries() == leader.epochs.entries() == [(1, 0), (2, 2), (3, 3)]


def test_an_error_of_the_medium_takes_the_directory_offline(tmp_path):
    disk = FailingDisk()
    log = new_log(tmp_path, disk=disk)
    append(log)
    told = []
    log.log_directory.on_failure = told.append
    disk.broken = True
    assert refusal(append, log) == ErrorCode.KAFKA_STORAGE_ERROR
    assert told == [log.log_directory]
    disk.broken = False
    assert refusal(log.read, 0, 100, upper_bound=1, min_one_batch=True) == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(told) == 1


# Durability


def test_the_recovery_point(tmp_path):
    log = new_log(tmp_path, TopicConfig(flush_messages=5))
    for _ in range(4):
        append(log)
    assert log.recovery_point == 0
    append(log)
    assert log.recovery_point == 5, "flush.messages"
    append(log)
    work = log.flush_work()
    append(log)
    work.run()
    log.mark_flushed(work)
    assert log.recovery_point == 6
    log.flush()
    assert log.recovery_point == 7 and log.flush_work() is None
    log.truncate_to(2)
    assert log.recovery_point == 2


def test_a_flush_vouched_for_records_that_took_the_place_of_truncated_ones(tmp_path):
    """1. A flush of all up to 6 runs on a thread. 2. The log is cut to 2 and grows to 9. 3. The flush ends."""
    log = new_log(tmp_path)
    append(log, batch(count=6))
    work = log.flush_work()
    log.truncate_to(0)
    for _ in range(9):
        append(log)
    work.run()
    log.mark_flushed(work)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 9


def test_a_flush_vouched_for_a_file_that_was_written_again_meanwhile(tmp_path):
    log = new_log(tmp_path)
    append(log)
    log.assign_epoch(3)
    work = log.flush_work()
    log.assign_epoch(4)
    append(log, epoch=4)
    log.mark_flushed(work)
    (again,) = [path for path in log.flush_work().paths if path.endswith("leader-epoch-checkpoint")]
    log.flush()
    assert again and log.flush_work() is None


def checkpointed_high_watermark(log):
    return log.flush_state.limit_high_watermark(log.high_watermark)


def test_a_power_failure_brought_back_truncated_records_below_the_high_watermark():
    """1. Records that were never committed are truncated. 2. A checkpoint tells that those in their place are. 3. Power fails."""
    came_back = 0
    for seed in range(40):
        disk = MemoryDisk(FixedClock())
        log = new_log(Path("/logs"), disk=disk)
        for _ in range(4):
            append(log, epoch=0)
        log.set_high_watermark(4)
        log.flush()
        for _ in range(3):
            append(log, epoch=1)
        log.truncate_to(4)
        for _ in range(3):
            append(log, epoch=2)
        log.set_high_watermark(7)
        checkpointed = checkpointed_high_watermark(log)
        disk.lose_power(Random(seed))
        log = reopened(log, clean=False, recovery_point=4)
        log.set_high_watermark(checkpointed)
        epochs = [header.partition_leader_epoch for header in headers_of(log)]
        came_back += 1 in epochs
        assert 1 not in epochs[: log.high_watermark], seed
    assert came_back


@pytest.mark.parametrize("high_watermark", [4, 6])
def test_a_truncation_holds_the_high_watermark_of_checkpoints_until_it_is_flushed(tmp_path, high_watermark):
    """Also one that is below the high watermark, after an unclean election."""
    log = new_log(tmp_path)
    append(log, batch(count=4))
    append(log, batch(count=3))
    log.set_high_watermark(high_watermark)
    log.flush()
    log.truncate_to(4)
    assert log.flush_due_ms(NOW_MS) == 0 and log.recovery_point == log.log_end_offset == 4
    append(log, batch(count=9))
    log.set_high_watermark(13)
    work = log.flush_work()
    assert log.segments.active.path in work.paths and checkpointed_high_watermark(log) == 4
    log.truncate_to(4)
    log.mark_flushed(work)
    assert checkpointed_high_watermark(log) == 4, "the flush has not seen the second truncation"
    append(log, batch(count=2))
    log.set_high_watermark(6)
    log.flush()
    assert checkpointed_high_watermark(log) == log.high_watermark == 6
    assert log.flush_due_ms(NOW_MS) is None and log.flush_work() is None


def test_a_truncation_is_flushed_although_nothing_was_appended_since(tmp_path):
    log = new_log(tmp_path)
    append(log, batch(count=4))
    append(log, batch(count=3))
    log.set_high_watermark(4)
    log.flush()
    log.truncate_to(4)
    work = log.flush_work()
    assert work is not None and log.segments.active.path in work.paths


def test_a_log_that_begins_elsewhere_holds_the_high_watermark_only_if_it_had_uncommitted_records(tmp_path):
    log = new_log(tmp_path)
    log.truncate_fully_and_start_at(50)
    assert log.flush_due_ms(NOW_MS) is None
    append(log, batch(count=3))
    log.set_high_watermark(52)
    log.truncate_fully_and_start_at(100)
    append(log, batch(count=3))
    log.set_high_watermark(103)
    assert checkpointed_high_watermark(log) == 52
    log.flush()
    assert checkpointed_high_watermark(log) == 103


@pytest.mark.parametrize("broken", ["high_watermark", "log_start_offset"])
def test_offsets_out_of_order_are_a_broken_invariant(tmp_path, broken):
    log = new_log(tmp_path)
    for _ in range(3):
        append(log)
    setattr(log, broken, 5)
    with pytest.raises(InvariantBroken, match="high watermark"):
        log.flush()


def test_flushing_is_due_after_flush_ms(tmp_path):
    log = new_log(tmp_path, TopicConfig(flush_ms=1000))
    assert log.flush_due_ms(NOW_MS) is None
    append(log)
    assert log.flush_due_ms(NOW_MS) == log.flush_due_ms(NOW_MS + 999) == NOW_MS + 1000
    log.flush()
    assert log.flush_due_ms(NOW_MS + 2000) is None
    append(log)
    assert log.flush_due_ms(NOW_MS + 2000) == NOW_MS + 3000


def test_files_removed_while_they_are_flushed_are_no_error(tmp_path):
    log = new_log(tmp_path)
    append(log)
    work = log.flush_work()
    log.truncate_fully_and_start_at(9)
    work.run()


def test_few_files_are_open_at_a_time(tmp_path):
    log = new_log(tmp_path, TopicConfig(segment_bytes=100))
    log.log_directory.files.limit = 8
    for _ in range(30):
        append(log)
    assert len(all_bytes(log)) == 30 * len(batch())
    assert len(log.log_directory.files) <= 8


def test_files_make_room_for_each_other_when_connections_have_taken_the_rest(tmp_path):
    """Five hundred partitions of a broker that may have 256 files took them all, and nobody could connect any more."""
    disk = FailingDisk()
    log = new_log(tmp_path, TopicConfig(segment_bytes=100), disk)
    disk.files_left = 9
    for _ in range(30):
        append(log)
    assert len(all_bytes(log)) == 30 * len(batch())
    assert log.log_directory.offline_reason is None


class ForgetfulDisk(OsDisk):
    """A machine whose memory is lost: after `lose`, files are as they were when they were last synced."""

    def __init__(self):
        super().__init__()
        self.synced = {}

    def sync(self, path):
        super().sync(path)
        if Path(path).is_file():
            self.synced[path] = Path(path).read_bytes()

    def replace(self, path, content, *, durable=True):
        super().replace(path, content, durable=durable)
        if durable:
            self.synced[path] = content

    def lose(self, directory):
        for path in directory.iterdir():
            if path.is_file():
                path.write_bytes(self.synced.get(str(path), b""))


@pytest.mark.parametrize("rolls", [False, True])
def test_with_flush_messages_1_no_acknowledged_record_is_lost_with_the_machine(tmp_path, rolls):
    disk = ForgetfulDisk()
    config = TopicConfig(flush_messages=1, segment_bytes=300 if rolls else 1 << 20)
    log = new_log(tmp_path, config, disk)
    for number in range(10):
        append(log, produced(7, number))
        assert log.recovery_point == number + 1
    recovery_point = log.recovery_point
    disk.lose(tmp_path / "topic-0")
    log = reopened(log, clean=False, recovery_point=recovery_point)
    assert log.log_end_offset == 10 and len(headers_of(log)) == 10
    assert append(log, produced(7, 9)).duplicate


def test_a_recovery_point_is_never_ahead_of_what_is_on_the_medium(tmp_path):
    disk = ForgetfulDisk()
    log = new_log(tmp_path, TopicConfig(segment_bytes=300), disk)
    for number in range(10):
        append(log, produced(7, number))
    work = log.flush_work()
    append(log, produced(7, 10))
    work.run()
    log.mark_flushed(work)
    assert log.recovery_point == 10
    disk.lose(tmp_path / "topic-0")
    log = reopened(log, clean=False)
    assert log.log_end_offset >= 10


def test_a_topic_id_that_was_lost_with_the_machine_is_learned_again(tmp_path):
    disk = ForgetfulDisk()
    log = new_log(tmp_path, disk=disk)
    disk.lose(tmp_path / "topic-0")
    log = reopened(log, clean=False)
    log.set_topic_id(bytes(range(16)))
    assert reopened(log, clean=True).topic_id == bytes(range(16))
