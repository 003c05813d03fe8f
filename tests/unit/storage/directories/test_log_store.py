"""All logs of a broker: opening, placing, deleting, checkpoints, directories that fail."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kafkalite.config.topic import INT_MAX, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.storage.meta_properties import WrongDirectory
from kafkalite.types import NO_TOPIC_ID, TopicPartition
from tests.unit.storage.logs import DAY_MS, NOW_MS, FailingDisk, append, batch, produced
from tests.unit.storage.stores import A0, A1, B0, TOPIC_ID, close, die, opened, store_at


def test_logs_are_there_again_after_a_stop(tmp_path):
    store = opened(tmp_path)
    log = store.create(A0, TOPIC_ID)
    append(log, produced(7, 0, 3), epoch=2)
    log.set_high_watermark(2)
    close(store)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\na 0 3\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\na 0 2\n"
    store = opened(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "a crash from now on must be noticed"
    log = store.get(A0)
    assert (log.topic_id, log.log_end_offset, log.high_watermark, log.latest_epoch) == (TOPIC_ID, 3, 2, 2)
    assert log.recovery_point == 3
    close(store)


def test_logs_are_there_again_after_a_crash(tmp_path):
    store = opened(tmp_path)
    log = store.create(A0, TOPIC_ID)
    for number in range(5):
        append(log, produced(7, number))
    die(store)
    with open(log.segments.active.path, "ab") as file:
        file.write(b"torn")
    store = opened(tmp_path)
    assert store.get(A0).log_end_offset == 5 and store.get(A0).high_watermark == 0
    close(store)


def test_the_log_start_is_remembered(tmp_path):
    store = opened(tmp_path)
    log = store.create(A0, TOPIC_ID)
    append(log, batch(10))
    log.set_high_watermark(10)
    log.delete_records(4)
    store.checkpoint_log_start_offsets()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\na 0 4\n"
    die(store)
    assert opened(tmp_path).get(A0).log_start_offset == 4


def test_a_log_start_that_was_noted_outlives_a_kill_and_leaves_the_others_as_they_are(tmp_path):
    store = opened(tmp_path)
    logs = [store.create(each, TOPIC_ID) for each in (A0, A1)]
    for log in logs:
        append(log, batch(10))
        log.set_high_watermark(10)
        log.delete_records(4)
    store.checkpoint_log_start_offsets()
    logs[0].delete_records(6)
    store.note_log_starts(logs[:1])
    die(store)
    store = opened(tmp_path)
    assert [store.get(each).log_start_offset for each in (A0, A1)] == [6, 4]


def test_a_topic_that_was_made_again_lost_what_its_predecessor_had_deleted(tmp_path):
    """Within the minute between two checkpoints a topic is deleted and made again, and the broker is killed: the log start, the high
    watermark and the place of the cleaner were taken for those of the new log, whose first records were gone."""
    store = opened(tmp_path)
    log = store.create(A0, TOPIC_ID)
    append(log, batch(10))
    log.set_high_watermark(10)
    log.delete_records(4)
    log.first_dirty_offset = 9
    store.checkpoint_log_start_offsets()
    store.checkpoint_high_watermarks()
    store.checkpoint_first_dirty_offsets(store.directories)
    store.delete(A0)
    store.checkpoint_deletions()
    append(store.create(A0, bytes(reversed(TOPIC_ID))), batch(7))
    die(store)
    store = opened(tmp_path)
    again = store.get(A0)
    assert (again.log_start_offset, again.log_end_offset, again.first_dirty_offset) == (0, 7, None)
    assert again.high_watermark == 0


def test_a_deletion_after_a_start_keeps_what_checkpoints_say_of_other_logs(tmp_path):
    store = opened(tmp_path)
    for name in (A0, A1, B0):
        log = store.create(name, TOPIC_ID)
        append(log, batch(10))
        log.set_high_watermark(8)
        log.delete_records(4)
    store.checkpoint_log_start_offsets()
    store.checkpoint_high_watermarks()
    die(store)
    store = opened(tmp_path)
    store.delete(A0)
    store.checkpoint_deletions()
    die(store)
    store = opened(tmp_path)
    assert [(store.get(each).log_start_offset, store.get(each).high_watermark) for each in (A1, B0)] == [(4, 8)] * 2
    assert set(store.directories[0].read_offsets("replication-offset-checkpoint")) == {A1, B0}


def test_new_logs_go_where_the_fewest_are(tmp_path):
    store = opened(tmp_path / "x", tmp_path / "y")
    places = [store.create(TopicPartition("t", n), TOPIC_ID).log_directory.path for n in range(4)]
    assert sorted(places) == [str(tmp_path / "x")] * 2 + [str(tmp_path / "y")] * 2
    assert store.create(TopicPartition("t", 0), TOPIC_ID) is store.get(TopicPartition("t", 0))
    with pytest.raises(KafkaError) as refused:
        store.create(TopicPartition("t", 0), bytes(16)[:-1] + b"\x05")
    assert refused.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
    close(store)
    assert len(opened(tmp_path / "x", tmp_path / "y").all_logs()) == 4


def test_what_was_deleted_and_what_was_moved_counts_where_it_is(tmp_path):
    store = opened(tmp_path / "x", tmp_path / "y")
    for number in range(4):
        store.create(TopicPartition("t", number), TOPIC_ID)
    close(store)
    store = opened(tmp_path / "x", tmp_path / "y")
    x, y = store.directories
    for log in [each for each in store.all_logs() if each.log_directory is x]:
        store.delete(log.topic_partition)
    assert (x.logs, y.logs) == (0, 2)
    moved = store.all_logs()[0].topic_partition
    store.future.create(moved, x)
    store.future.promote(moved)
    assert (x.logs, y.logs) == (1, 1)
    y.take_offline(OSError("broken"))
    assert (x.logs, y.logs) == (1, 0)


def test_deletion_takes_two_steps(tmp_path):
    store = opened(tmp_path)
    append(store.create(A0, TOPIC_ID))
    store.create(A1, TOPIC_ID)
    store.delete(A0)
    assert store.get(A0) is None
    (doomed,) = tmp_path.glob("a-0.*-delete")
    assert len(doomed.name) == len("a-0.") + 32 + len("-delete")
    assert append(store.create(A0, bytes(15) + b"\x07")).first_offset == 0
    asyncio.run(store.purge_deleted(NOW_MS + 59_999))
    assert doomed.exists()
    asyncio.run(store.purge_deleted(NOW_MS + 60_000))
    assert not doomed.exists() and (tmp_path / "a-0").exists()
    store.delete(B0)


def test_a_deletion_goes_on_after_a_restart(tmp_path):
    store = opened(tmp_path)
    store.create(A0, TOPIC_ID)
    store.delete(A0)
    close(store)
    store = opened(tmp_path)
    assert store.get(A0) is None
    asyncio.run(store.purge_deleted(NOW_MS))
    assert not list(tmp_path.glob("*-delete"))


def test_strangers_in_a_directory(tmp_path):
    for name in ("t-0.0123456789abcdef0123456789abcdef-stray", "remote-log-index-cache", "__cluster_metadata-0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "plain file").write_text("")
    close(opened(tmp_path))
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(WrongDirectory, match=r"lost\+found"):
        opened(tmp_path)


def test_a_partition_in_two_directories_stops_the_start(tmp_path):
    for name in ("x", "y"):
        store = opened(tmp_path / name)
        store.create(A0, TOPIC_ID)
        close(store)
    with pytest.raises(WrongDirectory, match="both"):
        opened(tmp_path / "x", tmp_path / "y")


def test_a_directory_has_one_owner(tmp_path):
    """The lock is the process's: asked from a child, it is taken."""
    import subprocess
    import sys

    store = opened(tmp_path)
    code = f"from kafkalite.storage.disk import OsDisk; OsDisk().lock({str(tmp_path / '.lock')!r})"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert child.returncode and "BlockingIOError" in child.stderr
    close(store)
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0


