"""All logs of a broker: opening, placing, deleting, checkpoints, identity, directories that fail."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from kafkalite.config.live import Live
from kafkalite.config.topic import INT_MAX, TopicConfig
from kafkalite.errors import ErrorCode, KafkaError
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.storage.disk import OsDisk
from kafkalite.storage.meta_properties import WrongDirectory
from kafkalite.types import NO_TOPIC_ID, TopicPartition
from tests.unit.storage.logs import DAY_MS, NOW_MS, FailingDisk, append, batch, produced

TOPIC_ID = bytes(range(16))
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class FixedClock:
    now = NOW_MS

    def now_ms(self):
        return self.now

    def monotonic_ms(self):
        return float(self.now)


def store_at(*paths, disk=None, defaults=None, threads=1):
    config = SimpleNamespace(
        log_dirs=[str(path) for path in paths],
        topic_defaults=defaults or TopicConfig(),
        producer_id_expiration_ms=DAY_MS,
        num_recovery_threads_per_data_dir=threads,
        log_deletion_max_segments_per_run=INT_MAX,
    )
    return LogStore(Live(config), disk or OsDisk(), FixedClock(), Random(3))


def opened(*paths, **options):
    store = store_at(*paths, **options)
    asyncio.run(store.open())
    return store


def close(store):
    asyncio.run(store.close())


def die(store):
    """As kill -9 does: locks go, nothing is written."""
    for directory in store.directories:
        directory.close()


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
    assert store.read_high_watermark(A0) == 2 and store.read_high_watermark(A1) == 0
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
    assert store.read_high_watermark(A0) == 0


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


def test_identity(tmp_path):
    store = opened(tmp_path / "x", tmp_path / "y")
    assert store.read_identity() == (None, None)
    store.claim(5, "cluster")
    assert "broker.id=5\ncluster.id=cluster\nversion=0\n" in (tmp_path / "y" / "meta.properties").read_text()
    store.claim(5, "cluster")
    for broker_id, cluster_id, hint in ((6, "cluster", "broker.id"), (5, "other", "zookeeper.connect")):
        with pytest.raises(WrongDirectory, match=hint):
            store.claim(broker_id, cluster_id)
    close(store)
    (tmp_path / "y" / "meta.properties").write_text("version=0\nbroker.id=9\ncluster.id=cluster\n")
    with pytest.raises(WrongDirectory, match="5 and 9"):
        store_at(tmp_path / "x", tmp_path / "y").read_identity()


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


def test_a_full_disk_at_the_end_leaves_no_marker_of_a_clean_stop(tmp_path):
    disk = FailingDisk()
    store = opened(tmp_path, disk=disk)
    append(store.create(A0, TOPIC_ID), batch(3))
    disk.room = 0
    close(store)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    disk.room = None
    assert opened(tmp_path).get(A0).log_end_offset == 3


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
    append(store.get(A0), batch(2), epoch=3)
    disk.synced.clear()
    disk.met = threading.Event()
    close(store)
    assert store.left_to_close == 0
    synced = [sorted(os.path.basename(path) for path in disk.synced if f"a-{index}" in path) for index in range(4)]
    assert synced[1:] == [[f"a-{index}", "leader-epoch-checkpoint"] for index in (1, 2, 3)]
    assert {"00000000000000000000.log", "00000000000000000003.snapshot", "leader-epoch-checkpoint"} < set(synced[0])


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
    assert set(ALL_FILES) <= set(names_in(tmp_path / "a-0"))
    close(store)
    found = opened(tmp_path).get(A0)
    assert (found.log_end_offset, found.latest_epoch) == (2 * records + 1, 4)


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


def test_identity_is_known_before_any_log_is_opened(tmp_path):
    store = opened(tmp_path)
    store.claim(5, "cluster")
    close(store)
    store = store_at(tmp_path)
    store.acquire()
    with pytest.raises(WrongDirectory):
        store.claim(6, "cluster")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    asyncio.run(store.open())
    close(store)


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
        assert store.delete_old_segments(NOW_MS) == 1
        store.config.current.log_deletion_max_segments_per_run = INT_MAX
        assert store.delete_old_segments(NOW_MS) > 0
        store.expire_producers(NOW_MS + 2 * DAY_MS)
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
