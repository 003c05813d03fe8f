"""Periodic checkpoints are written in another thread, and never an older one over what was written later."""

from __future__ import annotations

import asyncio
import errno
import threading
from typing import Any

from kafkalite.portions import in_one_go
from kafkalite.storage.checkpoints import HIGH_WATERMARK
from kafkalite.storage.disk import OsDisk
from kafkalite.types import TopicPartition
from tests.unit.storage.logs import append, batch
from tests.unit.storage.stores import A0, A1, TOPIC_ID, opened

TIMEOUT_S = 30.0


class HeldDisk(OsDisk):
    """Files are replaced when they may be; `refused` is a directory in which none is."""

    def __init__(self) -> None:
        super().__init__()
        self.may_replace, self.is_replacing = threading.Event(), threading.Event()
        self.threads: list[threading.Thread] = []
        self.refused = "none"
        self.may_replace.set()

    def hold(self) -> None:
        self.threads.clear()
        self.may_replace.clear()
        self.is_replacing.clear()

    def replace(self, path, content, **options):
        self.threads.append(threading.current_thread())
        self.is_replacing.set()
        if not self.may_replace.wait(TIMEOUT_S):
            raise TimeoutError(path)
        if path.startswith(self.refused):
            raise OSError(errno.EIO, "broken")
        super().replace(path, content, **options)


def filled(disk, *paths):
    """A store with a log of ten records for each of two partitions, of which one is committed."""
    store = opened(*paths, disk=disk)
    for name in (A0, A1):
        append(store.create(name, TOPIC_ID), batch(10))
        store.get(name).set_high_watermark(1)
    store.checkpoint_high_watermarks()
    return store


def saved(store) -> list[dict[TopicPartition, int]]:
    return [each.read_offsets(HIGH_WATERMARK) for each in store.directories]


async def turn_until(is_there) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not is_there():
            await asyncio.sleep(0.001)


def test_the_event_loop_goes_on_while_the_medium_takes_a_checkpoint(tmp_path):
    disk = HeldDisk()
    store = filled(disk, tmp_path)
    store.get(A0).set_high_watermark(3)
    disk.hold()

    async def act() -> None:
        saving = asyncio.ensure_future(store.save_checkpoint(HIGH_WATERMARK))
        await turn_until(disk.is_replacing.is_set)
        assert not saving.done()
        disk.may_replace.set()
        await asyncio.wait_for(saving, TIMEOUT_S)

    asyncio.run(act())
    assert saved(store) == [{A0: 3, A1: 1}] and threading.main_thread() not in disk.threads


def test_what_changes_while_a_checkpoint_is_written_is_written_the_next_time(tmp_path):
    disk = HeldDisk()
    store = filled(disk, tmp_path)
    store.get(A0).set_high_watermark(3)
    disk.hold()

    async def act() -> None:
        saving = asyncio.ensure_future(store.save_checkpoint(HIGH_WATERMARK))
        await turn_until(disk.is_replacing.is_set)
        store.get(A1).set_high_watermark(4)
        await store.upkeep.look_in_portions()
        (kept,) = store._checkpoints.values()
        in_one_go(kept.refresh(HIGH_WATERMARK))  # as the next one begins to
        disk.may_replace.set()
        await saving
        assert saved(store) == [{A0: 3, A1: 1}]
        for _ in range(2):
            await store.save_checkpoint(HIGH_WATERMARK)

    asyncio.run(act())
    assert saved(store) == [{A0: 3, A1: 4}] and len(disk.threads) == 2


def test_a_checkpoint_that_was_overtaken_before_it_is_written_is_left_out(tmp_path, monkeypatch):
    """A topic is deleted, and would be made again with the high watermark of its predecessor."""
    store = filled(HeldDisk(), tmp_path)
    store.get(A1).set_high_watermark(3)

    async def act() -> None:
        loop, queued = asyncio.get_running_loop(), []

        def queue(executor: None, function: Any, *arguments: Any) -> asyncio.Future[None]:
            queued.append((function, arguments, loop.create_future()))
            return queued[-1][2]

        monkeypatch.setattr(loop, "run_in_executor", queue)
        saving = asyncio.ensure_future(store.save_checkpoint(HIGH_WATERMARK))
        await turn_until(lambda: queued)
        store.delete(A0)
        store.checkpoint_deletions()
        for function, arguments, done in queued:
            function(*arguments)
            done.set_result(None)
        await saving

    asyncio.run(act())
    assert saved(store) == [{A1: 3}]


def test_a_checkpoint_that_is_being_written_is_waited_for(tmp_path):
    disk = HeldDisk()
    store = filled(disk, tmp_path)
    store.get(A1).set_high_watermark(3)
    lock = threading.Lock()

    class SeenLock:
        """Lets the write end once somebody waits for it."""

        def __enter__(self) -> None:
            if not lock.acquire(blocking=False):
                disk.may_replace.set()
                lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    (kept,) = store._checkpoints.values()
    kept._texts[HIGH_WATERMARK].writing = SeenLock()
    disk.hold()

    async def act() -> None:
        saving = asyncio.ensure_future(store.save_checkpoint(HIGH_WATERMARK))
        await turn_until(disk.is_replacing.is_set)
        store.get(A0).set_high_watermark(5)
        store.checkpoint_high_watermarks()
        await saving

    asyncio.run(act())
    assert saved(store) == [{A0: 5, A1: 3}]


def test_each_directory_that_takes_a_checkpoint_gets_it(tmp_path):
    disk = HeldDisk()
    store = filled(disk, tmp_path / "x", tmp_path / "y")
    x, y = store.directories
    names = [next(name for name in (A0, A1) if store.get(name).log_directory is each) for each in (x, y)]
    for name in names:
        store.get(name).set_high_watermark(7)
    disk.refused = x.path
    asyncio.run(store.save_checkpoint(HIGH_WATERMARK))
    assert x.offline_reason is not None and y.offline_reason is None
    assert saved(store) == [{names[0]: 1}, {names[1]: 7}]
