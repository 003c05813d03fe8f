"""Summaries count only where nothing has changed: after power failures, copies, other programs, and on a disk with garbage."""

from __future__ import annotations

import copy
import os
import shutil
import zlib
from pathlib import Path
from random import Random

import pytest

from kafkalite.errors import KafkaError
from kafkalite.protocol.record_batches.records import TRANSACTIONAL
from kafkalite.storage.disk import Entry, OsDisk
from kafkalite.storage.log.log_summary import decode_summary, encode_summary, summarize_log
from kafkalite.storage.log_directory import CLEAN_SHUTDOWN
from tests.unit.storage.logs import NOW_MS, all_bytes, append, batch, produced
from tests.unit.storage.random_changes import NAMES
from tests.unit.storage.stores import A0, A1, B0, TOPIC_ID, close, die, opened
from tests.unit.storage.summarized_stores import ROOT, SUMMARIES, CountingDisk, KeepsAll, facts_of, filled, summarize


def change_index(disk):
    """Do what Apache Kafka does when it opens a log: allot room to the index of the active segment, and give it back."""
    file = disk.open("/logs/a-0/00000000000000000010.index")
    file.truncate(1 << 10)
    file.truncate(0)
    file.close()


def add_file(disk):
    disk.replace("/logs/a-0/00000000000000000005.snapshot", b"")


def change_epochs(disk):
    disk.replace("/logs/a-0/leader-epoch-checkpoint", b"0\n1\n3 0\n")


def tear_records(disk):
    file = disk.open("/logs/a-0/00000000000000000010.log")
    file.truncate(file.size() - 1)
    file.close()


def remove_records(disk):
    disk.remove("/logs/a-0/00000000000000000010.log")


@pytest.mark.parametrize("change", [change_index, add_file, change_epochs, tear_records, remove_records])
@pytest.mark.parametrize("clean", [False, True])
def test_a_log_that_was_changed_by_others_is_read(change, clean):
    disk = CountingDisk()
    store = filled(disk)
    if clean:
        close(store)
    else:
        die(store)
        die(opened(ROOT, disk=disk))
    disk.clock.now += 1000
    change(disk)
    disk.asked_by_log()
    opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-0"}


def test_after_a_start_of_the_machine_every_log_is_read_unless_the_stop_was_clean():
    """The length of a file may be on the medium, and what was written there not."""
    disk = CountingDisk()
    die(filled(disk))
    die(opened(ROOT, disk=disk))
    disk.lose_power(KeepsAll())
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-0", "a-1", "b-0"}
    close(store)
    disk.lose_power(Random(1))
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert not disk.asked_by_log()
    die(store)
    disk.asked_by_log()
    opened(ROOT, disk=disk)
    assert not disk.asked_by_log(), "the summaries are of this start of the machine since"


def test_what_a_compaction_left_half_done_is_still_looked_for():
    disk = CountingDisk()
    close(filled(disk))
    disk.remove(SUMMARIES)
    disk.replace("/logs/a-0/00000000000000000000.log.cleaned", b"")
    store = opened(ROOT, disk=disk)
    disk.clock.now += 1000
    disk.replace("/logs/a-1/00000000000000000000.log.cleaned", b"")
    append(store.get(A1), produced(7, 5), epoch=3)
    disk.clock.now += 1000
    close(store)
    disk.asked_by_log()
    opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-1"}


def opened_after_changes_in_one_moment(disk, *changes):
    """A store opened after a kill; a log was summarized, as often as it could be, between changes that have the same time."""
    for _ in range(2):
        die(filled(disk) if not disk.exists(SUMMARIES) else opened(ROOT, disk=disk))
    disk.clock.now = NOW_MS + 1
    store = opened(ROOT, disk=disk)
    store.clock.now = disk.clock.now
    for change in changes:
        change(store.get(A0))
        summarize(store)
        summarize(store)
    die(store)
    disk.clock.now += 60_000
    disk.asked_by_log()
    return opened(ROOT, disk=disk)


def test_a_record_that_was_just_appended_is_not_vouched_for():
    """A later one in its place has the same length, and file systems tell some milliseconds apart."""

    def append_one(log, value=b"one"):
        append(log, batch(value=value), epoch=4)

    def append_another(log):
        log.truncate_to(11)
        append_one(log, b"two")

    disk = CountingDisk()
    store = opened_after_changes_in_one_moment(disk, append_one, append_another)
    assert disk.asked_by_log().keys() == {"a-0"} and b"two" in all_bytes(store.get(A0))


