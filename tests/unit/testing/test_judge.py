"""The judge lets a right history pass and finds each way to break a promise: one broken history for every rule."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
import pytest

from kafkalite.testing.history.events import (
    UNKNOWN_OFFSET,
    Drained,
    Event,
    HighWatermarkSeen,
    LeaderSeen,
    ProducerStarted,
    RecordRead,
    RecordsDeleted,
    ReplicaBatch,
    ReplicaLog,
    SendAcknowledged,
    SendFailed,
    SendInvoked,
    SendUnknown,
    Value,
)
from kafkalite.testing.history.files import HistoryFile, read_history, write_history
from kafkalite.testing.history.judge import RECORD_RULES, Verdict, judge

MS = 1_000_000
BATCHES = (ReplicaBatch(0, 0, 1, 100, b"a"), ReplicaBatch(3, 1, 2, 90, b"b"))


def sends(producer: str, offsets: list[int], start_ms: int = 0) -> list[Event]:
    """Sends one after the other, each acknowledged 2 ms later at its offset."""
    events: list[Event] = []
    for number, offset in enumerate(offsets):
        at = (start_ms + 10 * number) * MS
        events.append(SendInvoked(at, "t", 0, producer, number))
        events.append(SendAcknowledged(at + 2 * MS, "t", 0, producer, number, offset))
    return events


def reads(reader: str, rows: list[tuple[int, str, int]]) -> list[Event]:
    return [RecordRead(5000 * MS, reader, "t", 0, *row) for row in rows]


def drain(rows: list[tuple[int, str, int]]) -> list[Event]:
    return [*reads("drain", rows), Drained(6000 * MS, "drain", "t", 0, 0, rows[-1][0] + 1 if rows else 0)]


STARTED: list[Event] = [ProducerStarted(0, "i", -1, True, 50), ProducerStarted(0, "r", -1, False, 50)]
RIGHT_ROWS = [(0, "i", 0), (1, "i", 1), (2, "i", 2), (3, "r", 0), (4, "r", 1)]


def right_history() -> list[Event]:
    return [
        *STARTED,
        *sends("i", [0, 1, 2]),
        *sends("r", [3, 4], start_ms=40),
        *reads("consumer", RIGHT_ROWS),
        *drain(RIGHT_ROWS),
        LeaderSeen(0, "zookeeper", "t", 0, 0, 1),
        LeaderSeen(9, "zookeeper", "t", 0, 1, -1),
        LeaderSeen(10, "zookeeper", "t", 0, 1, 2),
        LeaderSeen(11, "broker 3", "t", 0, 0, 1),
        HighWatermarkSeen(0, "connection 1", "t", 0, 0, 3),
        HighWatermarkSeen(1, "connection 1", "t", 0, 0, 5),
        HighWatermarkSeen(2, "connection 1", "t", 0, 1, 4),
        ReplicaLog(7000 * MS, 1, "t", 0, BATCHES),
        ReplicaLog(7000 * MS, 2, "t", 0, BATCHES),
        ReplicaLog(7000 * MS, 3, "t", 0, BATCHES[1:]),
    ]


def rules_broken(events: list[Event]) -> set[str]:
    return {violation.rule for violation in judge(events).violations}


def test_a_right_history_is_kept_and_every_rule_looked_at_something() -> None:
    verdict = judge(right_history())
    assert verdict.violations == []
    assert verdict.idle() == []
    assert verdict.idle(verdict.judged) == [f"C{number}" for number in range(11, 19)]
    assert str(verdict).startswith("kept: C1 5,")


def test_a_deleted_record_is_not_lost() -> None:
    rows = [row for row in RIGHT_ROWS if row[0] >= 2]
    history = read_by("drain", rows)
    assert rules_broken(history) == {"C1"}
    assert rules_broken([*history, RecordsDeleted(1, "t", 0, 1)]) == {"C1"}
    assert rules_broken([*history, RecordsDeleted(1, "t", 0, 2)]) == set()


def without(*kinds: type[Event]) -> list[Event]:
    return [event for event in right_history() if not isinstance(event, kinds)]


def replaced(old: Event, *new: Event) -> list[Event]:
    history = right_history()
    at = history.index(old)
    return history[:at] + list(new) + history[at + 1 :]


def read_by(reader: str, rows: list[tuple[int, str, int]]) -> list[Event]:
    """The right history with another content of one reader."""
    kept = [e for e in right_history() if not (isinstance(e, RecordRead) and e.reader == reader)]
    return kept + reads(reader, rows)


NOT_THERE = [row for row in RIGHT_ROWS if row != (2, "i", 2)]
BROKEN: dict[str, tuple[str, Callable[[], list[Event]]]] = {
    "acknowledged record is lost": ("C1", lambda: read_by("drain", NOT_THERE)),
    "acknowledged record is at another offset": (
        "C1",
        lambda: read_by("drain", [*NOT_THERE[:-2], (5, "i", 2), (6, "r", 0), (7, "r", 1)]),
    ),
    "acknowledged record without an offset is lost": (
        "C1",
        lambda: [*right_history(), SendInvoked(0, "t", 0, "i", 9), SendAcknowledged(1, "t", 0, "i", 9, UNKNOWN_OFFSET)],
    ),
    "acknowledgements and no drain": ("C1", lambda: without(Drained)),
    "record that nobody sent": ("C2", lambda: read_by("drain", [*RIGHT_ROWS, (5, "i", 7)])),
    "bytes that nobody sent": (
        "C2",
        lambda: [*right_history(), RecordRead(0, "x", "t", 0, 5, *Value.from_bytes(b"garbage"))],
    ),
    "record whose send failed": (
        "C2",
        lambda: [
            *read_by("drain", [*RIGHT_ROWS, (5, "i", 3)]),
            SendInvoked(1, "t", 0, "i", 3),
            SendFailed(2, "t", 0, "i", 3, "MESSAGE_TOO_LARGE"),
        ],
    ),
    "duplicate of an idempotent producer": ("C3", lambda: read_by("drain", [*RIGHT_ROWS, (5, "i", 2)])),
    "duplicate though acknowledged at once": ("C3", lambda: read_by("drain", [*RIGHT_ROWS, (5, "r", 1)])),
    "consumer and drain disagree about an offset": (
        "C4",
        lambda: read_by("consumer", [(0, "i", 0), (1, "i", 2), (2, "i", 1)]),
    ),
    "two acknowledgements for one offset": (
        "C4",
        lambda: [*right_history(), SendInvoked(0, "t", 0, "i", 5), SendAcknowledged(9000, "t", 0, "i", 5, 2)],
    ),
    "records of a producer out of order": (
        "C5",
        lambda: read_by("drain", [(0, "i", 1), (1, "i", 0), *RIGHT_ROWS[2:]]),
    ),
    "later send has a lower offset": (
        "C6",
        lambda: [
            *STARTED,
            *sends("i", [5, 3]),
            *drain([(3, "i", 1), (5, "i", 0)]),
        ],
    ),
    "reader goes back": ("C7", lambda: read_by("consumer", [*RIGHT_ROWS, (4, "r", 1)])),
    "reader skips a record": ("C7", lambda: read_by("consumer", [RIGHT_ROWS[0], RIGHT_ROWS[2]])),
    "replicas hold different bytes": (
        "C8",
        lambda: [*right_history(), ReplicaLog(0, 4, "t", 0, (BATCHES[0], BATCHES[1]._replace(digest=b"x")))],
    ),
    "replicas differ in the leader epoch": (
        "C8",
        lambda: [*right_history(), ReplicaLog(0, 4, "t", 0, (BATCHES[0], BATCHES[1]._replace(leader_epoch=0)))],
    ),
    "replica has a batch more": (
        "C8",
        lambda: [*right_history(), ReplicaLog(0, 4, "t", 0, (*BATCHES, ReplicaBatch(9, 1, 3, 80, b"c")))],
    ),
    "replica lacks the last batch": ("C8", lambda: [*right_history(), ReplicaLog(0, 4, "t", 0, BATCHES[:1])]),
    "replica is empty": ("C8", lambda: [*right_history(), ReplicaLog(0, 4, "t", 0, ())]),
    "high watermark goes back": (
        "C9",
        lambda: [*right_history(), HighWatermarkSeen(3, "connection 1", "t", 0, 0, 4)],
    ),
    "last stable offset above the high watermark": (
        "C9",
        lambda: [*right_history(), HighWatermarkSeen(3, "connection 3", "t", 0, 0, 4, 5)],
    ),
    "log ends below an exposed high watermark": (
        "C9",
        lambda: [*right_history(), HighWatermarkSeen(3, "connection 2", "t", 0, 0, 6)],
    ),
    "two leaders in an epoch": ("C10", lambda: [*right_history(), LeaderSeen(12, "broker 3", "t", 0, 1, 3)]),
    "epoch goes back": ("C10", lambda: [*right_history(), LeaderSeen(12, "zookeeper", "t", 0, 0, 1)]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_finds_the_broken_promise(name: str) -> None:
    rule, history = BROKEN[name]
    verdict = judge(history())
    assert rule in {violation.rule for violation in verdict.violations}, f"{name} passed: {verdict}"
    assert rule in str(verdict)


def test_every_rule_has_a_broken_history() -> None:
    assert {rule for rule, _ in BROKEN.values()} == set(RECORD_RULES)


def test_violation_names_the_partition_and_what_is_wrong() -> None:
    (violation,) = judge([*right_history(), LeaderSeen(12, "broker 3", "t", 0, 1, 3)]).violations
    assert str(violation) == "C10 t-0: epoch 1 is led by broker 2 for zookeeper and broker 3 for broker 3"


def test_a_late_acknowledgement_explains_a_duplicate() -> None:
    sent = SendAcknowledged(52 * MS, "t", 0, "r", 1, 4)
    late = replaced(sent, SendAcknowledged((50 + 60) * MS, "t", 0, "r", 1, 4))
    kept = [event for event in late if not (isinstance(event, RecordRead | Drained) and event.reader == "drain")]
    verdict = judge(kept + drain([*RIGHT_ROWS, (5, "r", 1)]))
    assert verdict.violations == []
    assert verdict.duplicates == 1


def test_an_unknown_outcome_explains_a_duplicate_and_an_absence() -> None:
    unknown: list[Event] = [
        SendInvoked(100 * MS, "t", 0, "r", 2),
        SendUnknown(101 * MS, "t", 0, "r", 2, "timed out"),
        SendInvoked(100 * MS, "t", 0, "r", 3),
        SendUnknown(101 * MS, "t", 0, "r", 3, "timed out"),
    ]
    kept = [event for event in right_history() if not (isinstance(event, RecordRead | Drained))]
    verdict = judge([*kept, *unknown, *drain([*RIGHT_ROWS, (5, "r", 2), (6, "r", 2)])])
    assert verdict.violations == []


def test_acknowledgements_of_one_broker_promise_nothing_about_loss() -> None:
    """Records with acks=1 may vanish, and others take their offsets; they may not come back twice."""
    started = ProducerStarted(0, "w", 1, True, 50)
    lost: list[Event] = [SendInvoked(0, "t", 0, "w", 0), SendAcknowledged(1 * MS, "t", 0, "w", 0, 4)]
    assert rules_broken([started, *right_history(), *lost]) == set()
    twice = read_by("drain", [*RIGHT_ROWS, (5, "w", 0), (6, "w", 0)])
    assert rules_broken([started, *twice, *lost]) == {"C3"}


def test_sends_at_the_same_time_may_take_any_order() -> None:
    together: list[Event] = [
        *STARTED,
        SendInvoked(0, "t", 0, "i", 0),
        SendInvoked(1, "t", 0, "r", 0),
        SendAcknowledged(2, "t", 0, "i", 0, 1),
        SendAcknowledged(3, "t", 0, "r", 0, 0),
    ]
    assert rules_broken([*together, *drain([(0, "r", 0), (1, "i", 0)])]) == set()


def test_an_end_without_a_beginning_is_no_history() -> None:
    with pytest.raises(ValueError, match="without having begun"):
        judge([SendAcknowledged(0, "t", 0, "i", 0, 0)])


def test_history_files_give_back_what_was_written(tmp_path: Path) -> None:
    history = [*right_history(), SendFailed(1, "t", 0, "i", 9, "x"), SendUnknown(1, "t", 1, "ü", 9, "y")]
    path = tmp_path / "history.msgpack"
    write_history(path, history)
    assert read_history(path) == history
    path.write_bytes(path.read_bytes()[:-3])
    assert read_history(path) == history[:-1]


def test_a_history_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    with closing(HistoryFile(tmp_path / "history.msgpack")) as file:
        for number, event in enumerate(right_history(), start=1):
            file.add(event)
            assert read_history(file.path) == right_history()[:number]


def test_histories_of_the_first_version_are_read(tmp_path: Path) -> None:
    path = tmp_path / "history.msgpack"
    header = msgpack.packb(["kafkalite-history", 1])
    path.write_bytes(header + msgpack.packb(["HighWatermarkSeen", 2, "connection 1", "t", 0, 1, 4]))
    assert read_history(path) == [HighWatermarkSeen(2, "connection 1", "t", 0, 1, 4)]


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.msgpack"
    for content in (b"", b"no history at all", b"\xc1"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="no history"):
            read_history(path)


def test_values_survive_their_way_through_a_record() -> None:
    assert Value.from_bytes(Value("p-1", 42).to_bytes(100)) == Value("p-1", 42)
    assert len(Value("p-1", 42).to_bytes(100)) == 100
    for foreign in (None, b"", b"x", b"a:b:", b"\xff:1"):
        assert Value.from_bytes(foreign).number in (-1, 1)
        assert Value.from_bytes(foreign).producer != "a"


def test_a_verdict_shows_its_first_violations_only() -> None:
    events = [event for event in right_history() if not isinstance(event, RecordRead | Drained)]
    many: list[Event] = [RecordRead(0, "x", "t", 0, offset, "nobody", offset) for offset in range(100)]
    verdict: Verdict = judge([*events, *many])
    assert len(verdict.violations) >= 100
    assert len(str(verdict).splitlines()) == 21
