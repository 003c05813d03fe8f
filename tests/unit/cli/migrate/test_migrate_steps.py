"""The steps of a migration: which is next, what is left of it, and that the tool may be killed anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkalite.cli.migrate import replacing
from kafkalite.cli.migrate.evidence import AFTER_FILE, BEFORE_FILE, Moment, write_moment
from kafkalite.cli.migrate.journal import Journal, JournalError, journal_path, read_journal
from kafkalite.cli.migrate.plan import Plan, PlannedStep
from kafkalite.cli.migrate.replacing import NotYetError, RefusedError, Replacing, StepOptions
from kafkalite.cli.migrate.sequence import (
    Act,
    Entry,
    NothingLeftError,
    Replacement,
    SequenceError,
    choose_rollback,
    choose_step,
    list_acts_left,
)
from kafkalite.cli.migrate.survey import Side

OURS, THEIRS = Side.KAFKALITE, Side.APACHE_KAFKA
STEPS = tuple(PlannedStep(each, f"b{each}:9092", "Apache Kafka 3.9", each == 1, ()) for each in (2, 3, 1))
PLAN = Plan("id", OURS, datetime(2026, 11, 26, tzinfo=UTC), {}, (), (), STEPS)
FIRST, BACK = Replacement(1, 2, OURS), Replacement(2, 2, THEIRS)


def done(*replacements: Replacement) -> list[Entry]:
    return [Entry(each, act, is_done) for each in replacements for act in Act for is_done in (False, True)]


def begun(replacement: Replacement, last: Act) -> list[Entry]:
    """Up to the beginning of an act."""
    entries = done(replacement)
    return entries[: entries.index(Entry(replacement, last, False)) + 1]


def test_brokers_follow_each_other_as_the_plan_says() -> None:
    assert choose_step(PLAN, []) == FIRST
    assert choose_step(PLAN, done(FIRST)) == Replacement(2, 3, OURS)
    everything = done(FIRST, Replacement(2, 3, OURS), Replacement(3, 1, OURS))
    with pytest.raises(NothingLeftError, match="all steps of the plan are done"):
        choose_step(PLAN, everything)


def test_what_was_begun_is_gone_on_with() -> None:
    entries = begun(FIRST, Act.STOP)
    assert choose_step(PLAN, entries) == FIRST
    assert list_acts_left(entries, FIRST) == [Act.STOP, Act.START, Act.SETTLE, Act.ELECT, Act.VERIFY]
    assert list_acts_left(done(FIRST), FIRST) == []


def test_the_way_back_is_of_the_last_broker_finished_or_not() -> None:
    with pytest.raises(SequenceError, match="no broker was replaced"):
        choose_rollback(PLAN, [])
    assert choose_rollback(PLAN, done(FIRST)) == BACK
    second = Replacement(2, 3, OURS)
    assert choose_rollback(PLAN, done(FIRST, second)) == Replacement(3, 3, THEIRS)
    assert choose_rollback(PLAN, [*done(FIRST), *begun(second, Act.STOP)]) == Replacement(3, 3, THEIRS)


def test_a_step_that_has_stopped_nothing_is_not_taken_back_nor_another_one_unless_it_is_named() -> None:
    second = Replacement(2, 3, OURS)
    entries = [*done(FIRST), *begun(second, Act.TAKE_BEFORE)]
    with pytest.raises(SequenceError, match="nothing was done to broker 3; --broker 2 takes that one back") as refused:
        choose_rollback(PLAN, entries)
    assert not isinstance(refused.value, NothingLeftError)
    assert choose_rollback(PLAN, entries, 2) == Replacement(3, 2, THEIRS)
    with pytest.raises(SequenceError, match="broker 3 was not replaced"):
        choose_rollback(PLAN, entries, 3)
    with pytest.raises(SequenceError, match="the step of broker 3 is not finished: it comes first"):
        choose_rollback(PLAN, [*done(FIRST), *begun(second, Act.STOP)], 2)
    with pytest.raises(NothingLeftError, match="no broker was replaced"):
        choose_rollback(PLAN, begun(FIRST, Act.TAKE_BEFORE))


def test_a_way_back_that_was_begun_is_finished_first() -> None:
    entries = [*done(FIRST), *begun(BACK, Act.START)]
    assert choose_rollback(PLAN, entries) == BACK
    with pytest.raises(SequenceError, match="the rollback of broker 2 is not finished"):
        choose_step(PLAN, entries)
    assert choose_step(PLAN, done(FIRST, BACK)) == Replacement(3, 2, OURS), "then the step is due again"
    with pytest.raises(SequenceError, match="no broker was replaced"):
        choose_rollback(PLAN, done(FIRST, BACK))


def test_a_journal_is_read_as_it_was_written_but_for_a_torn_line(tmp_path: Path) -> None:
    path = journal_path(tmp_path / "plan.toml")
    assert path.name == "plan.toml.journal" and read_journal(path) == []
    with Journal(path) as journal:
        for entry in begun(FIRST, Act.STOP):
            journal.write(entry)
        with pytest.raises(JournalError, match="another `kafkalite migrate` is at work"):
            Journal(path)
    torn = path.read_bytes() + b'{"number": 1, "bro'
    path.write_bytes(torn)
    assert read_journal(path) == begun(FIRST, Act.STOP)
    with Journal(path) as journal:
        journal.write(Entry(FIRST, Act.STOP, True))
    assert read_journal(path) == [*begun(FIRST, Act.STOP), Entry(FIRST, Act.STOP, True)]
    path.write_text("{}\n")
    with pytest.raises(JournalError, match="is no journal"):
        read_journal(path)


class Killed(BaseException):
    """The end of the tool, at any point."""


class Broker:
    """A broker of one side or the other, and what is done to it; `deaths` are counted down, and the tool is killed at the last one."""

    def __init__(self) -> None:
        self.side: Side | None = THEIRS
        self.target = OURS
        self.happened: list[str] = []
        self.problems: Sequence[str] = ()
        self.problems_later: Sequence[str] = ()
        self.differences: Sequence[str] = ()
        self.foreign: Sequence[str] = ()
        self.unheld: Sequence[str] = ()
        self.unsettled = ""
        self.failing = ""
        self.starts = True
        self.lives: Iterator[int] = count(1_000_000, -1)

    def reach(self) -> None:
        if next(self.lives) == 0:
            raise Killed

    def find_foreign(self) -> Sequence[str]:
        self.reach()
        return self.foreign

    def find_problems(self, target: Side) -> Sequence[str]:
        self.reach()
        return self.problems

    def take_evidence(self, directory: Path, *, is_first: bool) -> None:
        self.reach()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / (BEFORE_FILE if is_first else AFTER_FILE)
        self.problems = self.problems_later
        write_moment(path, Moment(1, "id", {}, {}, {}))
        self.happened.append(f"{path.name} of {self.side}")
        whole = path.read_bytes()
        path.write_bytes(whole[:-9])
        self.reach()
        path.write_bytes(whole)
        self.reach()

    def audit_evidence(self, directory: Path) -> Sequence[str]:
        self.reach()
        assert {each.name for each in directory.iterdir()} == {BEFORE_FILE, AFTER_FILE}
        return self.differences

    def is_registered(self, broker: int) -> bool:
        self.reach()
        return self.side is not None

    def find_side(self, broker: int) -> Side | None:
        self.reach()
        return self.side

    def find_unheld(self, broker: int) -> Sequence[str]:
        self.reach()
        return self.unheld if self.side is self.target else ()

    def run_command(self, command: str, broker: int) -> None:
        self.reach()
        if self.failing == command:
            raise ChildProcessError(command)
        if command == "stop":
            self.side = None
        else:
            assert self.side is None, "a broker is started beside one that runs"
            self.side = self.target if self.starts else None
        self.happened.append(command)
        self.reach()

    def find_unsettled(self, broker: int, target: Side) -> str:
        self.reach()
        assert self.side in (target, None)
        return self.unsettled if self.side is target else "it is not registered"

    def elect_preferred_leaders(self) -> None:
        self.reach()


Run = Callable[..., None]


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def run(broker: Broker, tmp_path: Path) -> Run:
    def carry_out(replacement: Replacement, **options: float) -> None:
        broker.target = replacement.target
        with Journal(tmp_path / "journal") as journal:
            plan = StepOptions("stop", "start", tmp_path / "evidence", 0.0)
            Replacing(broker, journal, replacement, replace(plan, **options), lambda text: None).run()

    return carry_out


def test_a_step_and_its_way_back(broker: Broker, run: Run, tmp_path: Path) -> None:
    run(FIRST)
    assert broker.happened == ["before.jsonl of apache-kafka", "stop", "start", "after.jsonl of kafkalite"]
    assert choose_step(PLAN, read_journal(tmp_path / "journal")) == Replacement(2, 3, OURS)
    broker.happened.clear()
    run(BACK)
    assert broker.happened == ["before.jsonl of kafkalite", "stop", "start", "after.jsonl of apache-kafka"]
    assert sorted(each.name for each in (tmp_path / "evidence").iterdir()) == [
        "01-broker-2-to-kafkalite",
        "02-broker-2-to-apache-kafka",
    ]


def test_a_step_ends_where_a_held_setting_is_another_and_goes_on_when_it_is_mended(broker: Broker, run: Run) -> None:
    broker.unheld = ["it has 3.9, the plan holds 2.8"]
    with pytest.raises(RefusedError, match="the plan holds"):
        run(FIRST)
    assert broker.happened == ["before.jsonl of apache-kafka", "stop", "start"]
    broker.unheld = ()
    run(FIRST)
    assert broker.happened[-1] == "after.jsonl of kafkalite" and broker.happened.count("start") == 1
    broker.unheld = ["it has 3.9, the plan holds 2.8"]
    run(BACK, is_checked=False)
    assert broker.side is THEIRS, "a rollback tells of it, and goes on"


def test_the_tool_may_be_killed_anywhere(broker: Broker, run: Run, tmp_path: Path) -> None:
    """Killed at each point in turn, and once more at each point of what is left: evidence of before is of before. What goes wrong after a
    kill keeps the old program from being stopped.
    """
    refused = 0
    for lives in range(1_000):
        broker.__init__()  # type: ignore[misc]
        for each in (tmp_path / "evidence").glob("*/*"):
            each.unlink()
        (tmp_path / "journal").unlink(missing_ok=True)
        killed = stopped = 0
        while True:
            broker.lives = iter(range(lives, -1, -1)) if killed < 2 else count(1_000_000, -1)
            try:
                run(choose_step(PLAN, read_journal(tmp_path / "journal")))
                break
            except Killed:
                killed += 1
                stopped = broker.happened.count("stop")
                broker.problems = ["out of sync"] if broker.side is THEIRS else ()
            except (RefusedError, NotYetError):
                assert broker.problems and broker.happened.count("stop") == stopped
                broker.problems, refused = (), refused + 1
        assert broker.side is OURS
        assert broker.happened[0].startswith("before.jsonl") and broker.happened[-1].startswith("after.jsonl")
        assert all("apache-kafka" in each for each in broker.happened if each.startswith("before"))
        assert all("kafkalite" in each for each in broker.happened if each.startswith("after"))
        assert {"stop", "start"} <= set(broker.happened)
        if not killed:
            assert lives > 10 and refused > 5
            return
    raise AssertionError("it was killed every time")


def test_nothing_is_touched_while_something_stands_against_it(broker: Broker, run: Run) -> None:
    broker.problems = ["two replicas are out of sync"]
    with pytest.raises(RefusedError, match="out of sync"):
        run(FIRST)
    assert broker.happened == []
    broker.problems = ()
    run(FIRST)
    assert broker.side is OURS


def test_a_way_back_is_not_held_up_by_the_check_nor_by_what_cannot_be_read(broker: Broker, tmp_path: Path) -> None:
    broker.problems, broker.side, broker.target = ["no leaders"], OURS, THEIRS
    with Journal(tmp_path / "journal") as journal:
        options = StepOptions("stop", "start", tmp_path / "evidence", 0.0, is_checked=False, has_evidence=False)
        Replacing(broker, journal, BACK, options, lambda text: None).run()
    assert broker.happened == ["stop", "start"] and broker.side is THEIRS


def test_a_difference_stops_the_migration_until_it_is_taken_back(broker: Broker, run: Run, tmp_path: Path) -> None:
    broker.differences = ["t-0: records left out"]
    for _ in range(2):
        with pytest.raises(RefusedError, match="left out"):
            run(FIRST)
    entries = read_journal(tmp_path / "journal")
    assert choose_step(PLAN, entries) == FIRST and list_acts_left(entries, FIRST) == [Act.VERIFY]
    assert choose_rollback(PLAN, entries) == BACK


def test_a_broker_that_is_not_in_sync_in_time_is_waited_for_again(broker: Broker, run: Run) -> None:
    broker.unsettled = "it is behind"
    with pytest.raises(NotYetError, match="it is behind"):
        run(FIRST)
    assert broker.happened[-1] == "start"
    broker.unsettled = ""
    run(FIRST)
    assert broker.happened.count("start") == 1


def test_a_program_that_ends_after_its_start_is_started_again(broker: Broker, run: Run) -> None:
    """As a service whose start is reported before it has read its settings."""
    broker.starts = False
    with pytest.raises(NotYetError, match="broker 2 has not registered"):
        run(FIRST)
    broker.starts = True
    run(FIRST)
    assert broker.happened[1:4] == ["stop", "start", "start"]


def test_old_evidence_is_not_taken_for_that_of_this_replacement(broker: Broker, run: Run, tmp_path: Path) -> None:
    """As when the plan and its journal are made again, or two clusters are given one directory."""
    run(FIRST)
    (tmp_path / "journal").unlink()
    broker.side = THEIRS
    broker.happened.clear()
    for _ in range(2):
        with pytest.raises(RefusedError, match="01-broker-2-to-kafkalite is not of this replacement: remove it"):
            run(FIRST)
    assert broker.happened == []
    for each in (tmp_path / "evidence" / "01-broker-2-to-kafkalite").iterdir():
        each.unlink()
    broker.unsettled = "it is behind"
    with pytest.raises(NotYetError):
        run(FIRST)
    write_moment(tmp_path / "evidence" / "01-broker-2-to-kafkalite" / AFTER_FILE, Moment(1, "id", {}, {}, {}))
    broker.unsettled = ""
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"after\.jsonl is not of this replacement"):
            run(FIRST)


def test_what_goes_wrong_after_the_check_holds_up_the_stop(broker: Broker, run: Run) -> None:
    broker.problems_later = ["another broker fell out of sync"]
    for _ in range(2):
        with pytest.raises(RefusedError, match="fell out of sync"):
            run(FIRST)
    assert broker.happened == ["before.jsonl of apache-kafka"]
    broker.problems = ()
    run(FIRST)
    assert broker.side is OURS


def test_a_resumed_run_checks_before_it_takes_evidence(broker: Broker, run: Run) -> None:
    broker.lives = iter((4, 3, 2, 1, 0))
    with pytest.raises(Killed):
        run(FIRST)
    assert broker.happened == []
    broker.lives, broker.problems = count(1_000_000, -1), ["a replica is out of sync"]
    with pytest.raises(RefusedError, match="out of sync"):
        run(FIRST)
    assert broker.happened == []


def test_a_stop_command_that_failed_is_not_repeated_while_something_stands_against_it(broker: Broker, run: Run) -> None:
    broker.failing = "stop"
    with pytest.raises(ChildProcessError):
        run(FIRST)
    broker.failing, broker.problems = "", ["another broker fell out of sync"]
    with pytest.raises(NotYetError, match="fell out of sync"):
        run(FIRST)
    assert broker.side is THEIRS and "stop" not in broker.happened
    broker.problems = ()
    run(FIRST)
    assert broker.side is OURS


@pytest.mark.parametrize(("side", "why"), [(None, "2 is not registered"), (OURS, "2 is kafkalite already")])
def test_a_broker_that_is_not_what_the_plan_takes_it_for(broker: Broker, run: Run, side: Side | None, why: str) -> None:
    broker.side = side
    with pytest.raises(RefusedError, match=why):
        run(FIRST)
    assert broker.happened == []


def test_a_way_back_does_not_stop_the_program_that_it_is_to_start(broker: Broker, run: Run) -> None:
    run(BACK, is_checked=False)
    assert broker.side is THEIRS and "stop" not in broker.happened and "start" not in broker.happened


def test_a_way_back_starts_what_a_killed_steps_stop_ends_only_now(
    broker: Broker, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start found the old program running, which was handing over its partitions."""
    broker.unsettled = "a replica is out of sync"
    with pytest.raises(NotYetError, match="out of sync"):
        run(BACK, is_checked=False)
    assert list_acts_left(read_journal(tmp_path / "journal"), BACK)[0] is Act.SETTLE
    assert broker.happened == ["before.jsonl of apache-kafka"], "neither stopped nor started"
    broker.unsettled, broker.side = "", None
    with pytest.raises(NotYetError, match="not registered"):
        run(BACK, is_checked=False)
    assert "start" not in broker.happened, "it may have lost its session, and registers again"
    monkeypatch.setattr(replacing, "_ABSENT_S", 0)
    with suppress(NotYetError):  # which says why it had to be started
        run(BACK, is_checked=False)
    run(BACK, is_checked=False)
    assert broker.side is THEIRS and broker.happened.count("start") == 1