def test_a_directory_that_fails_takes_only_its_own_logs_along(tmp_path):
    store = opened(tmp_path / "x", tmp_path / "y")
    failed = []
    store.on_directory_failure = failed.append
    one, other = store.create(A0, TOPIC_ID), store.create(A1, TOPIC_ID)
    one.log_directory.failure(OSError(5, "broken"))
    assert failed == store.offline_directories == [one.log_directory]
    assert store.get(A0) is None and store.is_offline(A0) and not store.is_offline(A1)
    append(other)
    with pytest.raises(KafkaError) as refused:
        store.create(A0, TOPIC_ID)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert store.create(B0, TOPIC_ID).log_directory is other.log_directory
    close(store)
    assert (Path(other.log_directory.path) / ".kafka_cleanshutdown").exists()
    assert not (Path(one.log_directory.path) / ".kafka_cleanshutdown").exists()


def test_without_any_directory_that_works_there_is_no_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(KafkaError) as refused:
        opened(tmp_path / "file" / "below")
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    store = opened(tmp_path / "file" / "below", tmp_path / "good")
    assert [each.path for each in store.online_directories] == [str(tmp_path / "good")]


def test_logs_that_a_full_disk_does_not_let_open_are_not_made_again(tmp_path):
    """The directory stayed in service without them; an empty log led in the place of one that had committed records."""
    disk = FailingDisk()
    store = opened(tmp_path, disk=disk)
    append(store.create(A0, TOPIC_ID), batch(3))
    die(store)
    disk.room = 0  # recovery writes indexes
    with pytest.raises(KafkaError) as refused:
        opened(tmp_path, disk=disk)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.room = None
    assert opened(tmp_path, disk=disk).get(A0).log_end_offset == 3


