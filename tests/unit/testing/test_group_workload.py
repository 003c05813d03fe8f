"""The judge of consumer groups notices each broken promise."""

from __future__ import annotations

from kafkalite.testing.workloads.group_workload import Acknowledged, Fetched, GroupHistory, judge


def history(
    *, commits: tuple[Acknowledged, ...] = (), fetches: tuple[Fetched, ...] = (), read: int = 100
) -> GroupHistory:
    made = GroupHistory(list(commits), list(fetches))
    made.read[0] = set(range(read))
    return made


def test_a_good_history() -> None:
    good = history(
        commits=(Acknowledged(1, 0, 5), Acknowledged(3, 0, 9)),
        fetches=(Fetched(0, 0, -1, 1), Fetched(2, 0, 5, 2), Fetched(2.5, 0, 9, 3), Fetched(4, 0, 9, 4)),
    )
    assert judge(good, {0: 9}) == []


def test_an_acknowledged_commit_is_lost() -> None:
    assert judge(history(commits=(Acknowledged(1, 0, 5),), fetches=(Fetched(2, 0, 4, 3),)))[0].startswith("G1")


def test_an_offset_goes_back() -> None:
    assert judge(history(fetches=(Fetched(1, 0, 7, 2), Fetched(2, 0, 6, 3))))[0].startswith("G2")


def test_the_answer_to_who_asked_earlier_may_come_later_and_say_less() -> None:
    """Two watchers ask at once: what the second was told binds only those who ask after that."""
    asked_at_once = (Fetched(1, 0, 5, 4), Fetched(2, 0, 7, 3))
    assert judge(history(fetches=asked_at_once)) == []
    assert judge(history(fetches=(*asked_at_once, Fetched(3, 0, 6, 5))))[0] == "G2 partition 0: 6 after 7"


def test_a_record_is_skipped() -> None:
    assert judge(history(commits=(Acknowledged(1, 0, 5),), read=4))[0].startswith("G3")


def test_a_group_stops_short() -> None:
    assert judge(history(commits=(Acknowledged(1, 0, 5),)), {0: 6})[0].startswith("G4")
    assert judge(history(), {0: 6})[0].startswith("G4")
