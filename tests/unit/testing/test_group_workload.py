"""The judge of consumer groups notices each broken promise."""

from __future__ import annotations

import itertools

from kafkalite.testing.history.events import CommitAcknowledged, CommitInvoked, Event, OffsetFetched
from kafkalite.testing.history.recorder import Recorder
from kafkalite.testing.workloads.group_workload import GroupHistory, judge


def commit(at_ns: int, offset: int) -> list[Event]:
    """Acknowledged at once; its number is its moment."""
    invoked = CommitInvoked(at_ns, "g", "m", at_ns, "t", 0, offset)
    return [invoked, CommitAcknowledged(at_ns, "g", "m", at_ns, -1)]


def told(asked_ns: int, offset: int, answered_ns: int) -> Event:
    return OffsetFetched(answered_ns, asked_ns, "watcher", "g", "t", 0, offset)


def history(*events: Event | list[Event], read: int = 100) -> GroupHistory:
    made = GroupHistory("g", "t", Recorder(lambda: 0))
    made.record_start("m")
    for offset in range(read):
        made.record_read("m", 0, offset)
    for event in events:
        for each in event if isinstance(event, list) else [event]:
            made.recorder.add(each)
            if isinstance(each, CommitInvoked):
                made.acknowledged.append((0, each.offset))
    return made


def test_a_good_history() -> None:
    good = history(told(0, -1, 1), commit(1, 5), told(2, 5, 2), commit(3, 9), told(2, 9, 4), told(4, 9, 5))
    assert judge(good, {0: 9}) == []


def test_an_acknowledged_commit_is_lost() -> None:
    (lost,) = judge(history(commit(1, 5), told(2, -1, 3)))
    assert lost == "C11 g t-0: watcher was told of no offset after 5 was acknowledged"


def test_an_offset_goes_back() -> None:
    back = judge(history(commit(1, 6), commit(3, 7), told(4, 7, 5), told(6, 6, 7)))
    assert "C11 g t-0: watcher was told of 6 after 7 had been told" in back


def test_the_answer_to_who_asked_earlier_may_come_later_and_say_less() -> None:
    """Two watchers ask at once: what the second was told binds only those who ask after that."""
    asked_at_once = (commit(1, 5), told(1, 5, 5), *commit(2, 7)[:1], told(2, 7, 3))
    assert judge(history(*asked_at_once)) == []
    assert "C11 g t-0: watcher was told of 5 after 7 had been told" in judge(history(*asked_at_once, told(3, 5, 6)))


def test_a_record_is_skipped() -> None:
    assert judge(history(commit(1, 5), read=4)) == ["C11 g t-0: 5 is committed, and no member has read [4]"]


def test_a_group_stops_short() -> None:
    assert judge(history(commit(1, 5)), {0: 6}) == ["partition 0: 5 of 6 committed"]
    assert judge(history(), {0: 6}) == ["partition 0: 0 of 6 committed"]


def test_what_members_do_is_recorded() -> None:
    made = GroupHistory("g", "t")
    made.record_start("m")
    numbers = made.record_invocations("m", {0: 5, 1: 7})
    made.record_commit("m", numbers[1], 1, 7)
    made.record_fetch(made.recorder.now_ns(), 1, 7)
    for offset in range(7):
        made.record_read("m", 1, offset)
    assert judge(made, {1: 7}) == []
    assert judge(made, {0: 5}) == ["partition 0: 0 of 5 committed"]


def test_a_partition_has_two_members() -> None:
    made = history()
    made.record_assignment("m", 4, [0])
    made.record_assignment("other", 4, [0])
    assert judge(made) == ["C12 g t-0: m and other have it in generation 4"]


def test_a_member_of_an_earlier_generation_commits() -> None:
    made = GroupHistory("g", "t", Recorder(itertools.count().__next__))
    for generation in (4, 3):
        numbers = made.record_invocations("m", {0: 5})
        made.record_commit("m", numbers[0], 0, 5, generation)
    assert judge(made) == ["C12 g t-0: m committed in generation 3, after m had in 4"]
