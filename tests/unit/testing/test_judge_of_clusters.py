"""Rules C11 to C18: groups, transactions, controllers, resources, disks. A right history passes, each wrong one is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkalite.testing.history.events import (
    NO_OFFSET,
    UNKNOWN_GENERATION,
    CommitAcknowledged,
    CommitFailed,
    CommitGivenUp,
    CommitInvoked,
    ControllerElected,
    ControllerWrote,
    Drained,
    Event,
    OffsetFetched,
    PartitionAssigned,
    ProducerStarted,
    ReaderStarted,
    RecordRead,
    ResourceSeen,
    SegmentChecked,
    SendAcknowledged,
    SendInvoked,
    Served,
    TransactionAborted,
    TransactionBegun,
    TransactionCommitted,
    TransactionEndInvoked,
    TransactionOffset,
    TransactionSend,
)
from kafkalite.testing.history.judge import RULES, judge


def commit(at: int, offset: int, number: int, member: str = "m1", generation: int = 1) -> list[Event]:
    """Invoked at `at`, acknowledged at `at + 2`."""
    return [
        CommitInvoked(at, "g", member, number, "t", 0, offset),
        CommitAcknowledged(at + 2, "g", member, number, generation),
    ]


def fetched(asked: int, offset: int, answered: int | None = None) -> OffsetFetched:
    return OffsetFetched(asked + 1 if answered is None else answered, asked, "watcher", "g", "t", 0, offset)


def assigned(member: str, generation: int) -> PartitionAssigned:
    return PartitionAssigned(0, "g", member, generation, "t", 0)


GROUP: list[Event] = [
    assigned("m1", 1),
    fetched(0, NO_OFFSET),
    *commit(10, 5, 1),
    fetched(20, 5),
    assigned("m2", 2),
    *commit(30, 9, 1, "m2", 2),
    fetched(31, 5, 40),
    fetched(31, 9, 41),
    CommitInvoked(50, "g", "m2", 2, "t", 0, 12),
    fetched(60, 9),
    fetched(70, 12),
]


def transaction(
    number: int, offsets: tuple[int, int], at: int, end: list[Event], *, offset: int | None = None
) -> list[Event]:
    """One record in each of two partitions, sent and acknowledged before `at + 4`."""
    events: list[Event] = [TransactionBegun(at, "p", number)]
    for partition, where in enumerate(offsets):
        events.append(TransactionSend(at, "p", number, "t", partition, number))
        events.append(SendInvoked(at, "t", partition, "p", number))
        events.append(SendAcknowledged(at + 3, "t", partition, "p", number, where))
    if offset is not None:
        events.append(TransactionOffset(at + 3, "p", number, "sums", "t", 0, offset))
    return events + end


def ended(number: int, at: int, *, commits: bool) -> list[Event]:
    kind = TransactionCommitted if commits else TransactionAborted
    return [TransactionEndInvoked(at, "p", number, commits), kind(at + 2, "p", number)]


def drained(reader: str, committed: bool, rows: list[tuple[int, int, int]], at: int = 900) -> list[Event]:
    """`rows` are partition, offset, number of the transaction."""
    events: list[Event] = [ReaderStarted(0, reader, "", committed)]
    events += [RecordRead(at, reader, "t", partition, offset, "p", number) for partition, offset, number in rows]
    return events + [Drained(at, reader, "t", partition, 0, 9) for partition in (0, 1)]


ALL_ROWS = [(0, 0, 0), (1, 0, 0), (0, 2, 1), (1, 2, 1), (0, 4, 2), (1, 4, 2)]
COMMITTED_ROWS = [row for row in ALL_ROWS if row[2] != 1]


def transactions(committed: list[tuple[int, int, int]], third: list[Event] | None = None) -> list[Event]:
    """The first is committed, the second aborted, the third of open fate unless `third` ends it."""
    return [
        ProducerStarted(0, "p", -1, True, 50),
        *transaction(0, (0, 0), 10, ended(0, 20, commits=True), offset=3),
        *transaction(1, (2, 2), 30, ended(1, 40, commits=False), offset=6),
        *transaction(2, (4, 4), 50, third if third is not None else [TransactionEndInvoked(60, "p", 2, True)]),
        OffsetFetched(90, 80, "watcher", "sums", "t", 0, 3),
        *drained("all", False, ALL_ROWS),
        *drained("committed", True, committed),
    ]


TRANSACTIONS = transactions(COMMITTED_ROWS)
CLUSTER: list[Event] = [
    ControllerElected(0, 1, 1, 1),
    ControllerWrote(0, 2, 1, 1, "/brokers/topics/t/partitions/0/state"),
    ControllerElected(0, 5, 2, 2),
    ControllerWrote(0, 6, -1, 2, "/brokers/topics/t/partitions/0/state"),
    Served(0, "produce", 200, 1000, ""),
    ResourceSeen(0, "broker 1", "tasks", True, 20, 2),
    ResourceSeen(5, "broker 1", "tasks", False, 40, 2),
    ResourceSeen(9, "broker 1", "tasks", False, 22, 2),
    SegmentChecked(0, 1, "t", 0, "00000000000000000000.log", ()),
]
RIGHT = GROUP + TRANSACTIONS + CLUSTER

LATE: list[Event] = [
    CommitInvoked(71, "g", "m2", 9, "t", 0, 6),
    *commit(72, 14, 10, "m2", 2),
    fetched(80, 14),
    fetched(90, 6),
    *commit(91, 7, 11, "m2", 2),
]
"""A commit of open fate takes effect behind a later one, and members read on from there."""

BROKEN: dict[str, tuple[str, Callable[[], list[Event]]]] = {
    "acknowledged commit is forgotten": ("C11", lambda: [*GROUP, fetched(80, NO_OFFSET)]),
    "an older commit is told": ("C11", lambda: [*GROUP[:8], fetched(45, 5)]),
    "an offset goes back further than to a commit of open fate": ("C11", lambda: [*GROUP, *LATE, fetched(99, 5)]),
    "nobody committed that": ("C11", lambda: [*GROUP, fetched(80, 13)]),
    "told before it was committed": ("C11", lambda: [fetched(0, 5), *commit(10, 5, 1)]),
    "what was refused is told": (
        "C11",
        lambda: [CommitInvoked(1, "g", "m", 1, "t", 0, 5), CommitFailed(2, "g", "m", 1, "fenced"), fetched(9, 5)],
    ),
    "an offset that was told goes back": ("C11", lambda: [*GROUP, fetched(80, 9)]),
    "a member begins before what was committed": ("C11", lambda: [*GROUP, *commit(90, 7, 3)]),
    "two members in one generation": ("C12", lambda: [*GROUP, assigned("m3", 2)]),
    "a fenced member commits": ("C12", lambda: [*GROUP, *commit(90, 15, 2, "m1", 1)]),
    "an aborted record is read": ("C13", lambda: transactions([*COMMITTED_ROWS, (0, 2, 1)])),
    "a committed record is missing": ("C13", lambda: transactions(COMMITTED_ROWS[1:])),
    "a transaction of open fate is there in part": ("C13", lambda: transactions(COMMITTED_ROWS[:-1])),
    "committed records of a producer change places": (
        "C13",
        lambda: transactions([(0, 0, 2), (1, 0, 0), (0, 4, 0), (1, 4, 2)]),
    ),
    "the offset of an aborted transaction is told": (
        "C13",
        lambda: [*TRANSACTIONS, OffsetFetched(92, 91, "watcher", "sums", "t", 0, 6)],
    ),
    "read before the commit was asked for": (
        "C14",
        lambda: [*TRANSACTIONS, RecordRead(55, "committed", "t", 1, 4, "p", 2)],
    ),
    "read behind an open transaction": (
        "C14",
        lambda: [
            *transactions(ALL_ROWS[:2], ended(2, 60, commits=True)),
            RecordRead(55, "committed", "t", 0, 5, "other", 0),
        ],
    ),
    "joining fails": ("C15", lambda: [Served(0, "join", 10, 1000, "TimeoutError")]),
    "producing takes too long": ("C15", lambda: [Served(0, "produce", 1001, 1000, "")]),
    "tasks remain": ("C16", lambda: [*CLUSTER, ResourceSeen(10, "broker 1", "tasks", False, 23, 2)]),
    "a controller epoch twice": ("C17", lambda: [*CLUSTER, ControllerElected(0, 7, 3, 2)]),
    "a zombie writes": ("C17", lambda: [*CLUSTER, ControllerWrote(0, 8, 1, 1, "/state")]),
    "somebody else writes": ("C17", lambda: [*CLUSTER, ControllerWrote(0, 8, 3, 2, "/state")]),
    "a batch has a wrong checksum": ("C18", lambda: [SegmentChecked(0, 1, "t", 0, "0.log", ("a wrong checksum",))]),
}


def test_a_right_history_is_kept_and_every_rule_looked_at_something() -> None:
    verdict = judge(RIGHT)
    assert verdict.violations == []
    assert verdict.idle([f"C{number}" for number in range(11, 19)]) == []


@pytest.mark.parametrize("name", BROKEN)
def test_finds_the_broken_promise(name: str) -> None:
    rule, history = BROKEN[name]
    verdict = judge(history())
    assert rule in {violation.rule for violation in verdict.violations}, f"{name} passed: {verdict}"


def test_every_rule_has_a_broken_history() -> None:
    assert {rule for rule, _ in BROKEN.values()} == set(RULES) - {f"C{number}" for number in range(1, 11)}


def test_commits_at_the_same_time_may_take_any_order() -> None:
    both = sorted([*commit(10, 5, 1), *commit(11, 7, 1, "m2")], key=lambda event: event.at_ns)
    for told in (5, 7):
        assert judge([*both, fetched(20, told)]).violations == []


def test_a_commit_of_unknown_fate_may_come_late() -> None:
    late: list[Event] = [CommitInvoked(5, "g", "m1", 1, "t", 0, 8), *commit(10, 5, 1, "m2")]
    assert judge([*late, fetched(20, 5), fetched(30, 8)]).violations == []


def test_a_commit_of_unknown_fate_has_no_effect_behind_one_of_a_later_generation() -> None:
    """Apache Kafka 3.9.1 answers ILLEGAL_GENERATION; within its generation it is taken, however late it comes."""
    late: list[Event] = [CommitInvoked(5, "g", "m1", 1, "t", 0, 8), CommitGivenUp(6, "g", "m1", 1, 1)]
    for generation, is_allowed in ((1, True), (2, False), (UNKNOWN_GENERATION, True)):
        acknowledged = CommitAcknowledged(12, "g", "m2", 1, generation)
        nine: list[Event] = [CommitInvoked(10, "g", "m2", 1, "t", 0, 9), acknowledged]
        told = judge([*late, *nine, fetched(20, 8)])
        assert [each.rule for each in told.violations] == ([] if is_allowed else ["C11"])
        again = judge([*late, *nine, *commit(30, 8, 2, "m3", 3)])
        assert [each.rule for each in again.violations] == ([] if is_allowed else ["C11"])


def test_members_go_back_to_a_commit_of_unknown_fate_that_comes_late() -> None:
    assert judge([*GROUP, *LATE]).violations == []


def test_a_member_whose_generation_is_not_known_is_not_held_to_it() -> None:
    assert (
        judge([*GROUP, *commit(90, 15, 2, "m1", UNKNOWN_GENERATION), assigned("m9", UNKNOWN_GENERATION)]).violations
        == []
    )


def test_what_a_transaction_commits_is_an_offset_of_the_group() -> None:
    told = [*TRANSACTIONS, OffsetFetched(101, 100, "watcher", "sums", "t", 0, NO_OFFSET)]
    assert [violation.rule for violation in judge(told).violations] == ["C11", "C11"]


def test_members_that_read_committed_records_need_not_read_what_was_aborted() -> None:
    member: list[Event] = [ReaderStarted(0, "m", "sums", True), RecordRead(70, "m", "t", 0, 0, "p", 0)]
    assert judge([*TRANSACTIONS, *member]).violations == []
    (skipped,) = judge([*TRANSACTIONS, *member[:1]]).violations
    assert str(skipped) == "C11 sums t-0: 3 is committed, and no member has read [0]"


def test_ends_without_beginnings_are_no_history() -> None:
    for event in (CommitAcknowledged(1, "g", "m", 1, 1), TransactionCommitted(1, "p", 1)):
        with pytest.raises(ValueError, match="without having begun"):
            judge([event])
