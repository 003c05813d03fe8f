"""The session file: strict at reading, believed only together with the lock that it names."""

from __future__ import annotations

import logging
from random import Random

import pytest

from kafkalite.clock import SystemClock
from kafkalite.storage.log_directory import LogDirectory
from kafkalite.storage.session_file import (
    FILE_NAME,
    MalformedSessionFile,
    SessionRecord,
    decode,
    encode,
    read_session_files,
    remove_session_files,
    write_session_file,
)
from kafkalite.testing.simulation.memory_disk import MemoryDisk

RECORD = SessionRecord(3, "zk1:2181,zk2:2181/kafka", -0x0000FFFFFFFF5433, bytes(range(16)))
GOOD = encode(RECORD, "boot:1f-2")


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk(SystemClock())


def directories(disk: MemoryDisk, *paths: str, locked: bool = True) -> list[LogDirectory]:
    made = [LogDirectory(disk, path, 10) for path in paths]
    for each in made if locked else ():
        each.open()
    return made


def test_a_session_is_read_as_it_was_written() -> None:
    assert decode(GOOD) == (RECORD, "boot:1f-2") and b"session.id=0xffff00000000abcd\n" in GOOD
    assert "0001020304" not in repr(RECORD)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * len(GOOD),
        GOOD[:-1],
        GOOD[:40],
        GOOD + b"\n",
        GOOD.replace(b"version=1", b"version=2"),
        GOOD.replace(b"broker.id=3", b"broker.id=-3"),
        GOOD.replace(b"broker.id=3", "broker.id=٣".encode()),
        GOOD.replace(b"0xffff", b"0x1ffff"),
        GOOD.replace(b"password=00", b"password=0"),
        GOOD.replace(b"zk1", b"\xff"),
        GOOD.replace(b"zk1", b"z" * 100_000),
    ],
)
def test_what_a_broker_does_not_write_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedSessionFile):
        decode(content)


def test_the_next_process_with_the_lock_reads_the_session_of_the_dead_one(disk: MemoryDisk) -> None:
    write_session_file(directories(disk, "/one", "/two"), RECORD)
    disk.process_ended()
    assert read_session_files(directories(disk, "/one", "/two")) == [RECORD]


def test_without_the_lock_nothing_is_known_of_the_process(disk: MemoryDisk) -> None:
    write_session_file(directories(disk, "/one"), RECORD)
    assert read_session_files(directories(disk, "/one", locked=False)) == []


def test_a_copied_directory_is_no_evidence(disk: MemoryDisk) -> None:
    write_session_file(directories(disk, "/one"), RECORD)
    (copy,) = directories(disk, "/copy")
    disk.replace(copy.file(FILE_NAME), disk.read(f"/one/{FILE_NAME}"))
    assert read_session_files([copy]) == []


def test_a_session_from_before_the_start_of_the_machine_is_ignored(disk: MemoryDisk) -> None:
    write_session_file(directories(disk, "/one"), RECORD)
    disk.sync("/one")
    disk.lose_power(Random(1))
    assert disk.exists(f"/one/{FILE_NAME}")
    assert read_session_files(directories(disk, "/one")) == []


def test_a_malformed_file_is_logged_and_ignored(disk: MemoryDisk, caplog: pytest.LogCaptureFixture) -> None:
    one, two = directories(disk, "/one", "/two")
    write_session_file([two], RECORD)
    disk.replace(one.file(FILE_NAME), b"password=hunter2")
    with caplog.at_level(logging.WARNING):
        assert read_session_files([one, two]) == [RECORD]
    assert "/one/kafkalite-session is ignored" in caplog.text and "hunter2" not in caplog.text


def test_a_file_that_cannot_be_read_is_ignored_and_its_directory_stays(disk: MemoryDisk) -> None:
    (one,) = directories(disk, "/one")
    write_session_file([one], RECORD)
    disk.fail("read")
    assert read_session_files([one]) == []
    assert one.offline_reason is None


def test_a_broken_medium_takes_its_directory_offline_and_the_next_one_has_the_file(disk: MemoryDisk) -> None:
    broken = MemoryDisk(SystemClock())
    (one,) = directories(broken, "/one")
    (two,) = directories(disk, "/two")
    broken.fail("write")
    write_session_file([one, two], RECORD)
    assert one.offline_reason is not None and two.offline_reason is None
    assert read_session_files([two]) == [RECORD]


def test_a_full_disk_stays_online_without_a_file(disk: MemoryDisk) -> None:
    (one,) = directories(disk, "/one")
    disk.full = True
    write_session_file([one], RECORD)
    assert one.offline_reason is None and read_session_files([one]) == []


def test_no_file_is_written_where_locks_cannot_be_told_apart(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryDisk, "file_id", lambda *_: "")
    write_session_file(directories(disk, "/one"), RECORD)
    assert not disk.exists(f"/one/{FILE_NAME}")


def test_only_the_file_of_the_closed_session_is_removed(disk: MemoryDisk) -> None:
    one, two = directories(disk, "/one", "/two")
    write_session_file([one], RECORD)
    write_session_file([two], RECORD._replace(session_id=5))
    remove_session_files([one, two], RECORD.session_id)
    assert not disk.exists(one.file(FILE_NAME))
    assert disk.exists(two.file(FILE_NAME)), "of the next process, which has the lock already"
    disk.replace(one.file(FILE_NAME), b"?")
    remove_session_files([one, two])
    assert not disk.exists(one.file(FILE_NAME)) and not disk.exists(two.file(FILE_NAME))


def test_a_file_that_cannot_be_removed_is_logged(disk: MemoryDisk, caplog: pytest.LogCaptureFixture) -> None:
    (one,) = directories(disk, "/one")
    write_session_file([one], RECORD)
    disk.fail("write")
    remove_session_files([one])
    assert "is left behind" in caplog.text and one.offline_reason is None
