"""The disk as storage knows it: the machine's own and the one in memory keep the same contract."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from kafkalite.clock import SystemClock
from kafkalite.storage.disk import Disk, OsDisk
from kafkalite.testing.simulation.memory_disk import MemoryDisk


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "os":
        return OsDisk()
    memory = MemoryDisk(SystemClock())
    memory.make_directory(str(tmp_path))
    return memory


def write(disk: Disk, path: str, content: bytes) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, [content])
    file.close()


def refusal(call: Callable[..., object], *arguments: object) -> type[BaseException]:
    with pytest.raises(OSError) as caught:
        call(*arguments)
    assert caught.value.errno, "with the operating system's number"
    return caught.type


def test_files_are_read_and_written_by_position(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert refusal(disk.open, path) is FileNotFoundError
    file = disk.open(path, create=True)
    file.write_at(0, [b"one ", memoryview(b"two "), bytearray(b"three")])
    assert (file.size(), file.read_at(0, 100), file.read_at(4, 3)) == (13, b"one two three", b"two")
    file.write_at(4, [b"2"])
    assert file.read_at(0, 100) == b"one 2wo three"
    file.write_at(15, [b"!"])
    assert file.read_at(12, 9) == b"e\0\0!"
    assert (file.read_at(100, 5), bytes(file.read_in_memory(4, 3) or b"")) == (b"", b"2wo")
    file.truncate(3)
    file.truncate(5)
    assert disk.read(path) == b"one\0\0"
    again = disk.open(path)
    assert again.size() == 5
    again.close()
    file.close()
    assert refusal(file.size) is OSError


def test_reads_in_memory_do_not_disturb_each_other_where_memory_is_used_again(disk: Disk, tmp_path: Path) -> None:
    size = 100_000
    file = disk.open(str(tmp_path / "file"), create=True)
    file.write_at(0, [b"a" * size, b"b" * size, b"c" * 10])
    first, second = file.read_in_memory(0, size), file.read_in_memory(size, size)
    assert first == b"a" * size and second == b"b" * size
    del first
    third, fourth = file.read_in_memory(size, 2 * size), file.read_in_memory(0, size)
    assert third == b"b" * size + b"c" * 10 and second == b"b" * size and fourth == b"a" * size
    file.close()


def test_an_open_file_outlives_its_name(disk: Disk, tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    file = disk.open(old, create=True)
    disk.rename(old, new)
    file.write_at(0, [b"x"])
    assert disk.read(new) == b"x"
    disk.remove(new)
    file.write_at(1, [b"y"])
    assert file.read_at(0, 9) == b"xy"
    assert not disk.exists(new)
    file.close()


def test_replacing_leaves_the_new_content(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    disk.replace(path, b"1")
    file = disk.open(path)
    disk.replace(path, b"22", durable=False)
    assert (disk.read(path), file.read_at(0, 9)) == (b"22", b"1"), "who had it open sees the old one"
    assert [entry.name for entry in disk.list(str(tmp_path))] == ["checkpoint"]
    file.close()
    disk.make_directory(str(tmp_path / "directory"))
    assert refusal(disk.replace, str(tmp_path / "directory"), b"") is IsADirectoryError
    assert refusal(disk.replace, str(tmp_path / "none" / "file"), b"") is FileNotFoundError


def test_replacing_on_a_full_disk_leaves_the_old_content_and_nothing_else(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "checkpoint")
    disk.replace(path, b"1")
    if isinstance(disk, MemoryDisk):
        disk.full = True
    else:
        monkeypatch.setattr(os, "write", partial(_refuse, errno.ENOSPC))
    refusal(disk.replace, path, b"22")
    assert disk.read(path) == b"1" and [entry.name for entry in disk.list(str(tmp_path))] == ["checkpoint"]


def _refuse(number: int, *arguments: object) -> int:
    raise OSError(number, os.strerror(number))


def test_a_change_gives_a_file_and_its_directory_another_version(disk: Disk, tmp_path: Path) -> None:
    """Also one that leaves size and time of modification as they were; file systems tell some milliseconds apart."""
    path = str(tmp_path / "file")

    def changed(change: Callable[[], object], of: str) -> bool:
        before, deadline = disk.status(of).version, time.monotonic() + 10
        while disk.status(of).version == before and time.monotonic() < deadline:
            change()
        return disk.status(of).version != before

    def change_secretly() -> None:
        modified_ms = disk.status(path).modified_ms
        write(disk, path, b"54321")
        disk.set_modified(path, modified_ms)

    write(disk, path, b"12345")
    assert disk.status(path) == disk.list(str(tmp_path))[0] and disk.status(str(tmp_path)).is_directory
    assert disk.status(path).version == disk.status(path).version
    assert changed(lambda: write(disk, path, b"67890"), path)
    assert changed(change_secretly, path)
    assert changed(lambda: disk.replace(path, b"54321"), path)
    assert changed(lambda: (disk.rename(path, path + "1"), disk.rename(path + "1", path)), path)
    assert changed(lambda: disk.replace(path + "2", b""), str(tmp_path))
    assert changed(lambda: (write(disk, path + "3", b""), disk.remove(path + "3")), str(tmp_path))
    assert refusal(disk.status, str(tmp_path / "none")) is FileNotFoundError


def test_directories_are_made_listed_renamed_and_removed(disk: Disk, tmp_path: Path) -> None:
    top = str(tmp_path / "top")
    disk.make_directory(f"{top}/a/b")
    disk.make_directory(f"{top}/a/b")
    write(disk, f"{top}/a/file", b"12345")
    listed = {entry.name: (entry.is_directory, entry.is_directory or entry.size) for entry in disk.list(f"{top}/a")}
    assert listed == {"b": (True, True), "file": (False, 5)}
    assert all(entry.modified_ms > 0 for entry in disk.list(f"{top}/a"))
    disk.rename(f"{top}/a", f"{top}/c")
    assert (disk.exists(f"{top}/a"), disk.read(f"{top}/c/file")) == (False, b"12345")
    write(disk, f"{top}/other", b"")
    disk.rename(f"{top}/other", f"{top}/c/file")
    assert disk.read(f"{top}/c/file") == b""
    disk.remove_tree(f"{top}/c")
    disk.remove_tree(f"{top}/c")
    disk.remove(f"{top}/nothing")
    assert disk.list(top) == []


def test_a_file_is_as_old_as_it_is_said_to_be(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    write(disk, path, b"12345")
    disk.set_modified(path, 1_234_567_890_123)
    assert [entry.modified_ms for entry in disk.list(str(tmp_path))] == [1_234_567_890_123]
    assert refusal(disk.set_modified, str(tmp_path / "none"), 1) is FileNotFoundError


def test_what_cannot_be_is_refused_as_the_system_refuses_it(disk: Disk, tmp_path: Path) -> None:
    directory, file = str(tmp_path / "directory"), str(tmp_path / "file")
    disk.make_directory(f"{directory}/inner")
    write(disk, file, b"")
    assert refusal(disk.read, str(tmp_path / "none")) is FileNotFoundError
    assert refusal(disk.list, str(tmp_path / "none")) is FileNotFoundError
    assert refusal(disk.rename, str(tmp_path / "none"), file) is FileNotFoundError
    assert refusal(disk.sync, str(tmp_path / "none")) is FileNotFoundError
    assert refusal(disk.room, str(tmp_path / "none")) is FileNotFoundError
    assert refusal(disk.list, file) is NotADirectoryError
    assert refusal(disk.remove_tree, file) is NotADirectoryError
    assert refusal(disk.make_directory, file) is FileExistsError
    assert refusal(disk.rename, directory, file) is NotADirectoryError
    assert refusal(disk.open, f"{file}/x") is NotADirectoryError
    assert refusal(disk.read, directory) is IsADirectoryError
    assert refusal(disk.remove, directory) is IsADirectoryError
    assert refusal(disk.rename, file, directory) is IsADirectoryError
    assert refusal(disk.rename, str(tmp_path / "directory" / "inner"), str(tmp_path)) is OSError


def test_syncing_and_room(disk: Disk, tmp_path: Path) -> None:
    write(disk, str(tmp_path / "file"), b"x")
    disk.sync(str(tmp_path / "file"))
    disk.sync(str(tmp_path))
    total, free = disk.room(str(tmp_path))
    assert 0 < free <= total


def test_a_lock_is_held_until_it_is_released(disk: Disk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    assert refusal(lambda: disk.lock(path, create=False)) is FileNotFoundError
    disk.lock(path).release()
    assert disk.exists(path)
    disk.lock(path, create=False).release()
    lock = disk.lock(path)
    if isinstance(disk, MemoryDisk):  # a POSIX lock does not keep out its own process
        assert refusal(disk.lock, path) is BlockingIOError
    lock.release()
    disk.lock(path).release()


def test_a_file_for_its_owner_can_be_read_by_nobody_else_from_its_creation_on(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "secret")
    write(disk, path + ".tmp", b"of somebody who waits for the next content")
    disk.replace(path, b"one", only_for_owner=True)
    disk.replace(path, b"two", only_for_owner=True, durable=False)
    assert disk.read(path) == b"two"
    if isinstance(disk, OsDisk):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        seen: list[int] = []
        monkeypatch.setattr(os, "write", lambda file, data: seen.append(os.fstat(file).st_mode & 0o777) or len(data))
        disk.replace(path, b"three", only_for_owner=True)
        assert seen == [0o600]


def test_a_file_has_an_id_that_its_copy_has_not(disk: Disk, tmp_path: Path) -> None:
    path, copy = str(tmp_path / ".lock"), str(tmp_path / "copy")
    assert refusal(disk.file_id, path) is FileNotFoundError
    disk.lock(path).release()
    found = disk.file_id(path)
    assert found
    disk.lock(path).release()
    write(disk, copy, b"")
    assert disk.file_id(path) == found != disk.file_id(copy)
    disk.remove(path)
    write(disk, path, b"")
    assert disk.file_id(path) != found


def test_an_id_of_a_file_says_nothing_after_the_machine_has_started_again(tmp_path: Path) -> None:
    disk = MemoryDisk(SystemClock())
    write(disk, "/file", b"")
    disk.sync("/file")
    disk.sync("/")
    before = disk.file_id("/file")
    disk.lose_power(Random(1))
    assert disk.file_id("/file") != before


def test_there_is_no_id_where_starts_of_the_machine_look_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalite.storage.disk._BOOT_ID", str(tmp_path / "none"))
    write(OsDisk(), str(tmp_path / "file"), b"")
    assert OsDisk().file_id(str(tmp_path / "file")) == ""
