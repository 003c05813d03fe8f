"""What a power failure takes from the disk in memory, and what it does not."""

from __future__ import annotations

import random

from kafkalite.clock import SystemClock
from kafkalite.testing.simulation.memory_disk import MemoryDisk


def disk_with(content: bytes) -> MemoryDisk:
    """`/d/f` with this content, all on the medium."""
    disk = MemoryDisk(SystemClock())
    disk.make_directory("/d")
    disk.open("/d/f", create=True).write_at(0, [content])
    disk.sync("/d/f")
    disk.sync("/d")
    return disk


def test_of_what_was_not_synced_the_beginning_stays_and_maybe_the_length() -> None:
    found = set()
    for seed in range(1000):
        disk = disk_with(b"synced,")
        file = disk.open("/d/f")
        for number in range(3):
            file.write_at(file.size(), [b"%d%d%d," % (number, number, number)])
        disk.lose_power(random.Random(seed))
        found.add(disk.read("/d/f"))
    whole = b"synced,000,111,222,"
    beginnings = {whole[:size] for size in range(len(b"synced,"), len(whole) + 1)}
    write = len(b"000,")
    ends = range(len(b"synced,") + write, len(whole) + 1, write)
    assert found == beginnings | {whole[:size].ljust(end, b"\0") for end in ends for size in range(end - write, end)}


def test_a_truncation_and_an_overwrite_are_taken_back_in_order() -> None:
    found = set()
    for seed in range(200):
        disk = disk_with(b"abcdef")
        file = disk.open("/d/f")
        file.truncate(4)
        file.write_at(1, [b"X"])
        disk.lose_power(random.Random(seed))
        found.add(disk.read("/d/f"))
    assert found == {b"abcdef", b"abcd", b"aXcd"} | {b"a"[:1] + b"bcd"}


def test_names_that_were_not_synced_come_and_go_in_order() -> None:
    found = set()
    for seed in range(100):
        disk = disk_with(b"")
        disk.open("/d/g", create=True)
        disk.rename("/d/g", "/d/h")
        disk.remove("/d/f")
        disk.lose_power(random.Random(seed))
        found.add(tuple(sorted(entry.name for entry in disk.list("/d"))))
    assert found == {("f",), ("f", "g"), ("f", "h"), ("h",)}


def test_a_replaced_file_is_the_old_one_or_the_new_one() -> None:
    found = set()
    for seed in range(50):
        disk = disk_with(b"")
        disk.replace("/d/c", b"old")
        disk.replace("/d/c", b"new", durable=False)
        disk.lose_power(random.Random(seed))
        found.add(disk.read("/d/c"))
    assert found == {b"old", b"new"}


def test_power_takes_memory_and_locks_a_kill_only_locks() -> None:
    disk = disk_with(b"data")
    disk.lock("/d/l")
    disk.process_ended()
    disk.lock("/d/l")
    assert disk.open("/d/f").read_in_memory(0, 4) == b"data"
    disk.lose_power(random.Random(1))
    file = disk.open("/d/f")
    assert file.read_in_memory(0, 4) is None
    assert file.read_at(0, 4) == b"data"
    assert file.read_in_memory(0, 4) == b"data"
