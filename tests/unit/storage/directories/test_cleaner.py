"""The log cleaner: which log it takes, swaps beside readers, what it remembers, and passes in a process of their own."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.live import Live
from kafkalite.config.topic import TopicConfig
from kafkalite.storage.cleaning.cleaning import CleanedSegment, CleanedUpTo, PassInterrupted
from kafkalite.storage.cleaning.cleaning_process import in_process
from kafkalite.storage.cleaning.compaction import DirtyPart
from kafkalite.storage.cleaning.throttle import Throttle
from kafkalite.storage.directories.cleaner import LogCleaner, in_executor, task_for
from kafkalite.storage.directories.log_store import LogStore
from kafkalite.storage.disk import OsDisk
from kafkalite.testing.simulation import virtual_time
from kafkalite.types import TopicPartition
from tests.unit.storage.cleaner_settings import Settings, part_of
from tests.unit.storage.cleaning.test_cleaning import config_of, contents, put, seal
from tests.unit.storage.logs import NOW_MS, append, batch
from tests.unit.storage.stores import StorageSettings

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Clock:
    def __init__(self):
        self.elapsed_ms = 0.0

    def now_ms(self):
        return NOW_MS

    def monotonic_ms(self):
        return self.elapsed_ms


async def store_at(path):
    config = StorageSettings([str(path)], config_of())
    store = LogStore(Live(config), OsDisk(), Clock(), Random(3))
    await store.open()
    return store


def cleaner_of(store, run_pass=None, **settings):
    return LogCleaner(store, Live(Settings(**settings)), Clock(), run_pass or in_executor(OsDisk()))


def fill(log, count):
    for number in range(count):
        put(log, (b"a", b"%d" % number))
    seal(log)


@pytest.mark.parametrize("run_pass", [in_executor(OsDisk()), in_process], ids=["executor", "process"])
def test_the_dirtiest_log_is_compacted_first_and_the_place_remembered(tmp_path, run_pass):
    async def scenario():
        store = await store_at(tmp_path)
        log, other = store.create(A), store.create(B)
        fill(log, 3)
        fill(other, 3)
        cleaner = cleaner_of(store, run_pass)
        assert await cleaner.clean_dirtiest() and await cleaner.clean_dirtiest()
        assert not await cleaner.clean_dirtiest()
        fill(log, 1)
        fill(other, 9)
        assert await cleaner.clean_dirtiest()
        assert contents(other) == [(11, b"a", b"8")] and len(contents(log)) == 2
        await store.close()
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n2\na 0 3\nb 0 12\n"
        store = await store_at(tmp_path)
        assert [store.get(each).first_dirty_offset for each in (A, B)] == [3, 12]
        await store.close()

    asyncio.run(scenario())


def test_readers_see_every_last_value_at_each_moment_of_a_pass(tmp_path):
    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A, config=config_of(segment_bytes=1000))
        for number in range(100):
            put(log, (b"k%d" % (number % 7), b"%d" % number))
        seal(log)
        before = contents(log)
        newest = {key: (offset, value) for offset, key, value in before}
        task = asyncio.create_task(cleaner_of(store, log_cleaner_io_buffer_size=400).clean_dirtiest())
        while not task.done():
            now = contents(log)
            assert {key: (offset, value) for offset, key, value in now} == newest and set(now) <= set(before)
            await asyncio.sleep(0)
        assert await task and len(contents(log)) == 7
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("change", ["delete", "truncate", "retention"])
def test_a_log_that_changes_meanwhile_keeps_its_own_segments(tmp_path, change):
    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A, config=config_of(cleanup_policy=("compact", "delete")))
        fill(log, 5)

        async def changed_meanwhile(task, rate):
            async for step in in_executor(OsDisk())(task, rate):
                if isinstance(step, CleanedSegment):
                    match change:
                        case "delete":
                            store.delete(A)
                        case "truncate":
                            log.truncate_to(2)
                        case "retention":
                            log.delete_records(5)
                            log.delete_old_segments(NOW_MS)
                yield step

        cleaner = cleaner_of(store, changed_meanwhile)
        assert not await cleaner.clean_dirtiest() and not cleaner.uncleanable
        if change != "delete":
            assert contents(log) == ([(0, b"a", b"0"), (1, b"a", b"1")] if change == "truncate" else [])
            assert not list((tmp_path / "a-0").glob("*.cleaned")) and not list((tmp_path / "a-0").glob("*.swap"))
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("position", [70, 66], ids=["offset", "record"])
def test_a_log_with_a_broken_batch_is_left_alone_and_the_others_go_on(tmp_path, position):
    async def scenario():
        store = await store_at(tmp_path)
        log, other = store.create(A), store.create(B)
        fill(log, 9)
        fill(other, 3)
        with open(log.segments[0].path, "r+b") as file:
            file.seek(position)
            file.write(b"\xff")
        cleaner = cleaner_of(store)
        assert not await cleaner.clean_dirtiest() and list(cleaner.uncleanable) == [A]
        assert await cleaner.clean_dirtiest() and len(contents(other)) == 1
        await store.close()

    asyncio.run(scenario())


def children() -> set[str]:
    """Process ids of our own; other tests of the same run may have clusters."""
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def test_a_killed_child_ended_the_compaction_of_its_log(tmp_path):
    """The child is killed by the system for want of memory, say; that is no fault of the log."""
    before = children()

    async def scenario():
        store = await store_at(tmp_path)
        log, other = store.create(A, config=config_of(segment_bytes=100)), store.create(B)
        fill(log, 50)
        fill(other, 2)
        cleaner = cleaner_of(store, in_process, log_cleaner_io_max_bytes_per_second=1.0, log_cleaner_backoff_ms=15_000)
        for interruptions in (1, 2):
            cleaning = asyncio.create_task(cleaner.clean_dirtiest())
            while not (made := children() - before):
                await asyncio.sleep(0.001)
            os.kill(int(made.pop()), signal.SIGKILL)
            assert not await cleaning and not cleaner.uncleanable
            cleaner.config.current.log_cleaner_io_max_bytes_per_second = 1e9
            if interruptions == 1:
                assert await cleaner.clean_dirtiest() and len(contents(other)) == 1, "the others go on"
            assert not await cleaner.clean_dirtiest(), "it has its pause"
            cleaner.clock.elapsed_ms += 15_000 * interruptions - 1
            assert not await cleaner.clean_dirtiest()
            cleaner.clock.elapsed_ms += 1
            cleaner.config.current.log_cleaner_io_max_bytes_per_second = 1.0
        cleaner.config.current.log_cleaner_io_max_bytes_per_second = 1e9
        assert await cleaner.clean_dirtiest() and [value for _, _, value in contents(log)] == [b"49"]
        await store.close()

    asyncio.run(scenario())


def test_a_child_that_died_before_it_read_its_task_took_the_log_directory_offline(tmp_path, monkeypatch):
    """The pipe to it is broken, which is an OSError, but none of the disk."""
    start = asyncio.create_subprocess_exec

    async def start_and_kill(*words, **options):
        process = await start(*words, **options)
        process.kill()
        await process.wait()
        return process

    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A)
        fill(log, 3)
        cleaner = cleaner_of(store, in_process)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "create_subprocess_exec", start_and_kill)
            assert not await cleaner.clean_dirtiest() and not cleaner.uncleanable
        assert log.log_directory.offline_reason is None
        cleaner.clock.elapsed_ms += 1e6
        assert await cleaner.clean_dirtiest() and len(contents(log)) == 1
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("problem", [MemoryError(), OSError(errno.EAGAIN, "no process"), PassInterrupted("killed")])
def test_a_pass_without_memory_or_processes_is_made_again(tmp_path, problem):
    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A)
        fill(log, 3)
        problems = [problem]

        async def run_pass(task, rate):
            if problems:
                raise problems.pop()
            async for step in in_executor(OsDisk())(task, rate):
                yield step

        cleaner = cleaner_of(store, run_pass)
        assert not await cleaner.clean_dirtiest() and not cleaner.uncleanable
        assert log.log_directory.offline_reason is None
        cleaner.clock.elapsed_ms += 1e6
        assert await cleaner.clean_dirtiest() and len(contents(log)) == 1
        await store.close()

    asyncio.run(scenario())


def test_a_child_that_ends_before_it_reads_interrupts_the_pass_and_is_no_error_of_its_own(monkeypatch):
    start = asyncio.create_subprocess_exec
    reported = []

    async def start_and_wait(*_, **pipes):
        receiving, sending = os.pipe()
        script = f"exec 0<&-; echo > /dev/fd/{sending}; exit 1"
        process = await start("sh", "-c", script, pass_fds=(sending,), **pipes)
        os.read(receiving, 1)  # its standard input is closed, and the loop has not seen that yet
        os.close(receiving)
        os.close(sending)
        return process

    async def scenario():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        with pytest.raises(PassInterrupted, match="status 1"):
            async for _ in in_process(bytes(1_000_000), 0.0):
                pass

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_wait)
    asyncio.run(scenario())
    gc.collect()  # a future reports an exception that nobody retrieved when it goes
    assert reported == []


def test_a_child_that_was_done_before_its_first_step_was_taken_counted_as_interrupted(tmp_path, monkeypatch):
    """On a busy machine: the broker found its input closed, and read no further."""
    started = []
    start = asyncio.create_subprocess_exec

    async def note_start(*words, **options):
        started.append(await start(*words, **options))
        return started[-1]

    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A)
        fill(log, 3)
        steps = []
        async for step in in_process(task_for(log, part_of(log), Settings(), NOW_MS), 1e9):
            steps.append(step)
            await started[0].wait()
        assert len(steps) == 2
        await store.close()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", note_start)
    asyncio.run(scenario())


def test_an_unexpected_error_in_the_child_is_told_and_the_log_set_aside(tmp_path, capfd):
    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A)
        fill(log, 3)

        def run_pass(task, rate):
            return in_process(replace(task, key_map_bytes="no number"), rate)

        cleaner = cleaner_of(store, run_pass)
        with virtual_time.expected_errors() as seen:
            assert not await cleaner.clean_dirtiest()
        assert seen.count == 1 and list(cleaner.uncleanable) == [A]
        store.delete(A)
        assert not cleaner.uncleanable, "another topic of that name is not to blame"
        await store.close()

    asyncio.run(scenario())
    assert "Traceback" in capfd.readouterr().err


def test_a_pass_that_is_stopped_leaves_no_files(tmp_path):
    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A)
        fill(log, 200)
        cleaner = cleaner_of(store, log_cleaner_io_max_bytes_per_second=100_000.0)
        task = asyncio.create_task(cleaner._work(0))
        while not list((tmp_path / "a-0").glob("*.log.cleaned")):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not list((tmp_path / "a-0").glob("*.cleaned"))
        await store.close()

    asyncio.run(scenario())


def test_a_process_of_its_own_ends_with_the_pass_that_is_given_up(tmp_path):
    before = children()

    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A, config=config_of(segment_bytes=100))
        fill(log, 50)
        task = task_for(log, part_of(log), Settings(), NOW_MS)
        steps = in_process(task, 1.0)
        reading = asyncio.create_task(anext(steps))
        while not children() - before:
            await asyncio.sleep(0.001)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert not children() - before
        await store.close()

    asyncio.run(scenario())


def test_the_throttle_lets_bytes_through_at_its_rate():
    throttle = Throttle(100.0, 50.0)
    assert throttle.pause_s(200, 50.0) == 2.0
    assert throttle.pause_s(100, 52.0) == 1.0
    assert throttle.pause_s(50, 60.0) == 0.0, "what lay still may catch up by a second"
    assert Throttle(1e300, 0.0).pause_s(1 << 40, 1.0) == 0.0


def test_the_brokers_configuration_has_the_settings():
    config = BrokerConfig.from_properties({"zookeeper.connect": "localhost:1", "log.dirs": "/nowhere"})
    for name in Settings.__dataclass_fields__:
        assert hasattr(config, name), name


def test_a_compacted_topic_rolls_as_soon_as_its_records_must_be_compacted(tmp_path):
    async def scenario():
        store = await store_at(tmp_path)
        config = TopicConfig(cleanup_policy=("compact",), max_compaction_lag_ms=1000)
        log = store.create(A, config=config)
        put(log, (b"a", b"1"))
        append(log, batch(timestamp=NOW_MS + 1001))
        assert len(log.segments) == 2
        await store.close()

    asyncio.run(scenario())


def test_the_end_of_a_pass_is_noted_so_that_the_log_is_not_looked_at_again(tmp_path):
    async def scenario():
        store = await store_at(tmp_path)
        log = store.create(A)
        fill(log, 3)
        assert store.upkeep.find_dirty() == [log] and not log.is_noted
        part = DirtyPart(0, log.log_end_offset, 0, 100, False)
        cleaner_of(store)._finish(log, part, CleanedUpTo(log.log_end_offset, *[0] * 5))
        assert store.upkeep.find_dirty() == []
        await store.close()
        assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\na 0 3\n"

    asyncio.run(scenario())
