"""Logs that are opened by their summaries: as they were, without a look into their files."""

from __future__ import annotations

from tests.unit.storage.logs import NOW_MS, append, batch, produced
from tests.unit.storage.stores import A0, A1, B0, close, die, opened
from tests.unit.storage.summarized_stores import ROOT, SUMMARIES, CountingDisk, facts_of, filled, summarize


def test_a_start_after_a_clean_stop_reads_no_log():
    disk = CountingDisk()
    store = filled(disk)
    close(store)
    before = facts_of(store)
    for _ in range(2):
        disk.asked_by_log()
        store = opened(ROOT, disk=disk)
        assert not disk.asked_by_log() and store.lost_nothing
        assert facts_of(store) == before
        disk.asked_by_log()
        close(store)


def test_a_start_after_a_kill_reads_the_logs_that_changed():
    disk = CountingDisk()
    close(filled(disk))
    store = opened(ROOT, disk=disk)
    disk.clock.now += 5000
    append(store.get(A1), produced(7, 5), epoch=3)
    before = facts_of(store)
    die(store)
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-1"} and not store.lost_nothing
    assert {each: facts[:4] for each, facts in facts_of(store).items()} == {
        each: facts[:4] for each, facts in before.items()
    }
    die(store)
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert not disk.asked_by_log(), "what was found is summarized at once"
    append(store.get(A1), produced(7, 6), epoch=3)
    assert store.get(A1).log_end_offset == 7


def test_logs_that_are_left_alone_are_summarized_meanwhile():
    disk = CountingDisk()
    store = filled(disk)
    summarize(store)
    disk.clock.now += 1000
    append(store.get(A0), batch(), epoch=4)
    summarize(store)
    die(store)
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert disk.asked_by_log().keys() == {"a-0"}
    for number in range(3):
        disk.clock.now += 1000
        append(store.get(B0), batch(), epoch=4)
        before = facts_of(store)
        summarize(store)
        summarize(store)
        disk.asked_by_log()
        summarize(store)
        assert not disk.asked_by_log(), "there is nothing new"
        die(store)
        store = opened(ROOT, disk=disk)
        assert not disk.asked_by_log() and facts_of(store) == before and store.get(B0).log_end_offset == number + 1


def test_a_file_of_summaries_does_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr("kafkalite.storage.directories.log_summaries._LEAST_GROWTH_BYTES", 0)
    disk = CountingDisk()
    store = filled(disk)
    sizes = []
    for _ in range(100):
        disk.clock.now += 50
        append(store.get(B0), batch(), epoch=4)
        summarize(store)
        summarize(store)
        sizes.append(disk.status(SUMMARIES).size)
    assert max(sizes) < 5_000
    die(store)
    disk.asked_by_log()
    assert opened(ROOT, disk=disk).get(B0).log_end_offset == 100 and not disk.asked_by_log()


def test_a_stop_changes_logs_that_were_killed_before():
    """Their producers were in no snapshot yet."""
    disk = CountingDisk()
    die(filled(disk))
    die(opened(ROOT, disk=disk))
    store = opened(ROOT, disk=disk)
    disk.clock.now += 1000
    close(store)
    disk.asked_by_log()
    opened(ROOT, disk=disk)
    assert not disk.asked_by_log()


def test_a_log_that_was_opened_by_its_summary_goes_on():
    disk = CountingDisk()
    close(filled(disk))
    store = opened(ROOT, disk=disk)
    for log in store.all_logs():
        for number in range(50):
            append(log, batch(3, value=bytes(200), timestamp=NOW_MS + number), epoch=5)
        log.truncate_to(log.log_end_offset - 20)
        log.roll(NOW_MS)
        append(log, batch(), epoch=6)
    die(store)
    store = opened(ROOT, disk=disk)
    before = facts_of(store)
    disk.remove(SUMMARIES)
    die(store)
    assert facts_of(opened(ROOT, disk=disk)) == before


def test_duplicates_are_recognized_after_a_kill_as_before_it():
    """A snapshot of producers has one batch of each; five may be sent again."""
    disk = CountingDisk()
    die(filled(disk))
    store = opened(ROOT, disk=disk)
    die(store)
    disk.asked_by_log()
    store = opened(ROOT, disk=disk)
    assert not disk.asked_by_log()
    for number in range(5):
        assert append(store.get(A1), produced(7, number), epoch=3).first_offset == number
    assert store.get(A1).log_end_offset == 5