FIRST_FILES = ["00000000000000000000.log"]
ALL_FILES = [
    *(f"00000000000000000000.{kind}" for kind in ("index", "log", "timeindex")),
    *("leader-epoch-checkpoint", "partition.metadata"),
]


def names_in(path):
    return sorted(each.name for each in path.glob("*"))


def test_all_files_of_a_thousand_logs_were_made_before_any_of_them_was_led(tmp_path):
    store = opened(tmp_path)
    logs = [store.create(each, TOPIC_ID) for each in (A0, A1, B0)]
    for log in logs:
        log.assign_epoch(3)
        assert log.read(0, 100, upper_bound=0, min_one_batch=True).records == b""
    append(logs[2], batch(2), epoch=3)
    assert names_in(tmp_path / "a-0") == FIRST_FILES
    assert names_in(tmp_path / "b-0") == [*FIRST_FILES, "partition.metadata"], "its records are of this topic"
    store.delete(A1)
    assert store.make_files() and names_in(tmp_path / "a-0") == ALL_FILES
    assert store.make_files() and names_in(tmp_path / "b-0") == ALL_FILES
    assert not store.make_files()
    assert logs[2].latest_epoch == 3 and (tmp_path / "b-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"


@pytest.mark.parametrize("records", [0, 1, 40])
@pytest.mark.parametrize("clean", [False, True])
def test_a_broker_that_stopped_before_it_made_all_files_makes_them_then(tmp_path, caplog, records, clean):
    """Epochs are told by batches then, also where the indexes are made while the log is opened."""
    store = opened(tmp_path)
    log = store.create(A0, TOPIC_ID)
    log.assign_epoch(3)
    for _ in range(records):
        append(log, batch(2, value=bytes(300)), epoch=3)
    assert names_in(tmp_path / "a-0") == FIRST_FILES + ["partition.metadata"] * (records > 0)
    if clean:
        close(store)
    else:
        die(store)
    store = opened(tmp_path)
    log = store.get(A0)
    assert (log.log_end_offset, log.latest_epoch) == (2 * records, 3 if records else None)
    assert log.topic_id == (TOPIC_ID if records else NO_TOPIC_ID) and "Rebuilding" not in caplog.text
    assert store.create(A0, TOPIC_ID) is log
    log.assign_epoch(4)
    append(log, batch(1), epoch=4)
    while store.make_files():
        pass
    close(store)
    assert set(ALL_FILES) <= set(names_in(tmp_path / "a-0"))
    found = opened(tmp_path).get(A0)
    assert (found.log_end_offset, found.latest_epoch) == (2 * records + 1, 4)


def test_upkeep(tmp_path):
    async def life():
        store = store_at(tmp_path, defaults=TopicConfig(segment_bytes=200, retention_bytes=200))
        await store.open({"b": TopicConfig(flush_ms=100)})
        log, other = store.create(A0, TOPIC_ID), store.create(B0, TOPIC_ID, TopicConfig(flush_ms=100))
        for number in range(9):
            append(log, produced(7, number))
        append(other)
        await store.flush_sealed()
        assert log.recovery_point == 9 and other.recovery_point == 0
        await store.flush_overdue(NOW_MS)
        await store.flush_overdue(NOW_MS + 100)
        assert other.recovery_point == 1
        log.set_high_watermark(9)
        store.config.current.log_deletion_max_segments_per_run = 1
        assert await store.delete_old_segments(NOW_MS) == 1
        store.config.current.log_deletion_max_segments_per_run = INT_MAX
        assert await store.delete_old_segments(NOW_MS) > 0
        await store.expire_producers(NOW_MS + 2 * DAY_MS)
        assert not log.producers.producers
        store.checkpoint_recovery_points()
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\na 0 9\nb 0 1\n"
        await store.close()

    asyncio.run(life())


def test_an_unreadable_checkpoint_is_only_warned_about(tmp_path):
    store = opened(tmp_path)
    append(store.create(A0, TOPIC_ID), batch(3))
    close(store)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("garbage")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n5\n")
    assert opened(tmp_path).get(A0).log_end_offset == 3