@pytest.mark.parametrize(
    ("polls", "starts"), [((THEIRS, None, THEIRS, None, THEIRS), 0), ((THEIRS, None, None, THEIRS), 1)]
)
def test_a_broker_was_started_that_was_absent_in_one_slow_poll(
    broker: Broker, run: Run, monkeypatch: pytest.MonkeyPatch, polls: Sequence[Side | None], starts: int
) -> None:
    """A poll that waits for answers took longer than a broker may be absent; it had lost its session, and registered again."""
    now_s, sides = 0.0, iter(polls)

    def find_unsettled(_: int, __: Side) -> str:
        nonlocal now_s
        now_s += 60
        for broker.side in sides:
            return "not in sync"
        return ""

    monkeypatch.setattr(broker, "find_unsettled", find_unsettled)
    monkeypatch.setattr(replacing, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=lambda _: None))
    run(BACK, is_checked=False, wait_s=1000)
    assert broker.happened.count("start") == starts


def test_the_old_program_that_runs_again_is_not_taken_for_the_new_one(broker: Broker, run: Run) -> None:
    """As a service that something starts between the acts."""
    broker.starts = False
    with pytest.raises(NotYetError, match="has not registered"):
        run(FIRST)
    broker.side = THEIRS
    for _ in range(2):
        with pytest.raises(RefusedError, match="broker 2 runs Apache Kafka again: stop it"):
            run(FIRST)
    broker.side, broker.starts = None, True
    run(FIRST)
    assert broker.side is OURS


@pytest.mark.parametrize("is_checked", [True, False])
def test_nothing_is_done_to_another_cluster_nor_by_a_resumed_step(broker: Broker, run: Run, is_checked: bool) -> None:
    broker.failing = "start"
    with pytest.raises(ChildProcessError):
        run(FIRST, is_checked=is_checked)
    broker.failing, broker.foreign = "", ["the plan is for cluster id"]
    happened = list(broker.happened)
    with pytest.raises(RefusedError, match="the plan is for cluster id"):
        run(FIRST, is_checked=is_checked)
    assert broker.happened == happened
