"""Every rule by which a broker is taken for dead, or is not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafkalite.broker.failure_detection.detector import MIN_BETWEEN_VERDICTS_MS, FailureDetector, Verdict
from kafkalite.broker.failure_detection.evidence import Accusation, Evidence, Sighting
from tests.unit.broker.failure_detection.watcher import EPOCH, LIFE, ME, OTHER, SETTINGS, VICTIM, Watcher


def test_two_brokers_that_were_cut_off_and_refused_take_a_broker_for_dead_at_once() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    assert watcher.accused() == {VICTIM: Evidence.REFUSED}
    assert watcher.verdict() is None
    watcher.be_told(Evidence.REFUSED)
    assert watcher.verdict() == Verdict(VICTIM, EPOCH, Evidence.REFUSED)
    assert watcher.verdict() is None


@pytest.mark.parametrize("refusals", [0, 1])
def test_a_lost_connection_and_one_refusal_are_no_evidence(refusals: int) -> None:
    watcher = Watcher()
    watcher.lose(VICTIM, refusals=refusals)
    watcher.be_told(Evidence.REFUSED)
    assert watcher.accused() == {} and watcher.verdict() is None


def test_refusals_of_a_broker_that_is_connected_are_no_evidence() -> None:
    watcher = Watcher()
    assert not watcher.detector.is_to_be_tried(VICTIM, EPOCH)
    for _ in range(5):
        watcher.detector.note_trial(VICTIM, EPOCH, refused=True)
    assert watcher.accused() == {}


def test_refusals_of_a_broker_that_never_answered_are_no_evidence() -> None:
    watcher = Watcher()
    watcher.detector.note_sign_of_life(VICTIM, EPOCH + 1, LIFE, 0.0, answered=False)
    watcher.lose(VICTIM, EPOCH + 1)
    assert watcher.accused() == {}


def test_a_trial_that_is_not_refused_begins_the_count_anew() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM, refusals=1)
    watcher.detector.note_trial(VICTIM, EPOCH, refused=False)
    watcher.detector.note_trial(VICTIM, EPOCH, refused=True)
    assert watcher.accused() == {} and watcher.detector.is_suspected(VICTIM)
    watcher.detector.note_trial(VICTIM, EPOCH, refused=True)
    assert watcher.accused() == {VICTIM: Evidence.REFUSED}
    assert not watcher.detector.is_to_be_tried(VICTIM, EPOCH)


def test_an_answer_ends_every_accusation() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED)
    watcher.answer(VICTIM)
    assert watcher.accused() == {} and watcher.verdict() is None and not watcher.detector.is_suspected(VICTIM)


def test_a_heartbeat_that_was_under_way_does_not_take_back_that_a_broker_refuses() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.detector.note_sign_of_life(VICTIM, EPOCH, LIFE, watcher.now_ms, answered=False)
    assert watcher.accused() == {VICTIM: Evidence.REFUSED}


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_accusers_of_another_registration_do_not_count(epoch: int) -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED, epoch=epoch)
    assert watcher.verdict() is None


def test_a_new_registration_is_innocent() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED)
    watcher.answer(VICTIM, epoch=EPOCH + 1, life=b"another process.")
    assert watcher.accused() == {} and watcher.verdict() is None
    watcher.answer(VICTIM, epoch=EPOCH)  # under way since before
    watcher.lose(VICTIM, EPOCH)
    assert watcher.accused() == {}


def test_an_accusation_counts_only_as_long_as_it_is_repeated() -> None:
    watcher = Watcher()
    watcher.be_told(Evidence.REFUSED)
    watcher.detector.note_accusations(OTHER, (), watcher.now_ms)
    watcher.lose(VICTIM)
    assert watcher.verdict() is None
    watcher.be_told(Evidence.REFUSED)
    del watcher.accusers[OTHER]
    watcher.now_ms += 601
    watcher.detector.tick(watcher.now_ms, has_zookeeper=True)
    watcher.answer()
    assert watcher.verdict() is None


def test_strangers_and_the_accused_itself_are_no_witnesses() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED, by=9)
    watcher.be_told(Evidence.REFUSED, by=VICTIM)
    assert watcher.verdict() is None


def test_silence_counts_from_the_last_answer_and_needs_two() -> None:
    watcher = Watcher()
    watcher.answering.remove(VICTIM)
    assert watcher.pass_time(1200) == [] and watcher.accused() == {}
    assert watcher.pass_time(200) == [] and watcher.accused() == {VICTIM: Evidence.SILENT}
    watcher.be_told(Evidence.SILENT)
    assert watcher.verdict() == Verdict(VICTIM, EPOCH, Evidence.SILENT)


def test_silence_and_refusal_together_are_silence() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.SILENT)
    assert watcher.verdict() == Verdict(VICTIM, EPOCH, Evidence.SILENT)


def test_a_pause_of_this_process_is_no_silence_of_others() -> None:
    watcher = Watcher()
    watcher.be_told(Evidence.SILENT)
    for pause_ms in (5_000, 60_000):
        watcher.now_ms += pause_ms
        assert watcher.turn() == [] and watcher.accused() == {}
    watcher.answering.remove(VICTIM)
    watcher.pass_time(800)
    watcher.now_ms += 5_000
    watcher.turn()
    assert watcher.pass_time(200) == [] and watcher.accused() == {}
    assert len(watcher.pass_time(200)) == 1


def test_silence_can_be_switched_off_and_is_never_shorter_than_three_heartbeats() -> None:
    deaf = Watcher(settings=SETTINGS._replace(silence_ms=0))
    deaf.answering.remove(VICTIM)
    assert deaf.pass_time(60_000) == [] and deaf.accused() == {}
    hasty = Watcher(settings=SETTINGS._replace(silence_ms=1))
    hasty.answering.remove(VICTIM)
    hasty.pass_time(600)
    assert hasty.accused() == {}
    hasty.pass_time(200)
    assert hasty.accused() == {VICTIM: Evidence.SILENT}


def test_without_zookeeper_nobody_is_accused() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED)
    watcher.has_zookeeper = False
    assert watcher.pass_time(2_000) == [] and watcher.accused() == {}
    watcher.has_zookeeper = True
    assert len(watcher.pass_time(200)) == 1


@pytest.mark.parametrize("brokers", [(1, 3), (1, 2, 3), (1, 2, 3, 4)])
def test_who_has_lost_half_of_the_cluster_accuses_nobody(brokers: tuple[int, ...]) -> None:
    watcher = Watcher(*brokers)
    others = [each for each in brokers if each != ME]
    for each in others[-((len(brokers)) // 2 + len(brokers) % 2) :]:
        watcher.lose(each)
    watcher.be_told(Evidence.REFUSED, by=others[0], of=others[-1])
    assert watcher.accused() == {} and watcher.verdict() is None


def test_two_of_five_may_die_at_once_with_a_pause_between_the_verdicts() -> None:
    watcher = Watcher(1, 2, 3, 4, 5)
    watcher.lose(3)
    watcher.lose(4)
    both = (Accusation(3, EPOCH, Evidence.REFUSED), Accusation(4, EPOCH, Evidence.REFUSED))
    watcher.detector.note_accusations(2, both, watcher.now_ms)
    assert watcher.verdict() == Verdict(3, EPOCH, Evidence.REFUSED)
    watcher.now_ms += MIN_BETWEEN_VERDICTS_MS - 1
    assert watcher.verdict() is None
    watcher.now_ms += 1
    assert watcher.verdict() == Verdict(4, EPOCH, Evidence.REFUSED)


@pytest.mark.parametrize("brokers", [(1, 2, 3, 4, 5), range(1, 10)], ids=len)
def test_two_silent_of_four_may_be_one_half_of_a_cluster_that_has_lost_the_other(brokers: Iterable[int]) -> None:
    watcher = Watcher(*brokers)
    victims = watcher.detector.neighbours[1:3]
    witness = watcher.detector.neighbours[0]
    for each in victims:
        watcher.answering.remove(each)
    watcher.accusers[witness] = tuple(Accusation(each, EPOCH, Evidence.SILENT) for each in victims)
    assert watcher.pass_time(10_000) == [] and watcher.accused() == {}
    watcher.answering.append(victims[0])
    assert watcher.pass_time(600) == [Verdict(victims[1], EPOCH, Evidence.SILENT)]


def seen(*heard: int, lost: tuple[int, ...] = ()) -> list[Sighting]:
    return [Sighting(each, EPOCH, True) for each in heard] + [Sighting(each, EPOCH, False) for each in lost]


def test_whom_neighbours_do_not_hear_counts_in_a_large_cluster() -> None:
    """Of two racks with 50 brokers each a broker watches two in either; by what its neighbours say it has lost four of eight."""
    watcher = Watcher(*range(1, 101))  # 1 watches 99, 100, 2, 3
    for lost in (2, 100):
        watcher.lose(lost)
        watcher.be_told(Evidence.REFUSED, by=3, of=lost)
    watcher.answer(3, 99)
    watcher.detector.note_sightings(3, seen(1, 5, lost=(2, 4)), watcher.now_ms)
    watcher.detector.note_sightings(99, seen(1, 97, lost=(98, 100)), watcher.now_ms)
    assert watcher.accused() == {} and watcher.verdict() is None
    watcher.detector.note_sightings(99, seen(1, 97, 98, lost=(100,)), watcher.now_ms)
    assert watcher.accused() == {2: Evidence.REFUSED, 100: Evidence.REFUSED}


def test_what_a_broker_saw_last_is_over_when_it_is_lost_itself() -> None:
    watcher = Watcher(1, 2, 3, 4, 5)
    watcher.detector.note_sightings(4, seen(1, 2, 3, 5), watcher.now_ms)
    watcher.lose(3)
    watcher.be_told(Evidence.REFUSED)
    assert watcher.verdict() is None, "4 hears 3"
    watcher.lose(4)
    assert watcher.verdict() == Verdict(3, EPOCH, Evidence.REFUSED)


def test_nobody_is_judged_whom_a_third_broker_hears_in_this_registration() -> None:
    watcher = Watcher(1, 2, 3, 4, 5)
    watcher.lose(3)
    watcher.be_told(Evidence.REFUSED)
    watcher.detector.note_sightings(4, seen(3), watcher.now_ms)
    assert watcher.accused() == {} and watcher.verdict() is None, "nor does it tell those who do not hear the third one"
    watcher.detector.note_sightings(3, seen(3), watcher.now_ms)
    watcher.detector.note_sightings(9, seen(3), watcher.now_ms)
    watcher.detector.note_sightings(4, [Sighting(3, EPOCH - 1, True)], watcher.now_ms)
    assert watcher.verdict() == Verdict(3, EPOCH, Evidence.REFUSED), (
        "neither itself counts, nor who is not registered, nor another registration"
    )


def test_a_sighting_counts_only_as_long_as_it_is_repeated() -> None:
    watcher = Watcher(1, 2, 3, 4, 5)
    watcher.detector.note_sightings(4, seen(3), watcher.now_ms)
    watcher.lose(3)
    watcher.be_told(Evidence.REFUSED)
    assert watcher.pass_time(600) == []
    assert watcher.pass_time(200) == [Verdict(3, EPOCH, Evidence.REFUSED)]


def test_who_is_heard_is_told_to_others() -> None:
    watcher = Watcher(1, 2, 3, 4)
    watcher.detector.set_brokers((1, 2, 3, 4, 5))
    watcher.lose(VICTIM)
    assert sorted(watcher.detector.sightings(watcher.now_ms), key=lambda each: each.broker_id) == [
        Sighting(2, EPOCH, True),
        Sighting(3, EPOCH, False),
        Sighting(4, EPOCH, True),
    ], "of 5, which never answered, nothing is known"


def test_a_broker_that_is_a_neighbour_again_was_not_silent_meanwhile() -> None:
    """As in a cluster with racks when a broker is restarted: the ring shifts, and shifts back."""
    small, large = (1, 2, 3, 6, 7, 8, 9), range(1, 10)
    watcher = Watcher(*small)  # 1 watches 2, 3, 8, 9
    watcher.lose(3, refusals=1)
    watcher.detector.set_brokers(range(100, 110))
    assert not watcher.detector.is_suspected(3)
    watcher.detector.set_brokers(large)
    watcher.answering = []
    watcher.detector.set_brokers(small)
    for each in (2, 3, 8, 9):
        watcher.detector.note_sign_of_life(each, EPOCH, LIFE, watcher.now_ms, answered=True)
    watcher.detector.set_brokers(range(100, 110))
    watcher.answering = list(watcher.detector.neighbours)
    watcher.pass_time(60_000)
    watcher.detector.set_brokers(small)
    watcher.answering = [2, 8, 9]
    watcher.be_told(Evidence.SILENT)
    assert watcher.pass_time(1_000) == [] and watcher.accused() == {}


def test_a_verdict_holds_as_long_as_it_would_be_given() -> None:
    watcher = Watcher(1, 2, 3, 4, 5)
    watcher.lose(3)
    watcher.be_told(Evidence.REFUSED)
    verdict = watcher.verdict()
    assert verdict is not None and watcher.detector.still_holds(verdict, watcher.now_ms)
    watcher.detector.note_sightings(4, seen(3), watcher.now_ms)
    assert not watcher.detector.still_holds(verdict, watcher.now_ms)
    watcher.detector.note_sightings(4, seen(lost=(3,)), watcher.now_ms)
    watcher.detector.note_accusations(OTHER, (), watcher.now_ms)
    assert not watcher.detector.still_holds(verdict, watcher.now_ms)
    watcher.be_told(Evidence.REFUSED)
    assert watcher.detector.still_holds(verdict, watcher.now_ms)
    watcher.answer(3, epoch=EPOCH + 1)
    assert not watcher.detector.still_holds(verdict, watcher.now_ms)


def test_who_deferred_a_verdict_was_wrong_if_others_ended_the_session_of_one_that_lives() -> None:
    for epoch, is_wrong in ((EPOCH, False), (EPOCH + 1, True)):
        watcher = Watcher()
        watcher.lose(VICTIM)
        watcher.be_told(Evidence.REFUSED)
        verdict = watcher.verdict()
        assert verdict is not None
        watcher.detector.defer(verdict)
        assert watcher.pass_time(400) == [verdict], "it is given again"
        watcher.detector.defer(verdict)
        watcher.accusers.clear()
        watcher.now_ms += 2_000
        assert watcher.answer(VICTIM, epoch=epoch) == ([verdict] if is_wrong else [])
        assert watcher.detector.patience == 1 + is_wrong


def test_each_broker_has_four_witnesses_in_the_ring() -> None:
    watched = {}
    for broker in range(1, 10):
        detector = FailureDetector(broker, SETTINGS, 0.0)
        detector.set_brokers(range(1, 10))
        watched[broker] = detector.neighbours
    assert watched[1] == [2, 3, 8, 9] and watched[5] == [3, 4, 6, 7]
    assert all(broker in watched[other] for broker in watched for other in watched[broker])
    alone = FailureDetector(1, SETTINGS, 0.0)
    alone.set_brokers([1])
    assert list(alone.neighbours) == []


def test_witnesses_of_a_broker_are_in_other_racks() -> None:
    """Whoever stood in the middle of its rack died with all its witnesses, and its session had to time out."""
    racks = {broker: f"rack-{broker // 10}" for broker in range(100)}
    watched = {}
    for broker in racks:
        detector = FailureDetector(broker, SETTINGS, 0.0)
        detector.set_brokers(racks, racks)
        watched[broker] = detector.neighbours
    for broker, rack in racks.items():
        witnesses = [other for other in racks if broker in watched[other]]
        assert len(witnesses) == 4
        assert rack not in {racks[other] for other in witnesses}


def test_brokers_without_a_rack_stand_together_in_the_ring() -> None:
    detector = FailureDetector(1, SETTINGS, 0.0)
    detector.set_brokers([1, 2, 3, 4, 5, 6], {5: "a", 6: "b"})  # 1 5 6 2 3 4
    assert detector.neighbours == [3, 4, 5, 6]


def test_a_detector_that_was_wrong_needs_twice_the_evidence() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED)
    verdict = watcher.verdict()
    watcher.answering.append(VICTIM)
    assert watcher.answer(VICTIM, epoch=EPOCH + 1) == [verdict]
    assert watcher.detector.patience == 2
    watcher.lose(VICTIM, EPOCH + 1, refusals=3)
    assert watcher.accused() == {}
    watcher.detector.note_trial(VICTIM, EPOCH + 1, refused=True)
    assert watcher.accused() == {VICTIM: Evidence.REFUSED}


def test_the_successor_of_a_dead_broker_proves_nobody_wrong() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED)
    assert watcher.verdict() is not None
    assert watcher.answer(VICTIM, epoch=EPOCH + 1, life=b"another process.") == []
    assert watcher.answer(VICTIM, epoch=EPOCH + 2) == []
    assert watcher.detector.patience == 1


def test_what_a_dead_broker_had_sent_proves_nobody_wrong_but_a_later_answer_does() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED)
    verdict = watcher.verdict()
    late = watcher.detector.note_sign_of_life(VICTIM, EPOCH, LIFE, watcher.now_ms + 999, answered=False)
    assert late is None
    watcher.now_ms += 1_000
    assert watcher.answer(VICTIM) == [verdict]


def test_a_verdict_that_was_not_carried_out_is_given_again_unless_it_is_withdrawn_for_good() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.be_told(Evidence.REFUSED)
    verdict = watcher.verdict()
    assert verdict is not None and watcher.pass_time(1_000) == []
    watcher.detector.withdraw(verdict, for_good=False)
    assert watcher.pass_time(400) == [verdict]
    watcher.detector.withdraw(verdict, for_good=True)
    assert watcher.pass_time(1_000) == []
    watcher.answer(VICTIM)
    watcher.lose(VICTIM)
    assert watcher.pass_time(400) == [verdict]
    assert watcher.detector.patience == 1


def test_brokers_that_are_gone_are_forgotten() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.detector.set_brokers([ME, OTHER])
    watcher.detector.set_brokers([ME, OTHER, VICTIM])
    assert watcher.accused() == {} and not watcher.detector.is_suspected(VICTIM)


def test_a_broker_that_stops_is_accused_of_nothing() -> None:
    watcher = Watcher()
    watcher.be_told(Evidence.REFUSED)
    watcher.detector.note_leave(VICTIM, EPOCH)
    watcher.lose(VICTIM)
    assert watcher.pass_time(5000) == [] and watcher.accused() == {}


def test_what_was_accused_before_it_took_leave_is_not_any_more() -> None:
    watcher = Watcher()
    watcher.lose(VICTIM)
    watcher.detector.note_leave(VICTIM, EPOCH)
    assert watcher.accused() == {}


def test_a_leave_is_of_one_registration() -> None:
    watcher = Watcher()
    watcher.detector.note_leave(VICTIM, EPOCH)
    watcher.answer(VICTIM, epoch=EPOCH + 1)
    watcher.detector.note_leave(VICTIM, EPOCH)
    watcher.lose(VICTIM, EPOCH + 1)
    assert watcher.accused() == {VICTIM: Evidence.REFUSED}
