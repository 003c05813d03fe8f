"""How long a silent broker has whose host answers, acknowledges or rejects."""

from __future__ import annotations

from kafkalite.broker.failure_detection.detector import Verdict
from kafkalite.broker.failure_detection.evidence import Evidence
from tests.unit.broker.failure_detection.watcher import EPOCH, OTHER, SETTINGS, VICTIM, Watcher


def test_a_broker_whose_system_acknowledges_may_stand_still_for_longer() -> None:
    watcher = Watcher()
    watcher.acknowledging = {VICTIM}
    watcher.be_told(Evidence.SILENT)
    watcher.answering = [OTHER]
    assert watcher.pass_time(4.0 * SETTINGS.silence_ms) == []
    assert watcher.pass_time(2 * SETTINGS.heartbeat_interval_ms) == [Verdict(VICTIM, EPOCH, Evidence.SILENT)]


def test_a_host_that_vanishes_meanwhile_has_no_longer_than_others() -> None:
    watcher = Watcher()
    watcher.acknowledging = {VICTIM}
    watcher.be_told(Evidence.SILENT)
    watcher.answering = [OTHER]
    assert watcher.pass_time(2 * SETTINGS.silence_ms) == []
    watcher.acknowledging = set()
    assert watcher.pass_time(SETTINGS.heartbeat_interval_ms) == [Verdict(VICTIM, EPOCH, Evidence.SILENT)]


def test_a_host_that_accepts_connections_has_as_long_as_one_that_acknowledges() -> None:
    watcher = Watcher()
    watcher.be_told(Evidence.SILENT)
    watcher.answering = [OTHER]
    accepts, tried = True, []

    def pass_time(ms: float) -> list[Verdict]:
        found = []
        for _ in range(round(ms / SETTINGS.heartbeat_interval_ms)):
            found += watcher.pass_time(SETTINGS.heartbeat_interval_ms)
            if watcher.detector.find_silent(watcher.now_ms) == [(VICTIM, EPOCH)]:
                tried.append(watcher.now_ms)
                if accepts:
                    watcher.detector.note_accepted(VICTIM, EPOCH, watcher.now_ms)
        return found

    assert pass_time(2 * SETTINGS.silence_ms) == []
    assert tried == list(range(800, 2600, 200)), "from half the limit on, with every heartbeat"
    accepts = False
    assert pass_time(4 * SETTINGS.heartbeat_interval_ms) == [Verdict(VICTIM, EPOCH, Evidence.SILENT)]


def test_a_host_that_accepts_connections_has_its_limit_too() -> None:
    watcher = Watcher()
    watcher.be_told(Evidence.SILENT)
    watcher.answering = [OTHER]
    found = []
    while not found and watcher.now_ms < 10_000:
        watcher.detector.note_accepted(VICTIM, EPOCH, watcher.now_ms)
        found = watcher.pass_time(SETTINGS.heartbeat_interval_ms)
    assert found == [Verdict(VICTIM, EPOCH, Evidence.SILENT)]
    assert watcher.now_ms == 4 * SETTINGS.silence_ms + SETTINGS.heartbeat_interval_ms


def test_whose_host_turns_out_to_live_is_accused_no_more_within_its_time() -> None:
    watcher = Watcher()
    watcher.answering = [OTHER]
    watcher.pass_time(SETTINGS.silence_ms + SETTINGS.heartbeat_interval_ms)
    assert watcher.accused() == {VICTIM: Evidence.SILENT}
    assert watcher.detector.find_silent(watcher.now_ms) == [(VICTIM, EPOCH)], "its host is tried further on"
    watcher.detector.note_accepted(VICTIM, EPOCH, watcher.now_ms)
    watcher.be_told(Evidence.SILENT)
    assert watcher.pass_time(2 * SETTINGS.heartbeat_interval_ms) == [] and watcher.accused() == {}
    watcher.acknowledging = {VICTIM}
    assert watcher.pass_time(2 * SETTINGS.silence_ms) == [] and watcher.accused() == {}
    assert watcher.pass_time(SETTINGS.silence_ms) == [Verdict(VICTIM, EPOCH, Evidence.SILENT)], "its time is over"
    assert watcher.detector.find_silent(watcher.now_ms) == []


def test_that_a_host_accepted_is_no_older_for_the_time_in_which_this_process_stood_still() -> None:
    """Watcher and watched were stopped together, the one for a little longer."""
    watcher = Watcher()
    watcher.be_told(Evidence.SILENT)
    watcher.answering = [OTHER]
    watcher.pass_time(SETTINGS.silence_ms)
    watcher.detector.note_accepted(VICTIM, EPOCH, watcher.now_ms)
    watcher.now_ms += 3000
    assert watcher.pass_time(2 * SETTINGS.heartbeat_interval_ms) == [] and watcher.accused() == {}


def test_listeners_are_tried_of_silent_brokers_that_may_be_accused_alone() -> None:
    watcher = Watcher()
    assert watcher.detector.find_silent(watcher.now_ms) == []
    watcher.answering = [OTHER]
    watcher.pass_time(SETTINGS.silence_ms)
    assert watcher.detector.find_silent(watcher.now_ms) == [(VICTIM, EPOCH)]
    watcher.detector.note_accepted(VICTIM, EPOCH - 1, watcher.now_ms)
    assert watcher.detector.find_silent(watcher.now_ms) == [(VICTIM, EPOCH)], "another registration's host"
    watcher.detector.note_leave(VICTIM, EPOCH)
    assert watcher.detector.find_silent(watcher.now_ms) == []


def test_a_broker_that_rejects_this_one_is_not_silent() -> None:
    watcher = Watcher()
    watcher.answering.remove(VICTIM)
    watcher.be_told(Evidence.SILENT)
    for _ in range(10):
        watcher.detector.note_connection_lost(VICTIM)
        watcher.detector.note_rejection(VICTIM, watcher.now_ms)
        assert watcher.pass_time(1_000) == [] and watcher.accused() == {}
    assert len(watcher.pass_time(400)) == 1, "it is silent now"


def test_a_rejection_ends_silence_and_is_none_of_those_that_are_heard() -> None:
    watcher = Watcher()
    watcher.answering.remove(VICTIM)
    watcher.pass_time(1_400)
    assert watcher.accused() == {VICTIM: Evidence.SILENT}
    watcher.detector.note_rejection(VICTIM, watcher.now_ms)
    assert watcher.accused() == {}
    watcher.detector.note_connection_lost(VICTIM)
    watcher.detector.note_connection_lost(OTHER)
    watcher.detector.note_rejection(VICTIM, watcher.now_ms)
    watcher.detector.note_rejection(OTHER, watcher.now_ms)
    for _ in range(2):
        watcher.detector.note_trial(VICTIM, EPOCH, refused=True)
    assert watcher.accused() == {}, "nobody is heard"
    watcher.answer(OTHER)
    assert watcher.accused() == {VICTIM: Evidence.REFUSED}
    watcher.detector.note_rejection(9, watcher.now_ms)  # nobody knows it
