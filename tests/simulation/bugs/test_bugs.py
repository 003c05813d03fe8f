"""Each bug has its place in the present source, is in the program only as long as it is put in, and a few are hunted for."""

from __future__ import annotations

import pytest

from kafkalite.storage.cleaning import compaction
from tests.case import case
from tests.simulation.bugs.hunt import BUGS, TRANSCRIPTS, hunt, live, what_found
from tests.simulation.bugs.patching import Bug, Edit, Misplaced, put_in
from tests.simulation.bugs.replays import replays
from tests.simulation.bugs.table import TABLE, by_transcript, parse, row, written
from zk import election
from zk.election import offline

FOUND_AT_ONCE = (
    "acks=all is acknowledged before replication",
    "a new coordinator does not read the log",
    "a client shows aborted records",
)
SEEDS = range(14)
"""As many as surely suffice."""
LASTING_DEATHS = range(18, 120, 40)
"""Seeds under pressure in which a member of the group dies and is not replaced."""


def test_every_bug_has_its_place() -> None:
    for bug in BUGS:
        with case(bug.name), put_in(bug):
            pass
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 84


def test_a_bug_is_in_the_program_while_it_is_put_in() -> None:
    unclean = next(bug for bug in BUGS if bug.name == "elections are unclean although that is forbidden")
    assert offline([1, 2], [3], [1, 2], unclean_allowed=False) is None
    with put_in(unclean):
        assert offline([1, 2], [3], [1, 2], unclean_allowed=False) is not None
        assert election.offline is offline
    assert offline([1, 2], [3], [1, 2], unclean_allowed=False) is None


def test_a_bug_whose_code_has_changed_is_refused() -> None:
    gone = Bug("gone", "", (Edit("zk.election", "this is not there", ""),))
    elsewhere = Bug("elsewhere", "", (Edit("zk.election", "import annotations\n", "import annotations\nX = 1\n"),))
    before = {name: vars(compaction)[name] for name in dir(compaction)}
    for bug in (gone, elsewhere):
        with pytest.raises(Misplaced, match=bug.name), put_in(bug):
            pass
    assert {name: vars(compaction)[name] for name in dir(compaction)} == before


@pytest.mark.parametrize("name", FOUND_AT_ONCE)
def test_the_simulation_finds(name: str) -> None:
    bug = next(bug for bug in BUGS if bug.name == name)
    assert hunt(bug, SEEDS).is_caught


def test_a_rebalance_of_others_does_not_hide_that_silent_members_stay() -> None:
    """Another member in the place of the dead one would start a rebalance, whose timeout removes the dead one in time."""
    bug = next(bug for bug in BUGS if bug.name == "members that are silent stay in their group")
    live(LASTING_DEATHS[0])
    assert hunt(bug, LASTING_DEATHS).by == "C15"


def test_what_found_a_bug_is_told_by_its_rules() -> None:
    told = {
        "2 violations (C1 9):\n  C8 t-0: differ\n  C1 t-0: lost": "C1, C8",
        "all replicas in sync: not within 120 s": "C15",
        "broker-1 stops: the ISR is wrong": "an invariant of the broker",
        "broker-1 logged: what nobody expected": "an error that a broker logged",
        "assert {} == {1: 2}": "a check of the scenario",
    }
    assert {text: what_found(AssertionError(text)) for text in told} == told
    assert what_found(TimeoutError()) == "C15"


def test_a_table_is_read_as_it_was_written() -> None:
    rows = {BUGS[0].name: row(by_transcript("t"), 0), BUGS[1].name: row("C1, C8", 7), BUGS[3].name: row("", 100)}
    assert parse(written(BUGS, rows)) == rows
    assert [(each.is_found, each.transcript, each.seed) for each in rows.values()] == [
        (True, "t", None),
        (True, "", 6),
        (False, "", None),
    ]


def test_what_found_a_bug_before_is_tried_first() -> None:
    tried: list[int] = []

    def live(seed: int) -> None:
        tried.append(seed)
        assert seed < 30

    assert hunt(BUGS[0], range(5), live, known=row("C1", 40)).seeds == 40
    assert hunt(BUGS[0], range(3), live, known=row("C1", 20)).by == ""
    assert tried == [39, 19, 0, 1, 2]


def test_the_table_is_of_bugs_and_transcripts_that_there_are() -> None:
    rows = parse(TABLE.read_text())
    assert {*rows} <= {bug.name for bug in BUGS}
    assert {each.transcript for each in rows.values()} - {""} <= {path.stem for path in TRANSCRIPTS}
    assert TABLE.read_text() == written(BUGS, rows)


def test_a_seed_that_fails_fails_identically_again() -> None:
    bug = next(bug for bug in BUGS if bug.name == "a follower does not cut what its leader does not have")
    replay = next(replays((bug,)))
    assert "C8" in replay.first.problem
    assert replay.is_identical