def test_a_directory_that_was_just_changed_is_not_vouched_for():
    """A compaction may end in the same moment."""
    disk = CountingDisk()
    store = opened_after_changes_in_one_moment(
        disk, lambda log: log.snapshots.add_empty([3]), lambda log: log.snapshots.remove_strays([])
    )
    assert disk.asked_by_log().keys() == {"a-0"} and 3 not in store.get(A0).snapshots.offsets


def test_on_a_file_system_of_whole_seconds_a_start_after_a_kill_reads_all():
    disk = CountingDisk()
    disk.clock.now = NOW_MS - 10_000
    die(filled(disk))
    die(opened(ROOT, disk=disk))
    disk.asked_by_log()
    close(opened(ROOT, disk=disk))
    assert disk.asked_by_log().keys() == {"a-0", "a-1", "b-0"}
    opened(ROOT, disk=disk)
    assert disk.asked_by_log() == {"a-0": 1, "a-1": 1, "b-0": 1}, "after a clean stop they are listed for new summaries"


def test_what_was_seen_at_a_stop_is_not_vouched_for_when_the_next_start_is_at_once():
    """It counted as long as the marker was there; from then on changes may come in the moment of the stop."""
    disk = CountingDisk()
    disk.clock.now = NOW_MS + 1
    store = filled(disk)
    store.clock.now = disk.clock.now
    close(store)
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert disk.asked_by_log() == {"a-0": 1, "a-1": 1, "b-0": 1}, "opened by summaries, and listed for new ones"
    disk.replace("/logs/a-0/00000000000000000005.snapshot", b"")
    die(store)
    disk.asked_by_log()
    opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-0", "a-1", "b-0"}


def test_a_file_of_the_cleaner_that_comes_while_a_log_is_summarized_is_not_missed():
    class Disturbed(CountingDisk):
        def list(self, path: str) -> list[Entry]:
            found = super().list(path)
            if path == "/logs/a-0" and self.disturbs:
                self.replace("/logs/a-0/00000000000000000000.log.cleaned", b"")
            return found

    disk = Disturbed()
    disk.disturbs = False
    die(filled(disk))
    store = opened(ROOT, disk=disk)
    disk.clock.now += 1000
    append(store.get(A0), batch(), epoch=4)
    summarize(store)
    disk.clock.now += 1000
    disk.disturbs = True
    summarize(store)
    die(store)
    disk.disturbs = False
    opened(ROOT, disk=disk)
    assert not disk.exists("/logs/a-0/00000000000000000000.log.cleaned")


@pytest.mark.parametrize("by", ["another", "nobody"])
def test_after_a_clean_stop_of_another_program_every_log_is_read(by):
    """It may have found out what a power failure took, in logs that it left as they were."""
    disk = CountingDisk()
    close(filled(disk))
    if by == "another":
        disk.replace(f"/logs/{CLEAN_SHUTDOWN}", b'{"version":0,"brokerEpoch":-1}')
    else:
        disk.lose_power(KeepsAll())
        disk.remove(f"/logs/{CLEAN_SHUTDOWN}")
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-0", "a-1", "b-0"} and store.lost_nothing == (by == "another")


def test_where_starts_of_the_machine_look_alike_only_a_clean_stop_counts(monkeypatch):
    disk = CountingDisk()
    monkeypatch.setattr(disk, "file_id", lambda path: "")
    die(filled(disk))
    die(opened(ROOT, disk=disk))
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-0", "a-1", "b-0"} and not disk.exists(SUMMARIES)
    summarize(store)
    close(store)
    disk.asked_by_log()
    opened(ROOT, disk=disk)
    assert not disk.asked_by_log()


def test_what_a_stop_writes_into_flushed_logs_is_on_the_medium_before_its_marker():
    """The last entry of the time index was missing after a power failure, and the summary said that it was there."""
    for seed in range(20):
        disk = CountingDisk()
        store = filled(disk)
        for log in store.all_logs():
            log.flush()
        close(store)
        before = facts_of(store)
        disk.lose_power(Random(seed))
        store = opened(ROOT, disk=disk)
        assert facts_of(store) == before
        for log in store.all_logs():
            assert len(log.segments.active.time_index.entries()) == log.segments.active.time_index.count
            assert not log.snapshots.offsets or log.snapshots.newest(log.log_end_offset)[0] == log.snapshots.latest


class LoggedDisk(OsDisk):
    """The machine's disk, with the names of the directories in which a file was read, as for each log that is not summarized."""

    def __init__(self):
        super().__init__()
        self.read_in = set()

    def read(self, path):
        self.read_in.add(os.path.basename(os.path.dirname(path)))
        return super().read(path)


def real_store(path):
    """A store on the machine's disk, stopped cleanly."""
    store = opened(path)
    store.clock.now = 2**42
    for name, value in ((A0, b"old"), (A1, b"new")):
        append(store.create(name, TOPIC_ID), batch(value=value))
        store.get(name).make_files()
    close(store)
    return {name: all_bytes(store.get(name)) for name in (A0, A1)}


def read_at_start(path):
    disk = LoggedDisk()
    store = opened(path, disk=disk)
    found = {name: all_bytes(store.get(name)) for name in (A0, A1)}
    die(store)
    return disk.read_in & {"a-0", "a-1"}, found


def test_a_copy_of_a_directory_is_read_though_it_has_the_times_of_the_original(tmp_path):
    before = real_store(tmp_path / "logs")
    shutil.copytree(tmp_path / "logs", tmp_path / "copy", copy_function=shutil.copy2)
    assert read_at_start(tmp_path / "copy") == ({"a-0", "a-1"}, before)
    os.rename(tmp_path / "logs", tmp_path / "renamed")
    assert read_at_start(tmp_path / "renamed") == (set(), before)


@pytest.mark.parametrize("clean", [False, True])
def test_files_that_were_put_back_with_their_times_are_read(tmp_path, clean):
    """As rsync and cp do with -a: sizes and times of modification are those that the summary has, the records are others."""
    before = real_store(tmp_path)
    if not clean:
        die(opened(tmp_path))
    old, new = (tmp_path / each / "00000000000000000000.log" for each in ("a-0", "a-1"))
    status = old.stat()
    old.write_bytes(new.read_bytes())
    os.utime(old, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (old.stat().st_size, old.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    found = {A0: before[A1], A1: before[A1]}
    assert read_at_start(tmp_path) == ({"a-0"} if clean else {"a-0", "a-1"}, found), (
        "after a kill the times are too young"
    )


def test_a_directory_that_fails_loses_its_summaries():
    """The operating system may have given up what it could not write, and files look as they did."""
    disk = CountingDisk()
    store = filled(disk)
    summarize(store)
    summarize(store)
    disk.fail("sync")
    with pytest.raises(KafkaError):
        store.get(A0).flush()
    assert not store.all_logs() and not disk.exists(SUMMARIES)
    summarize(store)
    die(store)
    disk.fail()
    disk.asked_by_log()
    opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-0", "a-1", "b-0"}


def test_a_directory_that_fails_leaves_others_their_summaries():
    disk = CountingDisk()
    paths = Path("/first/logs"), Path("/second/logs")
    store = opened(*paths, disk=disk)
    for name in NAMES:
        append(store.create(name, TOPIC_ID))
    die(store)
    store = opened(*paths, disk=disk)
    assert all(disk.exists(f"{path}/kafkalite-logs") for path in paths)
    store.directories[0].take_offline(OSError("broken"))
    assert [disk.exists(f"{path}/kafkalite-logs") for path in paths] == [False, True]
    close(store)
    assert [disk.exists(f"{path}/{CLEAN_SHUTDOWN}") for path in paths] == [False, True]


def test_a_log_that_went_and_came_back_is_read_as_it_is_now():
    """A line of the time when it was in this directory before, with as many records, is still there."""
    disk = CountingDisk()
    paths = Path("/first/logs"), Path("/second/logs")
    store = opened(*paths, disk=disk)
    append(store.create(A0, TOPIC_ID), batch(value=b"one"))
    store.make_files()
    first = store.get(A0).log_directory
    for number in range(4):
        disk.clock.now += 1000
        die(store) if number % 2 else close(store)
        store = opened(*paths, disk=disk)
        log = store.get(A0)
        if number < 2:
            target = next(each for each in store.directories if each is not log.log_directory)
            copied = store.future.create(A0, target)
            copied.append_as_follower(all_bytes(log), now_ms=1)
            store.future.promote(A0)
            if number:
                store.get(A0).truncate_to(0)
                append(store.get(A0), batch(value=b"two"))
        assert (b"two" in all_bytes(store.get(A0))) == (number > 0)
    assert store.get(A0).log_directory.path == first.path


def test_a_disk_that_is_full_costs_summaries_and_nothing_else():
    disk = CountingDisk()
    die(filled(disk))
    store = opened(ROOT, disk=disk)
    disk.clock.now += 1000
    append(store.get(A0), batch(), epoch=4)
    before = facts_of(store)
    disk.full = True
    for _ in range(3):
        summarize(store)
    die(store)
    disk.full = False
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert "a-0" in disk.asked_by_log() and facts_of(store)[A0][:4] == before[A0][:4]
    append(store.get(A1), produced(7, 5), epoch=4)
    for _ in range(3):
        disk.clock.now += 1000
        summarize(store)
    close(store)
    opened(ROOT, disk=disk)


def test_a_damaged_line_is_no_summary():
    disk = CountingDisk()
    close(filled(disk))
    content, marker = disk.read(SUMMARIES), f"/logs/{CLEAN_SHUTDOWN}"
    damaged = content.replace(b" a-1 ", b" a-2 ")
    assert damaged != content
    for text, read in ((damaged, {"a-1"}), (content[: len(content) // 3], None), (b"", None), (b"\xff" * 50, None)):
        changed = copy.deepcopy(disk)
        changed.open(SUMMARIES).truncate(0)
        changed.open(SUMMARIES).write_at(0, [text])
        assert changed.exists(marker)
        changed.asked_by_log()
        store = opened(ROOT, disk=changed)
        asked = changed.asked_by_log().keys()
        assert asked == read if read else asked
        assert len(store.all_logs()) == 3


def line_of(name, summary):
    rest = b"%s %s" % (name, summary)
    return b"%08x %s" % (zlib.crc32(rest), rest)


HOSTILE = [
    b"",
    b"{}",
    b"[]",
    b"[[1,2,3]]",
    b"[" * 100_000,
    b"\xff\xfe",
    b"1e999",
    b"[1%s]" % (b"0" * 10_000),
    b"null",
]


def test_a_hostile_line_stops_no_start():
    disk = CountingDisk()
    close(filled(disk))
    head, *lines = disk.read(SUMMARIES).split(b"\n")
    good = next(line for line in lines if b" a-0 " in line).split(b" ", 2)[2]
    numbers = [number for number in range(len(good)) if good[number : number + 1].isdigit()][::23]
    spoiled = [good[:at] + other + good[at + 1 :] for at in numbers for other in (b"-1", b'"x"', b"[]", b"9" * 30)]
    for text in (*HOSTILE, *spoiled, good.replace(b"[", b"[[", 1), good[:-1], good + b"]", b""):
        changed = copy.deepcopy(disk)
        file = changed.open(SUMMARIES)
        file.truncate(0)
        file.write_at(0, [b"\n".join([head, *lines, line_of(b"a-0", text)])])
        store = opened(ROOT, disk=changed)
        assert len(store.all_logs()) == 3 and store.get(A0).log_end_offset == 11, text


def test_a_line_that_contradicts_itself_is_no_summary():
    disk = CountingDisk()
    store = filled(disk)
    good = summarize_log(store.get(A0), None)
    first, active = good.segments
    assert decode_summary(encode_summary(good)) == good
    for changes in (
        {"segments": []},
        {"segments": [active, first]},
        {"segments": [first, active._replace(versions=active.versions[:2])]},
        {"segments": [first, active._replace(sizes=active.sizes._replace(transaction_index=34))]},
        {"log_end_offset": active.base_offset},
        {"epochs": [(4, 10), (3, 0)]},
        {"epochs_on_disk": [(3, 0), (4, 0)]},
        {"snapshots": [10, 10]},
        {"topic_id": "00"},
        {"directory": (1, 2)},
    ):
        assert decode_summary(encode_summary(good._replace(**changes))) is None, changes


@pytest.mark.parametrize("end", [close, die])
def test_a_log_with_an_open_transaction_is_read(end):
    disk = CountingDisk()
    die(filled(disk))
    store = opened(ROOT, disk=disk)
    disk.clock.now += 1000
    append(store.get(A1), produced(8, 0, attributes=TRANSACTIONAL), epoch=3)
    for _ in range(2):
        summarize(store)
    end(store)
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-1"} and store.get(A1).producers.first_unstable_offset == 5


def test_a_file_of_summaries_that_is_too_large_is_ignored(monkeypatch):
    disk = CountingDisk()
    close(filled(disk))
    monkeypatch.setattr("kafkalite.storage.directories.log_summaries._LARGEST_BYTES", 100)
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-0", "a-1", "b-0"} and disk.status(SUMMARIES).size <= 100
    disk.clock.now += 1000
    append(store.get(B0), batch(), epoch=4)
    summarize(store)
    summarize(store)
    assert disk.status(SUMMARIES).size <= 100


def test_a_log_in_a_directory_with_an_odd_name_is_read(tmp_path):
    close(opened(tmp_path))
    for name in ("x y-0", "x-0", "\u00e4-0"):
        (tmp_path / name).mkdir()
    for _ in range(3):
        store = opened(tmp_path)
        assert len(store.all_logs()) == 3
        close(store)
